//! Threads that another program had tracked: each is taken over once, and waits until it was read for the first time.
//!
//! A row is the mark and the wish in one, so that no crash parts them. `watch` writes both, and takes a wish away in the transaction that
//! begins to follow its thread.

use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::lifecycle::Watch;
use crate::protocol::ThreadId;
use crate::store::Store;
use crate::store::columns::{Columns, micros};
use crate::store::error::{Fault, StoreError};

/// A thread that is taken over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TakenOver {
    /// The machine.
    pub machine: String,
    /// The thread.
    pub thread: ThreadId,
    /// What its runs are reported as. Where they are not to be reported, the thread is noted and nothing else.
    pub watch: Watch,
    /// When it was taken over: what had ended by then is history.
    pub at: Timestamp,
}

impl Store {
    /// Takes threads over, all of them or none; gives the ones that were not taken over before, in the order given.
    pub async fn take_over(&self, threads: Vec<TakenOver>) -> Result<Vec<TakenOver>, StoreError> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut new = Vec::new();
                for thread in threads {
                    if insert(connection, &thread).await? {
                        new.push(thread);
                    }
                }
                Ok(new)
            })
        })
        .await
    }

    /// The threads that were taken over and not read since.
    pub async fn waiting_to_be_read(&self) -> Result<Vec<TakenOver>, StoreError> {
        let mut reader = self.reader().await?;
        list(&mut reader).await.map_err(|fault| self.told(fault))
    }
}

async fn insert(connection: &mut SqliteConnection, thread: &TakenOver) -> Result<bool, Fault> {
    let done = sqlx::query(
        "INSERT INTO taken_over (machine, thread, origin, client, taken_at, waiting) VALUES (?, ?, ?, ?, ?, ?) \
         ON CONFLICT DO NOTHING",
    )
    .bind(&thread.machine)
    .bind(&*thread.thread)
    .bind(thread.watch.origin.as_deref())
    .bind(thread.watch.client.as_deref())
    .bind(micros(thread.at))
    .bind(thread.watch.on)
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

async fn list(connection: &mut SqliteConnection) -> Result<Vec<TakenOver>, Fault> {
    let rows =
        sqlx::query("SELECT machine, thread, waiting, origin, client, taken_at FROM taken_over WHERE waiting = 1")
            .fetch_all(connection)
            .await?;
    rows.iter().map(thread).collect()
}

fn thread(row: &SqliteRow) -> Result<TakenOver, Fault> {
    let mut columns = Columns::of(row);
    Ok(TakenOver {
        machine: columns.take()?,
        thread: columns.id()?,
        watch: columns.watch()?,
        at: columns.time()?,
    })
}

/// The thread is followed, or never will be: it waits no more. Within a transaction.
pub(super) async fn settle(connection: &mut SqliteConnection, machine: &str, thread: &ThreadId) -> Result<(), Fault> {
    sqlx::query("UPDATE taken_over SET waiting = 0 WHERE machine = ? AND thread = ?")
        .bind(machine)
        .bind(&**thread)
        .execute(connection)
        .await?;
    Ok(())
}
