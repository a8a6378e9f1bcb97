//! How long a machine is away: one a machine, beside the trackers of its threads.
//!
//! Pure. It says when an outage is long enough to be told; each [`Tracker`](super::Tracker) of the machine then knows whether its
//! thread has somebody to tell. It never concludes anything about a run. Called by `watch`.

use jiff::{SignedDuration, Timestamp};

use super::tracker::later;

/// Whether a machine is away, and since when.
///
/// `since` reads, `handle_*` take what happened, `poll_*` say what is to be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outage {
    after: Option<SignedDuration>,
    since: Option<Timestamp>,
    due: bool,
    told: bool,
}

impl Outage {
    /// A machine that nothing was heard of yet counts as away from now on; `after` is how long an outage may last untold, none
    /// if it is never to be told.
    pub fn new(after: Option<SignedDuration>, now: Timestamp) -> Self {
        Self {
            after,
            since: Some(now),
            due: false,
            told: false,
        }
    }

    /// Since when it is away.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// The machine does not answer. Told again while it is away, it changes nothing.
    pub fn handle_away(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// The machine answers; gives since when it had been away, which is the gap that its trackers have to hear of.
    pub fn handle_back(&mut self) -> Option<Timestamp> {
        self.due = false;
        self.told = false;
        self.since.take()
    }

    /// The time that [`Self::poll_timeout`] named has come.
    pub fn handle_time(&mut self, now: Timestamp) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.due = true;
            self.told = true;
        }
    }

    /// The begin of an outage that is to be told now, once an outage: hand it to the trackers of the machine.
    pub fn poll_unreachable(&mut self) -> Option<Timestamp> {
        if std::mem::take(&mut self.due) {
            self.since
        } else {
            None
        }
    }

    /// When to call [`Self::handle_time`].
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let since = self.since.filter(|_| !self.told)?;
        Some(later(since, self.after?))
    }
}
