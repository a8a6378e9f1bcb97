//! What the ledger took in since it was opened, in numbers, for whoever keeps an eye on the program. Counted when it is on disk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::store::Store;
use crate::store::deliveries::AttemptOutcome;

/// The numbers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that the engine did not take.
    pub failed_commits: u64,
    /// Events that were not there before, by kind.
    pub events: BTreeMap<String, u64>,
    /// Attempts after which an event was delivered.
    pub delivered: u64,
    /// Attempts that failed and are made again.
    pub retried: u64,
    /// Attempts after which an event was given up.
    pub given_up: u64,
}

/// Where they are counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    failed_commits: AtomicU64,
    events: Mutex<BTreeMap<String, u64>>,
    delivered: AtomicU64,
    retried: AtomicU64,
    given_up: AtomicU64,
}

impl Store {
    /// What it took in since it was opened.
    pub fn counts(&self) -> Counts {
        self.counters().read()
    }
}

impl Counters {
    pub(super) fn handle_commit(&self, taken: bool) {
        let counter = if taken { &self.commits } else { &self.failed_commits };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn handle_events<'k>(&self, kinds: impl Iterator<Item = &'k str>) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            match events.get_mut(kind) {
                Some(count) => *count += 1,
                None => drop(events.insert(kind.to_owned(), 1)),
            }
        }
    }

    pub(super) fn handle_attempt(&self, outcome: AttemptOutcome) {
        let counter = match outcome {
            AttemptOutcome::Delivered => &self.delivered,
            AttemptOutcome::Retry(_) => &self.retried,
            AttemptOutcome::Dead => &self.given_up,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            commits: of(&self.commits),
            failed_commits: of(&self.failed_commits),
            events: self.events.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            delivered: of(&self.delivered),
            retried: of(&self.retried),
            given_up: of(&self.given_up),
        }
    }
}
