//! The dialect on what a real server of protocol 1 sent, and on its traps.

#![allow(clippy::needless_pass_by_value)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Memory, Protocol1, thread};
use crate::lifecycle::{RunState, fold, observe};
use crate::machine::dialect::Dialect;
use crate::machine::domain::{Answer, DispatchMode, ItemKind, Respond, SendMessage, Thread};
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, Mirror, ShellItem};
use crate::protocol::{CommandId, MessageId, RunId, RuntimeRequestId, ThreadId};

mod moments;
mod unknown;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings-1")
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The whole threads that were read, with the note of each.
fn reads(name: &str) -> Vec<(String, Value)> {
    let read = |line: Value| {
        let body = line["body"]["body"].clone();
        let note = line["note"].as_str().unwrap_or_default().to_owned();
        body["thread"].is_object().then_some((note, body))
    };
    lines(name).into_iter().filter_map(read).collect()
}

/// Long after everything that was recorded: nothing waits for its turn any more.
fn later() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().unwrap()
}

fn decode(body: &Value, memory: &Memory) -> Thread {
    thread::read_body(body.to_string().as_bytes(), memory, later()).unwrap()
}

const RECORDINGS: [&str; 5] = [
    "03-turns",
    "04-busy-interrupt-stop",
    "05-approval-userinput-interrupt",
    "06-idempotency-lifecycle-several-threads",
    "07-replay-drop-kill-restart",
];

/// Those of which the streams of the shell are kept.
const SHELLS: [&str; 4] = [
    "03-turns",
    "04-busy-interrupt-stop",
    "06-idempotency-lifecycle-several-threads",
    "07-replay-drop-kill-restart-shell",
];

#[test]
fn recorded_threads_say_what_became_of_each_turn() {
    let mut said = String::new();
    for name in RECORDINGS {
        writeln!(said, "{name}").unwrap();
        // Each read by itself: what nobody remembers has to be told from what is shown.
        for (note, body) in reads(name) {
            let thread = decode(&body, &Memory::default());
            let runs: Vec<String> = thread
                .facts
                .runs
                .iter()
                .map(|run| RunState::INITIAL.on(observe(run, &thread.facts)).to.as_str().to_owned())
                .collect();
            let open: Vec<&str> = thread
                .facts
                .requests
                .iter()
                .filter(|request| request.status == "pending")
                .map(|request| request.kind.as_str())
                .collect();
            let state = fold(&thread.facts).state.as_str();
            let newest = runs.last().map_or("-", String::as_str);
            writeln!(
                said,
                "  {note}: {state}, {} runs, newest {newest}, open {open:?}",
                runs.len()
            )
            .unwrap();
        }
    }
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_snapshot!(said);
    });
}

#[test]
fn what_is_read_whole_is_what_the_chunks_of_the_stream_make() {
    let chunks = lines("message-chunks");
    for name in RECORDINGS {
        let mut made: BTreeMap<&str, String> = BTreeMap::new();
        for chunk in chunks.iter().filter(|chunk| chunk["recording"] == name) {
            let message = &chunk["payload"];
            // Each is appended; the last brings nothing, and replaces nothing.
            let text = made.entry(message["messageId"].as_str().unwrap()).or_default();
            text.push_str(message["text"].as_str().unwrap());
        }
        let reads = reads(name);
        let threads = reads.iter().map(|(_, body)| decode(body, &Memory::default()));
        let shown: BTreeMap<String, String> = threads
            .flat_map(|thread| thread.messages)
            .map(|message| (message.id.0, message.text))
            .collect();
        for (id, text) in made {
            assert_eq!(shown.get(id), Some(&text), "{name}: {id}");
        }
    }
    assert_eq!(chunks.len(), 98);
}

