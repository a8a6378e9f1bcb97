//! What facts are observed as: T3's words by the table, refined by what else is known of the run or request.

use super::generated::protocol_2::request_status;
use super::{
    RequestFacts, RequestObservation, RequestState, RunFacts, RunObservation, ThreadFacts, capability,
    classify_request, observe_run,
};

/// What a run's facts say, among those of its thread.
///
/// T3 has one word for a run that was cancelled at work and for one that was taken out of the queue; whether it had left the
/// queue tells them apart, and where its message went.
pub fn observe(run: &RunFacts, thread: &ThreadFacts) -> RunObservation {
    let said = observe_run(&run.status);
    if said != RunObservation::Cancelled || run.started_at.is_some() {
        return said;
    }
    if run.promoted_into.is_some() {
        return RunObservation::Promoted;
    }
    if thread
        .runs
        .iter()
        .any(|other| other.continuation_of.as_ref() == Some(&run.id))
    {
        return RunObservation::Continued;
    }
    RunObservation::NeverStarted
}

/// What a request's kind, status and capability say together (T3's words).
pub fn observe_request(kind: &str, status: &str, can_answer: &str) -> RequestObservation {
    if let Some(closed) = request_status(status) {
        return closed;
    }
    if capability(can_answer).asks() {
        classify_request(kind).asks()
    } else {
        RequestObservation::Silent
    }
}

/// Whether a request is one to tell of, seen like this for the first time.
pub fn asks(request: &RequestFacts) -> bool {
    let observation = observe_request(&request.kind, &request.status, &request.capability);
    RequestState::INITIAL.on(observation).emit.is_some()
}
