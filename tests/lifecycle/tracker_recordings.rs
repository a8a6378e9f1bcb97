//! The tracker on what a real server said: a queue that is steered, cut and promoted (04), T3 killed and started again (07), two
//! approvals at once (14).

use jiff::Timestamp;
use serde_json::Value;
use t3code_mcp::lifecycle::{EventKind, ReadFacts, ReadNeed, RowFacts, ThreadFacts, Told, Tracker};
use t3code_mcp::protocol::{MessageId, RunId, RuntimeRequestId};

use crate::recorded;
use crate::recordings::{Entities, items, queue_steer_interrupt, text, time};
use crate::watcher::{LIMITS, dispatched, thread_id, wanted};

use EventKind::{Approval, Completed, Interrupted};

/// A tracker on a recording, with the recording's own times.
struct Replay {
    tracker: Tracker,
    now: Timestamp,
    sequence: u64,
}

impl Replay {
    fn new(messages: &[(&str, &str)]) -> Self {
        let sent = messages
            .iter()
            .map(|(id, origin)| dispatched(id, wanted(origin), 0))
            .collect();
        let now = "2026-11-30T05:40:00Z".parse().unwrap();
        Self {
            tracker: Tracker::new_thread(thread_id(), sent, LIMITS, now),
            now,
            sequence: 0,
        }
    }

    fn reads(&mut self, sequence: u64, entities: &Entities, at: Option<Timestamp>) -> Vec<Told> {
        self.now = at.unwrap_or(self.now);
        self.sequence = sequence;
        let facts: ThreadFacts = entities.facts();
        let messages: Vec<(MessageId, Option<RunId>)> = entities
            .messages
            .iter()
            .map(|(id, message)| (MessageId::from(id.clone()), text(&message["runId"]).map(RunId::from)))
            .collect();
        let read = ReadFacts {
            sequence,
            updated_at: self.now,
            partial: false,
            facts: &facts,
            messages: &messages,
        };
        self.tracker.handle_read(&read, self.now);
        std::iter::from_fn(|| self.tracker.poll_event()).collect()
    }

    fn row(&mut self, item: &Value) {
        let row = &item["thread"];
        let run = |name: &str| text(&row[name]).map(RunId::from);
        let row = RowFacts {
            sequence: item["sequence"].as_u64().unwrap(),
            status: text(&row["status"]).unwrap(),
            active_run: run("activeRunId"),
            activity: text(&row["activityRunStatus"]),
            latest_run: run("latestRunId"),
            latest_run_requested_at: time(&row["latestRunRequestedAt"]),
            latest_run_completed_at: time(&row["latestRunCompletedAt"]),
            pending: text(&row["pendingRuntimeRequest"]["id"]).map(RuntimeRequestId::from),
            deleted: !row["deletedAt"].is_null(),
            updated_at: time(&row["updatedAt"]).unwrap(),
        };
        self.tracker.handle_row(&row, self.now);
    }
}

/// A run's ordinal, which ends its id.
fn ordinal(told: &Told) -> u64 {
    let id = &told.run.as_ref().unwrap().id.0;
    id.rsplit(':').next().unwrap().parse().unwrap()
}

fn short(told: &[Told]) -> Vec<(u64, EventKind, &str)> {
    let origin = |told: &'_ Told| told.watch.origin.clone().unwrap_or_default().leak() as &str;
    told.iter()
        .map(|told| (ordinal(told), told.kind, origin(told)))
        .collect()
}

/// The message that made each run, told by its turn item or the run that it was created for.
fn first_messages(items: &[Value]) -> Vec<(u64, String)> {
    let created = items.iter().filter(|item| item["event"]["type"] == "run.created");
    created
        .map(|item| {
            let run = &item["event"]["payload"];
            (run["ordinal"].as_u64().unwrap(), text(&run["userMessageId"]).unwrap())
        })
        .collect()
}

/// What is told in total of recording 04 by one who reads at these sequences.
fn told_of_04(reads: impl Iterator<Item = u64>) -> Vec<Told> {
    let items = queue_steer_interrupt();
    let messages = first_messages(&items);
    assert_eq!(messages.len(), 7);
    let sent: Vec<(&str, &str)> = messages
        .iter()
        .map(|(ordinal, id)| (id.as_str(), if *ordinal == 7 { "seventh" } else { "first" }))
        .collect();
    let mut replay = Replay::new(&sent);
    let mut told = Vec::new();
    for sequence in reads {
        told.extend(replay.reads(sequence, &Entities::at(&items, sequence), None));
        // Stopped and begun again at every point.
        replay.tracker = Tracker::at(replay.tracker.thread().clone(), LIMITS, replay.now);
    }
    assert!(!replay.tracker.is_open());
    told
}

