//! The tracked threads of one machine: what happened goes in, what is to be read and what is to be kept comes out.
//!
//! No I/O, no clock. It decides nothing about runs itself: the trackers do. It knows which thread is due when, so that a hundred thousand
//! quiet threads cost nothing but memory.

mod first;
mod sight;
#[cfg(test)]
mod tests;
mod wanted;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use jiff::Timestamp;

use super::WatchSettings;
use super::beginning::Beginning;
use super::entry::{Edition, Entry, Surroundings};
use super::facts::{messages, read_facts, row_facts, run_facts};
use super::place::{Place, Places};
use crate::fleet::Ceilings;
use crate::gateway::tracking::WatchedThread;
use crate::lifecycle::{Outage, ReadNeed, RunFacts, Tracker, Watch};
use crate::machine::{RuntimeMode, Thread, ThreadRow};
use crate::protocol::{EnvironmentId, ThreadId};
use crate::store::{Batch, ReceiptUpdate, Tracked};

/// What a read brought.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// The thread.
    Read(&'a Thread),
    /// T3 does not know it.
    NotFound,
    /// Nothing, which says nothing.
    Failed,
}

/// The tracked threads of one machine.
#[derive(Debug)]
pub struct Roster {
    machine: String,
    ceiling: RuntimeMode,
    client_ceilings: Ceilings,
    settings: WatchSettings,
    environment: Option<EnvironmentId>,
    online_since: Option<Timestamp>,
    outage: Outage,
    /// Boxed: a table keeps room for more than it holds.
    threads: HashMap<ThreadId, Box<Entry>>,
    places: Places,
    beginning: HashMap<ThreadId, Beginning>,
    /// What is to be read, each thread once.
    reads: VecDeque<(ThreadId, ReadNeed)>,
    /// Counts gaps: what was asked for before one is not taken after it.
    era: u64,
    due: BTreeSet<(Timestamp, ThreadId)>,
    changed: HashSet<ThreadId>,
    batch: Batch,
}

// What is known.
impl Roster {
    /// A machine of which nothing is known yet, and nothing wanted.
    pub fn new(machine: &str, ceiling: RuntimeMode, settings: WatchSettings, now: Timestamp) -> Self {
        Self {
            machine: machine.to_owned(),
            ceiling,
            client_ceilings: Ceilings::default(),
            settings,
            environment: None,
            online_since: None,
            outage: Outage::new(settings.unreachable_after, now),
            threads: HashMap::new(),
            places: Places::default(),
            beginning: HashMap::new(),
            reads: VecDeque::new(),
            era: 0,
            due: BTreeSet::new(),
            changed: HashSet::new(),
            batch: Batch::default(),
        }
    }

    /// The same, where some clients have ceilings of their own: their events offer no more than they may take.
    #[must_use]
    pub fn with_client_ceilings(self, client_ceilings: Ceilings) -> Self {
        Self {
            client_ceilings,
            ..self
        }
    }

    /// Whether anything is wanted of the thread.
    pub fn holds(&self, id: &ThreadId) -> bool {
        self.threads.contains_key(id) || self.beginning.contains_key(id)
    }

    /// Whether the thread is on its way to be followed.
    pub fn begins(&self, id: &ThreadId) -> bool {
        self.beginning.contains_key(id)
    }

    /// The runs that are followed in the thread, as they were last known.
    pub fn runs_of(&self, id: &ThreadId) -> Vec<RunFacts> {
        let entry = self.threads.get(id);
        entry
            .map(|entry| entry.tracker.thread().runs.iter().map(run_facts).collect())
            .unwrap_or_default()
    }

    /// Whether what was asked for in `era` still counts.
    pub fn is_current(&self, era: u64) -> bool {
        self.era == era
    }

    /// Every thread of which anything is wanted.
    pub fn ids(&self) -> Vec<ThreadId> {
        self.threads.keys().chain(self.beginning.keys()).cloned().collect()
    }

