//! What a read makes of the runs: which are new, which are history, which can no longer end, and what is to be told of the rest.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};

use super::{EventKind, ReadFacts, Reason, RunKey, Told, Tracker, UNWATCHED, later, watches};
use crate::lifecycle::{
    Baseline, HookEvent, RunDriver, RunFacts, RunObservation, RunState, ThreadFacts, TrackedRun, TrackedThread, Watch,
    observe,
};
use crate::protocol::RunId;

/// T3 counts the runs of a thread from here.
const FIRST_ORDINAL: u64 = 1;
/// What T3 ends as it starts again, it ends within this time.
const RESTART_ENDS_WITHIN: SignedDuration = SignedDuration::from_secs(5);
/// How many ended runs are kept because T3 may go on with them in another run, which inherits their watch.
const MOST_CONTINUABLE: usize = 2;
/// How many runs that were taken out of the queue are kept while others are open: they may turn out to have worked or moved.
const MOST_UNQUEUED: usize = 64;

/// What one read has to tell, and what ended by it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    events: Vec<(Place, Told)>,
    /// The runs that ended by this read, each with the time of its end.
    pub(super) ended: Vec<(RunId, Timestamp)>,
}

/// Where an event stands among those of one read: by its time, what a run asked before that it ended, then by ordinal.
type Place = (Timestamp, bool, u64, String);

impl Seen {
    pub(super) fn asked(&mut self, at: Timestamp, ordinal: u64, told: Told) {
        let id = told.request.as_ref().map(|id| id.0.clone()).unwrap_or_default();
        self.events.push(((at, false, ordinal, id), told));
    }

    fn ends(&mut self, at: Timestamp, ordinal: u64, told: Told) {
        self.events.push(((at, true, ordinal, String::new()), told));
    }

    pub(super) fn into_told(mut self) -> impl Iterator<Item = Told> {
        self.events.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.events.into_iter().map(|(_, told)| told)
    }
}

impl Tracker {
    /// T3 took the thread over from its older self, in which a run was known by its message. Runs that are followed get their new ids, and what
    /// was asked for before the end of the known history lies in it, whatever its new place.
    pub(super) fn handle_import(&mut self, facts: &ThreadFacts) {
        for run in &mut self.thread.runs {
            if facts.runs.iter().any(|fact| fact.id == run.id) {
                continue;
            }
            let by_message = facts.runs.iter().find(|fact| fact.user_message.0 == run.id.0);
            let by_time = || facts.runs.iter().find(|fact| fact.requested_at == run.requested_at);
            let Some(fact) = by_message.or_else(by_time) else {
                continue;
            };
            for request in &mut self.thread.requests {
                if request.run.as_ref() == Some(&run.id) {
                    request.run = Some(fact.id.clone());
                }
            }
            run.id = fact.id.clone();
            run.requested_at = fact.requested_at;
            run.ordinal = fact.ordinal;
        }
        if let Some(baseline) = &mut self.thread.baseline {
            let known = facts
                .runs
                .iter()
                .filter(|fact| fact.requested_at <= baseline.requested_at);
            let last = known.map(|fact| fact.ordinal).max();
            baseline.ordinal = baseline.ordinal.max(last.unwrap_or_default());
        }
    }

    /// Ends the runs that the thread cannot have any more: another one has their id, or the whole thread lacks them.
    pub(super) fn end_replaced(&mut self, read: &ReadFacts<'_>, now: Timestamp) {
        let cannot_be = |run: &TrackedRun| match read.facts.runs.iter().find(|fact| fact.id == run.id) {
            Some(fact) => fact.requested_at != run.requested_at,
            None => !read.partial,
        };
        let (lost, kept) = std::mem::take(&mut self.thread.runs).into_iter().partition(cannot_be);
        self.thread.runs = kept;
        self.end_runs(lost, Reason::Gone, now);
    }

