//! Tracked threads: what was last known of each, as the tracker left it.
//!
//! Written by `watch` alone, through a batch; read whole, at the start. `gateway` asks for single facts.

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteConnection;

use crate::lifecycle::{
    Baseline, Dispatched, RequestState, RunState, TrackedRequest, TrackedRun, TrackedThread, Watch,
};
use crate::protocol::{EnvironmentId, ProjectId, ThreadId};
use crate::store::Store;
use crate::store::columns::{integer, micros, time};
use crate::store::error::{Fault, StoreError};

/// A tracked thread and where it lives.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracked {
    /// The machine.
    pub machine: String,
    /// The machine's environment id; none where the thread was taken over from elsewhere.
    pub environment: Option<EnvironmentId>,
    /// The thread's project, once known.
    pub project_id: Option<ProjectId>,
    /// The project's title, once known.
    pub project_title: Option<String>,
    /// The thread's title, once known.
    pub title: Option<String>,
    /// The protocol that the machine spoke.
    pub protocol: u32,
    /// What the tracker keeps.
    pub thread: TrackedThread,
}

impl Store {
    /// Every tracked thread.
    pub async fn tracked(&self) -> Result<Vec<Tracked>, StoreError> {
        let mut reader = self.reader().await?;
        load(&mut reader).await.map_err(|fault| self.told(fault))
    }

    /// The conversation that a tracked thread's last message came from.
    pub async fn origin_of(&self, machine: &str, thread: &ThreadId) -> Result<Option<String>, StoreError> {
        let mut reader = self.reader().await?;
        let origin = sqlx::query_scalar("SELECT latest_origin FROM tracked_threads WHERE machine = ? AND thread = ?")
            .bind(machine)
            .bind(&**thread)
            .fetch_optional(&mut *reader)
            .await;
        origin.map(Option::flatten).map_err(|error| self.told(error.into()))
    }
}

/// Keeps a thread in place of what was kept of it, within a transaction.
pub(super) async fn upsert(connection: &mut SqliteConnection, tracked: &Tracked) -> Result<(), Fault> {
    let thread = &tracked.thread;
    let baseline = thread.baseline.as_ref();
    let key: i64 = sqlx::query_scalar(
        "INSERT INTO tracked_threads (machine, thread, environment, project_id, project_title, title, protocol, latest_on, \
         latest_origin, latest_client, every_run, baseline_ordinal, baseline_requested_at, unreachable) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (machine, thread) DO UPDATE SET \
         environment = excluded.environment, project_id = excluded.project_id, project_title = excluded.project_title, \
         title = excluded.title, protocol = excluded.protocol, latest_on = excluded.latest_on, \
         latest_origin = excluded.latest_origin, latest_client = excluded.latest_client, every_run = excluded.every_run, \
         baseline_ordinal = excluded.baseline_ordinal, baseline_requested_at = excluded.baseline_requested_at, \
         unreachable = excluded.unreachable \
         RETURNING key",
    )
    .bind(&tracked.machine)
    .bind(&*thread.thread)
    .bind(tracked.environment.as_deref())
    .bind(tracked.project_id.as_deref())
    .bind(tracked.project_title.as_deref())
    .bind(tracked.title.as_deref())
    .bind(tracked.protocol)
    .bind(thread.latest.on)
    .bind(thread.latest.origin.as_deref())
    .bind(thread.latest.client.as_deref())
    .bind(thread.every)
    .bind(baseline.map(|baseline| integer(baseline.ordinal)))
    .bind(baseline.map(|baseline| micros(baseline.requested_at)))
    .bind(thread.unreachable)
    .fetch_one(&mut *connection)
    .await?;
    replace_runs(connection, key, &thread.runs).await?;
    replace_requests(connection, key, &thread.requests).await?;
    replace_messages(connection, key, &thread.dispatched).await
}

/// Forgets a thread, within a transaction.
pub(super) async fn forget(connection: &mut SqliteConnection, machine: &str, thread: &ThreadId) -> Result<(), Fault> {
    sqlx::query("DELETE FROM tracked_threads WHERE machine = ? AND thread = ?")
        .bind(machine)
        .bind(&**thread)
        .execute(connection)
        .await?;
    Ok(())
}

