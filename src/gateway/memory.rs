//! What the gateway remembers between calls, in memory and bounded: which run a client dispatched last to a thread, which conversation a
//! thread belongs to, where a thread is, and since when a run has been finishing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::gateway::bounded::Bounded;
use crate::gateway::sighting::{Edition, Sighting};
use crate::protocol::{MessageId, ProjectId, RunId, ThreadId};

/// How many threads are remembered.
const KEPT: usize = 10_000;

/// How many threads at rest are remembered: a list of all of them reads each once.
const KEPT_AT_REST: usize = 50_000;

/// A thread of a machine.
pub(super) type ThreadKey = (String, ThreadId);

/// What a client last dispatched to a thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dispatched {
    /// Its message: the one sure way to its run.
    pub(super) message: MessageId,
    /// A wait has told the client how its run ended.
    pub(super) told: bool,
}

/// The conversation that a run came from, if it came from one.
#[derive(Clone, Debug)]
pub(super) struct Origin(pub(super) Option<String>);

#[derive(Debug)]
pub(super) struct Memory(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    dispatched: Bounded<(String, ThreadKey), Dispatched>,
    origins: Bounded<ThreadKey, Origin>,
    finishing: Bounded<(String, RunId), Instant>,
    places: Bounded<ThreadId, (String, ProjectId)>,
    at_rest: Bounded<ThreadKey, (Edition, Sighting)>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Inner {
            dispatched: Bounded::new(KEPT),
            origins: Bounded::new(KEPT),
            finishing: Bounded::new(KEPT),
            places: Bounded::new(KEPT),
            at_rest: Bounded::new(KEPT_AT_REST),
        }))
    }

    /// What the client last dispatched to the thread.
    pub(super) fn dispatched(&self, client: &str, thread: &ThreadKey) -> Option<Dispatched> {
        self.inner()
            .dispatched
            .get(&(client.to_owned(), thread.clone()))
            .cloned()
    }

    /// The conversation that the thread's latest run belongs to, if that is remembered.
    pub(super) fn origin(&self, thread: &ThreadKey) -> Option<Origin> {
        self.inner().origins.get(thread).cloned()
    }

    /// A client dispatched to a thread.
    pub(super) fn remember(&self, client: &str, thread: &ThreadKey, message: MessageId, origin: Option<&str>) {
        let mut inner = self.inner();
        inner
            .origins
            .insert(thread.clone(), Origin(origin.map(str::to_owned)), |_| true);
        let dispatched = Dispatched { message, told: false };
        inner
            .dispatched
            .insert((client.to_owned(), thread.clone()), dispatched, |_| true);
    }

    /// The client went on in the thread otherwise: what it dispatched before is no more what it waits for, but this message is.
    pub(super) fn went_on(&self, client: &str, thread: &ThreadKey, message: Option<MessageId>) {
        let mut inner = self.inner();
        let key = (client.to_owned(), thread.clone());
        match message {
            Some(message) => {
                let dispatched = Dispatched { message, told: false };
                inner.dispatched.insert(key, dispatched, |_| true);
            }
            None => inner.dispatched.remove(&key),
        }
    }

    /// The client knows how its dispatch ended.
    pub(super) fn told(&self, client: &str, thread: &ThreadKey, message: &MessageId) {
        if let Some(dispatched) = self.inner().dispatched.get_mut(&(client.to_owned(), thread.clone()))
            && dispatched.message == *message
        {
            dispatched.told = true;
        }
    }

    /// The thread was seen on that machine, in that project.
    pub(super) fn saw(&self, thread: &ThreadId, machine: &str, project: &ProjectId) {
        let mut inner = self.inner();
        let known = inner.places.get(thread);
        if known.is_none_or(|(on, of)| on != machine || of != project) {
            let place = (machine.to_owned(), project.clone());
            inner.places.insert(thread.clone(), place, |_| true);
        }
    }

    /// The machine and project that the thread was last seen in.
    pub(super) fn place(&self, thread: &ThreadId) -> Option<(String, ProjectId)> {
        self.inner().places.get(thread).cloned()
    }

    /// The thread came to rest, and stays so while its row stays as it is.
    pub(super) fn rests(&self, thread: ThreadKey, edition: Edition, sighting: Sighting) {
        self.inner().at_rest.insert(thread, (edition, sighting), |_| true);
    }

    /// What was seen of the thread when it came to rest, if its row is as it was.
    pub(super) fn at_rest(&self, thread: &ThreadKey, now: &Edition) -> Option<Sighting> {
        let inner = self.inner();
        let (edition, sighting) = inner.at_rest.get(thread)?;
        (edition == now).then(|| sighting.clone())
    }

    /// Since when the run has been seen finishing.
    pub(super) fn finishing_since(&self, machine: &str, run: &RunId, now: Instant) -> Instant {
        let mut inner = self.inner();
        let key = (machine.to_owned(), run.clone());
        if let Some(since) = inner.finishing.get(&key) {
            return *since;
        }
        inner.finishing.insert(key, now, |_| true);
        now
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing is half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