#[test]
fn a_recorded_shell_replays_into_the_mirror() {
    for name in SHELLS {
        let dialect = Protocol1::new(Arc::default());
        let mut mirror = Mirror::default();
        let (mut rows, mut snapshots) = (0, 0);
        for line in lines(name) {
            for value in line["body"]["values"].as_array().into_iter().flatten() {
                let item = dialect.read_shell_item(&raw(value)).unwrap();
                assert!(
                    !matches!(item, ShellItem::Unknown { .. } | ShellItem::ThreadUnreadable { .. }),
                    "{value}"
                );
                let snapshot = match &item {
                    ShellItem::Snapshot(snapshot) => Some(snapshot.clone()),
                    _ => None,
                };
                rows += usize::from(matches!(item, ShellItem::ThreadUpdated(_)));
                mirror.handle_shell(item);
                // One that comes again, after a gap or a lost connection, is taken as whole as the first.
                let Some(snapshot) = snapshot else { continue };
                assert!(snapshot.unread.is_empty(), "{:?}", snapshot.unread);
                assert!(super::is_snapshot_of(&raw(value)));
                snapshots += 1;
                assert_eq!(mirror.threads().len(), snapshot.threads.len());
                for row in &snapshot.threads {
                    assert_eq!(mirror.thread(&row.id).as_deref(), Some(row));
                }
                let projects: Vec<_> = mirror.projects().iter().map(|project| project.id.clone()).collect();
                let mut told: Vec<_> = snapshot.projects.iter().map(|project| project.id.clone()).collect();
                told.sort();
                assert_eq!(projects, told);
            }
        }
        assert!(rows > 20 && !mirror.projects().is_empty(), "{name}: {rows}");
        assert!(
            snapshots > 0 && (snapshots > 4 || !name.starts_with("07")),
            "{name}: {snapshots}"
        );
    }
}

#[test]
fn the_recorded_archive_is_read_and_its_threads_are_told_of_one_by_one() {
    let all = lines("06-idempotency-lifecycle-several-threads");
    let answer = all
        .iter()
        .find(|line| line["note"] == "archived" && line["kind"] == "frame")
        .unwrap();
    let answer = &answer["body"]["exit"]["value"];
    let dialect = Protocol1::new(Arc::default());
    let ArchiveItem::Snapshot { threads, unread, .. } = dialect.read_archived(&raw(answer)).unwrap() else {
        panic!("it is a snapshot");
    };
    assert!(unread.is_empty() && !threads.is_empty());
    for row in threads {
        let thread = dialect
            .read_archived_thread(&raw(answer), &row.id, &[])
            .unwrap()
            .unwrap();
        assert!(row.archived && thread.head.archived);
        assert_eq!((&thread.head.title, &thread.head.project), (&row.title, &row.project));
    }
}

#[test]
fn the_recorded_configuration_is_read() {
    let text = std::fs::read_to_string(folder().join("server-getConfig.json")).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let providers = Protocol1::new(Arc::default()).read_providers(&raw(&config)).unwrap();
    assert!(
        providers
            .iter()
            .any(|provider| provider.instance.0 == "grok" && !provider.models.is_empty())
    );
}

const AT: [&str; 5] = [
    "2026-11-30T10:00:00.000Z",
    "2026-11-30T10:00:01.000Z",
    "2026-11-30T10:00:02.000Z",
    "2026-11-30T10:00:03.000Z",
    "2026-11-30T10:00:04.000Z",
];

fn message(id: &str, role: &str, text: &str, turn: Value, at: usize) -> Value {
    json!({"id": id, "role": role, "text": text, "attachments": [], "turnId": turn, "streaming": false, "createdAt": AT[at], "updatedAt": AT[at]})
}

fn activity(kind: &str, turn: &str, payload: Value, at: usize) -> Value {
    json!({"id": format!("{kind}{at}"), "tone": "info", "kind": kind, "summary": kind, "payload": payload, "turnId": turn, "createdAt": AT[at]})
}

/// A thread whose first message began the turn `t1`.
fn one(session: &str, state: &str, said: Option<&str>) -> Value {
    let mut messages = vec![message("m1", "user", "do it", Value::Null, 0)];
    messages.extend(said.map(|said| message("a1", "assistant", said, json!("t1"), 1)));
    let active = (session == "running").then_some("t1");
    json!({"snapshotSequence": 9, "thread": {
        "id": "thread", "projectId": "p", "title": "t", "modelSelection": {"instanceId": "codex", "model": "m"},
        "runtimeMode": "full-access", "interactionMode": "default", "branch": null, "worktreePath": null, "createdAt": AT[0],
        "updatedAt": AT[2], "archivedAt": null, "deletedAt": null, "messages": messages, "activities": [], "checkpoints": [],
        "latestTurn": {"turnId": "t1", "state": state, "requestedAt": AT[0], "startedAt": AT[0],
            "completedAt": if state == "running" { Value::Null } else { json!(AT[2]) }, "assistantMessageId": null},
        "session": {"threadId": "thread", "status": session, "providerName": "codex", "providerInstanceId": "codex",
            "runtimeMode": "full-access", "activeTurnId": active, "lastError": null, "updatedAt": AT[2]},
    }})
}