    /// The threads whose events somebody wants.
    pub fn watched(&self) -> Vec<WatchedThread> {
        let watched = self.threads.iter().filter_map(|(id, entry)| {
            let thread = entry.tracker.thread();
            let runs = thread.runs.iter().filter(|run| run.state.is_busy());
            let open = runs
                .map(|run| &run.watch)
                .chain(thread.dispatched.iter().map(|sent| &sent.watch));
            let open: Vec<&Watch> = open.filter(|watch| watch.on).collect();
            let latest = thread.every.then_some(&thread.latest);
            let clients = open
                .iter()
                .copied()
                .chain(latest)
                .filter_map(|watch| watch.client.clone());
            (thread.every || !open.is_empty()).then(|| WatchedThread {
                machine: self.machine.clone(),
                thread: id.clone(),
                project: entry.place.project.clone(),
                title: entry.title.clone(),
                every: thread.every,
                open: open.len(),
                clients: clients.collect(),
            })
        });
        watched.collect()
    }
}

// What happened.
impl Roster {
    /// The ledger has this thread.
    pub fn load(&mut self, tracked: Tracked, now: Timestamp) {
        let id = tracked.thread.thread.clone();
        let unsettled = tracked.thread.dispatched.iter().filter(|sent| !sent.settled);
        let entry = Entry {
            orphans: unsettled.map(|sent| (sent.message.clone(), None)).collect(),
            place: self.places.shared(Place {
                environment: tracked.environment,
                project: tracked.project_id,
                project_title: tracked.project_title,
            }),
            title: tracked.title,
            protocol: tracked.protocol,
            ..Entry::new(Tracker::at(tracked.thread, self.settings.limits, now))
        };
        self.threads.insert(id.clone(), Box::new(entry));
        self.look_after(&id, None, now);
    }

    /// The machine answers, or is another one than before.
    pub fn handle_online(&mut self, environment: Option<&EnvironmentId>, now: Timestamp) {
        let since = self.outage.handle_back().unwrap_or(now);
        self.online_since = Some(now);
        self.environment = environment.cloned();
        self.era += 1;
        self.reads.clear();
        for begin in self.beginning.values_mut() {
            begin.handle_gap();
        }
        for id in self.ids() {
            if let Some(entry) = self.threads.get_mut(&id)
                && let (Some(old), Some(new)) = (&entry.place.environment, environment)
                && old != new
            {
                entry.tracker.handle_replaced(now);
                self.look_after(&id, None, now);
                if let Some(entry) = self.threads.get_mut(&id) {
                    entry.place = self.places.shared(Place {
                        environment: Some(new.clone()),
                        ..Place::clone(&entry.place)
                    });
                    self.changed.insert(id.clone());
                }
            }
            if let Some(entry) = self.threads.get_mut(&id) {
                entry.orphans.values_mut().for_each(|lacked_since| *lacked_since = None);
                // Sequences may begin anew.
                entry.newest = Edition::default();
                entry.overtaken_by = None;
                entry.tracker.handle_gap(since, now);
            }
            self.look_after(&id, None, now);
        }
    }

    /// The machine does not answer.
    pub fn handle_away(&mut self, now: Timestamp) {
        if self.online_since.take().is_some() {
            self.outage = Outage::new(self.settings.unreachable_after, now);
            self.era += 1;
            self.reads.clear();
        }
        self.outage.handle_away(now);
    }

    /// The shell shows a thread, or shows it no more.
    pub fn handle_row(&mut self, id: &ThreadId, row: Option<&ThreadRow>, project: Option<&str>, now: Timestamp) {
        if let Some((begin, row)) = self.beginning.get_mut(id).zip(row) {
            begin.handle_row(row_facts(row));
        }
        if let Some(entry) = self.threads.get_mut(id) {
            match row {
                Some(row) => {
                    note_head(
                        entry,
                        &mut self.places,
                        &mut self.changed,
                        id,
                        (&row.title, &row.project, project),
                    );
                    entry.tracker.handle_row(&row_facts(row), now);
                }
                None => entry.tracker.handle_row_missing(),
            }
        }
        self.look_after(id, None, now);
    }

