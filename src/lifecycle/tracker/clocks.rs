//! What the passing of time makes of a thread: runs that finish or stand still for too long, machines that are away, and when to
//! look again. Nothing is concluded without a read.

use jiff::Timestamp;

use super::requests::works;
use super::runs::{advance, of_run};
use super::watches::LOST_AFTER;
use super::{EventKind, ReadNeed, Told, Tracker, later};
use crate::lifecycle::{RequestState, RunObservation, RunState, TrackedRun};

impl Tracker {
    /// When something is overdue, and how much is to be read then.
    pub(super) fn deadline(&self) -> Option<(Timestamp, ReadNeed)> {
        let finishes = self.thread.runs.iter().filter_map(|run| self.finishes_until(run));
        let moves = self
            .stalls_at()
            .filter(|_| self.thread.runs.iter().any(|run| self.may_stall(run)));
        let appears = self.thread.dispatched.iter().filter(|sent| sent.settled).map(|sent| {
            let looked = self.reading.read_at().map_or(sent.at, |read_at| read_at.max(sent.at));
            (later(looked, LOST_AFTER), ReadNeed::Whole)
        });
        let parts = finishes.chain(moves).map(|due| (due, ReadNeed::Part));
        parts.chain(appears).min()
    }

    /// Tells what is overdue, right after a read.
    pub(super) fn conclude(&mut self, now: Timestamp) {
        let limit = self.limits.finish_timeout;
        for run in &mut self.thread.runs {
            let overdue = run.finishing_since.is_some_and(|since| later(since, limit) <= now);
            let event = if overdue {
                advance(run, RunObservation::FinishTimeout, now)
            } else {
                None
            };
            if let Some(event) = event
                && run.watch.on
            {
                self.told.push_back(of_run(run, event.into(), now));
            }
        }
        if self.stalls_at().is_some_and(|due| due <= now) {
            self.tell_stalled(now);
        }
    }

    fn tell_stalled(&mut self, now: Timestamp) {
        let stalled: Vec<bool> = self.thread.runs.iter().map(|run| self.may_stall(run)).collect();
        for (run, stalled) in self.thread.runs.iter_mut().zip(stalled) {
            if stalled {
                run.stalled = true;
                self.told.push_back(of_run(run, EventKind::Stalled, now));
            }
        }
    }

    /// One event, of the run that works.
    pub(super) fn tell_unreachable(&mut self, since: Timestamp, now: Timestamp) {
        let watched = |run: &&TrackedRun| run.watch.on && run.state.is_busy();
        let mut runs = self.thread.runs.iter().filter(watched);
        let run = runs.clone().find(|run| works(run)).or_else(|| runs.next());
        if let Some(run) = run {
            self.told.push_back(Told {
                away_since: Some(since),
                ..of_run(run, EventKind::Unreachable, now)
            });
            self.thread.unreachable = true;
        }
    }

    /// The time in which nobody looked does not count.
    pub(super) fn pass_over(&mut self, since: Timestamp, now: Timestamp) {
        let passed = now.duration_since(since);
        if !passed.is_positive() {
            return;
        }
        self.moved_at = later(self.moved_at, passed).min(now);
        let finishing = self
            .thread
            .runs
            .iter_mut()
            .filter_map(|run| run.finishing_since.as_mut());
        for at in finishing {
            *at = later(*at, passed).min(now);
        }
    }

    fn finishes_until(&self, run: &TrackedRun) -> Option<Timestamp> {
        run.finishing_since
            .map(|since| later(since, self.limits.finish_timeout))
    }

    fn stalls_at(&self) -> Option<Timestamp> {
        self.limits.stall_after.map(|after| later(self.moved_at, after))
    }

    /// Somebody is to be told if the run stands still: it has left the queue (or nothing has), and waits for nobody.
    fn may_stall(&self, run: &TrackedRun) -> bool {
        let is_asked = self.thread.requests.iter().any(|request| {
            let of_this = request.run.as_ref().is_none_or(|id| *id == run.id);
            request.state == RequestState::Pending && of_this
        });
        let moves = works(run) || run.state == RunState::Queued && !self.thread.runs.iter().any(works);
        run.watch.on && !run.stalled && moves && !is_asked
    }
}
