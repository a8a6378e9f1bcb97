//! Reads of threads: one read serves all who wait for a thread.
//!
//! A read is shared with everybody who saw nothing newer of the thread than what the shell showed when the read began, while it runs
//! and, of a thread that the shell shows, for a moment after. It runs in a task of its own: a caller who hangs up does not end it for
//! the others. Called by `Machine`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::domain::Thread;
use super::error::MachineError;
use crate::protocol::ThreadId;

/// The longest that a read may take once it has its turn: others that are slow take nothing of it.
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
    /// The sequence that the shell showed when the read began.
    covers: u64,
    outcome: watch::Receiver<Option<Outcome>>,
}

/// What the shell shows of a thread that somebody wants to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// Its row, or a write of ours to it, at this sequence.
    Row(u64),
    /// Nothing of it, up to this sequence. A change may go unseen, so a read that has ended serves nobody any more.
    Nothing(u64),
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
    /// Reads a thread by `fetch`, or takes part in a read that began when the shell already showed what was `seen`.
    pub(super) async fn read<F>(self: &Arc<Self>, id: &ThreadId, seen: Seen, fetch: F) -> Outcome
    where
        F: Future<Output = Result<Thread, MachineError>> + Send + 'static,
    {
        let mut outcome = self.join_or_begin(id, seen, fetch);
        let outcome = outcome.wait_for(Option::is_some).await;
        match outcome.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Err(MachineError::Unreachable {
                reason: "the read of the thread was given up: the gateway stops, or it broke on what T3 sent"
                    .to_owned(),
            }),
        }
    }

    /// Nobody takes part any more in what was read of another database.
    pub(super) fn forget_all(&self) {
        self.slots().clear();
    }

    fn join_or_begin<F>(self: &Arc<Self>, id: &ThreadId, seen: Seen, fetch: F) -> watch::Receiver<Option<Outcome>>
    where
        F: Future<Output = Result<Thread, MachineError>> + Send + 'static,
    {
        let (wants, kept) = match seen {
            Seen::Row(sequence) => (sequence, true),
            Seen::Nothing(sequence) => (sequence, false),
        };
        let mut slots = self.slots();
        if let Some(slot) = slots.get(id)
            && slot.covers >= wants
            && (kept || slot.outcome.borrow().is_none())
        {
            return slot.outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        slots.insert(
            id.clone(),
            Slot {
                covers: wants,
                outcome: outcome.clone(),
            },
        );
        drop(slots);

        let forget = Forget {
            reads: self.clone(),
            id: id.clone(),
            outcome: outcome.clone(),
        };
        tokio::spawn(async move {
            let result = forget.reads.take_turn(fetch).await.map(Arc::new);
            if result.is_ok() && kept {
                sender.send_replace(Some(result));
                tokio::time::sleep(KEPT).await;
                drop(forget);
            } else {
                // Nobody new takes part in a failure.
                drop(forget);
                sender.send_replace(Some(result));
            }
        });
        outcome
    }

    /// A read of one's own, with one of the turns.
    pub(super) async fn take_turn<F>(&self, fetch: F) -> Result<Thread, MachineError>
    where
        F: Future<Output = Result<Thread, MachineError>>,
    {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        tokio::time::timeout(READ_TIMEOUT, fetch)
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

/// Forgets a read when it is dropped: also when the read panics, lest everybody who comes later waits for it in vain.
#[derive(Debug)]
struct Forget {
    reads: Arc<Reads>,
    id: ThreadId,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Drop for Forget {
    fn drop(&mut self) {
        self.reads.forget(&self.id, &self.outcome);
    }
}

#[cfg(test)]
mod tests;
