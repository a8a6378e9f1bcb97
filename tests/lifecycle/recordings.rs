//! The fold and the machines on what a real server said (a selection of its frames, as recorded).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use t3code_mcp::lifecycle::{
    HookEvent, RequestDriver, RequestFacts, RunDriver, RunFacts, RunObservation, RunState, ThreadFacts, ThreadState,
    fold, observe, observe_request,
};
use t3code_mcp::protocol::{MessageId, RunId, RuntimeRequestId};

use crate::recorded;

pub(crate) fn items(recording: &str) -> Vec<Value> {
    recorded::items(recording).into_iter().map(|item| item.value).collect()
}

pub(crate) fn queue_steer_interrupt() -> Vec<Value> {
    items("04-queue-steer-interrupt")
}

pub(crate) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().map(|text| text.parse().expect("a time"))
}

/// A thread's entities, each as it was last sent.
#[derive(Clone, Default)]
pub(crate) struct Entities {
    pub(crate) runs: BTreeMap<String, Value>,
    pub(crate) messages: BTreeMap<String, Value>,
    turn_items: BTreeMap<String, Value>,
    requests: BTreeMap<String, Value>,
}

impl Entities {
    /// Those of a stream, up to and including a sequence.
    pub(crate) fn at(items: &[Value], sequence: u64) -> Self {
        let mut entities = Self::default();
        let events = items.iter().filter(|item| item["kind"] == "event");
        for item in events.take_while(|item| item["sequence"].as_u64().is_some_and(|at| at <= sequence)) {
            let payload = item["event"]["payload"].clone();
            let into = match item["event"]["type"].as_str() {
                Some("run.created" | "run.updated") => &mut entities.runs,
                Some("message.updated") => &mut entities.messages,
                Some("turn-item.updated") => &mut entities.turn_items,
                // The lifecycle needs none of them.
                _ => continue,
            };
            into.insert(text(&payload["id"]).expect("an id"), payload);
        }
        entities
    }

    /// Those of a whole read.
    pub(crate) fn of(projection: &Value) -> Self {
        let all = |name: &str| {
            let entities = projection[name].as_array().expect("a list").iter();
            entities
                .map(|entity| (text(&entity["id"]).expect("an id"), entity.clone()))
                .collect()
        };
        Self {
            runs: all("runs"),
            messages: all("messages"),
            turn_items: all("turnItems"),
            requests: all("runtimeRequests"),
        }
    }

    pub(crate) fn facts(&self) -> ThreadFacts {
        ThreadFacts {
            imported: false,
            deleted: false,
            runs: self.runs.values().map(|run| self.run(run)).collect(),
            requests: self.requests.values().map(|request| self.request(request)).collect(),
        }
    }

    fn run(&self, run: &Value) -> RunFacts {
        let id = text(&run["id"]).expect("an id");
        let message = text(&run["userMessageId"]).expect("a message");
        // T3 has no word for a promotion: the message just belongs to another run now.
        let owner = self.messages.get(&message).and_then(|message| text(&message["runId"]));
        let promoted_into = owner.filter(|owner| *owner != id).map(RunId::from);
        let first_item = self
            .turn_items
            .values()
            .filter(|item| item["runId"] == run["id"])
            .filter_map(|item| time(&item["startedAt"]));
        RunFacts {
            ordinal: run["ordinal"].as_u64().expect("an ordinal"),
            status: text(&run["status"]).expect("a status"),
            requested_at: time(&run["requestedAt"]).expect("a time"),
            started_at: time(&run["startedAt"]).or_else(|| first_item.min()),
            completed_at: time(&run["completedAt"]),
            queue_held: run["queueHeld"] == true,
            queue_position: run["queuePosition"].as_u64(),
            promoted_into,
            continuation_of: text(&run["restartContinuationOfRunId"]).map(RunId::from),
            user_message: MessageId::from(message),
            id: RunId::from(id),
        }
    }

    fn request(&self, request: &Value) -> RequestFacts {
        let item = self.turn_items.values().find(|item| item["requestId"] == request["id"]);
        RequestFacts {
            id: RuntimeRequestId::from(text(&request["id"]).expect("an id")),
            run: item.and_then(|item| text(&item["runId"])).map(RunId::from),
            kind: text(&request["kind"]).expect("a kind"),
            status: text(&request["status"]).expect("a status"),
            capability: text(&request["responseCapability"]["type"]).expect("a capability"),
            created_at: time(&request["createdAt"]).expect("a time"),
        }
    }
}

/// The shell's status word at a sequence.
fn shell(items: &[Value], sequence: u64) -> String {
    let row = items
        .iter()
        .find(|item| item["kind"] == "thread.updated" && item["sequence"] == sequence);
    text(&row.expect("the shell row")["thread"]["status"]).expect("a status")
}

/// State and ordinal of the run that it speaks of.
fn state_at(items: &[Value], sequence: u64) -> (ThreadState, u64) {
    let facts = Entities::at(items, sequence).facts();
    let status = fold(&facts);
    let run = status.run.expect("the state speaks of a run");
    (
        status.state,
        facts
            .runs
            .iter()
            .find(|one| one.id == run)
            .expect("one of the runs")
            .ordinal,
    )
}

