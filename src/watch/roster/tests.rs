//! What a roster does about messages of processes that are no more, and about threads on their way to be followed.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Outcome, Roster};
use crate::gateway::samples::{at, request, run, run_id, thread};
use crate::gateway::tracking::Fate;
use crate::lifecycle::{Limits, RunFacts, Watch};
use crate::machine::{DecisionOption, Item, ItemKind, RuntimeMode, Thread};
use crate::protocol::{EnvironmentId, MessageId, ThreadId};
use crate::store::{NewEvent, NewReceipt, ReceiptKind};
use crate::watch::WatchSettings;

/// An online machine's roster, and what it had kept so far.
struct House {
    roster: Roster,
    events: Vec<NewEvent>,
    settled: Vec<String>,
}

impl House {
    fn new() -> Self {
        let settings = WatchSettings {
            limits: Limits {
                finish_timeout: SignedDuration::from_mins(3),
                stall_after: None,
            },
            unreachable_after: None,
            deliver: true,
            final_word: true,
        };
        let mut roster = Roster::new("mac", RuntimeMode::FullAccess, settings, at(0));
        roster.handle_online(Some(&environment()), at(0));
        Self {
            roster,
            events: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// It is that time; whatever is to be read brings this.
    fn reads(&mut self, outcome: Outcome<'_>, now: Timestamp) {
        self.roster.handle_time(now);
        let mut reads = 0;
        while let Some((id, _, era)) = self.roster.poll_read() {
            self.roster.handle_read(&id, era, outcome, Some("Project"), now);
            reads += 1;
            assert!(reads < 10, "it reads without an end");
        }
        self.keeps(now);
    }

    fn keeps(&mut self, now: Timestamp) {
        if let Some(batch) = self.roster.poll_batch(now) {
            self.events.extend(batch.events);
            self.settled
                .extend(batch.settled.into_iter().map(|(_, request, _)| request));
        }
    }

    fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|event| &*event.kind).collect()
    }

    fn holds(&self) -> bool {
        self.roster.holds(&id())
    }
}

fn environment() -> EnvironmentId {
    EnvironmentId("environment".to_owned())
}

fn id() -> ThreadId {
    ThreadId("t".to_owned())
}

/// Something was about to be sent by a process that is no more.
fn receipt(kind: ReceiptKind, message: &str) -> NewReceipt {
    NewReceipt {
        client: "default".to_owned(),
        request: format!("request of {message}"),
        explicit: true,
        payload_hash: [0; 32],
        machine: "mac".to_owned(),
        environment: Some(environment()),
        thread: id(),
        message: MessageId(message.to_owned()),
        kind,
        watch: Watch {
            on: true,
            origin: None,
            client: Some("default".to_owned()),
        },
        baseline: None,
        created_at: at(0),
        protocol: 2,
    }
}

/// The thread at that time.
fn shown(runs: Vec<RunFacts>, now: Timestamp) -> Thread {
    Thread {
        updated_at: now,
        ..thread(runs)
    }
}

#[test]
fn a_launch_of_a_dead_process_that_t3_takes_minutes_later_is_told() {
    let mut house = House::new();
    house.roster.take_up(&receipt(ReceiptKind::Launch, "m-1"), true, at(0));
    for seconds in [0, 60, 120, 299] {
        house.reads(Outcome::NotFound, at(seconds));
        assert!(house.holds(), "after {seconds} s");
    }
    let late = shown(vec![run(1, "completed")], at(299));
    house.reads(Outcome::Read(&late), at(310));
    assert_eq!(house.kinds(), ["completed"]);
}

#[test]
fn a_launch_of_a_dead_process_that_t3_never_takes_is_given_up_without_an_event() {
    let mut house = House::new();
    house.roster.take_up(&receipt(ReceiptKind::Launch, "m-1"), true, at(0));
    // It is looked at first after five seconds.
    for seconds in (0..=300).step_by(10) {
        house.reads(Outcome::NotFound, at(seconds));
        assert!(house.holds(), "after {seconds} s");
    }
    house.reads(Outcome::NotFound, at(310));
    assert!(!house.holds());
    assert_eq!(house.kinds(), Vec::<&str>::new());
}

#[test]
fn a_gap_begins_the_wait_for_a_late_message_anew() {
    let mut house = House::new();
    house.roster.take_up(&receipt(ReceiptKind::Launch, "m-1"), true, at(0));
    house.reads(Outcome::NotFound, at(0));
    house.roster.handle_away(at(10));
    house.roster.handle_online(Some(&environment()), at(290));
    house.reads(Outcome::NotFound, at(290));
    // Ten minutes after it was sent, but T3 was looked at for two of them only.
    house.reads(Outcome::NotFound, at(410));
    assert!(house.holds());
}

