//! What one observation brings: threads as they are now, the events that follow, and the wishes that are taken up by it. All of it or
//! nothing is kept.

use std::sync::Arc;

use jiff::Timestamp;
use sqlx::sqlite::SqliteConnection;

use crate::protocol::ThreadId;
use crate::store::columns::micros;
use crate::store::error::{Fault, StoreError};
use crate::store::events::NewEvent;
use crate::store::receipts::ReceiptUpdate;
use crate::store::tracked::Tracked;
use crate::store::{Store, deliveries, events, receipt_rows, taken_over, tracked};

/// A transaction of `watch`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Now: what is to be delivered is due from here.
    pub at: Timestamp,
    /// Threads in place of what was kept of them.
    pub upsert: Vec<Tracked>,
    /// Threads that are followed no more, by machine and id.
    pub forget: Vec<(String, ThreadId)>,
    /// Events, oldest first. One whose id is there already changes nothing.
    pub events: Vec<NewEvent>,
    /// Receipts, by client and request, that are taken up with this: `settled` is meant, whatever the update says of it. With `opened`
    /// only as it was opened then.
    pub settled: Vec<(String, String, ReceiptUpdate)>,
    /// Threads taken over from another program that are followed with this, or never will be, by machine and id.
    pub taken_over: Vec<(String, ThreadId)>,
}

/// What a batch brought.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Committed {
    /// The newest event's number.
    pub cursor: u64,
    /// The ids of the events that were not there before, in the batch's order.
    pub new: Vec<String>,
}

impl Store {
    /// Keeps a batch, whole or not at all.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let changes = self.changes_sender();
        let counters = Arc::clone(self.counters());
        let kinds: Vec<(String, String)> = batch
            .events
            .iter()
            .map(|event| (event.id.clone(), event.kind.clone()))
            .collect();
        self.write_then(
            move |connection| Box::pin(async move { keep(connection, &batch).await }),
            move |committed: &Committed| {
                if !committed.new.is_empty() {
                    let new = kinds.iter().filter(|(id, _)| committed.new.contains(id));
                    counters.handle_events(new.map(|(_, kind)| kind.as_str()));
                    changes.send_replace(committed.cursor);
                }
            },
        )
        .await
    }
}

async fn keep(connection: &mut SqliteConnection, batch: &Batch) -> Result<Committed, Fault> {
    // What was forgotten may have been taken up anew since; never the other way round.
    for (machine, thread) in &batch.forget {
        tracked::forget(connection, machine, thread).await?;
    }
    for thread in &batch.upsert {
        tracked::upsert(connection, thread).await?;
    }
    let mut committed = Committed::default();
    for event in &batch.events {
        let Some(seq) = events::insert(connection, event).await? else {
            continue;
        };
        if event.deliver {
            deliveries::insert(connection, seq, &event.machine, &event.thread, micros(batch.at)).await?;
        }
        committed.new.push(event.id.clone());
    }
    for (client, request, update) in &batch.settled {
        receipt_rows::take(connection, client, request, update).await?;
    }
    for (machine, thread) in &batch.taken_over {
        taken_over::settle(connection, machine, thread).await?;
    }
    committed.cursor = events::newest(connection).await?;
    Ok(committed)
}
