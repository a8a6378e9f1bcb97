//! What a thread that was read is doing: the fold, and the questions about single runs that tools ask. Pure; which runs were finishing
//! for too long is told by the caller, who has a clock.

use crate::lifecycle::{
    Pending, RunFacts, RunObservation, RunState, ThreadState, ThreadStatus, fold_presuming, observe,
};
use crate::machine::Thread;
use crate::protocol::{MessageId, RunId};

/// How often a run may hand its work on to another before we stop to follow.
const LONGEST_CHAIN: usize = 64;

/// A thread and what its facts say.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    pub(super) thread: &'a Thread,
    pub(super) status: ThreadStatus,
    timed_out: Vec<RunId>,
}

impl<'a> Standing<'a> {
    /// Folds the thread; `timed_out` are runs that were finishing for longer than anybody waits.
    pub(super) fn of(thread: &'a Thread, timed_out: Vec<RunId>) -> Self {
        Self {
            thread,
            status: fold_presuming(&thread.facts, &timed_out),
            timed_out,
        }
    }

    pub(super) fn state(&self) -> ThreadState {
        self.status.state
    }

    pub(super) fn is_busy(&self) -> bool {
        self.status.state.is_busy()
    }

    pub(super) fn run(&self, id: &RunId) -> Option<&'a RunFacts> {
        let runs = &self.thread.facts.runs;
        let named = runs.iter().find(|run| run.id == *id);
        // Before T3 was upgraded, the run was known by its message.
        let before = || {
            runs.iter()
                .find(|run| self.thread.facts.imported && run.user_message.0 == id.0)
        };
        named.or_else(before)
    }

    pub(super) fn run_state(&self, run: &RunFacts) -> RunState {
        let state = RunState::INITIAL.on(observe(run, &self.thread.facts)).to;
        if self.timed_out.contains(&run.id) {
            state.on(RunObservation::FinishTimeout).to
        } else {
            state
        }
    }

    /// The run that a message is part of: steering, restarting and promoting leave this right, and only this.
    pub(super) fn run_of_message(&self, message: &MessageId) -> Option<&'a RunFacts> {
        let run = self.thread.messages.iter().find(|m| m.id == *message)?.run.as_ref()?;
        self.run(run)
    }

    /// The run that took the run's work over by itself: its message was promoted, or T3 continues it there.
    pub(super) fn successor(&self, run: &RunFacts) -> Option<&'a RunFacts> {
        let promoted = run.promoted_into.as_ref().and_then(|id| self.run(id));
        promoted.or_else(|| {
            self.thread
                .facts
                .runs
                .iter()
                .find(|other| other.continuation_of.as_ref() == Some(&run.id))
        })
    }

    /// The run in which the run's work ends.
    pub(super) fn last_successor(&self, run: &'a RunFacts) -> &'a RunFacts {
        let mut last = run;
        for _ in 0..LONGEST_CHAIN {
            match self.successor(last) {
                Some(next) if next.id != run.id => last = next,
                Some(_) | None => break,
            }
        }
        last
    }

    /// The pending requests that a run waits for.
    pub(super) fn holding(&self) -> impl Iterator<Item = &Pending> {
        self.status.pending.iter().filter(|pending| pending.holds)
    }

    /// The text of a user message, by id.
    pub(super) fn text_of(&self, message: &MessageId) -> Option<&'a str> {
        let message = self.thread.messages.iter().find(|m| m.id == *message)?;
        Some(message.text.as_str())
    }
}
