//! How long to wait before the next attempt to connect.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::error::MachineError;

/// The first delay, before jitter.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay, jitter included: it adds up to the delay itself.
const LONGEST: Duration = Duration::from_secs(30);
/// A connection that stood so long was a good one: the next loss begins anew.
const HEALTHY: Duration = Duration::from_mins(1);

/// The delays of one machine.
#[derive(Debug)]
pub(super) struct Backoff {
    delays: ExponentialBackoff,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { delays: delays(FIRST) }
    }

    /// The delay after a connection that ended by `error` and stood for `stood`, if it ever stood.
    pub(super) fn next(&mut self, error: &MachineError, stood: Option<Duration>) -> Duration {
        if stood.is_some_and(|stood| stood >= HEALTHY) {
            self.delays = delays(FIRST);
        }
        let delay = self.delays.next().unwrap_or(LONGEST);
        if needs_a_hand(error) {
            // Only somebody's hand mends these, so there is no hurry; the delay that was due is used up all the same.
            return delays(LONGEST / 2).next().unwrap_or(LONGEST);
        }
        delay
    }
}

fn delays(first: Duration) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(first)
        .with_max_delay(LONGEST / 2)
        .with_jitter()
        // Without a seed of our own all gateways would come back in step.
        .with_jitter_seed(uuid::Uuid::new_v4().as_u64_pair().0)
        .without_max_times()
        .build()
}

/// An error that does not pass by itself.
fn needs_a_hand(error: &MachineError) -> bool {
    match error {
        MachineError::NeedsPairing { .. }
        | MachineError::InsufficientScope { .. }
        | MachineError::ProtocolUnsupported { .. }
        | MachineError::NotT3 { .. }
        | MachineError::Decode(_) => true,
        MachineError::Rejected { .. }
        | MachineError::Defect { .. }
        | MachineError::ThreadNotFound
        | MachineError::Unreachable { .. }
        | MachineError::Timeout(_)
        | MachineError::AnswerLost { .. }
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> MachineError {
        MachineError::Unreachable {
            reason: "refused".to_owned(),
        }
    }

    #[test]
    fn delays_grow_from_half_a_second_to_half_a_minute() {
        let mut backoff = Backoff::new();
        let delays: Vec<_> = (0..12).map(|_| backoff.next(&lost(), None)).collect();
        assert!(delays[0] >= FIRST && delays[0] <= FIRST * 2, "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= LONGEST), "{delays:?}");
        assert!(delays[11] >= LONGEST / 2, "{delays:?}");
    }

    #[test]
    fn a_minute_of_health_begins_anew_and_less_does_not() {
        let mut backoff = Backoff::new();
        for _ in 0..10 {
            backoff.next(&lost(), None);
        }
        assert!(backoff.next(&lost(), Some(HEALTHY / 2)) >= LONGEST / 2);
        assert!(backoff.next(&lost(), Some(HEALTHY)) <= FIRST * 2);
    }

    #[test]
    fn what_only_a_hand_mends_is_tried_at_the_slow_end() {
        let error = MachineError::NeedsPairing {
            reason: "revoked".to_owned(),
        };
        assert!(Backoff::new().next(&error, None) >= LONGEST / 2);
    }
}
