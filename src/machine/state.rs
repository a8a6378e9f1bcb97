//! What a machine knows, and who is told when it changes: the mirror, the status, the watchers behind one set of locks.
//!
//! Written by the connection alone, read by everybody. No lock is held over an await, and nobody is woken before what they are to
//! see can be read.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::runtime::Handle;

use super::MachineStatus;
use super::mirror::{ArchiveItem, Effect, Mirror, ShellItem};
use super::reads::Seen;
use super::watchers::Watchers;
use crate::protocol::{ProjectId, ThreadId, Untrusted};

/// How many unknown words are remembered.
const UNKNOWN_WORDS: usize = 64;
/// What the others are counted as.
const OTHERS: &str = "others";
/// How much of one a log line repeats.
const WORD_CHARS: usize = 100;

/// The memory of one machine.
#[derive(Debug)]
pub(super) struct State {
    mirror: RwLock<Mirror>,
    status: RwLock<MachineStatus>,
    /// The highest sequence that we wrote to a thread, until its row shows it: the stream may be past that with another thread's row before.
    written: Mutex<HashMap<ThreadId, Written>>,
    /// The threads that we launched, until the mirror shows them: a launch has no sequence.
    launched: Mutex<HashSet<ThreadId>>,
    /// The project for what belongs to none, once the server named it.
    scratch: Mutex<Option<ProjectId>>,
    watchers: Arc<Watchers>,
}

/// A write of ours that the mirror does not show yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Written {
    sequence: u64,
    /// Who lists waits for it no more; a read of the thread still has to show it.
    given_up: bool,
    /// Who reads waits for the mirror no more; no read of before it serves him all the same.
    waited: bool,
}

/// What came over the streams.
#[derive(Debug)]
pub(super) enum StreamItem {
    /// Of the shell.
    Shell(ShellItem),
    /// Of the archive.
    Archive(ArchiveItem),
}

// What is read.
impl State {
    pub(super) fn new(runtime: Handle) -> Self {
        Self {
            mirror: RwLock::default(),
            status: RwLock::new(MachineStatus::default()),
            written: Mutex::default(),
            launched: Mutex::default(),
            scratch: Mutex::default(),
            watchers: Arc::new(Watchers::new(runtime)),
        }
    }

