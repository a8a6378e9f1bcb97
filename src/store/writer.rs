//! The one writer: jobs queue up, what is ready together shares a transaction, and each caller is answered after its commit.
//!
//! A job sees the jobs before it. One that fails is taken back alone, unless the engine gave the whole transaction up: then every job of
//! it failed. A job that was queued is done even if its caller has gone meanwhile. It never answers before the commit is on disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Executor as _};
use tokio::sync::{mpsc, oneshot};

use crate::store::counts::Counters;
use crate::store::error::{Fault, StoreError};

/// How long a transaction takes jobs in.
const GATHER: Duration = Duration::from_millis(20);

/// How many jobs share a transaction at most.
const JOBS_PER_COMMIT: usize = 512;

/// How many jobs wait at most; who comes then waits to queue up.
const QUEUE: usize = 1_024;

/// What a job does; it is given the connection inside a transaction.
pub(super) type Done<'c, T> = BoxFuture<'c, Result<T, Fault>>;

/// The way to the writer.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    queue: mpsc::Sender<Order>,
}

enum Order {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// A piece of work with the one who waits for it.
trait Job: Send {
    /// Does it, within a transaction.
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Fault>>;
    /// Tells the caller, once it is committed or lost.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

struct Work<T, F, A> {
    todo: Option<F>,
    value: Option<T>,
    after: A,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F, A> Job for Work<T, F, A>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> Done<'c, T> + Send + 'static,
    A: FnOnce(&T) + Send + 'static,
{
    fn run<'c>(&'c mut self, connection: &'c mut SqliteConnection) -> BoxFuture<'c, Result<(), Fault>> {
        Box::pin(async move {
            if let Some(work) = self.todo.take() {
                self.value = Some(work(connection).await?);
            }
            Ok(())
        })
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Self {
            value, after, caller, ..
        } = *self;
        let answer = fate.and_then(|()| value.ok_or(StoreError::Closed));
        if let Ok(value) = &answer {
            after(value);
        }
        // A caller that has gone does not undo what it asked for.
        let _ = caller.send(answer);
    }
}

impl Writer {
    /// Starts it on a connection of its own.
    pub(super) fn start(connection: SqliteConnection, path: PathBuf, counters: Arc<Counters>) -> Self {
        let (queue, orders) = mpsc::channel(QUEUE);
        tokio::spawn(run(connection, orders, path, counters));
        Self { queue }
    }

    /// Has it done, and waits for the commit.
    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Done<'c, T> + Send + 'static,
    {
        self.write_then(work, |_| ()).await
    }

    /// Has it done, waits for the commit, and has `after` called then, whether the caller still waits or not.
    pub(super) async fn write_then<T, F, A>(&self, work: F, after: A) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> Done<'c, T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = Box::new(Work {
            todo: Some(work),
            value: None,
            after,
            caller,
        });
        self.queue.send(Order::Job(job)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Ends it after what is queued already. Later jobs are told that the ledger is closed.
    pub(super) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.queue.send(Order::Close(done)).await.is_ok() {
            let _ = ended.await;
        }
    }
}

async fn run(
    mut connection: SqliteConnection,
    mut orders: mpsc::Receiver<Order>,
    path: PathBuf,
    counters: Arc<Counters>,
) {
    let mut closing = None;
    while closing.is_none() {
        let Some(order) = orders.recv().await else { break };
        match order {
            Order::Close(done) => closing = Some(done),
            Order::Job(first) => closing = transact(&mut connection, first, &mut orders, &path, &counters).await,
        }
    }
    orders.close();
    while let Ok(order) = orders.try_recv() {
        match order {
            Order::Job(job) => job.answer(Err(StoreError::Closed)),
            Order::Close(done) => drop(done),
        }
    }
    // Nothing depends on either: the next start reads the log as well.
    let _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
    let _ = connection.close().await;
    if let Some(done) = closing {
        let _ = done.send(());
    }
}

/// One transaction: the first job and those that are ready while it runs. Gives the order to close, if one came.
async fn transact(
    connection: &mut SqliteConnection,
    first: Box<dyn Job>,
    orders: &mut mpsc::Receiver<Order>,
    path: &Path,
    counters: &Counters,
) -> Option<oneshot::Sender<()>> {
    let began = Instant::now();
    let mut closing = None;
    let mut done: Vec<Box<dyn Job>> = Vec::new();
    let mut next = Some(first);
    let mut fate = connection
        .execute("BEGIN IMMEDIATE")
        .await
        .map(drop)
        .map_err(Fault::from);
    while let Some(mut job) = next.take() {
        if fate.is_ok() {
            match step(connection, job.as_mut()).await {
                Step::Done => done.push(job),
                Step::TakenBack(fault) => job.answer(Err(fault.told(path))),
                Step::AllLost(fault) => {
                    done.push(job);
                    fate = Err(fault);
                }
            }
        } else {
            done.push(job);
        }
        if fate.is_ok() && done.len() < JOBS_PER_COMMIT && began.elapsed() < GATHER {
            match orders.try_recv() {
                Ok(Order::Job(job)) => next = Some(job),
                Ok(Order::Close(done)) => closing = Some(done),
                Err(_) => {}
            }
        }
    }
    if fate.is_ok() {
        fate = connection.execute("COMMIT").await.map(drop).map_err(Fault::from);
    }
    counters.handle_commit(fate.is_ok());
    let fate = fate.map_err(|fault| fault.told(path));
    if let Err(error) = &fate {
        // Fails where the engine has rolled back by itself.
        let _ = connection.execute("ROLLBACK").await;
        tracing::error!(%error, jobs = done.len(), "the ledger did not take a transaction");
    }
    for job in done {
        job.answer(fate.clone());
    }
    closing
}

enum Step {
    Done,
    /// This job left no trace; those before it stand.
    TakenBack(Fault),
    /// The engine gave up the whole transaction.
    AllLost(Fault),
}

async fn step(connection: &mut SqliteConnection, job: &mut dyn Job) -> Step {
    if let Err(error) = connection.execute("SAVEPOINT job").await {
        return Step::AllLost(error.into());
    }
    let done = match job.run(connection).await {
        Ok(()) => connection.execute("RELEASE job").await.map(drop).map_err(Fault::from),
        Err(fault) => Err(fault),
    };
    let Err(fault) = done else { return Step::Done };
    // If the savepoint is no more, neither is the transaction.
    match connection.execute("ROLLBACK TO job; RELEASE job").await {
        Ok(_) => Step::TakenBack(fault),
        Err(_) => Step::AllLost(fault),
    }
}
