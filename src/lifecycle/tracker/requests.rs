//! What a read makes of the requests: those of watched runs are told once, the others are not kept, so that whoever switches a
//! watch on hears of what is still pending.

use jiff::Timestamp;

use super::runs::{Seen, of_run};
use super::{Told, Tracker};
use crate::lifecycle::{
    RequestDriver, RequestFacts, RequestState, ThreadFacts, TrackedRequest, TrackedRun, observe_request,
};
use crate::protocol::RunId;

/// How many closed requests are kept until their runs have ended. An older one is not taken for a new one: T3 shows it closed.
const MOST_CLOSED: usize = 64;

impl Tracker {
    /// Drives each request by what the read shows of it.
    pub(super) fn ask_requests(&mut self, facts: &ThreadFacts, seen: &mut Seen, now: Timestamp) {
        let mut requests: Vec<&RequestFacts> = facts.requests.iter().collect();
        requests.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        for request in requests {
            self.ask_request(request, facts, seen, now);
        }
    }

    fn ask_request(&mut self, request: &RequestFacts, facts: &ThreadFacts, seen: &mut Seen, now: Timestamp) {
        let known = self
            .thread
            .requests
            .iter()
            .position(|one| one.id == request.id && one.created_at == request.created_at);
        let before = known.and_then(|at| self.thread.requests.get(at));
        let mut driver = RequestDriver::at(before.map_or(RequestState::INITIAL, |one| one.state));
        driver.handle(observe_request(&request.kind, &request.status, &request.capability));
        let event = driver.poll_event();
        let owner = self.owner(request, facts);
        let ended = owner.and_then(|run| seen.ended.iter().find(|(id, _)| *id == run.id));
        let listens = owner.filter(|run| run.watch.on && (run.state.is_busy() || ended.is_some()));
        if known.is_none() && listens.is_none() || event.is_some() && listens.is_none() {
            return;
        }
        if let (Some(event), Some(run)) = (event, listens) {
            let told = Told {
                request: Some(request.id.clone()),
                state: event.as_str(),
                ..of_run(run, event.into(), request.created_at)
            };
            let at = ended.map_or(request.created_at, |(_, end)| request.created_at.min(*end));
            seen.asked(at, run.ordinal, told);
        }
        let state = driver.state();
        match known.and_then(|at| self.thread.requests.get_mut(at)) {
            Some(known) if known.state == state => {}
            Some(known) => {
                known.state = state;
                self.moved_at = now;
            }
            // One that was closed when it was first seen can never be told.
            None if state.is_busy() => {
                self.thread.requests.push(TrackedRequest {
                    id: request.id.clone(),
                    created_at: request.created_at,
                    run: request.run.clone(),
                    state,
                });
                self.moved_at = now;
            }
            None => {}
        }
    }

    /// The run that a request belongs to; where T3 names none that is there, it can only be the one that works.
    fn owner(&self, request: &RequestFacts, facts: &ThreadFacts) -> Option<&TrackedRun> {
        let there = |id: &&RunId| facts.runs.iter().any(|run| run.id == **id);
        let mut runs = self.thread.runs.iter();
        match request.run.as_ref().filter(there) {
            Some(id) => runs.find(|run| run.id == *id),
            None => runs.find(|run| works(run)),
        }
    }

    /// Forgets the requests of runs that have ended, and the oldest of many that are closed.
    pub(super) fn prune_requests(&mut self) {
        let runs = &self.thread.runs;
        let any_open = runs.iter().any(|run| run.state.is_busy());
        let of_open = |id: &RunId| {
            let run = runs.iter().find(|run| run.id == *id);
            run.map_or(any_open, |run| run.state.is_busy())
        };
        let requests = &mut self.thread.requests;
        requests.retain(|request| request.run.as_ref().map_or(any_open, of_open));
        let closed = requests.iter().filter(|request| !request.state.is_busy()).count();
        let mut too_many = closed.saturating_sub(MOST_CLOSED);
        requests.retain(|request| {
            let drop = !request.state.is_busy() && too_many > 0;
            too_many -= usize::from(drop);
            !drop
        });
    }
}

/// It has left the queue and not ended.
pub(super) fn works(run: &TrackedRun) -> bool {
    run.state.is_busy() && run.state != crate::lifecycle::RunState::Queued
}
