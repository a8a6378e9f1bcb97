//! Tracked threads: what was last known of each, as the tracker left it.
//!
//! Written by `watch` alone, through a batch; read whole, at the start. `gateway` asks for single facts.

use sqlx::sqlite::SqliteConnection;

use crate::lifecycle::{Dispatched, TrackedRequest, TrackedRun, TrackedThread};
use crate::protocol::{EnvironmentId, ProjectId, ThreadId};
use crate::store::Store;
use crate::store::columns::{integer, micros};
use crate::store::error::{Fault, StoreError};
use crate::store::tracked_rows;

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
        let mut all = Vec::new();
        self.for_each_tracked(|tracked| all.push(tracked)).await?;
        Ok(all)
    }

    /// Hands every tracked thread over, one by one: all at once, a hundred thousand take more room than what is made of them.
    pub async fn for_each_tracked(&self, take: impl FnMut(Tracked)) -> Result<(), StoreError> {
        let reader = self.reader().await?;
        let read = tracked_rows::read(reader, take).await;
        read.map_err(|fault| self.told(fault))
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