#[test]
fn a_message_into_a_thread_that_was_there_is_followed_from_the_first_read_that_shows_it() {
    let mut house = House::new();
    house
        .roster
        .take_up(&receipt(ReceiptKind::Continue, "m-2"), false, at(0));
    // It was read before the message came to be.
    house.reads(Outcome::Read(&shown(vec![run(1, "completed")], at(1))), at(1));
    assert!(house.holds());
    house
        .roster
        .settle(&id(), &MessageId("m-2".to_owned()), Fate::Taken, at(2));
    let both = shown(vec![run(1, "completed"), run(2, "completed")], at(3));
    house.reads(Outcome::Read(&both), at(8));
    // The first run is history.
    assert_eq!(house.kinds(), ["completed"]);
    assert!(house.events[0].body.contains("run-2"), "{}", house.events[0].body);
    assert_eq!(house.settled, ["request of m-2"]);
}

#[test]
fn an_approval_is_told_with_the_decisions_that_the_runs_client_may_take() {
    for (client, may_always) in [("default", true), ("high", true), ("low", false)] {
        let mut house = House::new();
        house.roster = house.roster.with_client_ceilings(Arc::new(BTreeMap::from([
            ("low".to_owned(), RuntimeMode::ApprovalRequired),
            ("high".to_owned(), RuntimeMode::FullAccess),
        ])));
        let mut receipt = receipt(ReceiptKind::Launch, "m-1");
        receipt.watch.client = Some(client.to_owned());
        house.roster.take_up(&receipt, true, at(0));
        let mut asking = shown(vec![run(1, "running")], at(500));
        let asked = request("r", "command", 1);
        let options = ["accept", "acceptAlways", "decline"].map(|decision| DecisionOption {
            decision: decision.to_owned(),
            label: decision.to_owned(),
        });
        asking.items = vec![Item {
            run: Some(run_id(1)),
            ordinal: 1,
            status: "pending".to_owned(),
            title: None,
            at: at(500),
            kind: ItemKind::Approval {
                request: asked.id.clone(),
                prompt: None,
                app: None,
                options: options.to_vec(),
            },
        }];
        asking.facts.requests = vec![asked];
        house.reads(Outcome::Read(&asking), at(501));
        assert_eq!(house.kinds(), ["approval"], "{client}");
        let body: Value = serde_json::from_str(&house.events[0].body).unwrap();
        let decisions = body["approval"]["decisions"].as_array().unwrap();
        assert_eq!(
            decisions.contains(&Value::from("acceptAlways")),
            may_always,
            "{client}: {body}"
        );
        assert!(decisions.contains(&Value::from("decline")), "{client}: {body}");
    }
}

/// It asks, as a read of that sequence shows it.
fn asking(sequence: u64, status: &str) -> Thread {
    let mut asked = request("r", "user_input", 1);
    status.clone_into(&mut asked.status);
    let mut thread = shown(vec![run(1, "running")], at(500));
    thread.sequence = sequence;
    thread.facts.requests = vec![asked];
    thread
}

impl House {
    /// A launch whose thread nobody has read.
    fn launched() -> Self {
        let mut house = Self::new();
        house.roster.take_up(&receipt(ReceiptKind::Launch, "m-1"), false, at(0));
        house
    }

    /// Somebody read it for a reason of his own.
    fn sees(&mut self, thread: &Thread) -> bool {
        let environment = environment();
        let counted = self
            .roster
            .handle_sight(&id(), thread, Some(&environment), Some("Project"), at(501));
        self.keeps(at(501));
        counted
    }

    /// The read that is asked for now.
    fn read_era(&mut self) -> Option<u64> {
        self.roster.poll_read().map(|(_, _, era)| era)
    }

    /// It has a thread that was read, and no read is under way.
    fn looked_at() -> Self {
        let mut house = Self::launched();
        house
            .roster
            .settle(&id(), &MessageId("m-1".to_owned()), Fate::Taken, at(1));
        let mut before = asking(10, "pending");
        before.facts.requests.clear();
        house.reads(Outcome::Read(&before), at(500));
        assert_eq!(house.kinds(), Vec::<&str>::new());
        house
    }
}

