//! What is known of a thread, in no protocol's words: the input of the fold.

use jiff::Timestamp;

use crate::protocol::{MessageId, RunId, RuntimeRequestId};

/// Everything about a thread that its state depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadFacts {
    /// T3 says that the thread is deleted, or answers 404 for its id.
    pub deleted: bool,
    /// T3 took the thread over from its older self: what it did before may be known by other ids, that of its message or its time.
    pub imported: bool,
    /// Every run that T3 showed, in any order.
    pub runs: Vec<RunFacts>,
    /// Every runtime request that T3 showed, in any order.
    pub requests: Vec<RequestFacts>,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// T3's id of the run.
    pub id: RunId,
    /// Its place in the thread, from 1.
    pub ordinal: u64,
    /// T3's own word for its status; the generated mapping makes an observation of it.
    pub status: String,
    /// When it was asked for. With the id, it names the run for ever: a restored database may use the id again.
    pub requested_at: Timestamp,
    /// When it left the queue, if it did: T3's `startedAt`, or the time of its first turn item where T3 has none yet (a run that
    /// was cancelled while it was being prepared has turn items; one that was taken out of the queue has not).
    pub started_at: Option<Timestamp>,
    /// When it ended, if it did.
    pub completed_at: Option<Timestamp>,
    /// T3 holds the queue that this run waits in.
    pub queue_held: bool,
    /// Its place in the queue, from 1.
    pub queue_position: Option<u64>,
    /// The run that took this one's message over (promoted while queued), which is how T3 shows a promotion: the message that
    /// the run names as its own belongs to another run. The run ends without an event.
    pub promoted_into: Option<RunId>,
    /// The run that this one continues (after a restart or a usage limit).
    pub continuation_of: Option<RunId>,
    /// The message that T3 names for the run: not proof of which message made it (steering overwrites it).
    pub user_message: MessageId,
}

/// One runtime request: an approval or a question. A secret request, which T3 shows as a turn item only, comes as one too: its
/// item's id, type and `secretStatus` are id, kind and status, and its capability is `live`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestFacts {
    /// T3's id of the request.
    pub id: RuntimeRequestId,
    /// The run that it belongs to, if T3 says.
    pub run: Option<RunId>,
    /// T3's own word for its kind (`command`, `user_input`, …).
    pub kind: String,
    /// T3's own word for its status (`pending`, `resolved`, …).
    pub status: String,
    /// T3's own word for the way an answer can go (`live`, `message`, `not_resumable`).
    pub capability: String,
    /// When it was asked.
    pub created_at: Timestamp,
}
