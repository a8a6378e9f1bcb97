//! The mirror of one machine's shell: its projects and threads as the stream last showed them, kept in memory.
//!
//! Deterministic: no I/O and no clock. The machine's connection feeds it with what a dialect decoded (`handle_*`), takes the effects
//! (`poll_effect`) and wakes whoever waits; everybody else only reads. It never concludes anything about a run: a row is a hint.
//!
//! Two streams may feed it: the shell, and the archive of servers whose shell leaves archived threads out. Each has its own base. What
//! they say of one thread is ordered by sequence, so it does not matter which of them is ahead.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::domain::{Project, ThreadRow};
use crate::protocol::{ProjectId, ThreadId};

mod items;

pub use items::{ArchiveItem, Effect, ShellItem, ShellSnapshot, UnreadRow};

/// Where a row comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A full state: it repeats what may be known.
    Snapshot,
    /// A change.
    Live,
}

/// Projects and threads of one machine.
#[derive(Debug, Default)]
pub struct Mirror {
    threads: HashMap<ThreadId, Arc<ThreadRow>>,
    projects: BTreeMap<ProjectId, (u64, Arc<Project>)>,
    /// What was removed since the last full snapshot, and at which sequence: a late item of the other stream must not bring it back.
    removed_threads: HashMap<ThreadId, u64>,
    removed_projects: HashMap<ProjectId, u64>,
    /// Threads that left the archive at a sequence that the shell has not shown yet.
    leaving: Vec<(u64, ThreadId)>,
    base: Option<u64>,
    archive_base: Option<u64>,
    applied: u64,
    effects: VecDeque<Effect>,
}

// Getters.
impl Mirror {
    /// A thread's row.
    pub fn thread(&self, id: &ThreadId) -> Option<Arc<ThreadRow>> {
        self.threads.get(id).cloned()
    }

    /// All rows, in no order.
    pub fn threads(&self) -> Vec<Arc<ThreadRow>> {
        self.threads.values().cloned().collect()
    }

    /// A project.
    pub fn project(&self, id: &ProjectId) -> Option<Arc<Project>> {
        self.projects.get(id).map(|(_, project)| project.clone())
    }

    /// All projects, by id.
    pub fn projects(&self) -> Vec<Arc<Project>> {
        self.projects.values().map(|(_, project)| project.clone()).collect()
    }

    /// The highest sequence that the shell stream showed.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// A full snapshot was seen since the last reset.
    pub fn has_base(&self) -> bool {
        self.base.is_some()
    }
}

// What happened.
impl Mirror {
    /// An item of the shell stream came.
    pub fn handle_shell(&mut self, item: ShellItem) {
        match item {
            ShellItem::Snapshot(snapshot) => self.rebase(snapshot),
            // A snapshot is current when it comes, so the marker after it says nothing new.
            ShellItem::Metadata | ShellItem::Synchronized | ShellItem::Unknown { .. } => {}
            ShellItem::ThreadUpdated(row) => {
                self.applied = self.applied.max(row.sequence);
                if self.above_base(row.sequence) {
                    self.upsert(*row, Origin::Live);
                }
            }
            ShellItem::ThreadUnreadable { sequence, thread, .. } => {
                self.applied = self.applied.max(sequence);
                if self.above_base(sequence) {
                    self.distrust(thread, sequence);
                }
            }
            ShellItem::ThreadRemoved { sequence, thread } => {
                self.applied = self.applied.max(sequence);
                if self.above_base(sequence) {
                    self.remove(thread, sequence);
                }
            }
            ShellItem::ProjectUpdated { sequence, project } => {
                self.applied = self.applied.max(sequence);
                if self.above_base(sequence) {
                    self.upsert_project(sequence, project);
                }
            }
            ShellItem::ProjectRemoved { sequence, project } => {
                self.applied = self.applied.max(sequence);
                if self.above_base(sequence) {
                    self.remove_project(project, sequence);
                }
            }
        }
        self.settle_leaving();
    }