    pub(super) fn mirror(&self) -> RwLockReadGuard<'_, Mirror> {
        self.mirror.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> MachineStatus {
        self.status.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_online(&self) -> bool {
        self.status.read().unwrap_or_else(PoisonError::into_inner).online
    }

    pub(super) fn scratch(&self) -> Option<ProjectId> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn watchers(&self) -> &Arc<Watchers> {
        &self.watchers
    }

    /// What is known of a thread at least, our last write to it included.
    pub(super) fn seen(&self, thread: &ThreadId) -> Seen {
        let written = self.written_sequence(thread).unwrap_or_default();
        let mirror = self.mirror();
        match mirror.thread(thread) {
            Some(row) => Seen::Row(row.sequence.max(written)),
            None => Seen::Nothing(mirror.applied().max(written)),
        }
    }

    /// Waits until the mirror shows our last write to the thread; returns after `within` anyway, since a read over HTTP has it.
    pub(super) async fn caught_up(&self, thread: &ThreadId, within: Duration) {
        let write = self.writes().get(thread).copied();
        let Some(write) = write.filter(|write| !write.waited) else {
            return;
        };
        let shown = || self.row_sequence(thread).is_some_and(|row| row >= write.sequence);
        self.watchers.reached(write.sequence, within, shown).await;
        // Shown or given up: later reads need not wait for it again.
        if let Some(known) = self.writes().get_mut(thread)
            && known.sequence == write.sequence
        {
            known.waited = true;
        }
    }

    /// Waits until the mirror shows every write of ours, the threads that we launched among them; returns after `within` anyway.
    pub(super) async fn caught_up_with_all(&self, within: Duration) {
        if self.is_caught_up() {
            return;
        }
        let awaited = (self.writes().clone(), self.launched().clone());
        let mut shell = self.watchers.shell();
        let shown = async {
            loop {
                shell.mark_unchanged();
                if self.is_caught_up() || shell.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(within, shown).await.is_err() {
            // Given up: who lists next need not wait for it again. What was written meanwhile is no part of it.
            self.launched().retain(|thread| !awaited.1.contains(thread));
            for (thread, write) in &mut *self.writes() {
                let is_same = |awaited: &Written| awaited.sequence == write.sequence;
                write.given_up |= awaited.0.get(thread).is_some_and(is_same);
            }
        }
    }

    fn is_caught_up(&self) -> bool {
        let mirror = self.mirror();
        // Of those that were shown before their launch was answered.
        self.launched().retain(|thread| mirror.thread(thread).is_none());
        let mut writes = self.writes();
        writes.retain(|thread, write| !is_shown(&mirror, thread, write.sequence));
        self.launched().is_empty() && writes.values().all(|write| write.given_up)
    }

    fn row_sequence(&self, thread: &ThreadId) -> Option<u64> {
        self.mirror().thread(thread).map(|row| row.sequence)
    }

    fn written_sequence(&self, thread: &ThreadId) -> Option<u64> {
        self.writes().get(thread).map(|write| write.sequence)
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<ThreadId, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launched(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mirror_mut(&self) -> RwLockWriteGuard<'_, Mirror> {
        self.mirror.write().unwrap_or_else(PoisonError::into_inner)
    }
}

// What happened.
impl State {
    /// Items came, in this order: all are applied before anybody is woken. True if they are another database's than before.
    pub(super) fn handle_items(&self, items: impl IntoIterator<Item = StreamItem>) -> bool {
        let (effects, applied) = {
            let mut mirror = self.mirror_mut();
            for item in items {
                match item {
                    StreamItem::Shell(item) => mirror.handle_shell(item),
                    StreamItem::Archive(item) => mirror.handle_archive(item),
                }
            }
            (drain(&mut mirror), mirror.applied())
        };
        self.publish(&effects, applied)
    }

    /// The environment behind the address is another one than before. True if something was known of the one before.
    pub(super) fn handle_new_environment(&self) -> bool {
        self.set_scratch(None);
        let (effects, applied) = {
            let mut mirror = self.mirror_mut();
            mirror.handle_new_environment();
            (drain(&mut mirror), mirror.applied())
        };
        self.publish(&effects, applied)
    }

    /// The same database is served over another protocol: its sequences begin anew, what it holds does not.
    pub(super) fn handle_other_protocol(&self) {
        self.mirror_mut().handle_other_protocol();
        self.writes().clear();
    }

    /// The server named its scratch project.
    pub(super) fn handle_scratch(&self, project: ProjectId) {
        self.set_scratch(Some(project));
    }

    fn set_scratch(&self, project: Option<ProjectId>) {
        *self.scratch.lock().unwrap_or_else(PoisonError::into_inner) = project;
    }

    /// The connection is up or gone, or what is known of the machine changed.
    pub(super) fn handle_status(&self, change: impl FnOnce(&mut MachineStatus)) {
        let was_online = self.is_online();
        let now_online = {
            let mut status = self.status.write().unwrap_or_else(PoisonError::into_inner);
            change(&mut status);
            status.online
        };
        if was_online == now_online {
            self.watchers.wake_shell();
        } else {
            self.watchers.wake_all();
        }
    }

    /// The stream of archived threads ended.
    pub(super) fn handle_archive_ended(&self) {
        self.mirror_mut().handle_archive_ended();
    }

    /// Words were met that this version does not know. Nobody is woken for them.
    pub(super) fn handle_unknown_words(&self, words: impl IntoIterator<Item = String>) {
        let mut words = words.into_iter().peekable();
        if words.peek().is_none() {
            return;
        }
        let mut status = self.status.write().unwrap_or_else(PoisonError::into_inner);
        for word in words {
            if let Some(met) = status.unknown_words.get_mut(&word) {
                *met = met.saturating_add(1);
            } else if status.unknown_words.len() < UNKNOWN_WORDS {
                tracing::warn!(word = %Untrusted(&word).at_most(WORD_CHARS), "T3 uses a word that is not known: it is newer, perhaps");
                status.unknown_words.insert(word, 1);
            } else {
                let others = status.unknown_words.entry(OTHERS.to_owned()).or_default();
                *others = others.saturating_add(1);
            }
        }
    }

    /// T3 recorded a write of ours.
    pub(super) fn handle_written(&self, thread: &ThreadId, sequence: u64) {
        let mirror = self.mirror();
        if is_shown(&mirror, thread, sequence) {
            return;
        }
        let mut writes = self.writes();
        let known = writes.entry(thread.clone()).or_default();
        if sequence > known.sequence {
            *known = Written {
                sequence,
                ..Written::default()
            };
        }
    }

    /// T3 has launched a thread of ours.
    pub(super) fn handle_launched(&self, thread: &ThreadId) {
        self.launched().insert(thread.clone());
    }

    fn publish(&self, effects: &[Effect], applied: u64) -> bool {
        let mut threads = Vec::new();
        let (mut reset, mut projects) = (false, false);
        for effect in effects {
            match effect {
                Effect::ThreadChanged(id) | Effect::ThreadRemoved(id) => threads.push(id),
                Effect::Reset => reset = true,
                Effect::ProjectsChanged => projects = true,
            }
        }
        if reset {
            self.writes().clear();
            self.launched().clear();
        } else {
            let mirror = self.mirror();
            self.writes()
                .retain(|thread, write| !is_shown(&mirror, thread, write.sequence));
            drop(mirror);
            let mut launched = self.launched();
            for id in &threads {
                launched.remove(*id);
            }
        }
        self.watchers.set_applied(applied);
        if reset {
            self.watchers.wake_all();
        } else {
            self.watchers.wake_threads(threads, projects);
            // Also without an effect: `applied` may have moved, and someone may wait for that.
            self.watchers.wake_shell();
        }
        reset
    }
}

/// Whether the mirror shows a write to a thread. What it has no row of, it shows by having come past it.
fn is_shown(mirror: &Mirror, thread: &ThreadId, written: u64) -> bool {
    let shown = mirror.thread(thread).map_or(mirror.applied(), |row| row.sequence);
    shown >= written
}

fn drain(mirror: &mut Mirror) -> Vec<Effect> {
    std::iter::from_fn(|| mirror.poll_effect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::mirror::tests::row;

    #[tokio::test(start_paused = true)]
    async fn who_lists_gives_up_what_it_waited_for_and_reads_still_have_to_show_it() {
        let state = State::new(Handle::current());
        let [early, late, launched] = ["early", "late", "launched"].map(|name| ThreadId(name.to_owned()));
        state.handle_written(&early, 5);
        state.handle_launched(&launched);
        let within = Duration::from_secs(2);
        let meanwhile = async {
            tokio::time::sleep(within / 2).await;
            state.handle_written(&late, 7);
        };
        tokio::join!(state.caught_up_with_all(within), meanwhile);
        assert!(
            !state.is_caught_up(),
            "nobody has waited for what was written meanwhile"
        );
        assert_eq!(
            (state.written_sequence(&early), state.written_sequence(&late)),
            (Some(5), Some(7))
        );
        state.caught_up_with_all(within).await;
        assert!(state.is_caught_up());
        assert!(matches!(state.seen(&late), Seen::Nothing(7)));
        state.handle_written(&early, 9);
        assert!(!state.is_caught_up(), "another write is waited for again");
    }

    #[test]
    fn a_write_is_shown_by_its_own_threads_row_however_far_the_stream_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let state = State::new(runtime.handle().clone());
        let [own, other] = ["own", "other"].map(|name| ThreadId(name.to_owned()));
        let shows = |thread: &ThreadId, sequence: u64| {
            let row = row(&thread.0, sequence, "title");
            state.handle_items([StreamItem::Shell(ShellItem::ThreadUpdated(Box::new(row)))]);
        };
        shows(&own, 3);
        state.handle_written(&own, 5);
        shows(&other, 9);
        assert!(!state.is_caught_up());
        assert!(matches!(state.seen(&own), Seen::Row(5)));
        state.handle_written(&own, 7);
        assert!(matches!(state.seen(&own), Seen::Row(7)));
        shows(&own, 10);
        assert!(state.is_caught_up());
        // What has no row is shown by the stream alone.
        let removed = ShellItem::ThreadRemoved {
            sequence: 12,
            thread: own.clone(),
        };
        state.handle_written(&own, 11);
        state.handle_items([StreamItem::Shell(removed)]);
        assert!(state.is_caught_up());
    }
}
