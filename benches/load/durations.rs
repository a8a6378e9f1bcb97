//! How long calls took, and what is said of that.

use std::time::Duration;

/// How long calls took.
#[derive(Default)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there were a second.
    pub(crate) fn per_second(&self, span: Duration) -> f64 {
        u32::try_from(self.0.len()).map_or(f64::NAN, f64::from) / span.as_secs_f64()
    }

    /// Prints their row of the table.
    pub(crate) fn print(&mut self, what: &str) {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        println!("| {what} | p50 {p50:.1} ms, p99 {p99:.1} ms |");
    }

    /// The duration that `percent` of the calls did not exceed, in milliseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0
            .get(index)
            .map_or(f64::NAN, |duration| duration.as_secs_f64() * 1_000.0)
    }
}
