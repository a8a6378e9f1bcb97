//! Deliveries: which event is sent next, and what came of it.
//!
//! Within a thread an event goes only when the one before is delivered, dead, or failed often enough; that is kept as a mark on the row
//! (`blocked`), moved on with each record, so that a claim never walks through those that have to wait. Used by `delivery` alone.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::protocol::{ProjectId, ThreadId};
use crate::store::Store;
use crate::store::columns::{Columns, integer, micros, time};
use crate::store::error::{Fault, StoreError};

/// After so many failed attempts the later events of the thread pass.
pub const PASSED_AFTER_ATTEMPTS: u32 = 4;

/// An event that was claimed: it is the holder's to send until the lease is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Due {
    /// Its number.
    pub seq: u64,
    /// Its id.
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
    /// What is to be sent: as it was frozen, else as the event has it.
    pub body: String,
    /// An earlier attempt was recorded, so the body goes as it is.
    pub frozen: bool,
    /// Failed attempts so far; those before it was sent again by hand do not count.
    pub attempts: u32,
    /// When this or the first attempt began: stays the same from the first claim on, recorded or not.
    pub first_attempt_at: Timestamp,
    /// An earlier event of its thread was still undelivered when it was first sent.
    pub out_of_order: bool,
    /// Sent again by hand.
    pub resent: bool,
    /// Which claim of it this is.
    pub claim: u32,
}

/// What came of an attempt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// When it ended.
    pub at: Timestamp,
    /// What is next.
    pub outcome: AttemptOutcome,
    /// The answer's status, if there was an answer.
    pub status: Option<u16>,
    /// What went wrong, in words that are fit to be shown.
    pub error: Option<String>,
    /// What was sent, where it is not the event's own body: later attempts send the same.
    pub body: Option<String>,
}

/// What is next for an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AttemptOutcome {
    /// Nothing: it was delivered.
    Delivered,
    /// Another attempt, then.
    Retry(Timestamp),
    /// Nothing: it is given up.
    Dead,
}

/// What came of the wish to send an event again. Processes of the gateway tell it each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resend {
    /// It is due now.
    Queued,
    /// It is due, and waits for an earlier event of its thread.
    Behind,
    /// It is being sent just now.
    InFlight,
    /// It was delivered: it is not sent twice.
    Delivered,
    /// It was never meant to be delivered.
    NotForDelivery,
    /// There is no such event.
    Unknown,
}

impl Store {
    /// Claims up to `max` events that are due, at most one of each thread, until `lease`. Nobody else gets them before.
    pub async fn claim_due(&self, now: Timestamp, lease: Timestamp, max: u32) -> Result<Vec<Due>, StoreError> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut claimed = Vec::new();
                for _ in 0..max {
                    let Some(due) = claim(connection, now, lease).await? else {
                        break;
                    };
                    claimed.push(due);
                }
                Ok(claimed)
            })
        })
        .await
    }

    /// Keeps what came of a claimed event's attempt. What a claim that ran out has to say counts only if it was delivered; false where it
    /// does not count.
    pub async fn record(&self, due: &Due, attempt: &Attempt) -> Result<bool, StoreError> {
        let (seq, claim, attempt) = (due.seq, due.claim, attempt.clone());
        let (counters, outcome) = (Arc::clone(self.counters()), attempt.outcome);
        self.write_then(
            move |connection| Box::pin(async move { record(connection, seq, claim, &attempt).await }),
            move |counts| {
                if *counts {
                    counters.handle_attempt(outcome);
                }
            },
        )
        .await
    }

    /// When there is next something to claim, if ever; in the past if there is now.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut reader = self.reader().await?;
        next_due(&mut reader, now).await.map_err(|fault| self.told(fault))
    }

    /// Frees what was claimed by a process that is gone. For the owner, before it claims anything; gives their number.
    pub async fn release_claims(&self) -> Result<u64, StoreError> {
        self.write(|connection| {
            Box::pin(async move {
                let done = sqlx::query("UPDATE deliveries SET leased_until = NULL WHERE leased_until IS NOT NULL")
                    .execute(connection)
                    .await?;
                Ok(done.rows_affected())
            })
        })
        .await
    }

    /// Has an event sent again that is dead, or at once that waits for its next attempt.
    pub async fn retry_event(&self, id: &str, now: Timestamp) -> Result<Resend, StoreError> {
        let id = id.to_owned();
        let changes = self.changes_sender();
        self.write_then(
            move |connection| Box::pin(async move { retry(connection, &id, now).await }),
            move |_| changes.send_modify(|_| ()),
        )
        .await
    }
}

