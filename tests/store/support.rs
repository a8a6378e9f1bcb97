//! What the tests begin with.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

use t3code_mcp::lifecycle::{
    Baseline, Dispatched, RequestState, RunState, TrackedRequest, TrackedRun, TrackedThread, Watch,
};
use t3code_mcp::protocol::ThreadId;
use t3code_mcp::store::{
    Batch, EventFilter, LEDGER_FILE, NewEvent, NewReceipt, PAGE_EVENTS, ReceiptKind, Store, Tracked,
};

/// A ledger in a directory of its own.
pub async fn ledger() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    (folder, store)
}

/// The same file, opened anew.
pub async fn again(folder: &TempDir, store: Store) -> Store {
    store.close().await;
    Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap()
}

/// So many seconds after a moment in 2026.
pub fn at(seconds: i64) -> Timestamp {
    "2026-11-30T10:00:00.123Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

pub fn watch() -> Watch {
    Watch {
        on: true,
        origin: Some("chat:42".to_owned()),
        client: Some("dispatcher".to_owned()),
    }
}

pub fn receipt(request: &str) -> NewReceipt {
    NewReceipt {
        client: "dispatcher".to_owned(),
        request: request.to_owned(),
        explicit: false,
        payload_hash: [7; 32],
        machine: "mac".to_owned(),
        environment: Some("env".to_owned().into()),
        thread: format!("thread of {request}").into(),
        message: format!("message of {request}").into(),
        kind: ReceiptKind::Launch,
        watch: watch(),
        baseline: None,
        created_at: at(0),
        protocol: 2,
    }
}

/// A thread with something in every column.
pub fn tracked(thread: &str) -> Tracked {
    Tracked {
        machine: "mac".to_owned(),
        environment: Some("env".to_owned().into()),
        project_id: Some("project".to_owned().into()),
        project_title: Some("A project".to_owned()),
        title: Some("A thread – with a ü".to_owned()),
        protocol: 2,
        thread: TrackedThread {
            thread: thread.to_owned().into(),
            latest: watch(),
            every: true,
            baseline: Some(Baseline {
                ordinal: 3,
                requested_at: at(-60),
            }),
            runs: vec![run(thread, 4, RunState::Finishing), run(thread, 5, RunState::Queued)],
            requests: vec![TrackedRequest {
                id: format!("request of {thread}").into(),
                created_at: at(5),
                run: Some(format!("run 4 of {thread}").into()),
                state: RequestState::Pending,
            }],
            dispatched: vec![Dispatched {
                message: format!("message of {thread}").into(),
                watch: watch(),
                at: at(6),
                settled: false,
            }],
            unreachable: false,
        },
    }
}

pub fn run(thread: &str, ordinal: u64, state: RunState) -> TrackedRun {
    TrackedRun {
        id: format!("run {ordinal} of {thread}").into(),
        requested_at: at(1),
        ordinal,
        state,
        watch: watch(),
        message: Some("message".to_owned().into()),
        finishing_since: Some(at(3)),
        changed_at: at(4),
        stalled: true,
    }
}

pub fn event(id: &str, thread: &str) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        occurred_at: at(10),
        machine: "mac".to_owned(),
        thread: ThreadId(thread.to_owned()),
        project_id: Some("project".to_owned().into()),
        client: Some("dispatcher".to_owned()),
        kind: "completed".to_owned(),
        body: format!("{{\"id\":\"{id}\"}}"),
        deliver: true,
    }
}

/// A batch of these events alone.
pub fn of_events(events: Vec<NewEvent>) -> Batch {
    Batch {
        at: at(10),
        events,
        ..Batch::default()
    }
}

/// A connection of the test's own to the file.
pub async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    options.create_if_missing(false).connect().await.unwrap()
}

/// Every event's id, oldest first.
pub async fn event_ids(store: &Store) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = 0;
    loop {
        let page = store
            .events_after(cursor, PAGE_EVENTS, &EventFilter::default())
            .await
            .unwrap();
        if page.events.is_empty() {
            return found;
        }
        found.extend(page.events.into_iter().map(|event| event.id));
        cursor = page.cursor;
    }
}
