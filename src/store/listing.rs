//! Events with what became of their deliveries, for people: the command line's lists, and the numbers of `t3_status`.

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::store::Store;
use crate::store::columns::{Columns, count, integer, time};
use crate::store::error::{Fault, StoreError};
use crate::store::events::{Event, PAGE_EVENTS, event_of};

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeliveryState {
    /// It is to be sent, for the first time or again.
    Waiting,
    /// It was delivered.
    Delivered,
    /// It was given up.
    Dead,
}

/// An event's delivery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// Where it stands.
    pub state: DeliveryState,
    /// An earlier event of its thread goes first.
    pub blocked: bool,
    /// It was sent again by hand.
    pub resent: bool,
    /// Events before it were still undelivered when it was first sent.
    pub out_of_order: bool,
    /// Attempts so far.
    pub attempts: u32,
    /// When the next attempt is due, while it waits.
    pub due_at: Timestamp,
    /// Until when it is somebody's to send, while it is.
    pub leased_until: Option<Timestamp>,
    /// When the first attempt began.
    pub first_attempt_at: Option<Timestamp>,
    /// When the last attempt ended.
    pub last_attempt_at: Option<Timestamp>,
    /// What status the last attempt was answered with.
    pub last_status: Option<u16>,
    /// What went wrong with it.
    pub last_error: Option<String>,
}

/// An event with its delivery, if it has one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// The event.
    pub event: Event,
    /// Its delivery; none where it is not meant to be delivered.
    pub delivery: Option<Delivery>,
}

/// Which of them are wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ListFilter {
    /// Only those whose delivery stands so.
    pub state: Option<DeliveryState>,
    /// Only those before this number: the last one of the page before.
    pub before: Option<u64>,
}

/// How many deliveries there are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeliveryCounts {
    /// To be sent, those in flight among them.
    pub waiting: u64,
    /// Somebody's to send just now, or left behind by somebody.
    pub in_flight: u64,
    /// Given up.
    pub dead: u64,
    /// When the oldest event that is to be sent happened.
    pub oldest_waiting: Option<Timestamp>,
}

/// The deliveries of one machine that are not done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MachineDeliveries {
    /// The machine.
    pub machine: String,
    /// To be sent.
    pub waiting: u64,
    /// Given up.
    pub dead: u64,
}

impl DeliveryState {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// The state of that word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Waiting, Self::Delivered, Self::Dead]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

impl Store {
    /// Events with their deliveries, newest first; `limit` is at most [`PAGE_EVENTS`].
    pub async fn deliveries(&self, filter: ListFilter, limit: u32) -> Result<Vec<Listed>, StoreError> {
        let mut reader = self.reader().await?;
        list(&mut reader, filter, limit.clamp(1, PAGE_EVENTS))
            .await
            .map_err(|fault| self.told(fault))
    }

    /// Whether an event was ever meant to be delivered, of those that are kept.
    pub async fn has_deliveries(&self) -> Result<bool, StoreError> {
        let mut reader = self.reader().await?;
        let has = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM deliveries)")
            .fetch_one(&mut *reader)
            .await;
        has.map_err(|error| self.told(error.into()))
    }

    /// An event with its delivery.
    pub async fn delivery(&self, id: &str) -> Result<Option<Listed>, StoreError> {
        let mut reader = self.reader().await?;
        one(&mut reader, id).await.map_err(|fault| self.told(fault))
    }

    /// How many deliveries of each machine wait or are dead; machines without any are left out.
    pub async fn deliveries_by_machine(&self) -> Result<Vec<MachineDeliveries>, StoreError> {
        let mut reader = self.reader().await?;
        by_machine(&mut reader).await.map_err(|fault| self.told(fault))
    }

    /// How many deliveries wait, are in flight, are dead.
    pub async fn delivery_counts(&self) -> Result<DeliveryCounts, StoreError> {
        let mut reader = self.reader().await?;
        counts(&mut reader).await.map_err(|fault| self.told(fault))
    }
}

