//! Who keeps an eye on one thread, over gaps, days and restarts of either side: what to read, what became of it, what to tell.
//!
//! Pure: it does no I/O and reads no clock, and what it must remember is a plain value ([`TrackedThread`]) that `store` keeps. It
//! keeps the *set* of open runs and requests, since runs can end out of order. Nothing terminal is ever concluded from a shell row,
//! or from what a part of a thread lacks. Called by `watch` alone, one tracker a thread, one [`Outage`](super::Outage) a machine.
//!
//! - `input`: what goes in; `told`: what comes out
//! - `reading`: when to read
//! - `runs`, `watches`, `requests`, `clocks`: what a read makes of each

mod clocks;
mod input;
mod reading;
mod requests;
mod runs;
mod told;
mod watches;

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

pub use input::{Limits, ReadFacts, ReadNeed, RowFacts};
use reading::{Interest, Reading};
pub use told::{EventKind, Reason, RunKey, Started, Told};

use super::{Baseline, Dispatched, RequestFacts, RunState, ThreadFacts, TrackedRun, TrackedThread, Watch, asks};
use crate::protocol::{MessageId, RunId, ThreadId};

/// A moment so much later, or the last one that there is.
pub(super) fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// One thread that is followed.
///
/// Getters tell what is known, `handle_*` take what happened, the mutators what a caller wants, and `poll_*` say what is to be done
/// next. After each call of the middle two, poll until nothing comes; [`TrackedThread`] and what was told belong into one
/// transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracker {
    thread: TrackedThread,
    limits: Limits,
    reading: Reading,
    /// Nobody looked for a while: a restart of T3 may have happened since the last read.
    gap: bool,
    /// When a change of the thread was last noticed, or we began to look.
    moved_at: Timestamp,
    told: VecDeque<Told>,
    started: VecDeque<Started>,
    dirty: bool,
}

impl Tracker {
    /// A thread that we are about to launch: all its runs are new.
    pub fn new_thread(thread: ThreadId, dispatched: Vec<Dispatched>, limits: Limits, now: Timestamp) -> Self {
        let thread = TrackedThread {
            thread,
            latest: UNWATCHED,
            every: false,
            baseline: None,
            runs: Vec::new(),
            requests: Vec::new(),
            dispatched,
            unreachable: false,
        };
        Self {
            gap: false,
            dirty: true,
            ..Self::at(thread, limits, now)
        }
    }

    /// A thread that was there before, as a whole read shows it. What has ended is history, unless a message of ours made it;
    /// what is open is followed, unwatched. Where somebody noted earlier where history ends (before the messages were sent), it is
    /// `baseline`.
    ///
    /// # Errors
    /// A part of the thread is not enough to begin with: read the whole.
    pub fn begin(
        thread: ThreadId,
        dispatched: Vec<Dispatched>,
        baseline: Option<Baseline>,
        read: &ReadFacts<'_>,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Self, ReadNeed> {
        if read.partial {
            return Err(ReadNeed::Whole);
        }
        let mut tracker = Self::new_thread(thread, dispatched, limits, now);
        tracker.thread.baseline = baseline.or_else(|| runs::all_of(None, read.facts));
        tracker.thread.runs = runs::open_history(tracker.thread.baseline.as_ref(), read.facts, now);
        tracker.gap = true;
        tracker.handle_read(read, now);
        Ok(tracker)
    }

    /// A thread that another program followed until `since`, as a whole read shows it. What had ended by then is history; what is open,
    /// or ended later, is reported as `watch`, and so are runs to come that nobody dispatches.
    ///
    /// # Errors
    /// A part of the thread is not enough to begin with: read the whole.
    pub fn take_over(
        thread: ThreadId,
        dispatched: Vec<Dispatched>,
        watch: Watch,
        since: Timestamp,
        read: &ReadFacts<'_>,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Self, ReadNeed> {
        if read.partial {
            return Err(ReadNeed::Whole);
        }
        let mut tracker = Self::new_thread(thread, dispatched, limits, now);
        tracker.thread.baseline = runs::all_of(None, read.facts);
        tracker.thread.runs = runs::not_ended_by(since, &watch, read.facts, now);
        tracker.thread.latest = watch;
        tracker.gap = true;
        tracker.handle_read(read, now);
        Ok(tracker)
    }