/// Queues an event of a thread, within a transaction. It waits where the last one that waits would be waited for: the marks of those
/// before it say the rest.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    seq: u64,
    machine: &str,
    thread: &ThreadId,
    due_at: i64,
) -> Result<(), Fault> {
    sqlx::query(
        "INSERT INTO deliveries (seq, machine, thread, due_at, blocked) VALUES (?1, ?2, ?3, ?4, coalesce( \
         (SELECT blocked = 1 OR (resent = 0 AND attempts < ?5) FROM deliveries \
          WHERE state = 'waiting' AND machine = ?2 AND thread = ?3 ORDER BY seq DESC LIMIT 1), 0))",
    )
    .bind(integer(seq))
    .bind(machine)
    .bind(&**thread)
    .bind(due_at)
    .bind(PASSED_AFTER_ATTEMPTS)
    .execute(connection)
    .await?;
    Ok(())
}

async fn claim(connection: &mut SqliteConnection, now: Timestamp, lease: Timestamp) -> Result<Option<Due>, Fault> {
    let seq: Option<i64> = sqlx::query_scalar(
        "SELECT seq FROM deliveries AS due WHERE state = 'waiting' AND blocked = 0 AND due_at <= ?1 \
         AND (leased_until IS NULL OR leased_until <= ?1) \
         AND NOT EXISTS (SELECT 1 FROM deliveries AS other WHERE other.leased_until IS NOT NULL \
             AND other.machine = due.machine AND other.thread = due.thread AND other.leased_until > ?1) \
         ORDER BY due_at, seq LIMIT 1",
    )
    .bind(micros(now))
    .fetch_optional(&mut *connection)
    .await?;
    let Some(seq) = seq else { return Ok(None) };
    sqlx::query(
        "UPDATE deliveries AS due SET leased_until = ?2, claims = claims + 1, \
         first_attempt_at = coalesce(first_attempt_at, ?3), \
         out_of_order = CASE WHEN first_attempt_at IS NULL AND resent = 0 THEN EXISTS ( \
             SELECT 1 FROM deliveries AS earlier WHERE earlier.state = 'waiting' AND earlier.machine = due.machine \
             AND earlier.thread = due.thread AND earlier.seq < due.seq) ELSE out_of_order END \
         WHERE seq = ?1",
    )
    .bind(seq)
    .bind(micros(lease))
    .bind(micros(now))
    .execute(&mut *connection)
    .await?;
    let row = sqlx::query(
        "SELECT seq, id, occurred_at, e.machine, e.thread, project_id, client, kind, coalesce(d.body, e.body), \
         attempts > 0 OR resent, attempts, first_attempt_at, out_of_order, resent, claims \
         FROM deliveries AS d JOIN events AS e USING (seq) WHERE seq = ?",
    )
    .bind(seq)
    .fetch_one(connection)
    .await?;
    due(&row).map(Some)
}

fn due(row: &SqliteRow) -> Result<Due, Fault> {
    let mut columns = Columns::of(row);
    Ok(Due {
        seq: columns.count()?,
        id: columns.take()?,
        occurred_at: columns.time()?,
        machine: columns.take()?,
        thread: columns.id()?,
        project_id: columns.id_if()?,
        client: columns.take()?,
        kind: columns.take()?,
        body: columns.take()?,
        frozen: columns.take()?,
        attempts: columns.small()?,
        first_attempt_at: columns.time()?,
        out_of_order: columns.take()?,
        resent: columns.take()?,
        claim: columns.small()?,
    })
}

