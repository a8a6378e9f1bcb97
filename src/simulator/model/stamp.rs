//! Points in time as T3 writes them: UTC, to the millisecond, with a `Z`.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// A point in time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub(crate) struct Stamp(Timestamp);

impl Stamp {
    /// This time; what is finer than a millisecond is dropped, as JavaScript's clock does.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self(Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at))
    }

    /// So much later; the end of time where that overflows.
    #[must_use]
    pub(crate) fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait).unwrap_or(Timestamp::MAX))
    }

    /// This point in time.
    pub(crate) fn time(self) -> Timestamp {
        self.0
    }

    /// How long from `now` until this time; nothing where it has passed.
    pub(crate) fn wait_from(self, now: Self) -> Duration {
        Duration::try_from(self.0.duration_since(now.0)).unwrap_or_default()
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_has_three_digits_always() {
        let at = Stamp::new("2026-11-30T05:45:59Z".parse().unwrap());
        assert_eq!(at.to_string(), "2026-11-30T05:45:59.000Z");
        assert_eq!(
            at.after(Duration::from_millis(7)).to_string(),
            "2026-11-30T05:45:59.007Z"
        );
    }
}