    /// A thread as the store kept it.
    pub fn at(thread: TrackedThread, limits: Limits, now: Timestamp) -> Self {
        Self {
            thread,
            limits,
            reading: Reading::default(),
            gap: true,
            moved_at: now,
            told: VecDeque::new(),
            started: VecDeque::new(),
            dirty: false,
        }
    }

    /// What is to be kept of it.
    pub fn thread(&self) -> &TrackedThread {
        &self.thread
    }

    /// Somebody waits to be told of it: a watched run is open, or a watched message has no run yet.
    pub fn is_open(&self) -> bool {
        let awaited = self.thread.dispatched.iter().any(|message| message.watch.on);
        awaited || self.thread.runs.iter().any(|run| run.watch.on && run.state.is_busy())
    }

    /// Nothing that may still come is watched: it may be forgotten.
    pub fn is_idle_forever(&self) -> bool {
        let watched = self.thread.every || self.thread.latest.on || self.is_open();
        // A message of ours that nobody wants to be told of may still be moved into a run that somebody does.
        let ours = |run: &TrackedRun| run.message.is_some() && run.state.is_busy();
        !watched && !self.thread.runs.iter().any(ours) && self.thread.dispatched.is_empty() && self.told.is_empty()
    }

    /// The runs that count as completed although T3 still shows them finishing, for the fold of views.
    pub fn finish_timed_out(&self) -> impl Iterator<Item = &RunId> {
        let runs = self.thread.runs.iter();
        runs.filter(|run| run.state == RunState::Unconfirmed).map(|run| &run.id)
    }

    /// The shell showed the thread.
    pub fn handle_row(&mut self, row: &RowFacts, now: Timestamp) {
        let interest = self.interest(row);
        if self.reading.handle_row(row, interest, now) {
            self.moved_at = now;
        }
    }

    /// The shell shows the thread no more. Out of the shell is not out of the database: only a read tells.
    pub fn handle_row_missing(&mut self) {
        let was_there = self.reading.handle_row_missing();
        // Of an idle one, too, whose next runs somebody wants: they may have come and gone with it.
        let awaited = !self.is_idle_forever() && (was_there || self.gap);
        if self.follows() || awaited {
            self.reading.ask(ReadNeed::Part);
        }
    }

    /// The thread was read, asked for or not. Reads that were begun before a gap are not to be handed in.
    pub fn handle_read(&mut self, read: &ReadFacts<'_>, now: Timestamp) {
        let Some(moved) = self.reading.handle_read(read.sequence, read.updated_at, now) else {
            return;
        };
        if moved {
            self.moved_at = now;
        }
        if read.partial && !runs::suffices(&self.thread, self.gap, read, now) {
            self.reading.ask(ReadNeed::Whole);
            return;
        }
        self.change(|tracker| {
            tracker.thread.unreachable = false;
            tracker.apply(read, now);
            tracker.gap = false;
        });
    }

    /// Somebody else read the thread, later than the last read that was handed in. It answers nothing that was asked for; but what it shows may be
    /// over at the next read. True if it counted: not right after a gap, nor where it is not enough of the thread.
    pub fn handle_sight(&mut self, sight: &ReadFacts<'_>, now: Timestamp) -> bool {
        if self.gap || sight.partial && !runs::suffices(&self.thread, false, sight, now) {
            return false;
        }
        if !sight.facts.deleted {
            self.change(|tracker| {
                tracker.see(sight, now);
                tracker.remember(sight.facts);
            });
        }
        true
    }