async fn record(connection: &mut SqliteConnection, seq: u64, claim: u32, attempt: &Attempt) -> Result<bool, Fault> {
    let (state, due_at) = match attempt.outcome {
        AttemptOutcome::Delivered => ("delivered", None),
        AttemptOutcome::Retry(at) => ("waiting", Some(micros(at))),
        AttemptOutcome::Dead => ("dead", None),
    };
    // What was delivered is not sent again: its body is the event's to keep.
    let row: Option<(String, String, u32)> = sqlx::query_as(
        "UPDATE deliveries SET state = ?3, attempts = attempts + 1, leased_until = NULL, due_at = coalesce(?4, due_at), \
         last_attempt_at = ?5, last_status = ?6, last_error = ?7, \
         body = CASE WHEN ?3 = 'delivered' THEN NULL ELSE coalesce(body, ?8) END \
         WHERE seq = ?1 AND ((state = 'waiting' AND claims = ?2) OR (?3 = 'delivered' AND state <> 'delivered')) \
         RETURNING machine, thread, attempts",
    )
    .bind(integer(seq))
    .bind(claim)
    .bind(state)
    .bind(due_at)
    .bind(micros(attempt.at))
    .bind(attempt.status)
    .bind(attempt.error.as_deref())
    .bind(attempt.body.as_deref())
    .fetch_optional(&mut *connection)
    .await?;
    let Some((machine, thread, attempts)) = row else {
        return Ok(false);
    };
    let passed = match attempt.outcome {
        AttemptOutcome::Delivered | AttemptOutcome::Dead => true,
        AttemptOutcome::Retry(_) => attempts >= PASSED_AFTER_ATTEMPTS,
    };
    if passed {
        sqlx::query(
            "UPDATE deliveries SET blocked = 0 WHERE blocked = 1 AND seq = (SELECT seq FROM deliveries \
             WHERE state = 'waiting' AND machine = ? AND thread = ? AND seq > ? ORDER BY seq LIMIT 1)",
        )
        .bind(machine)
        .bind(thread)
        .bind(integer(seq))
        .execute(connection)
        .await?;
    }
    Ok(true)
}

async fn next_due(connection: &mut SqliteConnection, now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    // Behind one that is in flight nothing of its thread is due before its lease is over; a record comes sooner and asks again.
    let next: Option<i64> = sqlx::query_scalar(
        "SELECT min(at) FROM ( \
         SELECT * FROM (SELECT due_at AS at FROM deliveries AS due WHERE state = 'waiting' AND blocked = 0 \
             AND (leased_until IS NULL OR leased_until <= ?1) \
             AND NOT EXISTS (SELECT 1 FROM deliveries AS other WHERE other.leased_until IS NOT NULL \
                 AND other.machine = due.machine AND other.thread = due.thread AND other.leased_until > ?1) \
             ORDER BY due_at, seq LIMIT 1) \
         UNION ALL SELECT min(leased_until) FROM deliveries WHERE leased_until IS NOT NULL AND leased_until > ?1)",
    )
    .bind(micros(now))
    .fetch_one(connection)
    .await?;
    next.map(time).transpose()
}

async fn retry(connection: &mut SqliteConnection, id: &str, now: Timestamp) -> Result<Resend, Fault> {
    let row = sqlx::query(
        "SELECT seq, state, blocked, leased_until FROM events LEFT JOIN deliveries USING (seq) WHERE id = ?",
    )
    .bind(id)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(Resend::Unknown) };
    let mut columns = Columns::of(&row);
    let (seq, state) = (columns.take::<i64>()?, columns.take::<Option<String>>()?);
    let (blocked, leased) = (columns.take::<Option<bool>>()?, columns.time_if()?);
    let change = match state.as_deref() {
        None => return Ok(Resend::NotForDelivery),
        Some("delivered") => return Ok(Resend::Delivered),
        Some("waiting") if blocked == Some(true) => return Ok(Resend::Behind),
        Some("waiting") if leased.is_some_and(|until| until > now) => return Ok(Resend::InFlight),
        Some("waiting") => sqlx::query("UPDATE deliveries SET due_at = min(due_at, ?2) WHERE seq = ?1"),
        // A schedule of its own, from its next attempt on.
        Some("dead") => sqlx::query(
            "UPDATE deliveries SET state = 'waiting', blocked = 0, resent = 1, attempts = 0, first_attempt_at = NULL, \
             due_at = ?2 WHERE seq = ?1",
        ),
        Some(word) => {
            return Err(Fault::Word {
                table: "deliveries",
                row: format!("`{id}`"),
                word: word.to_owned(),
            });
        }
    };
    change.bind(seq).bind(micros(now)).execute(connection).await?;
    Ok(Resend::Queued)
}
