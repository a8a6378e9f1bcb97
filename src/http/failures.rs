//! How often an address may show a wrong bearer. Reads no clock: time is a parameter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Wrong bearers in a row that are answered plainly.
pub(super) const BURST: u32 = 20;

/// After the burst, one more each.
pub(super) const REFILL: Duration = Duration::from_secs(3);

/// Addresses that are remembered; beyond it the one whose turn is nearest is forgotten.
const MAX_ADDRESSES: usize = 4_096;

/// The failures of each address: when all of its burst will be there again.
#[derive(Debug, Default)]
pub(super) struct Failures {
    full_at: HashMap<IpAddr, Instant>,
}

impl Failures {
    /// The address failed; how long it has to wait if it did so too often.
    pub(super) fn handle_failure(&mut self, address: IpAddr, now: Instant) -> Option<Duration> {
        if self.full_at.len() >= MAX_ADDRESSES && !self.full_at.contains_key(&address) {
            self.forget(now);
        }
        let full_at = self.full_at.entry(address).or_insert(now);
        let next = (*full_at).max(now) + REFILL;
        let debt = next.duration_since(now).saturating_sub(REFILL * BURST);
        if debt.is_zero() {
            *full_at = next;
            return None;
        }
        Some(debt)
    }

    fn forget(&mut self, now: Instant) {
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= MAX_ADDRESSES
            && let Some(first) = self
                .full_at
                .iter()
                .min_by_key(|(_, full_at)| **full_at)
                .map(|(address, _)| *address)
        {
            self.full_at.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_answered_and_then_one_in_three_seconds() {
        let mut failures = Failures::default();
        let (address, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let now = Instant::now();
        for _ in 0..BURST {
            assert_eq!(failures.handle_failure(address, now), None);
        }
        assert_eq!(failures.handle_failure(address, now), Some(REFILL));
        assert_eq!(failures.handle_failure(other, now), None);
        assert_eq!(failures.handle_failure(address, now + REFILL), None);
        assert!(failures.handle_failure(address, now + REFILL).is_some());
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let mut failures = Failures::default();
        let now = Instant::now();
        for n in 0..10_000_u32 {
            failures.handle_failure(IpAddr::from(n.to_be_bytes()), now);
        }
        assert!(failures.full_at.len() <= MAX_ADDRESSES);
    }
}