    /// A read came that was begun before a sight that counted, and is older than it: another one is asked for.
    pub fn handle_read_overtaken(&mut self) {
        self.reading.handle_overtaken();
    }

    /// Whether all that the thread asks there is known.
    pub fn knows_what_is_asked(&self, facts: &ThreadFacts) -> bool {
        let known = &self.thread.requests;
        let is_known = |request: &RequestFacts| {
            let mut known = known.iter();
            known.any(|one| one.id == request.id && one.created_at == request.created_at)
        };
        facts.requests.iter().filter(|request| asks(request)).all(is_known)
    }

    /// The thread could not be read, for a reason that says nothing about it: it is asked for again in a while.
    pub fn handle_read_failed(&mut self, now: Timestamp) {
        self.reading.handle_failure(now);
    }

    /// Something is waited for that nobody will tell of: a read in a while may show it.
    pub fn look_again(&mut self, now: Timestamp) {
        self.reading.look_again(now);
    }

    /// T3 does not know the thread (404). While it is not known whether T3 took a message of ours, that proves nothing.
    pub fn handle_not_found(&mut self, now: Timestamp) {
        self.reading.handle_nothing();
        // A read that was asked for meanwhile (T3 took a message) knows better than one that began before.
        if self.reading.is_asked() || self.thread.dispatched.iter().any(|message| !message.settled) {
            return;
        }
        self.change(|tracker| {
            tracker.end_all(Reason::Gone, now);
            tracker.forget_wishes();
        });
    }

    /// The thread's project was hidden, or its machine removed from the configuration.
    pub fn handle_not_visible(&mut self, now: Timestamp) {
        self.reading.handle_nothing();
        self.change(|tracker| tracker.end_all(Reason::NotVisible, now));
    }

    /// The machine is back, and had been away since then (at the start of the program: since it was last heard of, or `now`).
    pub fn handle_gap(&mut self, since: Timestamp, now: Timestamp) {
        self.reading.handle_gap();
        self.gap = true;
        if self.follows() {
            self.reading.ask(ReadNeed::Part);
        }
        self.change(|tracker| {
            tracker.thread.unreachable = false;
            tracker.pass_over(since, now);
        });
    }

    /// Another environment answers under the machine's name: nothing that was open can end any more. Whoever keeps the thread
    /// keeps it under the new environment from now on, and what the new one may have of the same history is not told again.
    pub fn handle_replaced(&mut self, now: Timestamp) {
        self.reading = Reading::default();
        self.gap = true;
        self.change(|tracker| tracker.end_all(Reason::Gone, now));
    }

    /// The machine is away since then, for so long that it is to be told.
    pub fn handle_unreachable(&mut self, since: Timestamp, now: Timestamp) {
        if !self.thread.unreachable {
            self.change(|tracker| tracker.tell_unreachable(since, now));
        }
    }

    /// The time that [`Self::poll_timeout`] named has come. What is overdue is concluded by a read alone: so nothing is told of
    /// a machine that is away.
    pub fn handle_time(&mut self, now: Timestamp) {
        self.reading.handle_time(now);
        if self.reading.is_calm()
            && let Some((due, need)) = self.deadline()
            && due <= now
        {
            self.reading.ask(need);
        }
    }

    /// A message of ours is about to be sent. Told again, it changes nothing.
    pub fn dispatch(&mut self, dispatched: Dispatched) {
        let in_a_run = self
            .thread
            .runs
            .iter()
            .any(|run| run.message.as_ref() == Some(&dispatched.message));
        let waits = self
            .thread
            .dispatched
            .iter()
            .any(|other| other.message == dispatched.message);
        if !in_a_run && !waits {
            self.change(|tracker| tracker.thread.dispatched.push(dispatched));
        }
    }

