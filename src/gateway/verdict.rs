//! Whether a wait has an end to tell. Pure: the thread was read, the rules of the contract decide.

use crate::gateway::standing::Standing;
use crate::lifecycle::{RunFacts, RunState, ThreadState};
use crate::protocol::{MessageId, RunId};

/// What a wait is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Aim {
    /// The run that the caller named.
    pub(super) run: Option<RunId>,
    /// The caller's last dispatch to the thread, unless a wait has told its end: nothing older may be told.
    pub(super) dispatched: Option<MessageId>,
    /// Background work counts too.
    pub(super) quiet: bool,
}

/// What a read says about a wait.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// There is something to tell: about this run, or about the one that the state speaks of.
    Done(Option<RunId>),
    /// The work goes on.
    Waits(For),
    /// The run that the caller named was never in this thread.
    NoSuchRun,
    /// The run that the caller named is not in this part of the thread: only the whole shows it.
    NotInThisPart,
}

/// What a wait waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum For {
    /// For this run: while the row shows it at work, no read can say more.
    Run(RunId),
    /// For the thread to come to rest: while the row shows any run at work, no read can say more.
    Thread,
    /// For something that only a read shows.
    #[default]
    Unseen,
}

/// What the thread says to a wait with this aim.
pub(super) fn verdict(standing: &Standing<'_>, aim: &Aim) -> Verdict {
    if standing.state() == ThreadState::Gone {
        return Verdict::Done(None);
    }
    if standing.holding().next().is_some() {
        return Verdict::Done(None);
    }
    match aim_run(standing, aim) {
        Aimed::Run(run) => of_run(standing, run, aim.quiet),
        Aimed::Thread => of_thread(standing, aim.quiet),
        Aimed::NotThereYet => Verdict::Waits(For::Unseen),
        Aimed::Unknown if standing.thread.partial => Verdict::NotInThisPart,
        Aimed::Unknown => Verdict::NoSuchRun,
    }
}

enum Aimed<'a> {
    Run(&'a RunFacts),
    Thread,
    NotThereYet,
    Unknown,
}

fn aim_run<'a>(standing: &Standing<'a>, aim: &Aim) -> Aimed<'a> {
    if let Some(id) = &aim.run {
        return match standing.run(id) {
            Some(run) => Aimed::Run(run),
            None => Aimed::Unknown,
        };
    }
    match &aim.dispatched {
        None => Aimed::Thread,
        Some(message) => match standing.run_of_message(message) {
            // It was taken off the queue and counts no more; what works meanwhile does.
            Some(run) if standing.run_state(run) == RunState::NeverStarted && standing.is_busy() => Aimed::Thread,
            Some(run) => Aimed::Run(run),
            None if standing.thread.partial && standing.text_of(message).is_none() => Aimed::Thread,
            None => Aimed::NotThereYet,
        },
    }
}

/// The run's work has ended, wherever T3 carried it on; or T3 holds it in the queue.
fn of_run(standing: &Standing<'_>, run: &RunFacts, quiet: bool) -> Verdict {
    let last = standing.last_successor(run);
    let state = standing.run_state(last);
    if state == RunState::Queued && last.queue_held && standing.status.held {
        return Verdict::Done(Some(last.id.clone()));
    }
    if !state.is_ended() {
        return Verdict::Waits(For::Run(last.id.clone()));
    }
    if quiet && !standing.thread.background.is_empty() {
        return Verdict::Waits(For::Unseen);
    }
    Verdict::Done(Some(last.id.clone()))
}

/// Nothing moves in the thread by itself any more.
fn of_thread(standing: &Standing<'_>, quiet: bool) -> Verdict {
    if standing.status.held {
        return Verdict::Done(None);
    }
    if standing.is_busy() {
        return Verdict::Waits(For::Thread);
    }
    if quiet && !standing.thread.background.is_empty() {
        return Verdict::Waits(For::Unseen);
    }
    Verdict::Done(standing.status.run.clone())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
