//! Threads for unit tests, built a fact at a time.

use jiff::Timestamp;

use crate::lifecycle::{RequestFacts, RunFacts, ThreadFacts};
use crate::machine::{Message, ModelSelection, Thread, ThreadHead};
use crate::protocol::{MessageId, ProjectId, ProviderInstanceId, RunId, RuntimeRequestId, ThreadId};

/// So many seconds after noon.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap_or_default()
}

pub(crate) fn run_id(ordinal: u64) -> RunId {
    RunId(format!("run-{ordinal}"))
}

/// A run with its message `m-<ordinal>`; ended runs end ten seconds after they began.
pub(crate) fn run(ordinal: u64, status: &str) -> RunFacts {
    let begun = i64::try_from(ordinal).unwrap_or(0) * 100;
    let ended = ["completed", "failed", "interrupted", "cancelled"].contains(&status);
    RunFacts {
        id: run_id(ordinal),
        ordinal,
        status: status.to_owned(),
        requested_at: at(begun),
        started_at: (status != "queued").then(|| at(begun + 1)),
        completed_at: ended.then(|| at(begun + 11)),
        queue_held: false,
        queue_position: (status == "queued").then_some(1),
        promoted_into: None,
        continuation_of: None,
        user_message: MessageId(format!("m-{ordinal}")),
    }
}

pub(crate) fn request(id: &str, kind: &str, run: u64) -> RequestFacts {
    RequestFacts {
        id: RuntimeRequestId(id.to_owned()),
        run: Some(run_id(run)),
        kind: kind.to_owned(),
        status: "pending".to_owned(),
        capability: "live".to_owned(),
        created_at: at(500),
    }
}

pub(crate) fn message(id: &str, run: Option<u64>, role: &str, text: &str) -> Message {
    Message {
        id: MessageId(id.to_owned()),
        run: run.map(run_id),
        role: role.to_owned(),
        text: text.to_owned(),
        streaming: false,
        at: at(i64::try_from(run.unwrap_or(0)).unwrap_or(0) * 100 + 5),
    }
}

/// A thread with these runs, each with its prompt.
pub(crate) fn thread(runs: Vec<RunFacts>) -> Thread {
    let model = ModelSelection {
        instance: ProviderInstanceId("codex".to_owned()),
        model: "gpt-5".to_owned(),
        options: Vec::new(),
    };
    Thread {
        sequence: 1,
        head: ThreadHead {
            id: ThreadId("t".to_owned()),
            project: ProjectId("p".to_owned()),
            title: "Fix the build".to_owned(),
            model,
            runtime_mode: "full-access".to_owned(),
            interaction_mode: "default".to_owned(),
            branch: None,
            worktree: None,
            archived: false,
        },
        messages: runs
            .iter()
            .map(|run| message(&run.user_message.0, Some(run.ordinal), "user", "do it"))
            .collect(),
        facts: ThreadFacts {
            imported: false,
            deleted: false,
            runs,
            requests: Vec::new(),
        },
        items: Vec::new(),
        plan: Vec::new(),
        files: Vec::new(),
        checkpoints: Vec::new(),
        background: Vec::new(),
        unknown_words: Vec::new(),
        usage: None,
        models: Vec::new(),
        active_turn: None,
        undelivered: Vec::new(),
        session: None,
        resumes_at: None,
        updated_at: at(1_000),
        partial: false,
    }
}