    /// Ends all that is open, for a reason that is no end of its own.
    pub(super) fn end_all(&mut self, reason: Reason, now: Timestamp) {
        let runs = std::mem::take(&mut self.thread.runs);
        self.end_runs(runs, reason, now);
        self.thread.requests.clear();
        self.lose_messages(|message| message.settled, reason, now);
    }

    fn end_runs(&mut self, mut runs: Vec<TrackedRun>, reason: Reason, now: Timestamp) {
        let observation = match reason {
            Reason::Gone => RunObservation::Gone,
            Reason::NotVisible => RunObservation::NotVisible,
        };
        runs.sort_by_key(|run| run.ordinal);
        for mut run in runs {
            self.thread
                .requests
                .retain(|request| request.run.as_ref() != Some(&run.id));
            if let Some(event) = advance(&mut run, observation, now)
                && run.watch.on
            {
                self.told.push_back(Told {
                    reason: Some(reason),
                    ..of_run(&run, event.into(), now)
                });
            }
        }
    }

    /// Takes up the runs that are no history, and those that a message of ours made, whatever the history says. Gives their ids in
    /// the order of their ordinals.
    pub(super) fn take_up(&mut self, read: &ReadFacts<'_>, now: Timestamp) -> Vec<RunId> {
        let ours = watches::owners(read, &self.thread);
        let mut new: Vec<&RunFacts> = read
            .facts
            .runs
            .iter()
            .filter(|fact| !self.thread.runs.iter().any(|run| run.id == fact.id))
            .filter(|fact| !is_history(self.thread.baseline.as_ref(), fact) || ours.contains(&fact.id))
            .collect();
        new.sort_by_key(|fact| fact.ordinal);
        self.thread.runs.extend(new.iter().map(|fact| unseen(fact, now)));
        self.thread.runs.sort_by_key(|run| run.ordinal);
        new.into_iter().map(|fact| fact.id.clone()).collect()
    }

    /// Drives each run by what the read shows of it.
    pub(super) fn drive_runs(&mut self, facts: &ThreadFacts, now: Timestamp) -> Seen {
        let killed = if self.gap { self.killed_at(facts) } else { Vec::new() };
        let mut seen = Seen::default();
        for run in &mut self.thread.runs {
            let Some(fact) = facts.runs.iter().find(|fact| fact.id == run.id) else {
                continue;
            };
            let mut observation = observe(fact, facts);
            if observation == RunObservation::NeverStarted && ended_with(fact, &killed) {
                observation = RunObservation::RestartCancelled;
            }
            let before = run.state;
            let event = advance(run, observation, now);
            if run.state != before {
                self.moved_at = now;
            }
            let at = fact.completed_at.unwrap_or(now);
            if run.state.is_ended() && !before.is_ended() {
                seen.ended.push((run.id.clone(), at));
            }
            if let Some(event) = event
                && run.watch.on
            {
                let told = Told {
                    continues_in: continuation(facts, &run.id),
                    ..of_run(run, event.into(), at)
                };
                seen.ends(at, run.ordinal, told);
            }
        }
        seen
    }

    /// When T3, as it started again, ended runs of this thread that were at work: of those that we do not know to have ended before,
    /// if no other run of the time before outlived that. A run of the history counts as well: nobody may have followed it.
    fn killed_at(&self, facts: &ThreadFacts) -> Vec<Timestamp> {
        let known_ended = |fact: &RunFacts| {
            let mut runs = self.thread.runs.iter();
            runs.any(|run| run.id == fact.id && run.state.is_ended() && run.state != RunState::Unconfirmed)
        };
        let outlived = |fact: &RunFacts, end: Timestamp| {
            let open = || RunState::INITIAL.on(observe(fact, facts)).to.is_busy();
            let ended_later = |at: Timestamp| at > later(end, RESTART_ENDS_WITHIN);
            fact.requested_at < end && fact.completed_at.map_or_else(open, ended_later)
        };
        facts
            .runs
            .iter()
            .filter(|fact| observe(fact, facts) == RunObservation::Cancelled && !known_ended(fact))
            .filter_map(|fact| fact.completed_at)
            .filter(|end| !facts.runs.iter().any(|fact| outlived(fact, *end)))
            .collect()
    }

