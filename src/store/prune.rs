//! Old events go, in small steps between which others write. What is still to be delivered stays, and what was given up: it may be sent
//! again by hand.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::sqlite::SqliteConnection;

use crate::store::Store;
use crate::store::columns::micros;
use crate::store::error::{Fault, StoreError};

/// Events that one step looks at.
const STEP_EVENTS: i64 = 500;

/// Pages that one step gives back to the disk: more than its events take up, so that a backlog melts as well.
const STEP_PAGES: &str = "PRAGMA incremental_vacuum(2000)";

/// What a pruning did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// Events that went.
    pub events: u64,
}

/// How far a pruning has looked, by age and number.
type Position = (i64, i64);

impl Store {
    /// Takes away the events that happened longer than `keep` ago and are delivered, or were never to be.
    pub async fn prune(&self, now: Timestamp, keep: Duration) -> Result<Pruned, StoreError> {
        // A time before all times: nothing is that old.
        let before = now.checked_sub(keep).map_or(i64::MIN, micros);
        let mut pruned = Pruned::default();
        let mut position = Some((i64::MIN, i64::MIN));
        while let Some(from) = position {
            let (events, next) = self
                .write(move |connection| Box::pin(async move { step(connection, from, before).await }))
                .await?;
            pruned.events += events;
            position = next;
        }
        Ok(pruned)
    }
}

async fn step(
    connection: &mut SqliteConnection,
    (age, number): Position,
    before: i64,
) -> Result<(u64, Option<Position>), Fault> {
    let old: Vec<(i64, i64, bool)> = sqlx::query_as(
        "SELECT occurred_at, seq, coalesce(state = 'delivered', 1) FROM events LEFT JOIN deliveries USING (seq) \
         WHERE (occurred_at, seq) > (?, ?) AND occurred_at < ? ORDER BY occurred_at, seq LIMIT ?",
    )
    .bind(age)
    .bind(number)
    .bind(before)
    .bind(STEP_EVENTS)
    .fetch_all(&mut *connection)
    .await?;
    let Some(&(age, number, _)) = old.last() else {
        return Ok((0, None));
    };
    let mut events = 0;
    let mut highest = 0;
    for (_, seq, _) in old.into_iter().filter(|(.., done)| *done) {
        // Its delivery goes with it.
        sqlx::query("DELETE FROM events WHERE seq = ?")
            .bind(seq)
            .execute(&mut *connection)
            .await?;
        events += 1;
        highest = highest.max(seq);
    }
    sqlx::query("UPDATE ledger SET pruned_through = max(pruned_through, ?)")
        .bind(highest)
        .execute(&mut *connection)
        .await?;
    sqlx::query(STEP_PAGES).execute(connection).await?;
    Ok((events, Some((age, number))))
}