    /// An item of the archive's stream came.
    pub fn handle_archive(&mut self, item: ArchiveItem) {
        match item {
            ArchiveItem::Snapshot { sequence, threads, .. } => self.rebase_archive(sequence, threads),
            ArchiveItem::Updated(mut row) => {
                if self.archive_base.is_none_or(|base| row.sequence > base) {
                    row.archived = true;
                    self.upsert(*row, Origin::Live);
                }
            }
            ArchiveItem::Unreadable { sequence, thread, .. } => {
                if self.archive_base.is_none_or(|base| sequence > base) {
                    self.distrust(thread, sequence);
                }
            }
            ArchiveItem::Removed { sequence, thread } => {
                // The shell stream tells where it went; until then the row stays, lest a restored thread seem to be gone.
                self.leaving.push((sequence, thread));
                self.settle_leaving();
            }
            ArchiveItem::Unknown { .. } => {}
        }
    }

    /// The server has no stream of the archive any more. Its rows stay until a snapshot of the shell, which is the whole truth then,
    /// leaves them out.
    pub fn handle_archive_ended(&mut self) {
        self.archive_base = None;
    }

    /// The server was replaced by one of another protocol that took its database over: sequences begin anew, and the next snapshot says
    /// what there is.
    pub fn handle_other_protocol(&mut self) {
        self.base = None;
        self.archive_base = None;
        self.applied = 0;
        self.removed_threads.clear();
        self.removed_projects.clear();
        self.leaving.clear();
        for row in self.threads.values_mut() {
            Arc::make_mut(row).sequence = 0;
        }
        for (sequence, _) in self.projects.values_mut() {
            *sequence = 0;
        }
    }

    /// The machine has another environment id than before.
    pub fn handle_new_environment(&mut self) {
        if self.base.is_some() {
            self.reset();
        }
    }
}

// What to do next.
impl Mirror {
    /// The next effect of what was handled.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}

// The rules.
impl Mirror {
    /// Every resume replays items that the base already covers.
    fn above_base(&self, sequence: u64) -> bool {
        self.base.is_none_or(|base| sequence > base)
    }

    fn rebase(&mut self, snapshot: ShellSnapshot) {
        if snapshot.sequence < self.applied {
            self.reset();
        }
        self.base = Some(snapshot.sequence);
        self.applied = snapshot.sequence;
        self.removed_threads.clear();
        self.removed_projects.clear();

        let listed: HashSet<ThreadId> = snapshot.threads.iter().map(|row| row.id.clone()).collect();
        for row in snapshot.threads {
            self.upsert(row, Origin::Snapshot);
        }
        // Where archived threads have a stream of their own, the shell's snapshot leaves them out and proves nothing about them.
        let archive_apart = self.archive_base.is_some();
        self.drop_rows(|row| {
            row.sequence <= snapshot.sequence && !listed.contains(&row.id) && !(row.archived && archive_apart)
        });
        self.replace_projects(snapshot.sequence, snapshot.projects);
    }

    fn rebase_archive(&mut self, sequence: u64, threads: Vec<ThreadRow>) {
        self.archive_base = Some(sequence);
        let listed: HashSet<ThreadId> = threads.iter().map(|row| row.id.clone()).collect();
        for mut row in threads {
            row.archived = true;
            self.upsert(row, Origin::Snapshot);
        }
        self.drop_rows(|row| row.archived && row.sequence <= sequence && !listed.contains(&row.id));
    }

    /// Takes a row in if nothing newer is known of its thread. What a snapshot repeats wakes nobody; a later live item always does,
    /// also with an equal row: it says that something of the thread changed which rows do not show.
    fn upsert(&mut self, mut row: ThreadRow, origin: Origin) {
        if self
            .removed_threads
            .get(&row.id)
            .is_some_and(|removed| *removed > row.sequence)
        {
            return;
        }
        let changed = match self.threads.get(&row.id) {
            Some(known) if known.sequence > row.sequence => return,
            Some(known) => {
                let sequence = std::mem::replace(&mut row.sequence, known.sequence);
                let later = match origin {
                    Origin::Live => sequence > known.sequence,
                    Origin::Snapshot => false,
                };
                let changed = later || **known != row;
                row.sequence = sequence;
                changed
            }
            None => true,
        };
        let id = row.id.clone();
        self.threads.insert(id.clone(), Arc::new(row));
        if changed {
            self.effects.push_back(Effect::ThreadChanged(id));
        }
    }