    /// Forgets what nothing can come of any more. What is forgotten lies in the history.
    pub(super) fn prune(&mut self, facts: &ThreadFacts) {
        let any_open = self.thread.runs.iter().any(|run| run.state.is_busy());
        let mut continuable = MOST_CONTINUABLE;
        let mut unqueued = if any_open { MOST_UNQUEUED } else { 0 };
        let mut runs = std::mem::take(&mut self.thread.runs);
        // The newest are kept.
        runs.reverse();
        runs.retain(|run| match run.state {
            RunState::Unseen
            | RunState::Queued
            | RunState::Starting
            | RunState::Running
            | RunState::Finishing
            | RunState::Unconfirmed => true,
            RunState::Interrupted | RunState::Failed | RunState::Cancelled => {
                continuation(facts, &run.id).is_none() && take_one(&mut continuable)
            }
            RunState::NeverStarted => take_one(&mut unqueued),
            RunState::Completed
            | RunState::RolledBack
            | RunState::HandedOver
            | RunState::Gone
            | RunState::NotVisible => false,
        });
        runs.reverse();
        // Most threads stay as they are from here.
        runs.shrink_to_fit();
        self.thread.runs = runs;
        self.prune_requests();
    }
}

/// One less of what is left, if there is any.
fn take_one(left: &mut usize) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

/// Drives one run.
pub(super) fn advance(run: &mut TrackedRun, observation: RunObservation, now: Timestamp) -> Option<HookEvent> {
    let mut driver = RunDriver::at(run.state);
    if driver.handle(observation) {
        run.state = driver.state();
        run.changed_at = now;
        run.finishing_since = (run.state == RunState::Finishing).then_some(now);
    }
    driver.poll_event()
}

/// An event of a run, with what all have.
pub(super) fn of_run(run: &TrackedRun, kind: EventKind, at: Timestamp) -> Told {
    Told {
        kind,
        run: Some(RunKey {
            id: run.id.clone(),
            requested_at: run.requested_at,
        }),
        request: None,
        message: None,
        away_since: None,
        state: run.state.as_str(),
        watch: run.watch.clone(),
        at,
        reason: None,
        unconfirmed: run.state == RunState::Unconfirmed,
        continues_in: None,
    }
}

/// The run in which T3 goes on with this one.
fn continuation(facts: &ThreadFacts, run: &RunId) -> Option<RunId> {
    let mut runs = facts.runs.iter();
    runs.find(|fact| fact.continuation_of.as_ref() == Some(run))
        .map(|fact| fact.id.clone())
}

/// A run that was taken out of the queue ended as T3 started again: it waited behind what was ended so.
fn ended_with(fact: &RunFacts, killed: &[Timestamp]) -> bool {
    let within = |end: Timestamp, killed: Timestamp| {
        fact.requested_at <= killed && end.duration_since(killed).abs() <= RESTART_ENDS_WITHIN
    };
    fact.completed_at
        .is_some_and(|end| killed.iter().any(|killed| within(end, *killed)))
}

fn unseen(fact: &RunFacts, now: Timestamp) -> TrackedRun {
    TrackedRun {
        id: fact.id.clone(),
        requested_at: fact.requested_at,
        ordinal: fact.ordinal,
        state: RunState::INITIAL,
        watch: UNWATCHED,
        message: None,
        finishing_since: None,
        changed_at: now,
        stalled: false,
    }
}

/// The run lies in the history.
pub(super) fn is_history(baseline: Option<&Baseline>, run: &RunFacts) -> bool {
    baseline.is_some_and(|baseline| run.ordinal <= baseline.ordinal && run.requested_at <= baseline.requested_at)
}

