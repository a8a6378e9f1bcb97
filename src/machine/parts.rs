//! When the newest part of a thread, as bounded reads bring it, is enough to go by.
//!
//! A part counts only if no open run can be missing from it. A run that has ended never opens again, so below the lowest run that the
//! last read that counted showed open there is none; from there on every ordinal must be there, and what the row names. Pure; the link keeps one
//! of these a thread, for as long as its connection stands.

use super::domain::{Thread, ThreadRow};
use crate::lifecycle::{RunFacts, RunObservation, observe_run};

/// T3 counts the runs of a thread from here.
const FIRST_ORDINAL: u64 = 1;
/// T3's word for a request that waits.
const PENDING: &str = "pending";

/// What the reads of one thread showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts {
    /// Every run below this ordinal has ended.
    closed_below: u64,
    /// Why the last part was not enough.
    lacked: Option<Lack>,
}

#[derive(Clone, Copy, Debug)]
enum Lack {
    /// The part began at this run.
    Before(u64),
    /// The pending request that the row names.
    Request,
}

impl Parts {
    /// Whether a part is worth asking for: not after one that was not enough, until a whole read says that it would be now.
    pub(super) fn may_suffice(self) -> bool {
        self.lacked.is_none()
    }

    /// A part was read; whether it is enough.
    pub(super) fn handle_part(&mut self, part: &Thread, row: Option<&ThreadRow>) -> bool {
        if !part.partial {
            self.handle_whole(part);
            return true;
        }
        // Nobody says which runs there are.
        let Some(row) = row else {
            return false;
        };
        let runs = &part.facts.runs;
        let from = beginning(runs);
        if from > self.closed_below.max(FIRST_ORDINAL) {
            self.lacked = Some(Lack::Before(from));
            return false;
        }
        let mut requests = part.facts.requests.iter();
        if let Some(asked) = &row.pending
            && !requests.any(|request| request.id == asked.id)
        {
            self.lacked = Some(Lack::Request);
            return false;
        }
        self.closed_below = all_closed_below(runs);
        // A run that the row names and the part lacks came after the part was read: the next part may have it.
        let has_run = |id: &Option<_>| id.as_ref().is_none_or(|id| runs.iter().any(|run| run.id == *id));
        has_run(&row.active_run) && has_run(&row.latest_run)
    }

    /// The whole was read.
    pub(super) fn handle_whole(&mut self, thread: &Thread) {
        self.closed_below = all_closed_below(&thread.facts.runs);
        let lacks_still = match self.lacked {
            Some(Lack::Before(from)) => from > self.closed_below,
            Some(Lack::Request) => thread.facts.requests.iter().any(|request| request.status == PENDING),
            None => false,
        };
        if !lacks_still {
            self.lacked = None;
        }
    }
}

/// The ordinal below which no run is open, told by runs of which no open one is missing.
fn all_closed_below(runs: &[RunFacts]) -> u64 {
    let newest = runs.iter().map(|run| run.ordinal).max();
    let lowest_open = runs.iter().filter(|run| !ended(run)).map(|run| run.ordinal).min();
    lowest_open.or(newest.map(|newest| newest + 1)).unwrap_or_default()
}

/// The ordinal from which on the runs are there without a gap, up to the newest; past every run where there is none.
fn beginning(runs: &[RunFacts]) -> u64 {
    let mut ordinals: Vec<_> = runs.iter().map(|run| run.ordinal).collect();
    ordinals.sort_unstable_by(|one, other| other.cmp(one));
    let Some(newest) = ordinals.first() else {
        return u64::MAX;
    };
    let due = (0..=*newest).rev();
    let unbroken = ordinals.iter().zip(due).take_while(|(ordinal, due)| **ordinal == *due);
    unbroken.last().map_or(u64::MAX, |(first, _)| *first)
}

/// Whether a run's own status is an end; an unknown one counts as running.
fn ended(run: &RunFacts) -> bool {
    match observe_run(&run.status) {
        RunObservation::Queued | RunObservation::Starting | RunObservation::Running | RunObservation::Finishing => {
            false
        }
        RunObservation::Completed
        | RunObservation::Interrupted
        | RunObservation::Failed
        | RunObservation::Cancelled
        | RunObservation::RolledBack
        | RunObservation::NeverStarted
        | RunObservation::Promoted
        | RunObservation::Continued
        | RunObservation::RestartCancelled
        | RunObservation::FinishTimeout
        | RunObservation::Gone
        | RunObservation::NotVisible => true,
    }
}

#[cfg(test)]
mod tests;
