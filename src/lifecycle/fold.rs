//! A thread's state as a pure fold over its runs and requests, by the table's precedence.
//!
//! The same facts give the same status whatever their order. Nothing is concluded from what is absent: a thread without facts
//! is idle, never ended. Called by `gateway` for every view and wait.

use jiff::Timestamp;

use super::{
    Capability, FoldStep, PRECEDENCE, RequestClass, RequestFacts, RequestState, RunFacts, RunObservation, RunState,
    ThreadFacts, ThreadState, capability, classify_request, observe, observe_request,
};
use crate::protocol::{RunId, RuntimeRequestId};

/// What a thread is doing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ThreadStatus {
    /// Its state.
    pub state: ThreadState,
    /// T3 holds every run that waits, and nothing else goes on: nothing moves by itself. Only with the state `queued`.
    pub held: bool,
    /// The run that the state speaks of.
    pub run: Option<RunId>,
    /// The state of that run, where there is one.
    pub run_state: Option<RunState>,
    /// The run that works now (starting, running or finishing).
    pub active: Option<RunId>,
    /// Every open request, oldest first.
    pub pending: Vec<Pending>,
    /// The runs that wait, next one first.
    pub queue: Vec<RunId>,
}

/// An open request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pending {
    /// T3's id.
    pub id: RuntimeRequestId,
    /// The run that it belongs to, if T3 says.
    pub run: Option<RunId>,
    /// T3's word for its kind.
    pub kind: String,
    /// What its kind makes of it.
    pub class: RequestClass,
    /// The way that an answer can go.
    pub capability: Capability,
    /// A run waits for it.
    pub holds: bool,
    /// It can be answered from here.
    pub answerable: bool,
    /// The word that views show where an answer does not go the usual way (`message`, `not_resumable`).
    pub mode: Option<&'static str>,
    /// When it was asked.
    pub created_at: Timestamp,
}

/// The status of a thread.
pub fn fold(facts: &ThreadFacts) -> ThreadStatus {
    fold_presuming(facts, &[])
}

/// The status of a thread in which some runs were finishing for longer than anybody waits (`finish_timeout`): those that still
/// are count as completed. Which runs they are is known to whoever watches the clock.
pub fn fold_presuming(facts: &ThreadFacts, finish_timed_out: &[RunId]) -> ThreadStatus {
    let mut runs: Vec<Seen<'_>> = facts
        .runs
        .iter()
        .map(|run| {
            let mut state = RunState::INITIAL.on(observe(run, facts)).to;
            if finish_timed_out.contains(&run.id) {
                state = state.on(RunObservation::FinishTimeout).to;
            }
            Seen { run, state }
        })
        .collect();
    // One order, whatever the order of the facts.
    runs.sort_by(|a, b| (a.run.ordinal, &a.run.id).cmp(&(b.run.ordinal, &b.run.id)));

    let active = active(&runs);
    let pending = pending(&facts.requests, &runs, active);
    let queue = queue(&runs);
    let last_ended = last_ended(&runs);
    let holds = |step: FoldStep, state: ThreadState| -> Option<Option<Seen<'_>>> {
        match step {
            FoldStep::Deleted => facts.deleted.then_some(None),
            FoldStep::Request => pending
                .iter()
                .find(|request| request.holds && request.class.thread() == Some(state))
                .map(|request| request.run.as_ref().and_then(|id| of_id(&runs, id)).or(active)),
            FoldStep::Run => {
                let waits = queue
                    .first()
                    .copied()
                    .filter(|waits| waits.state.thread() == Some(state));
                let works = active.filter(|works| works.state.thread() == Some(state));
                works.or(waits).map(Some)
            }
            FoldStep::LastEnded => last_ended.filter(|ended| ended.state.thread() == Some(state)).map(Some),
            FoldStep::Otherwise => Some(None),
        }
    };
    let (state, run) = PRECEDENCE
        .iter()
        .find_map(|&(step, state)| holds(step, state).map(|run| (state, run)))
        // The table ends with the step that always holds.
        .unwrap_or((ThreadState::Idle, None));
    ThreadStatus {
        state,
        held: state == ThreadState::Queued && queue.iter().all(|waits| waits.run.queue_held),
        run: run.map(|seen| seen.run.id.clone()),
        run_state: run.map(|seen| seen.state),
        active: active.map(|seen| seen.run.id.clone()),
        pending,
        queue: queue.into_iter().map(|seen| seen.run.id.clone()).collect(),
    }
}

/// A run and the state that its facts show.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    run: &'a RunFacts,
    state: RunState,
}

/// The run of that id.
fn of_id<'a>(runs: &[Seen<'a>], id: &RunId) -> Option<Seen<'a>> {
    runs.iter().copied().find(|seen| seen.run.id == *id)
}

/// It has left the queue and not ended.
fn works(seen: &Seen<'_>) -> bool {
    seen.state.is_busy() && seen.state != RunState::Queued
}

/// The run that works now. Where one finishes while the next one starts, the table's precedence says which of them.
fn active<'a>(runs: &[Seen<'a>]) -> Option<Seen<'a>> {
    let rank = |seen: &Seen<'_>| {
        PRECEDENCE
            .iter()
            .position(|&(_, state)| seen.state.thread() == Some(state))
    };
    runs.iter().copied().filter(works).min_by_key(rank)
}

/// The runs that wait, next one first.
fn queue<'a>(runs: &[Seen<'a>]) -> Vec<Seen<'a>> {
    let mut queue: Vec<Seen<'a>> = runs
        .iter()
        .copied()
        .filter(|seen| seen.state == RunState::Queued)
        .collect();
    // A run without a position stands behind those that have one; runs are in the order of their ordinals.
    queue.sort_by_key(|seen| seen.run.queue_position.unwrap_or(u64::MAX));
    queue
}

/// The run that ended last: by the time of its end, then by ordinal. One that never started does not count.
fn last_ended<'a>(runs: &[Seen<'a>]) -> Option<Seen<'a>> {
    runs.iter()
        .copied()
        .filter(|seen| seen.state.is_ended() && !seen.state.is_void())
        // Ended without a time of its end: no earlier than it was asked for.
        .max_by_key(|seen| (seen.run.completed_at.unwrap_or(seen.run.requested_at), seen.run.ordinal))
}

/// Every open request, oldest first.
fn pending(requests: &[RequestFacts], runs: &[Seen<'_>], active: Option<Seen<'_>>) -> Vec<Pending> {
    let mut pending: Vec<Pending> = requests
        .iter()
        .filter_map(|request| {
            let said = observe_request(&request.kind, &request.status, &request.capability);
            let state = RequestState::INITIAL.on(said).to;
            if !state.is_busy() {
                return None;
            }
            let asked = state == RequestState::Pending;
            let class = classify_request(&request.kind);
            let capability = capability(&request.capability);
            // Where T3 names no run that we know, it can only be the one that works.
            let waits = request
                .run
                .as_ref()
                .and_then(|id| of_id(runs, id))
                .map_or(active.is_some(), |seen| works(&seen));
            Some(Pending {
                id: request.id.clone(),
                run: request.run.clone(),
                kind: request.kind.clone(),
                class,
                capability,
                holds: asked && waits && class.holds() && capability.holds(),
                answerable: asked && class.answerable() && capability.answerable(),
                mode: capability.mode(),
                created_at: request.created_at,
            })
        })
        .collect();
    pending.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    pending
}
