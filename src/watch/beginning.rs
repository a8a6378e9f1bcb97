//! A thread that was there before anybody followed it: until it was read whole, nobody knows where its history ends.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::entry::Entry;
use super::place::Place;
use crate::lifecycle::{Baseline, Dispatched, Limits, ReadFacts, ReadNeed, RowFacts, Tracker, Watch};
use crate::protocol::{EnvironmentId, MessageId, ThreadId};

/// What is wanted of a thread that is not followed yet.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    dispatched: Vec<Dispatched>,
    baseline: Option<Baseline>,
    /// The receipts of the messages: client, request, and when it was opened.
    pub(super) receipts: Vec<(String, String, Timestamp)>,
    /// Switched on or off, as what.
    switched: Option<(bool, Watch)>,
    /// Taken over from another program: as what, and when.
    taken_over: Option<(Watch, Timestamp)>,
    pub(super) environment: Option<EnvironmentId>,
    pub(super) protocol: u32,
    /// Nobody will tell what became of the messages.
    pub(super) orphaned: bool,
    under_way: bool,
    /// What the shell showed since the read began: the read may be older.
    row: Option<RowFacts>,
    /// Not to be read again before.
    pub(super) not_before: Option<Timestamp>,
}

impl Beginning {
    /// A message of ours is about to be sent; `baseline` is where the thread's history ended before.
    pub(super) fn dispatch(&mut self, dispatched: Dispatched, baseline: Option<Baseline>) {
        if self.dispatched.iter().all(|other| other.message != dispatched.message) {
            self.dispatched.push(dispatched);
        }
        // The first one knows best: what came later is not history.
        self.baseline = self.baseline.take().or(baseline);
    }

    pub(super) fn settle(&mut self, message: &MessageId, came_to_nothing: bool) {
        if came_to_nothing {
            self.dispatched.retain(|other| other.message != *message);
        } else if let Some(sent) = self.dispatched.iter_mut().find(|other| other.message == *message) {
            sent.settled = true;
        }
    }

    pub(super) fn switch(&mut self, enabled: bool, watch: Watch) {
        self.switched = Some((enabled, watch));
    }

    /// Another program followed it until `since`.
    pub(super) fn take_over(&mut self, watch: Watch, since: Timestamp) {
        self.taken_over = Some((watch, since));
    }

    /// That another program followed it is left for a later start: it may be seen then.
    pub(super) fn leave_taken_over(&mut self) {
        self.taken_over = None;
    }

    /// Another program followed it before.
    pub(super) fn is_taken_over(&self) -> bool {
        self.taken_over.is_some()
    }

    /// Nothing is wanted any more.
    pub(super) fn is_idle(&self) -> bool {
        self.dispatched.is_empty() && self.switched.is_none() && self.taken_over.is_none()
    }

    /// The first message that waits: its thread may not be there yet.
    pub(super) fn waits_for_message(&self) -> bool {
        self.dispatched.iter().any(|sent| !sent.settled)
    }

    pub(super) fn poll_read(&mut self, now: Timestamp) -> Option<ReadNeed> {
        if self.under_way || self.not_before.is_some_and(|due| due > now) {
            return None;
        }
        self.under_way = true;
        self.row = None;
        self.not_before = None;
        Some(ReadNeed::Whole)
    }

    /// The shell shows the thread.
    pub(super) fn handle_row(&mut self, row: RowFacts) {
        self.row = Some(row);
    }

    /// The connection is another one: what was under way is lost.
    pub(super) fn handle_gap(&mut self) {
        self.under_way = false;
    }

    /// Messages whose fate nobody will tell.
    fn orphans(&self) -> HashMap<MessageId, Option<Timestamp>> {
        let unsettled = self.dispatched.iter().filter(|sent| self.orphaned && !sent.settled);
        unsettled.map(|sent| (sent.message.clone(), None)).collect()
    }

    /// A read came to nothing, or was not enough.
    pub(super) fn handle_failure(&mut self, again: Timestamp) {
        self.under_way = false;
        self.not_before = Some(again);
    }

    /// The whole thread was read: it is followed from now on.
    pub(super) fn begin(
        &self,
        id: &ThreadId,
        read: &ReadFacts<'_>,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Entry, ReadNeed> {
        let (id, dispatched) = (id.clone(), self.dispatched.clone());
        let mut tracker = match self.taken_over.clone() {
            Some((watch, since)) => Tracker::take_over(id, dispatched, watch, since, read, limits, now)?,
            None => Tracker::begin(id, dispatched, self.baseline.clone(), read, limits, now)?,
        };
        if let Some((enabled, watch)) = self.switched.clone() {
            tracker.set_watch(enabled, watch);
        }
        if let Some(row) = &self.row {
            tracker.handle_row(row, now);
        }
        let mut entry = Entry {
            place: Arc::new(Place::on(self.environment.clone())),
            protocol: self.protocol,
            orphans: self.orphans(),
            ..Entry::new(tracker)
        };
        entry.settle_orphans(now);
        Ok(entry)
    }
}
