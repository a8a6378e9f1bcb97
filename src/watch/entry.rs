//! One tracked thread with what the ledger keeps besides: where it lives, and how people call it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::place::Place;
use crate::gateway::{EventScene, event_body};
use crate::lifecycle::{Told, Tracker};
use crate::machine::{RuntimeMode, Thread};
use crate::protocol::{MessageId, RunId};
use crate::store::{NewEvent, Tracked};

/// How long a message whose sender is gone may be on its way: the kernel of a dead process goes on sending what it had taken for some 100 s,
/// and a network that comes back may deliver it then.
const NEVER_SENT_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// A thread that is followed.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tracker: Tracker,
    pub(super) place: Arc<Place>,
    pub(super) title: Option<String>,
    pub(super) protocol: u32,
    /// When its tracker wants to be told the time, as it stands in the roster's order.
    pub(super) due: Option<Timestamp>,
    /// The newest read that it goes by.
    pub(super) newest: Edition,
    /// What somebody else read meanwhile: a read of one's own that was under way may be older.
    pub(super) overtaken_by: Option<Edition>,
    /// Messages whose fate nobody will tell any more, only a read can show; each with when a read lacked it first.
    pub(super) orphans: HashMap<MessageId, Option<Timestamp>>,
}

/// How new a read is, among those of one thread and one connection.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Edition(u64, Timestamp);

impl Edition {
    pub(super) fn of(thread: &Thread) -> Self {
        Self(thread.sequence, thread.updated_at)
    }
}

/// What an event is made of besides the thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) machine: &'a str,
    pub(super) ceiling: RuntimeMode,
    pub(super) client_ceilings: &'a BTreeMap<String, RuntimeMode>,
    pub(super) deliver: bool,
    pub(super) now: Timestamp,
}

impl Entry {
    pub(super) fn new(tracker: Tracker) -> Self {
        Self {
            tracker,
            place: Arc::default(),
            title: None,
            protocol: 0,
            due: None,
            newest: Edition::default(),
            overtaken_by: None,
            orphans: HashMap::new(),
        }
    }

    /// Nobody will tell what became of a message, or somebody will after all.
    pub(super) fn set_orphaned(&mut self, message: &MessageId, orphaned: bool, now: Timestamp) {
        if orphaned {
            self.orphans.entry(message.clone()).or_insert(None);
            self.tracker.look_again(now);
        } else {
            self.orphans.remove(message);
        }
    }

    /// After a read: an orphan that T3 still does not show a while after a read lacked it first was never sent.
    pub(super) fn settle_orphans(&mut self, now: Timestamp) {
        let waiting = self.tracker.thread().dispatched.iter().filter(|sent| !sent.settled);
        let waiting: HashSet<MessageId> = waiting.map(|sent| sent.message.clone()).collect();
        self.orphans.retain(|message, _| waiting.contains(message));
        let mut never_sent = Vec::new();
        for (message, lacked_since) in &mut self.orphans {
            let since = *lacked_since.get_or_insert(now);
            if now.duration_since(since) >= NEVER_SENT_AFTER {
                never_sent.push(message.clone());
            }
        }
        for message in never_sent {
            self.orphans.remove(&message);
            self.tracker.settle(&message, true);
        }
        if !self.orphans.is_empty() {
            self.tracker.look_again(now);
        }
    }

    /// As the ledger keeps it.
    pub(super) fn tracked(&self, machine: &str) -> Tracked {
        Tracked {
            machine: machine.to_owned(),
            environment: self.place.environment.clone(),
            project_id: self.place.project.clone(),
            project_title: self.place.project_title.clone(),
            title: self.title.clone(),
            protocol: self.protocol,
            thread: self.tracker.thread().clone(),
        }
    }

    /// What was told, as the ledger keeps it; `thread` is the read that it was concluded from.
    pub(super) fn event(&self, told: &Told, thread: Option<&Thread>, around: Surroundings<'_>) -> NewEvent {
        let id = super::ids::event_id(self.place.environment.as_ref(), &self.tracker.thread().thread, told);
        let client = told.watch.client.as_ref();
        let own = client.and_then(|client| around.client_ceilings.get(client));
        let scene = EventScene {
            id: &id,
            machine: around.machine,
            thread_id: &self.tracker.thread().thread.0,
            project: self.place.project_title.as_deref(),
            title: self.title.as_deref(),
            ceiling: own.map_or(around.ceiling, |own| around.ceiling.min(*own)),
            now: around.now,
        };
        let timed_out: Vec<RunId> = self.tracker.finish_timed_out().cloned().collect();
        let body = event_body(&scene, told, thread, timed_out);
        // A struct of strings and numbers always prints.
        let body = serde_json::to_string(&body).unwrap_or_default();
        NewEvent {
            id,
            occurred_at: told.at,
            machine: around.machine.to_owned(),
            thread: self.tracker.thread().thread.clone(),
            project_id: self.place.project.clone(),
            client: told.watch.client.clone(),
            kind: told.kind.as_str().to_owned(),
            body,
            deliver: around.deliver,
        }
    }
}
