//! Facts in few words.

use jiff::Timestamp;
use t3code_mcp::lifecycle::{RequestFacts, RunFacts, ThreadFacts};
use t3code_mcp::protocol::{MessageId, RunId, RuntimeRequestId};

/// A time, in seconds from an arbitrary begin.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time that exists")
}

pub(crate) fn run_id(ordinal: u64) -> RunId {
    RunId::from(format!("run-{ordinal}"))
}

pub(crate) fn request_id(name: &str) -> RuntimeRequestId {
    RuntimeRequestId::from(name.to_owned())
}

/// A run in one of T3's statuses, asked for and (unless it waits) begun and ended in the order of ordinals.
pub(crate) fn run(ordinal: u64, status: &str) -> RunFacts {
    let base = i64::try_from(ordinal).expect("small") * 100;
    let ended = ["completed", "interrupted", "failed", "cancelled", "rolled_back"].contains(&status);
    let waits = status == "queued";
    RunFacts {
        id: run_id(ordinal),
        ordinal,
        status: status.to_owned(),
        requested_at: at(base),
        started_at: (!waits).then(|| at(base + 1)),
        completed_at: ended.then(|| at(base + 50)),
        queue_held: false,
        queue_position: waits.then_some(ordinal),
        promoted_into: None,
        continuation_of: None,
        user_message: MessageId::from(format!("message-{ordinal}")),
    }
}

/// A run that was taken out of the queue.
pub(crate) fn unqueued(ordinal: u64) -> RunFacts {
    RunFacts {
        started_at: None,
        ..run(ordinal, "cancelled")
    }
}

/// A live pending request of a run.
pub(crate) fn request(name: &str, kind: &str, of: u64) -> RequestFacts {
    RequestFacts {
        id: request_id(name),
        run: Some(run_id(of)),
        kind: kind.to_owned(),
        status: "pending".to_owned(),
        capability: "live".to_owned(),
        created_at: at(1000),
    }
}

pub(crate) fn thread(runs: Vec<RunFacts>, requests: Vec<RequestFacts>) -> ThreadFacts {
    ThreadFacts {
        imported: false,
        deleted: false,
        runs,
        requests,
    }
}