    /// What became of a message of ours: T3 took it, or it came to nothing and never will.
    pub fn settle(&mut self, message: &MessageId, came_to_nothing: bool) {
        self.change(|tracker| {
            let waiting = &mut tracker.thread.dispatched;
            if came_to_nothing {
                waiting.retain(|other| other.message != *message);
            } else if let Some(waits) = waiting.iter_mut().find(|other| other.message == *message) {
                waits.settled = true;
            }
            if tracker.follows() {
                tracker.reading.ask(ReadNeed::Part);
            }
        });
    }

    /// Switches the thread's events on, for this one (runs that are watched already stay whose they are), or off.
    pub fn set_watch(&mut self, enabled: bool, watch: Watch) {
        self.change(|tracker| {
            tracker.switch(enabled, watch);
            if enabled && tracker.follows() {
                tracker.reading.ask(ReadNeed::Part);
            }
        });
    }

    /// What is to be read now. The answer is handed to [`Self::handle_read`], [`Self::handle_not_found`] or
    /// [`Self::handle_read_failed`]; until then, no other read is asked for.
    pub fn poll_read(&mut self) -> Option<ReadNeed> {
        self.reading.poll()
    }

    /// What is to be told, oldest first; each event comes out once.
    pub fn poll_event(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// A message of ours whose run is known now: what its receipt waits for.
    pub fn poll_started(&mut self) -> Option<Started> {
        self.started.pop_front()
    }

    /// Whether [`Self::thread`] changed since this was asked.
    pub fn poll_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// When to call [`Self::handle_time`].
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.reading.is_calm() {
            self.deadline().map(|(due, _)| due)
        } else {
            self.reading.poll_timeout()
        }
    }

    /// Does something to the thread, and notes whether it is another one now.
    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.thread.clone();
        change(self);
        self.dirty |= self.thread != before;
    }

    /// What a read shows, in the order in which one depends on the other.
    fn apply(&mut self, read: &ReadFacts<'_>, now: Timestamp) {
        self.see(read, now);
        if read.facts.deleted {
            self.end_all(Reason::Gone, now);
            self.forget_wishes();
        } else {
            self.conclude(now);
            self.miss_messages(read, now);
        }
        self.remember(read.facts);
    }

    /// The part of it that needs nothing but what is there.
    fn see(&mut self, read: &ReadFacts<'_>, now: Timestamp) {
        if read.facts.imported {
            self.handle_import(read.facts);
        }
        self.end_replaced(read, now);
        let fresh = self.take_up(read, now);
        self.assign_watches(read, &fresh);
        let mut seen = self.drive_runs(read.facts, now);
        self.ask_requests(read.facts, &mut seen, now);
        self.told.extend(seen.into_told());
    }

    /// What was seen is history from now on, and what nothing can come of is forgotten.
    fn remember(&mut self, facts: &ThreadFacts) {
        self.thread.baseline = runs::all_of(self.thread.baseline.take(), facts);
        self.prune(facts);
    }

    /// Something is followed that a read would tell more of.
    fn follows(&self) -> bool {
        let runs = &self.thread.runs;
        let open = |run: &TrackedRun| run.state.is_busy() || run.state == RunState::Unconfirmed;
        !self.thread.dispatched.is_empty() || runs.iter().any(open)
    }

    /// What is wanted of a row: of an idle thread only what its history does not hold.
    fn interest(&self, row: &RowFacts) -> Interest {
        let busy = self.thread.runs.iter().any(|run| run.state.is_busy());
        if busy || !self.thread.dispatched.is_empty() {
            return Interest::Everything;
        }
        let beyond = row.latest_run.is_some()
            && self.thread.baseline.as_ref().is_none_or(|baseline| {
                row.latest_run_requested_at
                    .is_none_or(|requested_at| requested_at > baseline.requested_at)
            });
        if beyond || row.deleted || self.follows() {
            Interest::Changes
        } else {
            Interest::Nothing
        }
    }
}

/// What a thread's runs are reported as while nobody asked for anything.
const UNWATCHED: Watch = Watch {
    on: false,
    origin: None,
    client: None,
};