#[test]
fn what_somebody_else_read_is_told_although_it_is_over_at_the_next_read() {
    let mut house = House::looked_at();
    assert!(house.sees(&asking(11, "pending")));
    assert_eq!(house.kinds(), ["question"]);
    assert!(house.events[0].body.contains("Project"), "{}", house.events[0].body);
    // Seen again, and by the next read answered: nothing more is told of it.
    assert!(house.sees(&asking(11, "pending")));
    house
        .roster
        .settle(&id(), &MessageId("m-1".to_owned()), Fate::Taken, at(502));
    house.reads(Outcome::Read(&asking(12, "resolved")), at(502));
    let mut ended = asking(13, "resolved");
    ended.facts.runs = vec![run(1, "completed")];
    house.roster.handle_online(Some(&environment()), at(503));
    house.reads(Outcome::Read(&ended), at(503));
    assert_eq!(house.kinds(), ["question", "completed"]);
}

#[test]
fn a_launch_that_nobody_has_read_is_told_of_by_what_somebody_else_read() {
    let mut house = House::launched();
    // It is online for the first time: nothing was missed.
    assert!(house.sees(&asking(11, "pending")));
    assert_eq!(house.kinds(), ["question"]);
}

#[test]
fn an_older_state_than_the_one_that_was_read_says_nothing() {
    let mut house = House::looked_at();
    assert!(house.sees(&asking(9, "pending")), "nobody needs to wait for it");
    assert_eq!(house.kinds(), Vec::<&str>::new());
}

#[test]
fn a_read_that_was_under_way_and_is_older_takes_nothing_back() {
    let mut house = House::looked_at();
    house
        .roster
        .settle(&id(), &MessageId("m-1".to_owned()), Fate::Taken, at(500));
    let era = house.read_era().unwrap();
    // A run that the older read does not show: it would be taken for gone.
    let mut newer = asking(12, "pending");
    newer.facts.runs = vec![run(1, "completed"), run(2, "running")];
    newer.facts.requests[0].run = Some(run_id(2));
    newer.messages = shown(newer.facts.runs.clone(), at(500)).messages;
    house.roster.switch(
        &id(),
        true,
        Watch {
            on: true,
            origin: None,
            client: None,
        },
        at(500),
    );
    assert!(house.sees(&newer));
    assert_eq!(house.kinds(), ["completed", "question"]);
    house
        .roster
        .handle_read(&id(), era, Outcome::Read(&asking(11, "pending")), None, at(502));
    house.keeps(at(502));
    assert_eq!(house.kinds(), ["completed", "question"]);
    // It is asked for again at once, and that one counts, whatever it says of its age.
    let era = house.read_era().expect("another read");
    newer.sequence = 3;
    newer.facts.runs = vec![run(1, "completed"), run(2, "failed")];
    house
        .roster
        .handle_read(&id(), era, Outcome::Read(&newer), None, at(503));
    house.keeps(at(503));
    assert_eq!(house.kinds(), ["completed", "question", "failed"]);
}

#[test]
fn what_somebody_read_of_another_database_or_over_a_gap_is_not_taken() {
    let mut house = House::looked_at();
    let other = EnvironmentId("other".to_owned());
    let thread = asking(11, "pending");
    let seen = |house: &mut House, environment: &EnvironmentId| {
        let environment = Some(environment);
        house
            .roster
            .handle_sight(&id(), &thread, environment, Some("Project"), at(501))
    };
    assert!(!seen(&mut house, &other));
    house.roster.handle_away(at(501));
    assert!(!seen(&mut house, &environment()));
    house.roster.handle_online(Some(&environment()), at(502));
    assert!(!seen(&mut house, &environment()), "it is read first");
    house.reads(Outcome::Read(&asking(12, "pending")), at(503));
    assert!(seen(&mut house, &environment()));
    assert_eq!(house.kinds(), ["question"]);
    // Of a thread that nobody follows there is nothing to wait for.
    let stranger = ThreadId("stranger".to_owned());
    let counted = house
        .roster
        .handle_sight(&stranger, &thread, Some(&environment()), None, at(504));
    assert!(counted);
}

#[test]
fn a_thread_that_is_not_followed_yet_is_read_first() {
    let mut house = House::new();
    house
        .roster
        .take_up(&receipt(ReceiptKind::Continue, "m-1"), false, at(0));
    assert!(!house.sees(&asking(11, "pending")));
    let mut before = asking(10, "pending");
    before.facts.requests.clear();
    house.reads(Outcome::Read(&before), at(500));
    assert!(house.sees(&asking(11, "pending")));
    assert_eq!(house.kinds(), ["question"]);
}