/// A history that holds all of these runs, too.
pub(super) fn all_of(baseline: Option<Baseline>, facts: &ThreadFacts) -> Option<Baseline> {
    facts.runs.iter().fold(baseline, |baseline, run| {
        let (ordinal, requested_at) = baseline.map_or((run.ordinal, run.requested_at), |known| {
            (known.ordinal.max(run.ordinal), known.requested_at.max(run.requested_at))
        });
        Some(Baseline { ordinal, requested_at })
    })
}

/// The runs of the history that are still open, and those that T3 went on with since: their continuations inherit from them.
pub(super) fn open_history(baseline: Option<&Baseline>, facts: &ThreadFacts, now: Timestamp) -> Vec<TrackedRun> {
    let open = |fact: &&RunFacts| RunState::INITIAL.on(observe(fact, facts)).to.is_busy();
    let goes_on = |fact: &&RunFacts| {
        let mut later = facts.runs.iter().filter(|other| !is_history(baseline, other));
        later.any(|other| other.continuation_of.as_ref() == Some(&fact.id))
    };
    let history = facts.runs.iter().filter(|fact| is_history(baseline, fact));
    let kept = history.filter(|fact| open(fact) || goes_on(fact));
    let mut runs: Vec<TrackedRun> = kept.map(|fact| unseen(fact, now)).collect();
    runs.sort_by_key(|run| run.ordinal);
    runs
}

/// The runs that are open, or ended later than `since`, all of them watched as `watch` says.
pub(super) fn not_ended_by(since: Timestamp, watch: &Watch, facts: &ThreadFacts, now: Timestamp) -> Vec<TrackedRun> {
    let open = |fact: &RunFacts| RunState::INITIAL.on(observe(fact, facts)).to.is_busy();
    let ended_later = |fact: &RunFacts| fact.completed_at.is_some_and(|at| at > since);
    let there = facts.runs.iter().filter(|fact| open(fact) || ended_later(fact));
    let mut runs: Vec<TrackedRun> = there
        .map(|fact| TrackedRun {
            watch: watch.clone(),
            ..unseen(fact, now)
        })
        .collect();
    runs.sort_by_key(|run| run.ordinal);
    runs
}

/// Whether a part of the thread is enough to go by: it holds every run that is open or new, and every message that is missed.
/// After a gap also those that counted as completed before T3 said so: what T3 did to them meanwhile tells of a restart.
pub(super) fn suffices(thread: &TrackedThread, gap: bool, read: &ReadFacts<'_>, now: Timestamp) -> bool {
    let facts = &read.facts.runs;
    let has = |run: &TrackedRun| facts.iter().any(|fact| fact.id == run.id);
    let counts = |run: &&TrackedRun| run.state.is_busy() || gap && run.state == RunState::Unconfirmed;
    let has_the_open = thread.runs.iter().filter(counts).all(has);
    has_the_open && has_the_new(thread, facts) && !watches::misses_any(thread, read, now)
}

/// No run that is new can be missing: without a gap, the newest lead down to one that is known, or to the first of all.
fn has_the_new(thread: &TrackedThread, facts: &[RunFacts]) -> bool {
    let known = |fact: &RunFacts| {
        let key = (&fact.id, fact.requested_at);
        is_history(thread.baseline.as_ref(), fact) || thread.runs.iter().any(|run| (&run.id, run.requested_at) == key)
    };
    let mut newest_first: Vec<&RunFacts> = facts.iter().collect();
    newest_first.sort_by_key(|fact| Reverse(fact.ordinal));
    let Some(newest) = newest_first.first() else {
        return thread.baseline.is_none();
    };
    let due = (0..=newest.ordinal).rev();
    let mut unbroken = newest_first
        .iter()
        .zip(due)
        .take_while(|(fact, due)| fact.ordinal == *due);
    unbroken.any(|(fact, _)| fact.ordinal <= FIRST_ORDINAL || known(fact))
}