    /// The operator hides the thread, or took its machine away.
    pub fn handle_not_visible(&mut self, id: &ThreadId, now: Timestamp) {
        if let Some(begin) = self.beginning.get_mut(id) {
            begin.leave_taken_over();
        }
        self.stop_beginning(id);
        if let Some(entry) = self.threads.get_mut(id) {
            entry.tracker.handle_not_visible(now);
            self.look_after(id, None, now);
            self.forget(id);
        }
    }

    /// A read that was asked for in `era` came back.
    pub fn handle_read(
        &mut self,
        id: &ThreadId,
        era: u64,
        outcome: Outcome<'_>,
        project: Option<&str>,
        now: Timestamp,
    ) {
        if era != self.era {
            return;
        }
        if self.beginning.contains_key(id) {
            self.handle_first_read(id, outcome, project, now);
        } else if let Some(entry) = self.threads.get_mut(id) {
            let sight = entry.overtaken_by.take();
            match outcome {
                Outcome::Read(thread) if sight.is_some_and(|sight| Edition::of(thread) < sight) => {
                    entry.tracker.handle_read_overtaken();
                    self.look_after(id, None, now);
                    return;
                }
                Outcome::Read(thread) => {
                    entry.newest = Edition::of(thread);
                    let head = &thread.head;
                    note_head(
                        entry,
                        &mut self.places,
                        &mut self.changed,
                        id,
                        (&head.title, &head.project, project),
                    );
                    let messages = messages(thread);
                    entry.tracker.handle_read(&read_facts(thread, &messages), now);
                }
                Outcome::NotFound => entry.tracker.handle_not_found(now),
                Outcome::Failed => entry.tracker.handle_read_failed(now),
            }
            match outcome {
                Outcome::Read(_) | Outcome::NotFound => entry.settle_orphans(now),
                Outcome::Failed => {}
            }
        }
        let thread = match outcome {
            Outcome::Read(thread) => Some(thread),
            Outcome::NotFound | Outcome::Failed => None,
        };
        self.look_after(id, thread, now);
    }

    /// The time that [`Self::poll_timeout`] named has come.
    pub fn handle_time(&mut self, now: Timestamp) {
        self.outage.handle_time(now);
        if let Some(since) = self.outage.poll_unreachable() {
            for id in self.ids() {
                if let Some(entry) = self.threads.get_mut(&id) {
                    entry.tracker.handle_unreachable(since, now);
                }
                self.look_after(&id, None, now);
            }
        }
        // While the machine is away nothing can be concluded; its return looks at everything.
        if self.online_since.is_none() {
            return;
        }
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        let due: Vec<ThreadId> = due.map(|(_, id)| id.clone()).collect();
        let begin = self
            .beginning
            .iter()
            .filter(|(_, begin)| begin.not_before.is_some_and(|due| due <= now));
        let begin: Vec<ThreadId> = begin.map(|(id, _)| id.clone()).collect();
        for id in due.iter().chain(&begin) {
            if let Some(entry) = self.threads.get_mut(id) {
                entry.tracker.handle_time(now);
            }
            self.look_after(id, None, now);
        }
    }
}

// What is to be done.
impl Roster {
    /// What is to be read now, and in which era it is asked for.
    pub fn poll_read(&mut self) -> Option<(ThreadId, ReadNeed, u64)> {
        self.online_since?;
        let (id, need) = self.reads.pop_front()?;
        Some((id, need, self.era))
    }

    /// Whether something is to be read now.
    pub fn has_reads(&self) -> bool {
        self.online_since.is_some() && !self.reads.is_empty()
    }