#[test]
fn of_a_queue_that_was_steered_cut_and_promoted_each_end_is_told_once_however_seldom_one_reads() {
    let expected = [
        (1, Interrupted, "first"),
        (2, Completed, "first"),
        (3, Completed, "first"),
        (5, Completed, "first"),
        // The seventh was promoted into it, and its watch followed.
        (6, Completed, "seventh"),
    ];
    for step in [1, 2, 3, 7, 20, 50, 300] {
        let reads = (225..440).step_by(step).chain([440]);
        assert_eq!(short(&told_of_04(reads)), expected, "every {step}th");
    }
}

#[test]
fn rows_of_a_cancelled_run_while_another_works_lead_to_reads_and_to_no_end() {
    let items = queue_steer_interrupt();
    let messages = first_messages(&items);
    let mut replay = Replay::new(&[(messages[0].1.as_str(), "first")]);
    replay.reads(280, &Entities::at(&items, 280), None);
    for item in items.iter().filter(|item| item["kind"] == "thread.updated") {
        replay.row(item);
        assert_eq!(replay.tracker.poll_event(), None);
    }
    assert_eq!(replay.tracker.poll_read(), Some(ReadNeed::Part));
    assert!(replay.tracker.is_open());
}

#[test]
fn what_ran_and_what_waited_when_a_real_server_was_killed_is_told_as_interrupted() {
    let reads = recorded::reads("07-replay-kill-restart");
    let killed = |read: &&Value| read["projection"]["thread"]["title"] == "kill: running+queue";
    let after = Entities::of(&reads.iter().find(killed).unwrap()["projection"]);
    // Just before the kill: the same thread, with what the shell of that moment says (run 1 running, run 2 queued).
    let mut before = after.clone();
    for (run, status) in before.runs.values_mut().zip(["running", "queued"]) {
        run["status"] = status.into();
        run["completedAt"] = Value::Null;
    }
    let messages: Vec<String> = after.messages.keys().cloned().collect();
    let sent: Vec<(&str, &str)> = messages.iter().map(|id| (id.as_str(), "A")).collect();
    let expected = [(1, Interrupted, "A"), (2, Interrupted, "A")];

    let mut watched = Replay::new(&sent);
    assert_eq!(watched.reads(1647, &before, "2026-11-30T05:53:02Z".parse().ok()), []);
    watched.tracker.handle_gap(
        "2026-11-30T05:53:02Z".parse().unwrap(),
        "2026-11-30T05:53:09Z".parse().unwrap(),
    );
    assert_eq!(watched.tracker.poll_read(), Some(ReadNeed::Part));
    let told = watched.reads(1705, &after, "2026-11-30T05:53:09Z".parse().ok());
    assert_eq!(short(&told), expected);
    assert_eq!(Some(told[1].at), "2026-11-30T05:53:04.869Z".parse().ok());

    // And by one who never saw it before.
    let mut away = Replay::new(&sent);
    away.tracker
        .handle_gap(away.now, "2026-11-30T05:53:09Z".parse().unwrap());
    assert_eq!(
        short(&away.reads(1705, &after, "2026-11-30T05:53:09Z".parse().ok())),
        expected
    );
}

#[test]
fn of_two_approvals_at_once_the_shell_shows_one_and_both_are_told() {
    let items = items("14-two-pending");
    let reads = recorded::reads("14-two-pending");
    let pending = Entities::of(&reads[0]["projection"]);
    let message = pending.messages.keys().next().unwrap().clone();
    let mut replay = Replay::new(&[(message.as_str(), "A")]);
    for item in items
        .iter()
        .filter(|item| item["sequence"] == 3869 && item["thread"].is_object())
    {
        replay.row(item);
    }
    assert_eq!(replay.tracker.poll_read(), Some(ReadNeed::Part));
    let now = "2026-11-30T06:02:21Z".parse().ok();
    let told = replay.reads(3869, &pending, now);
    assert_eq!(short(&told), [(1, Approval, "A"), (1, Approval, "A")]);
    assert_ne!(told[0].request, told[1].request);
    assert!(told[0].at < told[1].at);
    assert_eq!(replay.tracker.poll_read(), None);
    assert_eq!(replay.reads(3870, &pending, now), []);
    let told = replay.reads(3893, &Entities::of(&reads[1]["projection"]), now);
    assert_eq!(short(&told), [(1, Completed, "A")]);
    assert!(!replay.tracker.is_open());
}
