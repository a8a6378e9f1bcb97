//! The ledger: receipts, tracked threads, events, deliveries and MCP sessions, in one file that outlives the process.
//!
//! A narrow interface that hides the engine (SQLite): callers see plain values and [`StoreError`]. What a call says was written is on
//! disk. `gateway` writes receipts, `watch` threads and events, `delivery` attempts, `mcp` sessions; nothing here decides what any of it
//! means. Times are kept to the microsecond.

mod batch;
mod batches;
mod columns;
mod counts;
mod deliveries;
mod error;
mod events;
mod listing;
mod open;
mod owner;
mod prune;
mod receipt_rows;
mod receipts;
mod sessions;
mod taken_over;
mod tracked;
mod tracked_rows;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use sqlx::Transaction;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::watch;

pub use batch::{Batch, Committed};
pub use counts::Counts;
pub use deliveries::{Attempt, AttemptOutcome, Due, PASSED_AFTER_ATTEMPTS, Resend};
pub use error::StoreError;
pub use events::{Event, EventFilter, EventPage, NewEvent, PAGE_EVENTS};
pub use listing::{Delivery, DeliveryCounts, DeliveryState, ListFilter, Listed, MachineDeliveries};
pub use owner::{OWNER_FILE, Ownership, Serving};
pub use prune::Pruned;
pub use receipts::{AnswerFate, Claimed, NewReceipt, Outcome, Receipt, ReceiptKind, ReceiptUpdate};
pub use sessions::SessionRecord;
pub use taken_over::TakenOver;
pub use tracked::Tracked;

use counts::Counters;
use error::Fault;
use writer::{Done, Writer};

/// The ledger's file in the state directory.
pub const LEDGER_FILE: &str = "t3code-mcp.db";

/// The ledger. Cheap to clone; every clone is the same one.
#[derive(Clone, Debug)]
pub struct Store {
    path: Arc<Path>,
    writer: Writer,
    readers: SqlitePool,
    changes: Arc<watch::Sender<u64>>,
    counters: Arc<Counters>,
    identity: Arc<str>,
    set_aside: Option<Arc<StoreError>>,
}

impl Store {
    /// Opens the ledger's file; makes it where there is none. A damaged one is set aside first ([`Store::set_aside`]), a newer one and
    /// what is not ours are refused.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::over(path, open::open(path).await?).await
    }

    async fn over(path: &Path, mut opened: open::Opened) -> Result<Self, StoreError> {
        let begun = begin(&mut opened.writer).await;
        let (newest, identity) = begun.map_err(|fault| fault.told(path))?;
        let counters: Arc<Counters> = Arc::default();
        Ok(Self {
            path: path.into(),
            writer: Writer::start(opened.writer, path.to_owned(), Arc::clone(&counters)),
            readers: opened.readers,
            changes: Arc::new(watch::Sender::new(newest)),
            counters,
            identity: identity.into(),
            set_aside: opened.set_aside.map(Arc::new),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names this ledger among all: a cursor of another one means nothing here.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// What is to be said of a damaged file that lay here before and was set aside at the opening.
    pub fn set_aside(&self) -> Option<&StoreError> {
        self.set_aside.as_deref()
    }

    /// The number of the newest event.
    pub fn newest(&self) -> u64 {
        *self.changes.borrow()
    }

    /// The same as a reader sees it, who may be ahead of [`Store::newest`] by a commit.
    pub async fn newest_to_read(&self) -> Result<u64, StoreError> {
        let mut reader = self.reader().await?;
        events::newest(&mut reader).await.map_err(|fault| self.told(fault))
    }

    /// Moves when events were committed or something became due by hand; its value is the newest event's number.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Ends it: what was asked for before is written, what comes later is [`StoreError::Closed`].
    pub async fn close(&self) {
        self.writer.close().await;
        self.readers.close().await;
    }

    fn changes_sender(&self) -> Arc<watch::Sender<u64>> {
        Arc::clone(&self.changes)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// A reader that sees the ledger as it is now, whatever is committed meanwhile.
    async fn reader(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.readers.begin().await.map_err(|error| self.told(error.into()))
    }

    fn told(&self, fault: Fault) -> StoreError {
        fault.told(&self.path)
    }

    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Done<'c, T> + Send + 'static,
    {
        self.writer.write(work).await
    }

    async fn write_then<T, F, A>(&self, work: F, after: A) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Done<'c, T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        self.writer.write_then(work, after).await
    }
}

/// Where the numbers stand, and the ledger's identity.
async fn begin(connection: &mut SqliteConnection) -> Result<(u64, String), Fault> {
    let newest = events::newest(connection).await?;
    let identity = sqlx::query_scalar("SELECT id FROM ledger")
        .fetch_one(connection)
        .await?;
    Ok((newest, identity))
}