fn statuses(thread: &Thread) -> Vec<&str> {
    thread.facts.runs.iter().map(|run| run.status.as_str()).collect()
}

#[test]
fn an_end_without_an_answer_is_no_success() {
    let memory = Memory::default();
    assert_eq!(
        statuses(&decode(&one("ready", "completed", Some("done")), &memory)),
        ["completed"]
    );
    let memory = Memory::default();
    assert_eq!(
        statuses(&decode(&one("ready", "completed", None), &memory)),
        ["interrupted"]
    );
    assert_eq!(
        statuses(&decode(&one("ready", "completed", Some("  ")), &memory)),
        ["interrupted"]
    );
}

#[test]
fn what_we_stopped_is_interrupted_whatever_is_shown() {
    let memory = Memory::default();
    let (thread, run) = (ThreadId("thread".to_owned()), RunId("m1".to_owned()));
    memory.handle_stopped(&thread, &run);
    // It works until T3 says that it does not.
    assert_eq!(
        statuses(&decode(&one("running", "running", Some("partly")), &memory)),
        ["running"]
    );
    assert_eq!(
        statuses(&decode(&one("ready", "completed", Some("partly")), &memory)),
        ["interrupted"]
    );
}

#[test]
fn a_turn_that_was_seen_interrupted_stays_so_though_its_checkpoint_shows_it_completed() {
    let memory = Memory::default();
    assert_eq!(
        statuses(&decode(&one("ready", "interrupted", Some("partly")), &memory)),
        ["interrupted"]
    );
    assert_eq!(
        statuses(&decode(&one("ready", "completed", Some("partly")), &memory)),
        ["interrupted"]
    );
    // Who saw neither goes by the checkpoint.
    let mut body = one("ready", "completed", Some("partly"));
    body["thread"]["activities"] = json!([activity("checkpoint.captured", "t1", json!({"status": "missing"}), 2)]);
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["interrupted"]);
}

#[test]
fn an_answer_that_cancelled_is_an_interrupt_whoever_gave_it() {
    // Without a repository there is no checkpoint to tell it, and a later turn takes the state's place.
    let mut body = one("ready", "completed", Some("partly"));
    let cancelled = |decision: &str| {
        let payload = json!({"requestId": "r1", "requestKind": "command", "decision": decision});
        json!([activity("approval.resolved", "t1", payload, 1)])
    };
    body["thread"]["activities"] = cancelled("decline");
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["completed"]);
    body["thread"]["activities"] = cancelled("cancel");
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["interrupted"]);
}

/// The answer of `getArchivedShellSnapshot` for the thread of `one`.
fn in_archive(body: &Value) -> Value {
    let mut row = body["thread"].clone();
    let fields = row.as_object_mut().unwrap();
    for field in ["messages", "activities", "checkpoints", "deletedAt"] {
        fields.remove(field);
    }
    row["archivedAt"] = json!(AT[3]);
    row["latestUserMessageAt"] = json!(AT[0]);
    for flag in [
        "hasPendingApprovals",
        "hasPendingUserInput",
        "hasActionableProposedPlan",
    ] {
        row[flag] = json!(false);
    }
    json!({"snapshotSequence": 12, "projects": [], "threads": [row], "updatedAt": AT[3]})
}

