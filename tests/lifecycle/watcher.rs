//! A tracker and what it said, in few words: what a shell around it does, with clock and reads given by hand.

use jiff::{SignedDuration, Timestamp};
use t3code_mcp::lifecycle::{
    Dispatched, EventKind, Limits, ReadFacts, ReadNeed, RowFacts, RunFacts, ThreadFacts, Told, TrackedThread, Tracker,
    Watch,
};
use t3code_mcp::protocol::{MessageId, RunId, ThreadId};

use crate::support::{at, run_id};

pub(crate) const LIMITS: Limits = Limits {
    finish_timeout: SignedDuration::from_mins(3),
    stall_after: Some(SignedDuration::from_mins(30)),
};

/// For histories in which only ends count.
pub(crate) const PATIENT: Limits = Limits {
    finish_timeout: SignedDuration::from_hours(1000),
    stall_after: None,
};

pub(crate) fn thread_id() -> ThreadId {
    ThreadId::from("thread".to_owned())
}

pub(crate) fn message(name: &str) -> MessageId {
    MessageId::from(name.to_owned())
}

/// Wanted, by that conversation.
pub(crate) fn wanted(origin: &str) -> Watch {
    Watch {
        on: true,
        origin: Some(origin.to_owned()),
        client: Some("client".to_owned()),
    }
}

pub(crate) fn unwanted() -> Watch {
    Watch {
        on: false,
        origin: None,
        client: None,
    }
}

pub(crate) fn dispatched(name: &str, watch: Watch, sent: i64) -> Dispatched {
    Dispatched {
        message: message(name),
        watch,
        at: at(sent),
        settled: false,
    }
}

/// What one wants to know of an event: its kind, the run's ordinal (by its id) and whom it goes to.
pub(crate) fn short(told: &Told) -> (EventKind, RunId, &str) {
    let run = told
        .run
        .as_ref()
        .map_or_else(|| RunId::from(String::new()), |run| run.id.clone());
    (told.kind, run, told.watch.origin.as_deref().unwrap_or("-"))
}

/// An event in short, as it is expected.
pub(crate) fn event(kind: EventKind, ordinal: u64, origin: &str) -> (EventKind, RunId, &str) {
    (kind, run_id(ordinal), origin)
}

/// A tracker with a clock and a sequence of reads.
#[derive(Clone, Debug)]
pub(crate) struct Watcher {
    pub(crate) tracker: Tracker,
    pub(crate) now: Timestamp,
    pub(crate) sequence: u64,
    pub(crate) messages: Vec<(MessageId, Option<RunId>)>,
    pub(crate) partial: bool,
    limits: Limits,
}

impl Watcher {
    pub(crate) fn of(tracker: Tracker) -> Self {
        Self {
            tracker,
            now: at(0),
            sequence: 0,
            messages: Vec::new(),
            partial: false,
            limits: LIMITS,
        }
    }

    /// A thread to which nothing was sent yet, and an observer to whom nothing takes too long.
    pub(crate) fn patient() -> Self {
        Self {
            limits: PATIENT,
            ..Self::of(Tracker::new_thread(thread_id(), vec![], PATIENT, at(0)))
        }
    }

    /// A thread that was launched with these messages.
    pub(crate) fn launched(messages: &[(&str, Watch)]) -> Self {
        let sent = messages
            .iter()
            .map(|(name, watch)| dispatched(name, watch.clone(), 0))
            .collect();
        Self::of(Tracker::new_thread(thread_id(), sent, LIMITS, at(0)))
    }

    /// One watched thread, launched with the message of run 1.
    pub(crate) fn watching() -> Self {
        let mut watcher = Self::launched(&[("message-1", wanted("A"))]);
        watcher.belongs("message-1", 1);
        watcher
    }

    /// The message belongs to this run now.
    pub(crate) fn belongs(&mut self, name: &str, ordinal: u64) {
        self.messages.retain(|(id, _)| *id != message(name));
        self.messages.push((message(name), Some(run_id(ordinal))));
    }

    pub(crate) fn dispatch(&mut self, name: &str, watch: Watch) {
        self.tracker.dispatch(Dispatched {
            at: self.now,
            ..dispatched(name, watch, 0)
        });
    }

    pub(crate) fn passes(&mut self, seconds: i64) {
        self.now = self.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// A read of this; what is told by it.
    pub(crate) fn reads(&mut self, facts: &ThreadFacts) -> Vec<Told> {
        self.passes(1);
        self.sequence += 1;
        let read = ReadFacts {
            sequence: self.sequence,
            updated_at: self.now,
            partial: self.partial,
            facts,
            messages: &self.messages,
        };
        self.tracker.handle_read(&read, self.now);
        self.told()
    }

    pub(crate) fn reads_part(&mut self, facts: &ThreadFacts) -> Vec<Told> {
        self.partial = true;
        let told = self.reads(facts);
        self.partial = false;
        told
    }

    /// The same again, and T3 has not changed the thread since that time.
    pub(crate) fn reads_unchanged(&mut self, facts: &ThreadFacts, since: Timestamp) -> Vec<Told> {
        self.sequence += 1;
        let read = ReadFacts {
            sequence: self.sequence,
            updated_at: since,
            partial: false,
            facts,
            messages: &self.messages,
        };
        self.tracker.handle_read(&read, self.now);
        self.told()
    }

    pub(crate) fn told(&mut self) -> Vec<Told> {
        std::iter::from_fn(|| self.tracker.poll_event()).collect()
    }

    /// The machine was away for so long.
    pub(crate) fn away(&mut self, seconds: i64) {
        let since = self.now;
        self.passes(seconds);
        self.tracker.handle_gap(since, self.now);
        self.sequence = 0;
    }

    /// The program was stopped, and began again with what was kept.
    pub(crate) fn restarts(&mut self) {
        assert!(
            self.tracker.poll_event().is_none(),
            "events are kept together with the thread"
        );
        self.tracker = Tracker::at(self.kept(), self.limits, self.now);
        self.sequence = 0;
    }

    pub(crate) fn kept(&self) -> TrackedThread {
        self.tracker.thread().clone()
    }

    /// All that is asked for until nothing is, with no answer.
    pub(crate) fn asks(&mut self) -> Option<ReadNeed> {
        self.tracker.poll_read()
    }
}

/// A shell row of a thread whose run with the highest ordinal is this one.
pub(crate) fn row(latest: &RunFacts, sequence: u64) -> RowFacts {
    let works = ["starting", "running"].contains(&latest.status.as_str());
    RowFacts {
        sequence,
        status: latest.status.clone(),
        active_run: works.then(|| latest.id.clone()),
        activity: works.then(|| latest.status.clone()),
        latest_run: Some(latest.id.clone()),
        latest_run_requested_at: Some(latest.requested_at),
        latest_run_completed_at: latest.completed_at,
        pending: None,
        deleted: false,
        updated_at: at(i64::try_from(sequence).unwrap()),
    }
}