    /// Drops what left the archive once the shell is past that point without having said where it went.
    fn settle_leaving(&mut self) {
        let (past, ahead): (Vec<_>, Vec<_>) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|(sequence, _)| *sequence < self.applied);
        self.leaving = ahead;
        for (sequence, thread) in past {
            let still_there = self
                .threads
                .get(&thread)
                .is_some_and(|row| row.archived && row.sequence < sequence);
            if still_there {
                self.threads.remove(&thread);
                self.effects.push_back(Effect::ThreadRemoved(thread));
            }
        }
    }

    fn remove(&mut self, thread: ThreadId, sequence: u64) {
        let known = self.threads.get(&thread).map(|row| row.sequence);
        // The archive's stream may already have shown, at this sequence, where the thread went.
        if known.is_some_and(|known| known >= sequence) {
            return;
        }
        let removed = self.removed_threads.entry(thread.clone()).or_default();
        // Also one that came and went within a window, and was never shown: somebody may know of it by a read.
        let is_news = sequence > *removed;
        *removed = sequence.max(*removed);
        if self.threads.remove(&thread).is_some() || is_news {
            self.effects.push_back(Effect::ThreadRemoved(thread));
        }
    }

    /// Drops the row of a thread of which something later is known that cannot be read, and wakes whoever waits: a read tells.
    fn distrust(&mut self, thread: ThreadId, sequence: u64) {
        if self.threads.get(&thread).is_some_and(|row| row.sequence >= sequence) {
            return;
        }
        let removed = self.removed_threads.entry(thread.clone()).or_default();
        *removed = sequence.max(*removed);
        self.threads.remove(&thread);
        self.effects.push_back(Effect::ThreadChanged(thread));
    }

    fn drop_rows(&mut self, gone: impl Fn(&ThreadRow) -> bool) {
        let effects = &mut self.effects;
        self.threads.retain(|id, row| {
            let gone = gone(row);
            if gone {
                effects.push_back(Effect::ThreadRemoved(id.clone()));
            }
            !gone
        });
    }

    fn upsert_project(&mut self, sequence: u64, project: Project) {
        if self
            .removed_projects
            .get(&project.id)
            .is_some_and(|removed| *removed > sequence)
        {
            return;
        }
        match self.projects.get(&project.id) {
            Some((known, _)) if *known > sequence => return,
            Some((_, known)) if **known == project => {}
            Some(_) | None => self.effects.push_back(Effect::ProjectsChanged),
        }
        self.projects.insert(project.id.clone(), (sequence, Arc::new(project)));
    }

    fn remove_project(&mut self, project: ProjectId, sequence: u64) {
        let known = self.projects.get(&project).map(|(known, _)| *known);
        if known.is_some_and(|known| known >= sequence) {
            return;
        }
        if known.is_some() {
            self.projects.remove(&project);
            self.effects.push_back(Effect::ProjectsChanged);
        }
        let removed = self.removed_projects.entry(project).or_default();
        *removed = sequence.max(*removed);
    }

    fn replace_projects(&mut self, sequence: u64, projects: Vec<Project>) {
        let projects: BTreeMap<_, _> = projects
            .into_iter()
            .map(|project| (project.id.clone(), (sequence, Arc::new(project))))
            .collect();
        let same = self.projects.len() == projects.len()
            && self
                .projects
                .values()
                .zip(projects.values())
                .all(|((_, known), (_, new))| known == new);
        self.projects = projects;
        if !same {
            self.effects.push_back(Effect::ProjectsChanged);
        }
    }

    fn reset(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        *self = Self {
            effects,
            ..Self::default()
        };
        self.effects.push_back(Effect::Reset);
    }
}

#[cfg(test)]
pub(super) mod tests;