/// The columns that [`listed`] reads, in its order, with what follows.
macro_rules! select {
    ($rest:literal) => {
        sqlx::query(concat!(
            "SELECT seq, id, occurred_at, e.machine, e.thread, project_id, client, kind, coalesce(d.body, e.body), state, \
             blocked, resent, out_of_order, attempts, due_at, leased_until, first_attempt_at, last_attempt_at, \
             last_status, last_error FROM ",
            $rest
        ))
    };
}

async fn list(connection: &mut SqliteConnection, filter: ListFilter, limit: u32) -> Result<Vec<Listed>, Fault> {
    let before = filter.before.map_or(i64::MAX, integer);
    // The states have an index each, which only their own words find.
    let query = match filter.state {
        None => select!("events AS e LEFT JOIN deliveries AS d USING (seq) WHERE seq < ? ORDER BY seq DESC LIMIT ?"),
        Some(DeliveryState::Waiting) => select!(
            "deliveries AS d JOIN events AS e USING (seq) WHERE state = 'waiting' AND seq < ? ORDER BY seq DESC LIMIT ?"
        ),
        Some(DeliveryState::Dead) => select!(
            "deliveries AS d JOIN events AS e USING (seq) WHERE state = 'dead' AND seq < ? ORDER BY seq DESC LIMIT ?"
        ),
        Some(DeliveryState::Delivered) => select!(
            "deliveries AS d JOIN events AS e USING (seq) WHERE state = 'delivered' AND seq < ? ORDER BY seq DESC LIMIT ?"
        ),
    };
    let rows = query.bind(before).bind(limit).fetch_all(connection).await?;
    rows.iter().map(listed).collect()
}

async fn one(connection: &mut SqliteConnection, id: &str) -> Result<Option<Listed>, Fault> {
    let row = select!("events AS e LEFT JOIN deliveries AS d USING (seq) WHERE id = ?")
        .bind(id)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(listed).transpose()
}

fn listed(row: &SqliteRow) -> Result<Listed, Fault> {
    let mut columns = Columns::of(row);
    let event = event_of(&mut columns)?;
    let Some(word) = columns.take::<Option<String>>()? else {
        return Ok(Listed { event, delivery: None });
    };
    let Some(state) = DeliveryState::parse(&word) else {
        return Err(Fault::Word {
            table: "deliveries",
            row: format!("`{}`", event.id),
            word,
        });
    };
    let delivery = Delivery {
        state,
        blocked: columns.take()?,
        resent: columns.take()?,
        out_of_order: columns.take()?,
        attempts: columns.small()?,
        due_at: columns.time()?,
        leased_until: columns.time_if()?,
        first_attempt_at: columns.time_if()?,
        last_attempt_at: columns.time_if()?,
        last_status: columns.take()?,
        last_error: columns.take()?,
    };
    Ok(Listed {
        event,
        delivery: Some(delivery),
    })
}

async fn by_machine(connection: &mut SqliteConnection) -> Result<Vec<MachineDeliveries>, Fault> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT machine, sum(waiting), sum(dead) FROM (\
         SELECT machine, count(*) AS waiting, 0 AS dead FROM deliveries WHERE state = 'waiting' GROUP BY machine \
         UNION ALL SELECT machine, 0, count(*) FROM deliveries WHERE state = 'dead' GROUP BY machine) GROUP BY machine",
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|(machine, waiting, dead)| {
            Ok(MachineDeliveries {
                machine,
                waiting: count(waiting)?,
                dead: count(dead)?,
            })
        })
        .collect()
}

async fn counts(connection: &mut SqliteConnection) -> Result<DeliveryCounts, Fault> {
    let (waiting, in_flight, dead, oldest): (i64, i64, i64, Option<i64>) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM deliveries WHERE state = 'waiting'), \
         (SELECT count(*) FROM deliveries WHERE leased_until IS NOT NULL), \
         (SELECT count(*) FROM deliveries WHERE state = 'dead'), \
         (SELECT occurred_at FROM events WHERE seq = (SELECT min(seq) FROM deliveries WHERE state = 'waiting'))",
    )
    .fetch_one(connection)
    .await?;
    Ok(DeliveryCounts {
        waiting: count(waiting)?,
        in_flight: count(in_flight)?,
        dead: count(dead)?,
        oldest_waiting: oldest.map(time).transpose()?,
    })
}