#[test]
fn what_became_of_a_run_is_told_of_an_archived_thread_too() {
    let dialect = Protocol1::new(Arc::default());
    let id = ThreadId("thread".to_owned());
    let shown = |body: &Value| {
        dialect
            .read_archived_thread(&raw(&in_archive(body)), &id, &[])
            .unwrap()
            .unwrap()
    };
    // Nobody had read it.
    assert!(shown(&one("stopped", "interrupted", None)).facts.runs.is_empty());
    decode(&one("running", "running", None), &dialect.memory);
    for (session, state, said, ended) in [
        ("running", "running", false, "running"),
        ("ready", "completed", true, "completed"),
        ("ready", "completed", false, "interrupted"),
        ("error", "error", false, "failed"),
        ("stopped", "interrupted", false, "interrupted"),
    ] {
        let mut body = one(session, state, None);
        if said {
            body["thread"]["latestTurn"]["assistantMessageId"] = json!("a1");
        }
        let thread = shown(&body);
        assert!(thread.head.archived && thread.partial);
        assert_eq!(
            (statuses(&thread), thread.facts.runs[0].id.0.as_str()),
            (vec![ended], "m1"),
            "{state}"
        );
    }
    let other = ThreadId("other".to_owned());
    let listed = in_archive(&one("ready", "completed", None));
    assert!(
        dialect
            .read_archived_thread(&raw(&listed), &other, &[])
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_diff_in_the_middle_of_a_turn_is_no_end() {
    let mut body = one("running", "running", Some("partly"));
    body["thread"]["latestTurn"]["completedAt"] = json!(AT[1]);
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["running"]);
}

#[test]
fn a_turn_that_is_shown_as_completed_while_it_works_goes_on() {
    let mut body = one("running", "completed", Some("partly"));
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["running"]);
    // Another turn works by now.
    body["thread"]["session"]["activeTurnId"] = json!("t2");
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["completed"]);
}

#[test]
fn what_was_asked_of_it_by_us_is_remembered() {
    let partly = one("ready", "completed", Some("partly"));
    let (thread, run) = (ThreadId("thread".to_owned()), RunId("m1".to_owned()));
    let dialect = Protocol1::new(Arc::default());
    dialect.handle_interrupted(&thread, &run);
    assert_eq!(statuses(&decode(&partly, &dialect.memory)), ["interrupted"]);
    for (word, ended) in [("cancel", "interrupted"), ("decline", "completed")] {
        let dialect = Protocol1::new(Arc::default());
        let respond = Respond {
            command: CommandId("c".to_owned()),
            thread: thread.clone(),
            request: RuntimeRequestId("r1".to_owned()),
            answer: Answer::Decision(word.to_owned()),
        };
        dialect.handle_answered(&respond, Some(&run));
        assert_eq!(statuses(&decode(&partly, &dialect.memory)), [ended], "{word}");
    }
}

/// A row of the shell, of the thread of `one`.
fn row_of(body: &Value) -> Value {
    let mut row = in_archive(body)["threads"][0].clone();
    row["archivedAt"] = Value::Null;
    row
}

#[test]
fn a_row_that_showed_the_interrupt_is_remembered_and_one_of_a_dead_process_asks_nothing() {
    let dialect = Protocol1::new(Arc::default());
    let shown = |row: &Value| {
        let item = json!({"kind": "thread-upserted", "sequence": 5, "thread": row});
        match dialect.read_shell_item(&raw(&item)).unwrap() {
            ShellItem::ThreadUpdated(row) => row,
            other => panic!("{other:?}"),
        }
    };
    let mut asks = row_of(&one("running", "running", None));
    asks["hasPendingApprovals"] = json!(true);
    let row = shown(&asks);
    assert!(row.activity.is_some() && row.pending.is_some());
    dialect.memory.handle_started(AT[3].parse().unwrap());
    let row = shown(&asks);
    assert!(row.activity.is_none() && row.pending.is_none(), "{row:?}");
    shown(&row_of(&one("ready", "interrupted", None)));
    let later = one("ready", "completed", Some("partly"));
    assert_eq!(statuses(&decode(&later, &dialect.memory)), ["interrupted"]);
}

