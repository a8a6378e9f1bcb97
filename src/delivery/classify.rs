//! What an attempt's answer, or its failure, means for the delivery, and in which words it is told. Pure, and the one place that decides it.

use std::time::Duration;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};

/// What is next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing: the receiver has it.
    Delivered,
    /// Another attempt, and not before the receiver wants one.
    Retry {
        /// How long it asked to be left alone.
        after: Option<SignedDuration>,
    },
    /// Nothing: another attempt would end the same way.
    Ended,
}

/// Why an attempt has no answer. Nothing of what was sent stands in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The answer did not come in time.
    #[error("no answer within {}", seconds(*.0))]
    Timeout(Duration),
    /// There is no connection.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The receiver's certificate is not accepted.
    #[error("the receiver's certificate is not trusted ({0}): set hook.ca_file, or mend the certificate")]
    Untrusted(String),
    /// The connection ended before the answer.
    #[error("the connection broke off before the answer: {0}")]
    Broken(String),
    /// The event is larger than what is sent.
    #[error("the event has {size} bytes, and at most {most} are sent")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The bound.
        most: usize,
    },
}

/// What an answer means. `retry_after` is the header as it came.
pub fn answer(status: StatusCode, retry_after: Option<&str>, now: Timestamp) -> Verdict {
    if status.is_success() {
        return Verdict::Delivered;
    }
    if status == StatusCode::GONE {
        return Verdict::Ended;
    }
    Verdict::Retry {
        after: retry_after.and_then(|header| wait_of(header, now)),
    }
}

/// What a failure means.
pub fn failure(failure: &Failure) -> Verdict {
    match failure {
        Failure::Timeout(_) | Failure::Unreachable(_) | Failure::Untrusted(_) | Failure::Broken(_) => {
            Verdict::Retry { after: None }
        }
        Failure::TooLarge { .. } => Verdict::Ended,
    }
}

/// What a refusing answer is told as.
pub fn words(status: StatusCode) -> String {
    let hint = match status {
        StatusCode::GONE => ": the receiver does not want this event",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ": does the receiver know the token that hook.token_env names, and the secret?"
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => ": is hook.url right?",
        status if status.is_redirection() => ": redirects are not followed; set hook.url to where it leads",
        _ => "",
    };
    format!("the receiver answered {}{hint}", status.as_u16())
}

/// `Retry-After`: seconds, or a date as HTTP writes it. One that is neither, or past, asks for nothing.
fn wait_of(header: &str, now: Timestamp) -> Option<SignedDuration> {
    let header = header.trim();
    if !header.is_empty() && header.bytes().all(|b| b.is_ascii_digit()) {
        // Too many digits are a wish for ever, and bounded like any.
        return Some(SignedDuration::from_secs(header.parse().unwrap_or(i64::MAX)));
    }
    let until = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    let wait = until.duration_since(now);
    wait.is_positive().then_some(wait)
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-30T10:00:00Z".parse().unwrap()
    }

    fn after(header: &str) -> Option<SignedDuration> {
        match answer(StatusCode::TOO_MANY_REQUESTS, Some(header), now()) {
            Verdict::Retry { after } => after,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_success_is_delivered_only_gone_ends_and_all_else_is_tried_again() {
        for code in 200..600 {
            let verdict = answer(StatusCode::from_u16(code).unwrap(), None, now());
            let wanted = match code {
                200..=299 => Verdict::Delivered,
                410 => Verdict::Ended,
                _ => Verdict::Retry { after: None },
            };
            assert_eq!(verdict, wanted, "{code}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        assert_eq!(after("120"), Some(SignedDuration::from_secs(120)));
        assert_eq!(after(" 0 "), Some(SignedDuration::ZERO));
        assert_eq!(after(&"9".repeat(40)), Some(SignedDuration::from_secs(i64::MAX)));
        assert_eq!(
            after("Mon, 30 Nov 2026 10:02:00 GMT"),
            Some(SignedDuration::from_secs(120))
        );
    }

    #[test]
    fn a_retry_after_that_is_none_or_past_asks_for_nothing() {
        for header in ["", "-5", "soon", "1.5", "Mon, 30 Nov 2026 09:59:00 GMT", "2026-11-30"] {
            assert_eq!(after(header), None, "{header}");
        }
    }

    #[test]
    fn what_failed_is_tried_again_and_what_cannot_be_sent_is_not() {
        let retry = Verdict::Retry { after: None };
        for failed in [
            Failure::Timeout(Duration::from_secs(15)),
            Failure::Unreachable("refused".to_owned()),
            Failure::Untrusted("unknown issuer".to_owned()),
            Failure::Broken("closed".to_owned()),
        ] {
            assert_eq!(failure(&failed), retry, "{failed}");
        }
        assert_eq!(failure(&Failure::TooLarge { size: 2, most: 1 }), Verdict::Ended);
    }
}
