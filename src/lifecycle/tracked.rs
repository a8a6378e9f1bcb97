//! What is kept of a tracked thread from one start of the program to the next: plain values, in no engine's words.
//!
//! Made and moved on by the tracker alone, kept by `store`. Nothing here is ever concluded from what is absent.

use jiff::Timestamp;

use super::{RequestState, RunState};
use crate::protocol::{MessageId, RunId, RuntimeRequestId, ThreadId};

/// Whether somebody wants to be told of a run, and as what it is reported.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Watch {
    /// Its events are wanted.
    pub on: bool,
    /// The conversation that it came from, echoed verbatim.
    pub origin: Option<String>,
    /// The client that asked for it.
    pub client: Option<String>,
}

/// Where history ends: a run is history iff both its ordinal and the time that it was asked for are no later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Baseline {
    /// The last ordinal that is history.
    pub ordinal: u64,
    /// The last `requestedAt` that is history.
    pub requested_at: Timestamp,
}

/// A run that is followed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrackedRun {
    /// T3's id of the run.
    pub id: RunId,
    /// When it was asked for. With the id, it names the run for ever.
    pub requested_at: Timestamp,
    /// Its place in the thread, from 1.
    pub ordinal: u64,
    /// What was last known of it.
    pub state: RunState,
    /// What it is reported as.
    pub watch: Watch,
    /// The message of ours that made it, steered it or that it took over; none where nobody dispatched it.
    pub message: Option<MessageId>,
    /// Since when it is finishing, while it is.
    pub finishing_since: Option<Timestamp>,
    /// When its state last changed.
    pub changed_at: Timestamp,
    /// It was told that nothing moves.
    pub stalled: bool,
}

/// A request of a watched run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrackedRequest {
    /// T3's id of the request.
    pub id: RuntimeRequestId,
    /// When it was asked.
    pub created_at: Timestamp,
    /// The run that it belongs to, if T3 says.
    pub run: Option<RunId>,
    /// What was last known of it.
    pub state: RequestState,
}

/// A message of ours whose run was not seen yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dispatched {
    /// Its id.
    pub message: MessageId,
    /// What its run is to be reported as.
    pub watch: Watch,
    /// When it was sent.
    pub at: Timestamp,
    /// T3 is known to have taken it: it can be missed now.
    pub settled: bool,
}

/// A thread that is followed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrackedThread {
    /// T3's id of the thread.
    pub thread: ThreadId,
    /// What a run that nobody dispatched is reported as.
    pub latest: Watch,
    /// Every run of the thread is watched.
    pub every: bool,
    /// Where its history ends, once known. Runs that are followed stand in `runs`, whatever this says.
    pub baseline: Option<Baseline>,
    /// The runs that are followed.
    pub runs: Vec<TrackedRun>,
    /// The requests that are followed.
    pub requests: Vec<TrackedRequest>,
    /// The messages of ours whose runs are to come.
    pub dispatched: Vec<Dispatched>,
    /// It was told that the machine is away; until it is back.
    pub unreachable: bool,
}
