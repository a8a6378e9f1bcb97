//! Who waits for a change of one machine: of a thread, of anything, of a sequence.
//!
//! Called by the machine's state after each change; holds counters only, never what changed. A thread that nobody watches any longer
//! leaves nothing behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::changes::{Changes, Feed};
use crate::protocol::ThreadId;

/// The counters of one machine.
#[derive(Debug)]
pub(super) struct Watchers {
    shell: watch::Sender<u64>,
    applied: watch::Sender<u64>,
    threads: Mutex<HashMap<ThreadId, Arc<watch::Sender<u64>>>>,
    feed: Arc<Feed>,
    runtime: Handle,
}

impl Watchers {
    pub(super) fn new(runtime: Handle) -> Self {
        Self {
            shell: watch::Sender::new(0),
            applied: watch::Sender::new(0),
            threads: Mutex::default(),
            feed: Arc::default(),
            runtime,
        }
    }

    /// A counter of everything.
    pub(super) fn shell(&self) -> watch::Receiver<u64> {
        self.shell.subscribe()
    }

    /// What changes from now on, for one who looks at all threads.
    pub(super) fn changes(&self) -> Changes {
        Changes::of(Arc::clone(&self.feed))
    }

    /// A counter of one thread. The thread's entry goes with its last receiver.
    pub(super) fn thread(self: &Arc<Self>, id: &ThreadId) -> watch::Receiver<u64> {
        let mut threads = self.threads();
        if let Some(counter) = threads.get(id) {
            return counter.subscribe();
        }
        let (counter, receiver) = watch::channel(0);
        let counter = Arc::new(counter);
        threads.insert(id.clone(), counter.clone());
        drop(threads);

        let (watchers, id) = (self.clone(), id.clone());
        self.runtime.spawn(async move {
            loop {
                counter.closed().await;
                // Under the lock nobody can subscribe, so an entry without receivers is really unused.
                let mut threads = watchers.threads();
                if counter.receiver_count() == 0 {
                    threads.remove(&id);
                    return;
                }
            }
        });
        receiver
    }

    /// How many threads are watched.
    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        self.threads().len()
    }

    /// Waits until the shell stream showed `sequence`, or until `shown` says that it did by other means.
    pub(super) async fn reached(&self, sequence: u64, within: Duration, shown: impl Fn() -> bool) -> bool {
        let mut shell = self.shell.subscribe();
        let applied = self.applied.subscribe();
        let wait = async {
            loop {
                shell.mark_unchanged();
                if *applied.borrow() >= sequence || shown() {
                    return true;
                }
                if shell.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(within, wait).await.unwrap_or(false)
    }

    /// The shell stream showed everything up to this sequence.
    pub(super) fn set_applied(&self, sequence: u64) {
        self.applied.send_replace(sequence);
    }

    /// These threads changed, and projects perhaps.
    pub(super) fn wake_threads<'a>(&self, ids: impl IntoIterator<Item = &'a ThreadId> + Clone, projects: bool) {
        self.feed.note(ids.clone(), projects);
        let threads = self.threads();
        for id in ids {
            if let Some(counter) = threads.get(id) {
                count(counter);
            }
        }
    }

    /// Something of the shell changed.
    pub(super) fn wake_shell(&self) {
        count(&self.shell);
    }

    /// The machine went away, came back, or is another one: everybody has to look.
    pub(super) fn wake_all(&self) {
        self.feed.note_everything();
        self.threads().values().for_each(|counter| count(counter));
        count(&self.shell);
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Arc<watch::Sender<u64>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &watch::Sender<u64>) {
    counter.send_modify(|count| *count = count.wrapping_add(1));
}

#[cfg(test)]
mod tests;
