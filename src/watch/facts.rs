//! What the trackers take, made of what a machine shows: rows and reads, in the lifecycle's words.

use crate::lifecycle::{ReadFacts, RowFacts, RunFacts, TrackedRun};
use crate::machine::{Thread, ThreadRow};
use crate::protocol::{MessageId, RunId};

/// T3's word for a message that a person or a client wrote.
const USER: &str = "user";

pub(super) fn row_facts(row: &ThreadRow) -> RowFacts {
    RowFacts {
        sequence: row.sequence,
        status: row.status.clone(),
        active_run: row.active_run.clone(),
        activity: row.activity.clone(),
        latest_run: row.latest_run.clone(),
        latest_run_requested_at: row.latest_run_requested_at,
        latest_run_completed_at: row.latest_run_completed_at,
        pending: row.pending.as_ref().map(|pending| pending.id.clone()),
        deleted: row.deleted,
        updated_at: row.updated_at,
    }
}

/// User messages, each with its run: how a message of ours is found.
pub(super) fn messages(thread: &Thread) -> Vec<(MessageId, Option<RunId>)> {
    let users = thread.messages.iter().filter(|message| message.role == USER);
    users.map(|message| (message.id.clone(), message.run.clone())).collect()
}

pub(super) fn read_facts<'a>(thread: &'a Thread, messages: &'a [(MessageId, Option<RunId>)]) -> ReadFacts<'a> {
    ReadFacts {
        // A thread's own sequence says nothing about the shell's.
        sequence: 0,
        updated_at: thread.updated_at,
        partial: thread.partial,
        facts: &thread.facts,
        messages,
    }
}

/// A run of a protocol whose runs are known by their messages, as it was last known.
pub(super) fn run_facts(run: &TrackedRun) -> RunFacts {
    let status = if run.state.is_ended() {
        run.state.as_str()
    } else {
        "running"
    };
    RunFacts {
        id: run.id.clone(),
        ordinal: run.ordinal,
        status: status.to_owned(),
        requested_at: run.requested_at,
        started_at: None,
        completed_at: None,
        queue_held: false,
        queue_position: None,
        promoted_into: None,
        continuation_of: None,
        user_message: MessageId(run.id.0.clone()),
    }
}