#[test]
fn what_was_seen_of_a_turn_holds_when_another_is_the_newest() {
    let turn = |id: &str, state: &str, at: usize| json!({"turnId": id, "state": state, "requestedAt": AT[at], "startedAt": AT[at], "completedAt": AT[at], "assistantMessageId": null});
    let memory = Memory::default();
    // It failed, though its agent had said something.
    decode(&one("error", "error", Some("partly")), &memory);
    let mut body = one("ready", "completed", Some("partly"));
    let thread = &mut body["thread"];
    let messages = thread["messages"].as_array_mut().unwrap();
    messages.push(message("m2", "user", "second", Value::Null, 2));
    thread["latestTurn"] = turn("t2", "completed", 2);
    assert_eq!(statuses(&decode(&body, &memory)), ["failed", "interrupted"]);
    // All that is left to see of the second is what it took over of the first.
    let thread = &mut body["thread"];
    let messages = thread["messages"].as_array_mut().unwrap();
    messages[1]["turnId"] = json!("t2");
    messages.push(message("m3", "user", "third", Value::Null, 3));
    messages.push(message("a3", "assistant", "of the third", json!("t3"), 4));
    thread["latestTurn"] = turn("t3", "completed", 3);
    let shown = decode(&body, &memory);
    assert_eq!(statuses(&shown)[1..], ["interrupted", "completed"]);
    assert_eq!(shown.facts.runs.len(), 3);
}

#[test]
fn a_start_that_failed_before_the_next_message_is_no_turn_that_never_ran() {
    let mut body = one("ready", "completed", Some("done"));
    let thread = &mut body["thread"];
    let messages = thread["messages"].as_array_mut().unwrap();
    messages.push(message("m2", "user", "", Value::Null, 2));
    messages.push(message("m3", "user", "third", Value::Null, 4));
    let mut failed = activity("provider.turn.start.failed", "t1", json!({"detail": "no input"}), 3);
    failed["turnId"] = Value::Null;
    thread["activities"] = json!([failed]);
    assert_eq!(
        statuses(&decode(&body, &Memory::default()))[..2],
        ["completed", "failed"]
    );
}

#[test]
fn what_died_with_an_earlier_process_is_interrupted_and_asks_nothing() {
    let memory = Memory::default();
    let mut body = one("running", "running", Some("partly"));
    body["thread"]["activities"] = json!([activity(
        "approval.requested",
        "t1",
        json!({"requestId": "r1", "requestKind": "command", "detail": "rm"}),
        1
    )]);
    let shown = decode(&body, &memory);
    assert_eq!(
        (statuses(&shown), shown.facts.requests[0].status.as_str()),
        (vec!["running"], "pending")
    );
    memory.handle_started(AT[3].parse().unwrap());
    let shown = decode(&body, &memory);
    assert_eq!(
        (statuses(&shown), shown.facts.requests[0].status.as_str()),
        (vec!["interrupted"], "expired")
    );
    let send = SendMessage {
        command: CommandId("c".to_owned()),
        thread: ThreadId("thread".to_owned()),
        message: MessageId("m2".to_owned()),
        text: "go on".to_owned(),
        model: None,
        mode: DispatchMode::Start,
    };
    let shared = Arc::new(memory);
    let stop = Protocol1::new(shared).before_message(&send).unwrap().unwrap();
    assert!(stop.payload.get().contains("thread.session.stop"), "{}", stop.payload);
}

#[test]
fn an_answer_that_moved_to_the_next_turn_stays_with_its_own() {
    let mut body = one("ready", "completed", None);
    let thread = &mut body["thread"];
    // The first turn was interrupted; what it had said is shown under the second one.
    thread["messages"] = json!([
        message("m1", "user", "first", Value::Null, 0),
        message("a1", "assistant", "of the first", json!("t2"), 1),
        message("m2", "user", "second", Value::Null, 2),
        message("a2", "assistant", "of the second", json!("t2"), 3),
    ]);
    thread["latestTurn"] = json!({"turnId": "t2", "state": "completed", "requestedAt": AT[2], "startedAt": AT[2], "completedAt": AT[4], "assistantMessageId": "a2"});
    thread["activities"] = json!([activity("checkpoint.captured", "t1", json!({"status": "missing"}), 1)]);
    let shown = decode(&body, &Memory::default());
    assert_eq!(statuses(&shown), ["interrupted", "completed"]);
    let run_of = |id: &str| {
        shown
            .messages
            .iter()
            .find(|message| message.id.0 == id)
            .unwrap()
            .run
            .clone()
            .unwrap()
            .0
    };
    assert_eq!((run_of("a1"), run_of("a2")), ("m1".to_owned(), "m2".to_owned()));
}

