//! The I/O of one machine's roster: its changes, reads of its threads, the clock, wishes, and the ledger.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::roster::{Outcome, Roster};
use crate::fleet::{Limits, Member};
use crate::gateway::tracking::{Said, Sight, Wish};
use crate::lifecycle::ReadNeed;
use crate::machine::{Changed, MachineError, MachineStatus, Thread};
use crate::protocol::{ProjectId, ThreadId};
use crate::store::{Store, StoreError};

/// Reads of a machine at the same time: fewer than it takes, since calls read too.
const READS_AT_ONCE: usize = 6;
/// How long after a failed commit the next is tried, at first and at most.
pub(super) const COMMIT_AGAIN: Duration = Duration::from_millis(500);
pub(super) const COMMIT_AGAIN_AT_MOST: Duration = Duration::from_secs(30);
/// How long the last batch may take at the end.
const LAST_COMMIT: Duration = Duration::from_secs(2);

/// One machine's keeper.
pub(super) struct Keeper {
    member: Arc<Member>,
    store: Store,
    roster: Roster,
    /// What is hidden here is hidden for good.
    final_word: bool,
    reads: JoinSet<Read>,
    /// Who waits until a thread's switch is on disk.
    switching: Vec<(ThreadId, oneshot::Sender<Result<(), StoreError>>)>,
    /// Who waits until what was seen is on disk.
    resting: Vec<mpsc::Sender<()>>,
    /// What calls read of threads that are to be read first, and who waits for it.
    sights: Vec<Sight>,
    /// Who waits until what followed from a call's read is on disk.
    showing: Vec<oneshot::Sender<()>>,
}

struct Read {
    thread: ThreadId,
    era: u64,
    outcome: Result<Arc<Thread>, MachineError>,
}

/// Keeps what the roster has to keep; tries until it is kept, or the program stops. True if all is kept.
pub(super) async fn commit(roster: &mut Roster, store: &Store, stop: &CancellationToken) -> bool {
    let mut again = COMMIT_AGAIN;
    while let Some(batch) = roster.poll_batch(Timestamp::now()) {
        while let Err(error) = store.commit(batch.clone()).await {
            if matches!(error, StoreError::Closed) || stop.is_cancelled() {
                return false;
            }
            tracing::error!(%error, "what happened could not be kept; it is tried again");
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(again) => {}
            }
            again = (again * 2).min(COMMIT_AGAIN_AT_MOST);
        }
    }
    true
}

impl Keeper {
    /// One that has not begun.
    pub(super) fn new(member: Arc<Member>, store: Store, roster: Roster, final_word: bool) -> Self {
        Self {
            member,
            store,
            roster,
            final_word,
            reads: JoinSet::new(),
            switching: Vec::new(),
            resting: Vec::new(),
            sights: Vec::new(),
            showing: Vec::new(),
        }
    }

    /// Keeps the roster until the machine is dismissed or `stop` is cancelled.
    pub(super) async fn run(mut self, mut wishes: mpsc::UnboundedReceiver<Said>, stop: CancellationToken) {
        let mut feed = self.member.machine.changes();
        loop {
            for sight in std::mem::take(&mut self.sights) {
                self.handle_sight(sight);
            }
            if !commit(&mut self.roster, &self.store, &stop).await {
                // Nothing later may be kept where this is not: the next start reads T3 again.
                return;
            }
            self.answer_switches();
            self.showing.clear();
            self.begin_reads();
            if !self.resting.is_empty() && self.reads.is_empty() && !self.roster.has_reads() {
                if let Some(changed) = feed.next().now_or_never() {
                    self.handle_changed(&changed);
                    continue;
                }
                self.resting.clear();
            }
            let wake = self.roster.poll_timeout();
            tokio::select! {
                () = stop.cancelled() => break,
                said = wishes.recv() => match said {
                    Some(said) => self.handle_wish(said.wish),
                    None => break,
                },
                changed = feed.next() => self.handle_changed(&changed),
                Some(read) = self.reads.join_next(), if !self.reads.is_empty() => self.handle_read(read),
                () = until(wake) => self.roster.handle_time(Timestamp::now()),
            }
            // What is ready together shares a transaction.
            while let Ok(said) = wishes.try_recv() {
                self.handle_wish(said.wish);
            }
            while let Some(read) = self.reads.try_join_next() {
                self.handle_read(read);
            }
        }
        let last = commit(&mut self.roster, &self.store, &stop);
        if tokio::time::timeout(LAST_COMMIT, last).await.is_err() {
            tracing::warn!("what happened last could not be kept; T3 still knows it at the next start");
        }
    }

    fn handle_wish(&mut self, wish: Wish) {
        let now = Timestamp::now();
        match wish {
            Wish::TakeUp(receipt) => self.roster.take_up(&receipt, false, now),
            Wish::Settle {
                thread, message, fate, ..
            } => self.roster.settle(&thread, &message, fate, now),
            Wish::Switch {
                thread,
                enabled,
                watch,
                done,
                ..
            } => {
                self.roster.switch(&thread, enabled, watch, now);
                self.switching.push((thread, done));
            }
            Wish::Sight(sight) => self.handle_sight(sight),
            Wish::Admit(member) => {
                self.member = member;
                for id in self.roster.ids() {
                    self.handle_row(&id, now);
                }
            }
            Wish::Dismiss { .. } => {
                if self.final_word {
                    for id in self.roster.ids() {
                        self.roster.handle_not_visible(&id, now);
                    }
                }
            }
            Wish::Rest { done } => self.resting.push(done),
            Wish::List { to } => {
                // Who asked may be gone.
                let _ = to.send(self.roster.watched());
            }
        }
    }

