//! When a thread is to be read: what its shell rows hint at, what the last read was of, and what is under way.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};

use super::{ReadNeed, RowFacts, later};
use crate::lifecycle::observe_run;

/// Rows that show nothing but a later time of change lead to a read no more often than this.
const SOFT_EVERY: SignedDuration = SignedDuration::from_secs(30);
/// How long after a read that failed the next one is due.
const AFTER_FAILURE: SignedDuration = SignedDuration::from_secs(5);
/// How long after a read that was older than the row the next one is due.
const AFTER_LAG: SignedDuration = SignedDuration::from_secs(1);
/// How many reads in a row may be older than the row before we take it that they will not become newer.
const MOST_LAGS: u8 = 3;

/// What the newest row said.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    sequence: u64,
    /// Of everything that is worth a read: rows of 100,000 threads are not kept for it.
    digest: u64,
}

/// What is wanted of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Interest {
    /// Nothing is open, and the row shows nothing new.
    Nothing,
    /// Any change that the row names.
    Changes,
    /// Changes that the row does not name, too: something is open.
    Everything,
}

/// Whether a thread is to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    need: Option<ReadNeed>,
    under_way: Option<ReadNeed>,
    /// To be asked for when what is under way was answered, whatever the answer.
    next: Option<ReadNeed>,
    row: Option<Row>,
    /// When T3 last changed the thread, by row or read.
    updated_at: Option<Timestamp>,
    /// The sequence of the last read that counted.
    read: u64,
    read_at: Option<Timestamp>,
    /// A read that is not due yet.
    later: Option<(Timestamp, ReadNeed)>,
    lags: u8,
}

impl Reading {
    /// Nothing is asked for and nothing is on its way.
    pub(super) fn is_calm(&self) -> bool {
        self.need.is_none() && self.under_way.is_none() && self.later.is_none()
    }

    /// When the thread was last read.
    pub(super) fn read_at(&self) -> Option<Timestamp> {
        self.read_at
    }

    /// Asks for a read that begins from now on: one that is under way does not do.
    pub(super) fn ask(&mut self, need: ReadNeed) {
        if self.under_way.is_some() {
            self.next = self.next.max(Some(need));
        } else {
            self.need = self.need.max(Some(need));
        }
    }

    /// A row came; true if T3 changed something since the last row or read.
    pub(super) fn handle_row(&mut self, row: &RowFacts, interest: Interest, now: Timestamp) -> bool {
        if self.row.is_some_and(|newest| row.sequence < newest.sequence) {
            return false;
        }
        let digest = digest(row);
        let before = self.row.replace(Row {
            sequence: row.sequence,
            digest,
        });
        let moved = self.moved(row.updated_at);
        // The last read was of this row already, or of a later one.
        if self.read != 0 && row.sequence <= self.read {
            return moved;
        }
        let differs = before.is_none_or(|before| before.digest != digest);
        let due = if interest == Interest::Nothing {
            None
        } else if differs {
            Some(now)
        } else {
            let soft = moved && interest == Interest::Everything;
            soft.then(|| self.read_at.map_or(now, |read_at| later(read_at, SOFT_EVERY)))
        };
        match due {
            // Who cannot tell whether the read under way shows the row reads again.
            Some(due) if due <= now && self.under_way.is_some() && self.read == 0 => self.ask(ReadNeed::Part),
            Some(due) if due <= now => self.need = self.need.max(Some(ReadNeed::Part)),
            Some(due) => self.not_before(due, ReadNeed::Part),
            None => {}
        }
        moved
    }

    /// A read came. None if it is older than one that counted before; else whether T3 changed something since the last row or read.
    pub(super) fn handle_read(&mut self, sequence: u64, updated_at: Timestamp, now: Timestamp) -> Option<bool> {
        self.answered();
        let known = sequence != 0;
        if known && sequence < self.read {
            self.not_before(later(now, AFTER_LAG), ReadNeed::Part);
            return None;
        }
        self.read = sequence;
        self.read_at = Some(now);
        self.later = None;
        if known && self.row.is_some_and(|row| sequence < row.sequence) {
            self.lagged(now);
        } else {
            self.lags = 0;
        }
        Some(self.moved(updated_at))
    }

    /// A read came to nothing, and that it came to nothing says nothing.
    pub(super) fn handle_failure(&mut self, now: Timestamp) {
        // Who missed something in a part needs the whole still.
        let need = self.need.max(self.next).max(self.under_way);
        self.answered();
        self.need = None;
        let need = need.unwrap_or(ReadNeed::Part);
        self.not_before(later(now, AFTER_FAILURE), need);
    }

    /// A read came that is older than what is known from elsewhere: whatever it was asked for has to be read still.
    pub(super) fn handle_overtaken(&mut self) {
        let need = self.under_way.unwrap_or(ReadNeed::Part);
        self.answered();
        self.ask(need);
    }

    /// Nobody says that anything happened; it is looked at in a while all the same.
    pub(super) fn look_again(&mut self, now: Timestamp) {
        self.not_before(later(now, AFTER_FAILURE), ReadNeed::Part);
    }

    /// The shell shows the thread no more: whatever it shows next is new. True if it had shown it.
    pub(super) fn handle_row_missing(&mut self) -> bool {
        self.row.take().is_some()
    }

    /// Whether a read is asked for that has not begun.
    pub(super) fn is_asked(&self) -> bool {
        self.need.is_some()
    }

    /// T3 answered that there is nothing to read.
    pub(super) fn handle_nothing(&mut self) {
        self.answered();
        self.later = None;
    }

    /// The connection is another one: sequences begin anew, and what was under way is lost.
    pub(super) fn handle_gap(&mut self) {
        *self = Self {
            need: self.need.max(self.next),
            updated_at: self.updated_at,
            ..Self::default()
        };
    }

    /// The time has come for what was not due yet.
    pub(super) fn handle_time(&mut self, now: Timestamp) {
        if let Some((due, need)) = self.later
            && due <= now
        {
            self.later = None;
            self.ask(need);
        }
    }

    /// What is to be read now.
    pub(super) fn poll(&mut self) -> Option<ReadNeed> {
        if self.under_way.is_some() {
            return None;
        }
        self.under_way = self.need.take();
        self.under_way
    }

    /// When to call [`Self::handle_time`].
    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        self.later.map(|(due, _)| due)
    }

    fn moved(&mut self, updated_at: Timestamp) -> bool {
        self.updated_at
            .replace(updated_at)
            .is_some_and(|before| before != updated_at)
    }

    /// What is under way was answered, and with it what rows asked for meanwhile, unless the answer lags behind them.
    fn answered(&mut self) {
        self.under_way = None;
        self.need = self.next.take();
    }

    fn lagged(&mut self, now: Timestamp) {
        if self.lags < MOST_LAGS {
            self.lags += 1;
            self.not_before(later(now, AFTER_LAG), ReadNeed::Part);
        }
    }

    fn not_before(&mut self, due: Timestamp, need: ReadNeed) {
        self.later = Some(
            self.later
                .map_or((due, need), |(at, other)| (at.min(due), other.max(need))),
        );
    }
}

/// Everything of a row that is worth a read, in eight bytes.
fn digest(row: &RowFacts) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.status.hash(&mut hasher);
    row.active_run.hash(&mut hasher);
    row.activity.as_deref().map(observe_run).hash(&mut hasher);
    row.latest_run.hash(&mut hasher);
    row.latest_run_requested_at.hash(&mut hasher);
    row.latest_run_completed_at.hash(&mut hasher);
    row.pending.hash(&mut hasher);
    row.deleted.hash(&mut hasher);
    hasher.finish()
}