    /// What is to be kept, all at once.
    pub fn poll_batch(&mut self, now: Timestamp) -> Option<Batch> {
        let mut batch = std::mem::take(&mut self.batch);
        for id in self.changed.drain() {
            if let Some(entry) = self.threads.get(&id) {
                batch.upsert.push(entry.tracked(&self.machine));
            }
        }
        let nothing = batch.upsert.is_empty()
            && batch.forget.is_empty()
            && batch.events.is_empty()
            && batch.settled.is_empty()
            && batch.taken_over.is_empty();
        batch.at = now;
        (!nothing).then_some(batch)
    }

    /// When to call [`Self::handle_time`].
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let outage = self.outage.poll_timeout();
        if self.online_since.is_none() {
            return outage;
        }
        let due = self.due.first().map(|(due, _)| *due);
        let begin = self.beginning.values().filter_map(|begin| begin.not_before).min();
        due.into_iter().chain(outage).chain(begin).min()
    }
}

impl Roster {
    /// After anything happened to a thread: takes what its tracker has to say. `thread` is the read that it was concluded from.
    fn look_after(&mut self, id: &ThreadId, thread: Option<&Thread>, now: Timestamp) {
        if let Some(begin) = self.beginning.get_mut(id)
            && let Some(need) = begin.poll_read(now)
        {
            self.reads.push_back((id.clone(), need));
        }
        let Some(entry) = self.threads.get_mut(id) else {
            return;
        };
        let around = Surroundings {
            machine: &self.machine,
            ceiling: self.ceiling,
            client_ceilings: &self.client_ceilings,
            deliver: self.settings.deliver,
            now,
        };
        while let Some(told) = entry.tracker.poll_event() {
            self.batch.events.push(entry.event(&told, thread, around));
        }
        while entry.tracker.poll_started().is_some() {}
        if entry.tracker.poll_dirty() {
            self.changed.insert(id.clone());
        }
        if self.online_since.is_some()
            && let Some(need) = entry.tracker.poll_read()
        {
            self.reads.push_back((id.clone(), need));
        }
        let due = entry.tracker.poll_timeout();
        if due != entry.due {
            if let Some(before) = std::mem::replace(&mut entry.due, due) {
                self.due.remove(&(before, id.clone()));
            }
            if let Some(due) = due {
                self.due.insert((due, id.clone()));
            }
        }
        if entry.tracker.is_idle_forever() {
            self.forget(id);
        }
    }

    /// The receipt needs no taking up any more.
    fn take_receipt(&mut self, client: String, request: String, opened: Timestamp) {
        let taken = ReceiptUpdate {
            // One that was opened again meanwhile is told of anew.
            opened: Some(opened),
            settled: true,
            ..ReceiptUpdate::default()
        };
        self.batch.settled.push((client, request, taken));
    }

    fn forget(&mut self, id: &ThreadId) {
        if let Some(entry) = self.threads.remove(id) {
            if let Some(due) = entry.due {
                self.due.remove(&(due, id.clone()));
            }
            self.changed.remove(id);
            self.batch.forget.push((self.machine.clone(), id.clone()));
        }
    }
}

/// Keeps what people call the thread, for events of what cannot be read any more.
fn note_head(
    entry: &mut Entry,
    places: &mut Places,
    changed: &mut HashSet<ThreadId>,
    id: &ThreadId,
    (title, project, project_title): (&str, &crate::protocol::ProjectId, Option<&str>),
) {
    let place = &entry.place;
    let moved = place.project.as_ref() != Some(project) || place.project_title.as_deref() != project_title;
    if moved {
        entry.place = places.shared(Place {
            environment: place.environment.clone(),
            project: Some(project.clone()),
            project_title: project_title.map(str::to_owned),
        });
    }
    let renamed = entry.title.as_deref() != Some(title);
    if renamed {
        entry.title = Some(title.to_owned());
    }
    if moved || renamed {
        changed.insert(id.clone());
    }
}