#[test]
fn while_a_run_works_the_cancelled_one_that_the_shell_shows_is_not_the_state() {
    let items = queue_steer_interrupt();
    assert_eq!(shell(&items, 286), "cancelled");
    assert_eq!(state_at(&items, 286), (ThreadState::Running, 1));
}

#[test]
fn the_run_that_completed_is_the_state_although_the_shell_shows_the_cancelled_one() {
    let items = queue_steer_interrupt();
    assert_eq!(shell(&items, 339), "cancelled");
    assert_eq!(state_at(&items, 339), (ThreadState::Completed, 3));
    assert_eq!(shell(&items, 440), "cancelled");
    assert_eq!(state_at(&items, 440), (ThreadState::Completed, 6));
}

#[test]
fn the_queue_is_seen_in_its_new_order_and_without_what_was_cancelled() {
    let items = queue_steer_interrupt();
    let ordinals = |sequence: u64| -> Vec<u64> {
        let facts = Entities::at(&items, sequence).facts();
        let of = |id: &RunId| {
            facts
                .runs
                .iter()
                .find(|run| run.id == *id)
                .expect("one of the runs")
                .ordinal
        };
        fold(&facts).queue.iter().map(of).collect()
    };
    assert_eq!(ordinals(255), [2, 3, 4]);
    assert_eq!(ordinals(258), [4, 2, 3]);
    assert_eq!(ordinals(261), [2, 3]);
}

#[test]
fn a_promoted_run_is_recognised_by_its_message_and_hands_it_over() {
    let items = queue_steer_interrupt();
    let facts = Entities::at(&items, 416).facts();
    let promoted = facts
        .runs
        .iter()
        .find(|run| run.ordinal == 7)
        .expect("the promoted run");
    assert_eq!(observe(promoted, &facts), RunObservation::Promoted);
    let target = facts
        .runs
        .iter()
        .find(|run| run.ordinal == 6)
        .expect("the run that took it");
    assert_eq!(promoted.promoted_into.as_ref(), Some(&target.id));
    assert_eq!(state_at(&items, 416), (ThreadState::Starting, 6));
}

#[test]
fn between_the_events_of_a_promotion_nothing_ends() {
    let items = queue_steer_interrupt();
    for sequence in 406..=410 {
        assert_eq!(state_at(&items, sequence), (ThreadState::Running, 6), "at {sequence}");
    }
    for sequence in 411..=416 {
        assert_eq!(state_at(&items, sequence), (ThreadState::Starting, 6), "at {sequence}");
    }
}

#[test]
fn each_run_of_the_recording_tells_its_end_once_and_the_unqueued_and_the_promoted_none() {
    let items = queue_steer_interrupt();
    let mut drivers: BTreeMap<u64, RunDriver> = BTreeMap::new();
    let mut told = Vec::new();
    let last = items.last().expect("the recording's end")["sequence"]
        .as_u64()
        .expect("a sequence");
    for sequence in 225..=last {
        let facts = Entities::at(&items, sequence).facts();
        for run in &facts.runs {
            let driver = drivers.entry(run.ordinal).or_default();
            driver.handle(observe(run, &facts));
            told.extend(driver.poll_event().map(|event| (sequence, run.ordinal, event)));
        }
    }
    assert_eq!(
        told,
        [
            (289, 1, HookEvent::Interrupted),
            (315, 2, HookEvent::Completed),
            (338, 3, HookEvent::Completed),
            (385, 5, HookEvent::Completed),
            (439, 6, HookEvent::Completed),
        ]
    );
    assert_eq!(drivers[&4].state(), RunState::NeverStarted);
    assert_eq!(drivers[&7].state(), RunState::HandedOver);
}

#[test]
fn both_of_two_pending_requests_are_seen_and_each_is_told_once() {
    let items = items("14-two-pending");
    let reads: Vec<ThreadFacts> = recorded::reads("14-two-pending")
        .iter()
        .map(|read| Entities::of(&read["projection"]).facts())
        .collect();
    let [pending, over] = reads.as_slice() else {
        panic!("two reads were recorded")
    };

    let status = fold(pending);
    assert_eq!(status.state, ThreadState::Approval);
    assert_eq!(status.run, status.active);
    assert_eq!(
        status
            .pending
            .iter()
            .map(|one| (one.holds, one.answerable))
            .collect::<Vec<_>>(),
        [(true, true); 2]
    );
    // The shell shows only the newest of them.
    let shown = items
        .iter()
        .find(|item| item["sequence"] == 3869)
        .expect("the shell row");
    assert_eq!(
        shown["thread"]["pendingRuntimeRequest"]["id"],
        status.pending.last().expect("two").id.0.as_str()
    );

    let mut drivers: BTreeMap<RuntimeRequestId, RequestDriver> = BTreeMap::new();
    let mut told = Vec::new();
    for facts in [pending, pending, over, over] {
        for request in &facts.requests {
            let driver = drivers.entry(request.id.clone()).or_default();
            driver.handle(observe_request(&request.kind, &request.status, &request.capability));
            told.extend(driver.poll_event());
        }
    }
    assert_eq!(told, [HookEvent::Approval; 2]);
    assert_eq!(
        (fold(over).state, fold(over).pending.len()),
        (ThreadState::Completed, 0)
    );
}
