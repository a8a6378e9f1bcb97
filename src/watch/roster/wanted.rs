//! What the gateway wants of a machine's roster: messages taken up and settled, threads switched on and off.

use jiff::Timestamp;

use super::Roster;
use crate::gateway::tracking::Fate;
use crate::lifecycle::{Dispatched, Tracker, Watch};
use crate::protocol::{MessageId, ThreadId};
use crate::store::{NewReceipt, ReceiptKind, TakenOver};
use crate::watch::entry::Entry;
use crate::watch::place::Place;

impl Roster {
    /// A message is about to be sent, or was sent by a process that is no more (`orphaned`).
    pub fn take_up(&mut self, receipt: &NewReceipt, orphaned: bool, now: Timestamp) {
        let id = &receipt.thread;
        let dispatched = Dispatched {
            message: receipt.message.clone(),
            watch: receipt.watch.clone(),
            at: receipt.created_at,
            settled: false,
        };
        let environment = receipt.environment.clone().or_else(|| self.environment.clone());
        if let Some(entry) = self.threads.get_mut(id) {
            entry.set_orphaned(&dispatched.message, orphaned, now);
            entry.tracker.dispatch(dispatched);
        } else if receipt.kind == ReceiptKind::Launch && !self.beginning.contains_key(id) {
            let tracker = Tracker::new_thread(id.clone(), vec![dispatched], self.settings.limits, now);
            let mut entry = Entry {
                place: self.places.shared(Place::on(environment)),
                protocol: receipt.protocol,
                ..Entry::new(tracker)
            };
            entry.set_orphaned(&receipt.message, orphaned, now);
            self.threads.insert(id.clone(), Box::new(entry));
        } else {
            let begin = self.beginning.entry(id.clone()).or_default();
            begin.environment = environment;
            begin.protocol = receipt.protocol;
            begin.orphaned = orphaned;
            begin.dispatch(dispatched, receipt.baseline.clone());
            begin
                .receipts
                .push((receipt.client.clone(), receipt.request.clone(), receipt.created_at));
            // Nothing of it is kept before it was read: until then the receipt stays open.
            self.look_after(id, None, now);
            return;
        }
        self.take_receipt(receipt.client.clone(), receipt.request.clone(), receipt.created_at);
        self.look_after(id, None, now);
    }

    /// Another program followed a thread until it was taken over.
    pub(in crate::watch) fn take_over(&mut self, taken: TakenOver, now: Timestamp) {
        let id = taken.thread;
        if self.threads.contains_key(&id) {
            self.batch.taken_over.push((self.machine.clone(), id));
            return;
        }
        let begin = self.beginning.entry(id.clone()).or_default();
        begin.take_over(taken.watch, taken.at);
        self.look_after(&id, None, now);
    }

    /// What became of a message.
    pub fn settle(&mut self, id: &ThreadId, message: &MessageId, fate: Fate, now: Timestamp) {
        let nothing = match fate {
            Fate::Taken => Some(false),
            Fate::Nothing => Some(true),
            Fate::Unknown => None,
        };
        if let Some(entry) = self.threads.get_mut(id) {
            entry.set_orphaned(message, nothing.is_none(), now);
            if let Some(nothing) = nothing {
                entry.tracker.settle(message, nothing);
            }
        } else if let Some(begin) = self.beginning.get_mut(id) {
            match nothing {
                Some(nothing) => begin.settle(message, nothing),
                None => begin.orphaned = true,
            }
            if begin.is_idle() {
                self.stop_beginning(id);
            }
        }
        self.look_after(id, None, now);
    }

    /// Somebody switches a thread's events on or off.
    pub fn switch(&mut self, id: &ThreadId, enabled: bool, watch: Watch, now: Timestamp) {
        if let Some(entry) = self.threads.get_mut(id) {
            entry.tracker.set_watch(enabled, watch);
        } else if enabled {
            let begin = self.beginning.entry(id.clone()).or_default();
            begin.environment.clone_from(&self.environment);
            begin.switch(enabled, watch);
        } else if let Some(begin) = self.beginning.get_mut(id) {
            begin.switch(enabled, watch);
        }
        self.look_after(id, None, now);
    }
}