#[test]
fn a_message_to_a_busy_thread_belongs_to_the_turn_at_work() {
    let mut body = one("running", "running", None);
    body["thread"]["messages"] = json!([
        message("m1", "user", "first", Value::Null, 0),
        message("m2", "user", "besides", Value::Null, 1),
    ]);
    let shown = decode(&body, &Memory::default());
    assert_eq!(statuses(&shown), ["running"]);
    assert_eq!(shown.messages[1].run, Some(RunId("m1".to_owned())));
}

#[test]
fn a_message_that_no_turn_takes_waits_a_while_and_then_never_ran() {
    let mut body = one("ready", "completed", Some("done"));
    let messages = body["thread"]["messages"].as_array_mut().unwrap();
    messages.push(message("m2", "user", "second", Value::Null, 4));
    let soon: Timestamp = "2026-11-30T10:00:05Z".parse().unwrap();
    let read = |body: &Value, now| thread::read_body(body.to_string().as_bytes(), &Memory::default(), now).unwrap();
    assert_eq!(statuses(&read(&body, soon)), ["completed", "starting"]);
    assert_eq!(statuses(&read(&body, later())), ["completed", "cancelled"]);
    // On an archived thread it never runs.
    body["thread"]["archivedAt"] = json!(AT[3]);
    let shown = read(&body, soon);
    assert_eq!(
        RunState::INITIAL.on(observe(&shown.facts.runs[1], &shown.facts)).to,
        RunState::NeverStarted
    );
}

#[test]
fn a_start_that_failed_is_told_by_its_first_line() {
    let mut body = one("error", "completed", Some("done"));
    let thread = &mut body["thread"];
    thread["messages"]
        .as_array_mut()
        .unwrap()
        .push(message("m2", "user", "", Value::Null, 3));
    thread["session"]["lastError"] = json!("ProviderValidationError: no input\n    at validate");
    thread["session"]["updatedAt"] = json!(AT[4]);
    let shown = decode(&body, &Memory::default());
    assert_eq!(statuses(&shown), ["completed", "failed"]);
    let failure = shown.items.last().unwrap();
    assert!(
        matches!(&failure.kind, ItemKind::Failure { message, .. } if message == "ProviderValidationError: no input")
    );
}

#[test]
fn while_a_request_is_open_the_session_is_stopped_and_not_the_turn() {
    let dialect = Protocol1::new(Arc::default());
    let (command, thread, run) = (
        CommandId("c".to_owned()),
        ThreadId("thread".to_owned()),
        RunId("m1".to_owned()),
    );
    let mut body = one("running", "running", None);
    let shown = decode(&body, &Memory::default());
    let call = dialect.interrupt(&command, &thread, &run, false, Some(&shown)).unwrap();
    assert!(call.payload.get().contains(r#""turnId":"t1""#), "{}", call.payload);
    body["thread"]["activities"] = json!([activity(
        "user-input.requested",
        "t1",
        json!({"requestId": "r1", "questions": [{"id": "q", "header": "h", "question": "?", "options": [{"label": "A", "description": ""}]}]}),
        1
    )]);
    let shown = decode(&body, &Memory::default());
    let call = dialect.interrupt(&command, &thread, &run, false, Some(&shown)).unwrap();
    assert!(call.payload.get().contains("thread.session.stop"), "{}", call.payload);
    assert!(matches!(
        dialect.interrupt(&command, &thread, &run, true, Some(&shown)),
        Err(MachineError::NeedsNewer(_))
    ));
}

#[test]
fn only_the_four_decisions_are_sent() {
    let dialect = Protocol1::new(Arc::default());
    let respond = |word: &str| {
        dialect.respond(&Respond {
            command: CommandId("c".to_owned()),
            thread: ThreadId("thread".to_owned()),
            request: RuntimeRequestId("r1".to_owned()),
            answer: Answer::Decision(word.to_owned()),
        })
    };
    assert!(
        respond("acceptForSession")
            .unwrap()
            .payload
            .get()
            .contains("thread.approval.respond")
    );
    assert!(matches!(respond("acceptAlways"), Err(MachineError::Unsafe(_))));
}
