//! Reads of threads: one read serves all who wait for a thread.
//!
//! A read is shared with everybody who saw nothing newer of the thread than what the shell showed when the read began, while it runs
//! and for a moment after. It runs in a task of its own: a caller who hangs up does not end it for the others. Called by `Machine`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::domain::Thread;
use super::error::MachineError;
use crate::protocol::ThreadId;

/// The longest that a read may take, the wait for its turn included.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a finished read serves those whom the same change woke a little later.
const KEPT: Duration = Duration::from_millis(250);
/// Reads of one machine at the same time: a whole thread can be megabytes.
const AT_ONCE: usize = 8;

type Outcome = Result<Arc<Thread>, MachineError>;

/// The reads of one machine.
#[derive(Debug)]
pub(super) struct Reads {
    slots: Mutex<HashMap<ThreadId, Slot>>,
    turns: Semaphore,
}

#[derive(Debug)]
struct Slot {
    /// The sequence that the shell showed of the thread when the read began.
    covers: u64,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            slots: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }
}

impl Reads {
    /// Reads a thread by `fetch`, or takes part in a read that began when the shell already showed `seen`. Of a thread that the shell
    /// does not show (`None`) nobody can say whether a read is old, so it is always read anew.
    pub(super) async fn read<F>(self: &Arc<Self>, id: &ThreadId, seen: Option<u64>, fetch: F) -> Outcome
    where
        F: Future<Output = Result<Thread, MachineError>> + Send + 'static,
    {
        let Some(seen) = seen else {
            return self.take_turn(fetch).await.map(Arc::new);
        };
        let mut outcome = self.join_or_begin(id, seen, fetch);
        let outcome = outcome.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Err(MachineError::Unreachable {
                reason: "the read was given up since the gateway stops".to_owned(),
            }),
        }
    }

    fn join_or_begin<F>(self: &Arc<Self>, id: &ThreadId, seen: u64, fetch: F) -> watch::Receiver<Option<Outcome>>
    where
        F: Future<Output = Result<Thread, MachineError>> + Send + 'static,
    {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(id)
            && slot.covers >= seen
        {
            return slot.outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        slots.insert(
            id.clone(),
            Slot {
                covers: seen,
                outcome: outcome.clone(),
            },
        );
        drop(slots);

        let (reads, id, mine) = (self.clone(), id.clone(), outcome.clone());
        tokio::spawn(async move {
            let result = reads.take_turn(fetch).await.map(Arc::new);
            if result.is_err() {
                // Nobody new takes part in a failure.
                reads.forget(&id, &mine);
            }
            let kept = result.is_ok();
            sender.send_replace(Some(result));
            if kept {
                tokio::time::sleep(KEPT).await;
                reads.forget(&id, &mine);
            }
        });
        outcome
    }

    async fn take_turn<F>(&self, fetch: F) -> Result<Thread, MachineError>
    where
        F: Future<Output = Result<Thread, MachineError>>,
    {
        let read = async {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            fetch.await
        };
        tokio::time::timeout(READ_TIMEOUT, read)
            .await
            .unwrap_or(Err(MachineError::Timeout(READ_TIMEOUT)))
    }

    /// How many reads are remembered.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.slots().len()
    }

    fn forget(&self, id: &ThreadId, outcome: &watch::Receiver<Option<Outcome>>) {
        let mut slots = self.slots();
        if slots.get(id).is_some_and(|slot| slot.outcome.same_channel(outcome)) {
            slots.remove(id);
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
