//! Events: written once under an id that says what they are of, read by a cursor.
//!
//! A cursor is the number of the last event that its holder has. Numbers rise in the order of the commits and are never used again.

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::protocol::{ProjectId, ThreadId};
use crate::store::Store;
use crate::store::columns::{Columns, count, integer, micros};
use crate::store::error::{Fault, StoreError};

/// How many events a page holds at most.
pub const PAGE_EVENTS: u32 = 1_000;

/// An event to be kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewEvent {
    /// What it is of, and so its name for ever.
    pub id: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The machine.
    pub machine: String,
    /// The thread.
    pub thread: ThreadId,
    /// The thread's project, if known.
    pub project_id: Option<ProjectId>,
    /// The client that asked for what it is of.
    pub client: Option<String>,
    /// Its kind: `completed`, `question`, …
    pub kind: String,
    /// What is told, as JSON.
    pub body: String,
    /// It is to be delivered.
    pub deliver: bool,
}

/// An event that was kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// Its number.
    pub seq: u64,
    /// What it is of.
    pub id: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The machine.
    pub machine: String,
    /// The thread.
    pub thread: ThreadId,
    /// The thread's project, if known.
    pub project_id: Option<ProjectId>,
    /// The client that asked for what it is of.
    pub client: Option<String>,
    /// Its kind.
    pub kind: String,
    /// What is told, as JSON.
    pub body: String,
}

/// Which events are wanted; what is left out is not asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventFilter {
    /// Of this thread alone.
    pub thread: Option<ThreadId>,
    /// Of these machines alone.
    pub machines: Option<Vec<String>>,
}

/// Events behind a cursor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventPage {
    /// They, oldest first.
    pub events: Vec<Event>,
    /// Where to go on: the last of the page, or the newest event of all where no more was wanted.
    pub cursor: u64,
    /// Events behind the given cursor are not kept any more, or the cursor is none of this ledger's.
    pub truncated: bool,
}

impl Store {
    /// The events behind a cursor, oldest first; `limit` is at most [`PAGE_EVENTS`]. 0 is the cursor of who has none.
    pub async fn events_after(&self, cursor: u64, limit: u32, filter: &EventFilter) -> Result<EventPage, StoreError> {
        let limit = limit.clamp(1, PAGE_EVENTS);
        let mut reader = self.reader().await?;
        page(&mut reader, cursor, limit, filter)
            .await
            .map_err(|fault| self.told(fault))
    }

    /// The newest events before a number, newest first; `limit` is at most [`PAGE_EVENTS`].
    pub async fn events_before(&self, before: u64, limit: u32, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        let limit = limit.clamp(1, PAGE_EVENTS);
        let mut reader = self.reader().await?;
        newest_first(&mut reader, before, limit, filter)
            .await
            .map_err(|fault| self.told(fault))
    }

    /// The event of that id.
    pub async fn event(&self, id: &str) -> Result<Option<Event>, StoreError> {
        let mut reader = self.reader().await?;
        find(&mut reader, id).await.map_err(|fault| self.told(fault))
    }
}

/// The columns that [`event`] reads, in its order, with what follows.
macro_rules! select {
    ($rest:literal) => {
        sqlx::query(concat!(
            "SELECT seq, id, occurred_at, machine, thread, project_id, client, kind, body FROM events ",
            $rest
        ))
    };
}

async fn find(connection: &mut SqliteConnection, id: &str) -> Result<Option<Event>, Fault> {
    let row = select!("WHERE id = ?").bind(id).fetch_optional(connection).await?;
    row.as_ref().map(event).transpose()
}

async fn newest_first(
    connection: &mut SqliteConnection,
    before: u64,
    limit: u32,
    filter: &EventFilter,
) -> Result<Vec<Event>, Fault> {
    let machines = listed(filter)?;
    let rows = match &filter.thread {
        Some(thread) => {
            select!(
                "WHERE thread = ?1 AND seq < ?2 \
                 AND (?3 IS NULL OR machine IN (SELECT value FROM json_each(?3))) ORDER BY seq DESC LIMIT ?4"
            )
            .bind(&**thread)
            .bind(integer(before))
            .bind(machines)
            .bind(limit)
            .fetch_all(connection)
            .await?
        }
        None => {
            select!(
                "WHERE seq < ?1 \
                 AND (?2 IS NULL OR machine IN (SELECT value FROM json_each(?2))) ORDER BY seq DESC LIMIT ?3"
            )
            .bind(integer(before))
            .bind(machines)
            .bind(limit)
            .fetch_all(connection)
            .await?
        }
    };
    rows.iter().map(event).collect()
}

