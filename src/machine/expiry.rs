//! When a credential is looked at again, and what is to be said of its end. Pure: time comes in.
//!
//! T3 closes no socket whose token has ended, so nothing happens by itself: the session is asked for every ten minutes and when it is to end.
//! Each of the marks before the end is told once for one end.

use jiff::{SignedDuration, Timestamp};

/// How often a good credential is looked at.
pub const CHECK_EVERY: SignedDuration = SignedDuration::from_mins(10);
/// How long after a look that came to nothing the next is due.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// The end is looked at a moment later: T3's clock may be behind ours.
const BEHIND: SignedDuration = SignedDuration::from_secs(1);
/// So many days ahead something is said.
pub const MARKS: [i64; 4] = [14, 7, 3, 1];

/// Something to be said of a credential.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Notice {
    /// What.
    pub what: Said,
    /// When it ends, or ended.
    pub expires_at: Option<Timestamp>,
    /// Of which.
    pub of: Mark,
}

/// Tells one credential from another, and nothing else of it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark(pub [u8; 16]);

/// What is said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// It ends within so many days.
    Ends {
        /// One of [`MARKS`].
        days: i64,
    },
    /// It has come to its end.
    Expired,
    /// T3 takes it no more, although it had not come to its end.
    Refused,
}

/// One credential, as the sessions that it opens show it.
#[derive(Clone, Debug)]
pub struct Expiry {
    of: Mark,
    expires_at: Option<Timestamp>,
    check_at: Option<Timestamp>,
    /// The last mark that was told, for this end.
    told: Option<i64>,
    over: bool,
}

impl Expiry {
    /// Of a credential that nobody has looked at; of some it was said when they end.
    pub fn new(of: Mark, expires_at: Option<Timestamp>) -> Self {
        Self {
            of,
            expires_at,
            check_at: None,
            told: None,
            over: false,
        }
    }

    /// T3 took it, and says when it ends.
    pub fn handle_good(&mut self, expires_at: Option<Timestamp>, now: Timestamp) -> Option<Notice> {
        if self.expires_at != expires_at {
            self.told = None;
        }
        self.expires_at = expires_at;
        self.over = false;
        self.check_at = Some(self.next(now));
        let days = self.mark(now)?;
        if self.told.is_some_and(|told| told <= days) {
            return None;
        }
        self.told = Some(days);
        Some(Notice {
            what: Said::Ends { days },
            expires_at,
            of: self.of,
        })
    }

    /// T3 does not take it.
    pub fn handle_refused(&mut self, now: Timestamp) -> Option<Notice> {
        self.check_at = None;
        if std::mem::replace(&mut self.over, true) {
            return None;
        }
        let expired = self.expires_at.is_some_and(|ends| ends <= now);
        Some(Notice {
            what: if expired { Said::Expired } else { Said::Refused },
            expires_at: self.expires_at,
            of: self.of,
        })
    }

    /// It could not be looked at.
    pub fn handle_unknown(&mut self, now: Timestamp) {
        self.check_at = Some(after(now, AGAIN_AFTER));
    }

    /// When it is to be looked at.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.check_at
    }

    fn next(&self, now: Timestamp) -> Timestamp {
        let usual = after(now, CHECK_EVERY);
        match self.expires_at.map(|ends| after(ends, BEHIND)) {
            Some(end) if end > now => usual.min(end),
            Some(_) | None => usual,
        }
    }

    /// The nearest mark that has been passed.
    fn mark(&self, now: Timestamp) -> Option<i64> {
        let left = self.expires_at?.duration_since(now);
        MARKS
            .into_iter()
            .filter(|days| left <= SignedDuration::from_hours(24 * days))
            .min()
    }
}