async fn replace_runs(connection: &mut SqliteConnection, key: i64, runs: &[TrackedRun]) -> Result<(), Fault> {
    sqlx::query("DELETE FROM tracked_runs WHERE thread_key = ?")
        .bind(key)
        .execute(&mut *connection)
        .await?;
    for (position, run) in (0_i64..).zip(runs) {
        sqlx::query(
            "INSERT INTO tracked_runs (thread_key, position, run, requested_at, ordinal, state, watch_on, watch_origin, \
             watch_client, message, finishing_since, changed_at, stalled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(key)
        .bind(position)
        .bind(&*run.id)
        .bind(micros(run.requested_at))
        .bind(integer(run.ordinal))
        .bind(run.state.name())
        .bind(run.watch.on)
        .bind(run.watch.origin.as_deref())
        .bind(run.watch.client.as_deref())
        .bind(run.message.as_deref())
        .bind(run.finishing_since.map(micros))
        .bind(micros(run.changed_at))
        .bind(run.stalled)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn replace_requests(
    connection: &mut SqliteConnection,
    key: i64,
    requests: &[TrackedRequest],
) -> Result<(), Fault> {
    sqlx::query("DELETE FROM tracked_requests WHERE thread_key = ?")
        .bind(key)
        .execute(&mut *connection)
        .await?;
    for (position, request) in (0_i64..).zip(requests) {
        sqlx::query(
            "INSERT INTO tracked_requests (thread_key, position, request, created_at, run, state) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(key)
        .bind(position)
        .bind(&*request.id)
        .bind(micros(request.created_at))
        .bind(request.run.as_deref())
        .bind(request.state.name())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn replace_messages(connection: &mut SqliteConnection, key: i64, dispatched: &[Dispatched]) -> Result<(), Fault> {
    sqlx::query("DELETE FROM tracked_messages WHERE thread_key = ?")
        .bind(key)
        .execute(&mut *connection)
        .await?;
    for (position, dispatched) in (0_i64..).zip(dispatched) {
        sqlx::query(
            "INSERT INTO tracked_messages (thread_key, position, message, watch_on, watch_origin, watch_client, sent_at, \
             settled) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(key)
        .bind(position)
        .bind(&*dispatched.message)
        .bind(dispatched.watch.on)
        .bind(dispatched.watch.origin.as_deref())
        .bind(dispatched.watch.client.as_deref())
        .bind(micros(dispatched.at))
        .bind(dispatched.settled)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Threads that are read at a time.
const THREADS_AT_ONCE: u32 = 1_000;

/// A thread's row: key, machine, thread, environment, project id and title, title, protocol, latest watch, every, baseline,
/// unreachable.
type ThreadRow = (
    i64,
    String,
    String,
    Text,
    Text,
    Text,
    Text,
    u32,
    u8,
    Text,
    Text,
    u8,
    Option<u64>,
    Option<i64>,
    u8,
);

/// A run's row: key, id, requested at, ordinal, state, watch, message, finishing since, changed at, stalled.
type RunRow = (
    i64,
    String,
    i64,
    u64,
    String,
    u8,
    Text,
    Text,
    Text,
    Option<i64>,
    i64,
    u8,
);

/// A request's row: key, id, created at, run, state.
type RequestRow = (i64, String, i64, Text, String);

/// A message's row: key, id, watch, sent at, settled.
type MessageRow = (i64, String, u8, Text, Text, i64, u8);

type Text = Option<String>;

/// Reads a thousand threads with their parts at a time, each table's rows as one value: handed over one by one, a hundred thousand of them
/// take a start several seconds.
async fn load(connection: &mut SqliteConnection) -> Result<Vec<Tracked>, Fault> {
    let mut found = Vec::new();
    let mut last = i64::MIN;
    loop {
        let threads: Vec<ThreadRow> = rows(sqlx::query_scalar(
            "SELECT json_group_array(json_array(key, machine, thread, environment, project_id, project_title, title, protocol, \
             latest_on, latest_origin, latest_client, every_run, baseline_ordinal, baseline_requested_at, unreachable)) \
             FROM (SELECT * FROM tracked_threads WHERE key > ? ORDER BY key LIMIT ?)",
        )
        .bind(last)
        .bind(THREADS_AT_ONCE)
        .fetch_one(&mut *connection)
        .await?)?;
        let Some((to, ..)) = threads.last() else {
            return Ok(found);
        };
        let (from, to) = (last, *to);
        let runs: Vec<RunRow> = rows(sqlx::query_scalar(
            "SELECT json_group_array(json_array(thread_key, run, requested_at, ordinal, state, watch_on, watch_origin, \
             watch_client, message, finishing_since, changed_at, stalled)) FROM (SELECT * FROM tracked_runs \
             WHERE thread_key > ? AND thread_key <= ? ORDER BY thread_key, position)",
        )
        .bind(from)
        .bind(to)
        .fetch_one(&mut *connection)
        .await?)?;
        let requests: Vec<RequestRow> = rows(
            sqlx::query_scalar(
                "SELECT json_group_array(json_array(thread_key, request, created_at, run, state)) FROM (SELECT * \
             FROM tracked_requests WHERE thread_key > ? AND thread_key <= ? ORDER BY thread_key, position)",
            )
            .bind(from)
            .bind(to)
            .fetch_one(&mut *connection)
            .await?,
        )?;
        let messages: Vec<MessageRow> = rows(sqlx::query_scalar(
            "SELECT json_group_array(json_array(thread_key, message, watch_on, watch_origin, watch_client, sent_at, settled)) \
             FROM (SELECT * FROM tracked_messages WHERE thread_key > ? AND thread_key <= ? ORDER BY thread_key, position)",
        )
        .bind(from)
        .bind(to)
        .fetch_one(&mut *connection)
        .await?)?;
        let (mut runs, mut requests) = (runs.into_iter().peekable(), requests.into_iter().peekable());
        let mut messages = messages.into_iter().peekable();
        for row in threads {
            let key = row.0;
            let mut tracked = thread(row)?;
            while let Some(row) = runs.next_if(|row| row.0 == key) {
                tracked.thread.runs.push(run(row)?);
            }
            while let Some(row) = requests.next_if(|row| row.0 == key) {
                tracked.thread.requests.push(request(row)?);
            }
            while let Some(row) = messages.next_if(|row| row.0 == key) {
                tracked.thread.dispatched.push(message(row)?);
            }
            found.push(tracked);
        }
        last = to;
    }
}

/// The rows of one value.
#[allow(clippy::needless_pass_by_value)]
fn rows<T: DeserializeOwned>(value: String) -> Result<Vec<T>, Fault> {
    serde_json::from_str(&value).map_err(|_| Fault::Value("a row of a tracked thread with what no version writes"))
}

fn thread(row: ThreadRow) -> Result<Tracked, Fault> {
    let (
        _,
        machine,
        thread,
        environment,
        project_id,
        project_title,
        title,
        protocol,
        on,
        origin,
        client,
        every,
        ordinal,
        at,
        unreachable,
    ) = row;
    let baseline = match (ordinal, at) {
        (Some(ordinal), Some(at)) => Some(Baseline {
            ordinal,
            requested_at: time(at)?,
        }),
        (None, _) | (_, None) => None,
    };
    Ok(Tracked {
        machine,
        environment: environment.map(Into::into),
        project_id: project_id.map(Into::into),
        project_title,
        title,
        protocol,
        thread: TrackedThread {
            thread: thread.into(),
            latest: watch(on, origin, client),
            every: every != 0,
            baseline,
            runs: Vec::new(),
            requests: Vec::new(),
            dispatched: Vec::new(),
            unreachable: unreachable != 0,
        },
    })
}

fn watch(on: u8, origin: Text, client: Text) -> Watch {
    Watch {
        on: on != 0,
        origin,
        client,
    }
}

fn run(row: RunRow) -> Result<TrackedRun, Fault> {
    let (_, id, requested_at, ordinal, word, on, origin, client, message, finishing_since, changed_at, stalled) = row;
    let Some(state) = RunState::parse(&word) else {
        return Err(Fault::Word {
            table: "tracked_runs",
            row: format!("`{id}`"),
            word,
        });
    };
    Ok(TrackedRun {
        id: id.into(),
        requested_at: time(requested_at)?,
        ordinal,
        state,
        watch: watch(on, origin, client),
        message: message.map(Into::into),
        finishing_since: finishing_since.map(time).transpose()?,
        changed_at: time(changed_at)?,
        stalled: stalled != 0,
    })
}

fn request((_, id, created_at, run, word): RequestRow) -> Result<TrackedRequest, Fault> {
    let Some(state) = RequestState::parse(&word) else {
        return Err(Fault::Word {
            table: "tracked_requests",
            row: format!("`{id}`"),
            word,
        });
    };
    Ok(TrackedRequest {
        id: id.into(),
        created_at: time(created_at)?,
        run: run.map(Into::into),
        state,
    })
}

fn message((_, id, on, origin, client, sent_at, settled): MessageRow) -> Result<Dispatched, Fault> {
    Ok(Dispatched {
        message: id.into(),
        watch: watch(on, origin, client),
        at: time(sent_at)?,
        settled: settled != 0,
    })
}