/// The machines that a filter names, as the engine reads them.
fn listed(filter: &EventFilter) -> Result<Option<String>, Fault> {
    let machines = filter.machines.as_ref().map(serde_json::to_string).transpose();
    machines.map_err(|_| Fault::Value("a machine without a name"))
}

async fn page(
    connection: &mut SqliteConnection,
    cursor: u64,
    limit: u32,
    filter: &EventFilter,
) -> Result<EventPage, Fault> {
    let newest = newest(connection).await?;
    let pruned: i64 = sqlx::query_scalar("SELECT pruned_through FROM ledger")
        .fetch_one(&mut *connection)
        .await?;
    let foreign = cursor > newest;
    let after = if foreign { 0 } else { cursor };
    let machines = listed(filter)?;
    let rows = match &filter.thread {
        Some(thread) => {
            select!(
                "WHERE thread = ?1 AND seq > ?2 AND seq <= ?3 \
                 AND (?4 IS NULL OR machine IN (SELECT value FROM json_each(?4))) ORDER BY seq LIMIT ?5"
            )
            .bind(&**thread)
            .bind(integer(after))
            .bind(integer(newest))
            .bind(machines)
            .bind(limit)
            .fetch_all(connection)
            .await?
        }
        None => {
            select!(
                "WHERE seq > ?1 AND seq <= ?2 \
                 AND (?3 IS NULL OR machine IN (SELECT value FROM json_each(?3))) ORDER BY seq LIMIT ?4"
            )
            .bind(integer(after))
            .bind(integer(newest))
            .bind(machines)
            .bind(limit)
            .fetch_all(connection)
            .await?
        }
    };
    let events: Vec<Event> = rows.iter().map(event).collect::<Result<_, _>>()?;
    let full = events.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
    let last = events.last().map(|event| event.seq).filter(|_| full);
    Ok(EventPage {
        events,
        cursor: last.unwrap_or(newest),
        truncated: foreign || after < count(pruned)?,
    })
}

/// The number of the newest event that there ever was.
pub(super) async fn newest(connection: &mut SqliteConnection) -> Result<u64, Fault> {
    let newest: Option<i64> = sqlx::query_scalar("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        .fetch_optional(connection)
        .await?;
    count(newest.unwrap_or_default())
}

/// Keeps an event, within a transaction; none where it is there already.
pub(super) async fn insert(connection: &mut SqliteConnection, new: &NewEvent) -> Result<Option<u64>, Fault> {
    // Not by ON CONFLICT: that takes a number for each event that is there already.
    let seq: Option<i64> = sqlx::query_scalar(
        "INSERT INTO events (id, occurred_at, machine, thread, project_id, client, kind, body) \
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE NOT EXISTS (SELECT 1 FROM events WHERE id = ?1) RETURNING seq",
    )
    .bind(&new.id)
    .bind(micros(new.occurred_at))
    .bind(&new.machine)
    .bind(&*new.thread)
    .bind(new.project_id.as_deref())
    .bind(new.client.as_deref())
    .bind(&new.kind)
    .bind(&new.body)
    .fetch_optional(connection)
    .await?;
    seq.map(count).transpose()
}

fn event(row: &SqliteRow) -> Result<Event, Fault> {
    event_of(&mut Columns::of(row))
}

/// An event from its columns, in the order of their table.
pub(super) fn event_of(columns: &mut Columns<'_>) -> Result<Event, Fault> {
    Ok(Event {
        seq: columns.count()?,
        id: columns.take()?,
        occurred_at: columns.time()?,
        machine: columns.take()?,
        thread: columns.id()?,
        project_id: columns.id_if()?,
        client: columns.take()?,
        kind: columns.take()?,
        body: columns.take()?,
    })
}