    fn handle_changed(&mut self, changed: &Changed) {
        let now = Timestamp::now();
        if changed.everything {
            let status = self.member.machine.status();
            if !status.online {
                self.roster.handle_away(now);
                return;
            }
            self.roster.handle_online(status.environment.as_ref(), now);
        }
        if changed.everything || changed.projects {
            for id in self.roster.ids() {
                self.handle_row(&id, now);
            }
        } else {
            for id in &changed.threads {
                if self.roster.holds(id) {
                    self.handle_row(id, now);
                }
            }
        }
    }

    fn handle_row(&mut self, id: &ThreadId, now: Timestamp) {
        let row = self.member.machine.thread(id);
        let project = row.as_ref().map(|row| self.project(&row.project));
        match project {
            Some(Seen::Hidden) if self.final_word => self.roster.handle_not_visible(id, now),
            // It waits for a process that may see it.
            Some(Seen::Hidden) => {}
            Some(Seen::Shown(title)) => self.roster.handle_row(id, row.as_deref(), Some(&title), now),
            Some(Seen::Unknown) | None => self.roster.handle_row(id, row.as_deref(), None, now),
        }
    }

    fn handle_read(&mut self, read: Result<Read, tokio::task::JoinError>) {
        let Ok(Read {
            thread: id,
            era,
            outcome,
        }) = read
        else {
            tracing::error!("a read ended without an answer");
            return;
        };
        let now = Timestamp::now();
        match outcome {
            Ok(thread) => match self.project(&thread.head.project) {
                // Judged by the mirror of now: a read of before says nothing about it.
                Seen::Hidden if !self.roster.is_current(era) => {}
                Seen::Hidden if self.final_word => self.roster.handle_not_visible(&id, now),
                Seen::Hidden => self.roster.handle_read(&id, era, Outcome::Failed, None, now),
                Seen::Shown(title) => self
                    .roster
                    .handle_read(&id, era, Outcome::Read(&thread), Some(&title), now),
                Seen::Unknown => self.roster.handle_read(&id, era, Outcome::Read(&thread), None, now),
            },
            Err(MachineError::ThreadNotFound) => self.roster.handle_read(&id, era, Outcome::NotFound, None, now),
            Err(error) => {
                tracing::debug!(thread = %id, %error, "the thread could not be read");
                self.roster.handle_read(&id, era, Outcome::Failed, None, now);
            }
        }
    }

    /// A call read a thread. Where nothing can be made of it yet, it is looked at again for as long as somebody waits.
    fn handle_sight(&mut self, sight: Sight) {
        let title = match self.project(&sight.thread.head.project) {
            Seen::Shown(title) => Some(title),
            Seen::Unknown => None,
            Seen::Hidden => return,
        };
        let (thread, environment) = (&sight.thread, sight.environment.as_ref());
        let now = Timestamp::now();
        let counted = self
            .roster
            .handle_sight(&sight.id, thread, environment, title.as_deref(), now);
        if counted {
            self.showing.extend(sight.kept);
        } else if sight.kept.as_ref().is_some_and(|kept| !kept.is_closed()) {
            self.sights.push(sight);
        }
    }

    fn begin_reads(&mut self) {
        while self.reads.len() < READS_AT_ONCE
            && let Some((thread, need, era)) = self.roster.poll_read()
        {
            let machine = Arc::clone(&self.member);
            let begins = self.roster.begins(&thread);
            let runs = self.roster.runs_of(&thread);
            self.reads.spawn(async move {
                let read = match need {
                    ReadNeed::Part => machine.machine.read_thread(&thread).await,
                    ReadNeed::Whole => machine.machine.read_whole_thread(&thread).await,
                };
                let outcome = match read {
                    // An archived thread that T3 does not show. Where its history ends is not known, so nobody begins to follow it.
                    Err(MachineError::NeedsNewer(_)) if begins => Err(MachineError::ThreadNotFound),
                    Err(MachineError::NeedsNewer(_)) => {
                        let known = machine
                            .machine
                            .archived_thread(&thread, need == ReadNeed::Whole, &runs)
                            .await;
                        known.map(Arc::new)
                    }
                    read => read,
                };
                Read { thread, era, outcome }
            });
        }
    }

    fn answer_switches(&mut self) {
        let waiting = std::mem::take(&mut self.switching);
        for (thread, done) in waiting {
            if self.roster.begins(&thread) {
                self.switching.push((thread, done));
            } else {
                // Who asked may be gone.
                let _ = done.send(Ok(()));
            }
        }
    }

    fn project(&self, id: &ProjectId) -> Seen {
        match self.member.machine.project(id) {
            Some(project) if self.member.shows(&Limits::default(), &project) => Seen::Shown(project.title.clone()),
            Some(_) => Seen::Hidden,
            // Hidden and unknown answer alike; but while the machine is away nothing is known.
            None => match self.member.machine.status() {
                // Nor of a project that cannot be read, which may be any that is not known.
                MachineStatus {
                    online: true,
                    error: None,
                    ..
                } => Seen::Hidden,
                _ => Seen::Unknown,
            },
        }
    }
}

/// Whether a project exists for the operator.
enum Seen {
    Shown(String),
    Hidden,
    Unknown,
}

async fn until(wake: Option<Timestamp>) {
    match wake {
        Some(at) => {
            let left = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
        }
        None => std::future::pending().await,
    }
}