fn after(at: Timestamp, wait: SignedDuration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(days: i64, minutes: i64) -> Timestamp {
        let begin: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        begin + SignedDuration::from_hours(24 * days) + SignedDuration::from_mins(minutes)
    }

    fn expiry() -> Expiry {
        Expiry::new(Mark::default(), None)
    }

    #[test]
    fn each_mark_is_told_once_and_the_end_is_not_missed() {
        let mut expiry = expiry();
        let end = Some(at(30, 0));
        let mut now = at(0, 0);
        let mut told = Vec::new();
        let mut looks = 0;
        loop {
            let notice = if now > at(30, 0) {
                expiry.handle_refused(now)
            } else {
                expiry.handle_good(end, now)
            };
            looks += 1;
            told.extend(notice.map(|notice| (notice.what, now)));
            let Some(next) = expiry.poll_timeout() else { break };
            assert!(next > now && next.duration_since(now) <= CHECK_EVERY);
            now = next;
        }
        let ends = |days| Said::Ends { days };
        assert_eq!(
            told,
            [
                (ends(14), at(16, 0)),
                (ends(7), at(23, 0)),
                (ends(3), at(27, 0)),
                (ends(1), at(29, 0)),
                (Said::Expired, at(30, 0) + BEHIND),
            ]
        );
        assert_eq!(looks, 30 * 24 * 6 + 2, "every ten minutes, and right after the end");
        assert_eq!(expiry.handle_refused(at(30, 9)), None, "the end, too, is told once");
    }

    #[test]
    fn who_starts_late_is_told_the_nearest_mark_alone() {
        let mut expiry = expiry();
        let told = expiry.handle_good(Some(at(2, 0)), at(0, 0));
        assert_eq!(told.map(|told| told.what), Some(Said::Ends { days: 3 }));
        assert_eq!(expiry.handle_good(Some(at(2, 0)), at(0, 10)), None);
    }

    #[test]
    fn another_end_begins_anew_and_no_end_is_looked_at_all_the_same() {
        let mut expiry = expiry();
        assert!(expiry.handle_good(Some(at(5, 0)), at(0, 0)).is_some());
        assert_eq!(expiry.handle_good(Some(at(60, 0)), at(0, 10)), None);
        assert!(expiry.handle_good(Some(at(60, 0)), at(50, 0)).is_some());
        assert_eq!(expiry.handle_good(None, at(51, 0)), None);
        assert_eq!(expiry.poll_timeout(), Some(at(51, 10)));
    }

    #[test]
    fn a_credential_that_was_revoked_is_told_as_such_and_a_good_one_makes_it_whole() {
        let mut expiry = expiry();
        expiry.handle_good(Some(at(20, 0)), at(0, 0));
        let told = expiry.handle_refused(at(0, 10)).map(|told| told.what);
        assert_eq!(told, Some(Said::Refused));
        assert_eq!(expiry.poll_timeout(), None);
        assert_eq!(expiry.handle_good(Some(at(20, 0)), at(0, 20)), None);
        assert!(expiry.handle_refused(at(0, 30)).is_some());
    }

    #[test]
    fn an_end_that_was_known_before_the_first_look_has_come() {
        let first = |ends, now| {
            Expiry::new(Mark::default(), ends)
                .handle_refused(now)
                .map(|told| told.what)
        };
        assert_eq!(first(Some(at(5, 0)), at(6, 0)), Some(Said::Expired));
        assert_eq!(first(Some(at(5, 0)), at(4, 0)), Some(Said::Refused));
        assert_eq!(first(None, at(4, 0)), Some(Said::Refused));
    }

    #[test]
    fn a_look_that_came_to_nothing_is_repeated_sooner_and_a_clock_that_is_ahead_is_no_end() {
        let mut expiry = expiry();
        expiry.handle_good(Some(at(20, 0)), at(0, 0));
        expiry.handle_unknown(at(0, 10));
        assert_eq!(expiry.poll_timeout(), Some(at(0, 11)));
        // T3 says that it is good although it should have ended: T3 knows.
        expiry.handle_good(Some(at(20, 0)), at(21, 0));
        assert_eq!(expiry.poll_timeout(), Some(at(21, 10)));
    }
}
