//! What a machine of protocol 1 showed, or was told by us, and does not show for good: an interrupted turn may be shown as completed a moment
//! later, and only its newest turn has a state at all.
//!
//! Kept for as long as the program runs, also over connections. What is not remembered is told from what the thread still shows.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::lifecycle::RunFacts;
use crate::protocol::{MessageId, RunId, ThreadId};

/// How much of each kind is remembered; the oldest goes first.
const MOST: usize = 4_096;

/// How many runs of a thread are remembered: the newest, and what leads up to it.
const MOST_RUNS: usize = 4;

/// The newest runs of a thread as they were last read, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRead {
    pub(super) runs: Vec<RunFacts>,
    /// The turn of the newest.
    pub(super) turn: Option<String>,
}

/// The memory of one machine.
#[derive(Debug, Default)]
pub(in crate::machine) struct Memory(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    started_at: Option<Timestamp>,
    stopped_runs: Recent<(ThreadId, RunId), ()>,
    stopped_turns: Recent<String, ()>,
    requested: Recent<String, Timestamp>,
    ends: Recent<String, &'static str>,
    died: Recent<String, ()>,
    sent: Recent<MessageId, Timestamp>,
    last_reads: Recent<ThreadId, LastRead>,
    orphaned: HashSet<ThreadId>,
    /// When each turn was first seen to have ended, if that was soon after its end.
    ended: Recent<String, Option<Timestamp>>,
    settling: HashSet<ThreadId>,
}

impl Memory {
    /// Another database answers: nothing of before holds there.
    pub(in crate::machine) fn forget(&self) {
        *self.inner() = Inner::default();
    }

    /// The server process that answers now began then.
    pub(super) fn handle_started(&self, at: Timestamp) {
        self.inner().started_at = Some(at);
    }

    /// When the server process began.
    pub(in crate::machine) fn started_at(&self) -> Option<Timestamp> {
        self.inner().started_at
    }

    /// We stopped the run.
    pub(super) fn handle_stopped(&self, thread: &ThreadId, run: &RunId) {
        self.inner().stopped_runs.insert((thread.clone(), run.clone()), ());
    }

    /// The turn was shown as interrupted.
    pub(super) fn handle_turn_stopped(&self, turn: &str) {
        self.inner().stopped_turns.insert(turn.to_owned(), ());
    }

    /// Whether it was.
    pub(super) fn was_turn_stopped(&self, turn: &str) -> bool {
        self.inner().stopped_turns.get(turn).is_some()
    }

    /// Whether anything remembered says that the run was stopped.
    pub(super) fn was_stopped(&self, thread: &ThreadId, run: &RunId, turn: Option<&str>) -> bool {
        let inner = self.inner();
        let run = (thread.clone(), run.clone());
        inner.stopped_runs.get(&run).is_some() || turn.is_some_and(|turn| inner.stopped_turns.get(turn).is_some())
    }

    /// The turn, shown as the newest one, was asked for then.
    pub(super) fn handle_requested(&self, turn: &str, at: Timestamp) {
        self.inner().requested.insert(turn.to_owned(), at);
    }

    /// When the turn was asked for, if it was ever shown as the newest one.
    pub(super) fn requested_at(&self, turn: &str) -> Option<Timestamp> {
        self.inner().requested.get(turn).copied()
    }

    /// The turn, shown as the newest one, had ended so.
    pub(super) fn handle_end(&self, turn: &str, status: &'static str) {
        self.inner().ends.insert(turn.to_owned(), status);
    }

    /// How the turn ended, if that was ever shown.
    pub(super) fn end(&self, turn: &str) -> Option<&'static str> {
        self.inner().ends.get(turn).copied()
    }

    /// The turn was shown as at work by an agent that had died with an earlier server process.
    pub(super) fn handle_died(&self, turn: &str) {
        self.inner().died.insert(turn.to_owned(), ());
    }

    /// Whether it was.
    pub(super) fn died(&self, turn: &str) -> bool {
        self.inner().died.get(turn).is_some()
    }

    /// We send the message now. A call that came to nothing is repeated with the same id: its last try counts.
    pub(super) fn handle_sent(&self, message: &MessageId, now: Timestamp) {
        self.inner().sent.insert(message.clone(), now);
    }

    /// When we sent the message, by our own clock: the server's may be another.
    pub(super) fn sent_at(&self, message: &MessageId) -> Option<Timestamp> {
        self.inner().sent.get(message).copied()
    }

    /// The thread was read and showed these runs, oldest first, the newest of them in this turn.
    pub(super) fn handle_read(&self, thread: &ThreadId, runs: &[RunFacts], turn: Option<&str>) {
        let from = runs.len().saturating_sub(MOST_RUNS);
        let last = LastRead {
            runs: runs.get(from..).unwrap_or_default().to_vec(),
            turn: turn.map(str::to_owned),
        };
        self.inner().last_reads.insert(thread.clone(), last);
    }

    /// The newest runs of the thread as they were last read.
    pub(super) fn last_read(&self, thread: &ThreadId) -> Option<LastRead> {
        self.inner().last_reads.get(thread).cloned()
    }

    /// Whether the thread shows a turn that died with an earlier server process.
    pub(super) fn handle_orphan(&self, thread: &ThreadId, orphaned: bool) {
        let mut inner = self.inner();
        if orphaned {
            inner.orphaned.insert(thread.clone());
        } else {
            inner.orphaned.remove(thread);
        }
    }

    /// Whether the thread's last read showed such a turn.
    pub(super) fn is_orphaned(&self, thread: &ThreadId) -> bool {
        self.inner().orphaned.contains(thread)
    }

    /// When the turn was first seen to have ended: now, if it was not seen before. None where its end was long ago by then.
    pub(super) fn ended_since(&self, turn: &str, lately: bool, now: Timestamp) -> Option<Timestamp> {
        let mut inner = self.inner();
        if let Some(since) = inner.ended.get(turn) {
            return *since;
        }
        let since = lately.then_some(now);
        inner.ended.insert(turn.to_owned(), since);
        since
    }

    /// Whether T3 may show more of the end that the thread's last read showed.
    pub(super) fn handle_settling(&self, thread: &ThreadId, settling: bool) {
        let mut inner = self.inner();
        if settling {
            inner.settling.insert(thread.clone());
        } else {
            inner.settling.remove(thread);
        }
    }

    /// The same, asked.
    pub(super) fn is_settling(&self, thread: &ThreadId) -> bool {
        self.inner().settling.contains(thread)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A map that forgets what it was told first.
#[derive(Debug)]
struct Recent<K, V> {
    known: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if self.known.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.known.get(key)
    }
}
