//! The dialect on what a real server sent, and on what a newer one may send.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::machine::domain::{Answer, DispatchMode, ItemKind, ThreadRow, Workspace};
use crate::machine::mirror::{Effect, Mirror, ShellSnapshot};
use crate::protocol::{ProjectId, ProviderInstanceId, RuntimeRequestId};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/machine/", $name))
    };
}

/// A recorded item, decoded.
#[derive(Clone, Debug)]
enum Recorded {
    Shell(ShellItem),
    Archive(ArchiveItem),
}

fn recording(text: &str) -> Vec<(String, Recorded)> {
    #[derive(Deserialize)]
    struct Line<'a> {
        conn: String,
        stream: String,
        #[serde(borrow)]
        item: &'a RawValue,
    }
    text.lines()
        .map(|line| {
            let line: Line<'_> = serde_json::from_str(line).unwrap();
            let item = match line.stream.as_str() {
                "shell" => Recorded::Shell(Protocol2.read_shell_item(line.item).unwrap()),
                _ => Recorded::Archive(Protocol2.read_archive_item(line.item).unwrap()),
            };
            (line.conn, item)
        })
        .collect()
}

fn apply(mirror: &mut Mirror, item: &Recorded) {
    match item.clone() {
        Recorded::Shell(item) => mirror.handle_shell(item),
        Recorded::Archive(item) => mirror.handle_archive(item),
    }
}

fn rows(mirror: &Mirror) -> BTreeMap<String, Arc<ThreadRow>> {
    mirror
        .threads()
        .into_iter()
        .map(|row| (row.id.0.clone(), row))
        .collect()
}

fn effects(mirror: &mut Mirror) -> Vec<Effect> {
    std::iter::from_fn(|| mirror.poll_effect()).collect()
}

const SHELLS: [(&str, &str); 4] = [
    ("04", fixture!("shell-04.jsonl")),
    ("06", fixture!("shell-06.jsonl")),
    ("07", fixture!("shell-07.jsonl")),
    ("14", fixture!("shell-14.jsonl")),
];

fn threads(text: &str) -> Vec<Thread> {
    text.lines()
        .map(|line| Protocol2.read_thread(line.as_bytes()).unwrap())
        .collect()
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

#[test]
fn every_recorded_shell_is_one_database_and_ends_current() {
    for (name, text) in SHELLS {
        let mut mirror = Mirror::default();
        for (_, item) in &recording(text) {
            apply(&mut mirror, item);
        }
        assert!(!effects(&mut mirror).contains(&Effect::Reset), "{name}");
        assert!(!mirror.threads().is_empty() && !mirror.projects().is_empty(), "{name}");
    }
}

#[test]
fn a_reconnect_of_the_recording_replays_what_its_snapshot_covers_without_waking_anyone() {
    // After the kill: a snapshot at 1705, then twenty items at or below it, then `synchronized`.
    let items = recording(fixture!("shell-07.jsonl"));
    let mut mirror = Mirror::default();
    for (conn, item) in &items {
        let replayed = conn == "shell-after-kill"
            && matches!(item, Recorded::Shell(ShellItem::ThreadUpdated(row)) if row.sequence <= 1705);
        effects(&mut mirror);
        apply(&mut mirror, item);
        if replayed {
            assert_eq!(effects(&mut mirror), []);
        }
    }
    assert_eq!(mirror.applied(), 1795);
}

#[test]
fn the_recorded_archive_moves_are_one_thread_on_both_streams() {
    let items = recording(fixture!("shell-06.jsonl"));
    let thread = items
        .iter()
        .find_map(|(_, item)| match item {
            Recorded::Archive(ArchiveItem::Updated(row)) => Some(row.id.clone()),
            Recorded::Archive(_) | Recorded::Shell(_) => None,
        })
        .unwrap();
    let mut mirror = Mirror::default();
    let mut story = Vec::new();
    for (_, item) in &items {
        apply(&mut mirror, item);
        let place = mirror.thread(&thread).map(|row| row.archived);
        if story.last() != Some(&place) {
            story.push(place);
        }
    }
    // Not there yet, active, archived, restored, deleted for good though T3 repeats the removal on every later event.
    assert_eq!(story, [None, Some(false), Some(true), Some(false), None]);
}

#[test]
fn a_row_that_says_cancelled_is_no_end() {
    // The last queued run was cancelled; at 286 nothing is active for a moment, and then the queue goes on.
    let mut mirror = Mirror::default();
    let mut seen = Vec::new();
    for (_, item) in &recording(fixture!("shell-04.jsonl")) {
        apply(&mut mirror, item);
        seen.extend(
            mirror
                .threads()
                .into_iter()
                .filter(|row| row.sequence == mirror.applied()),
        );
    }
    let at = |sequence| {
        let row = seen.iter().find(|row| row.sequence == sequence).unwrap();
        (
            row.status.as_str(),
            row.active_run.is_some(),
            row.active_run == row.latest_run,
        )
    };
    assert_eq!(
        [at(261), at(286), at(294)],
        [
            ("cancelled", true, false),
            ("cancelled", false, false),
            ("cancelled", true, false)
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Within one connection any item may be repeated, at once or later, and the rows stay those of the straight run.
    #[test]
    fn repeated_items_of_a_recording_change_nothing(
        which in 0..SHELLS.len(),
        repeats in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
    ) {
        let items = recording(SHELLS[which].1);
        let mut straight = Mirror::default();
        items.iter().for_each(|(_, item)| apply(&mut straight, item));

        let mut mirror = Mirror::default();
        for (index, (conn, item)) in items.iter().enumerate() {
            apply(&mut mirror, item);
            for (at, back) in &repeats {
                if at.index(items.len()) == index {
                    let from = back.index(index + 1);
                    // A snapshot is never sent again once later items were.
                    let again = items[from..=index].iter().filter(|(other, item)| {
                        other == conn && !matches!(item, Recorded::Shell(ShellItem::Snapshot(_)) | Recorded::Archive(ArchiveItem::Snapshot { .. }))
                    });
                    again.for_each(|(_, item)| apply(&mut mirror, item));
                }
            }
        }
        prop_assert_eq!(rows(&mirror), rows(&straight));
        prop_assert!(!effects(&mut mirror).contains(&Effect::Reset));
    }
}

#[test]
fn a_queued_run_whose_message_went_to_another_run_was_promoted_into_it() {
    let thread = threads(fixture!("thread-04.jsonl")).pop().unwrap();
    assert_eq!(thread.sequence, 440);
    let run = |ordinal| thread.facts.runs.iter().find(|run| run.ordinal == ordinal).unwrap();
    assert_eq!(run(7).promoted_into.as_ref(), Some(&run(6).id));
    // Taken off the queue by hand, never started: promoted into nothing.
    assert_eq!(
        (run(4).status.as_str(), run(4).promoted_into.as_ref(), run(4).started_at),
        ("cancelled", None, None)
    );
}

#[test]
fn the_run_of_a_message_is_the_messages_own_and_not_the_runs_last_message() {
    let thread = threads(fixture!("thread-04.jsonl")).pop().unwrap();
    let first = thread.messages.iter().find(|message| message.role == "user").unwrap();
    let run = thread
        .facts
        .runs
        .iter()
        .find(|run| Some(&run.id) == first.run.as_ref())
        .unwrap();
    assert_eq!(run.ordinal, 1);
    assert_ne!(run.user_message, first.id, "the steer overwrote it");
}

#[test]
fn both_of_two_pending_requests_are_facts_with_their_run_and_text() {
    let thread = threads(fixture!("thread-14.jsonl")).remove(0);
    let run = &thread.facts.runs[0].id;
    let pending: Vec<_> = thread
        .facts
        .requests
        .iter()
        .map(|request| {
            (
                request.kind.as_str(),
                request.status.as_str(),
                request.capability.as_str(),
                request.run.as_ref(),
            )
        })
        .collect();
    assert_eq!(pending, [("command", "pending", "live", Some(run)); 2]);
    let prompts: Vec<_> = thread
        .items
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Approval { prompt, .. } => prompt.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(prompts, ["first cmd", "second cmd"]);
}

#[test]
fn a_request_without_its_turn_item_finds_its_run_by_its_node() {
    let mut body: Value = serde_json::from_str(fixture!("thread-14.jsonl").lines().next().unwrap()).unwrap();
    body["projection"]["turnItems"] = json!([]);
    let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    assert!(thread.facts.requests.iter().all(|request| request.run.is_some()));
}

#[test]
fn a_secret_that_is_asked_for_is_a_request_though_t3_has_none() {
    let mut body: Value = serde_json::from_str(fixture!("thread-14.jsonl").lines().next().unwrap()).unwrap();
    let item = &mut body["projection"]["turnItems"][1];
    item["type"] = json!("secret_request");
    item["label"] = json!("API key");
    item["reason"] = json!("to deploy");
    item["secretStatus"] = json!("pending");
    let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    let request = thread.facts.requests.last().unwrap();
    assert_eq!(
        (request.kind.as_str(), request.status.as_str()),
        ("secret_request", "pending")
    );
    assert_eq!(request.run.as_ref(), Some(&thread.facts.runs[0].id));
}

#[test]
fn a_deleted_thread_reads_as_deleted() {
    let thread = threads(fixture!("thread-06.jsonl")).pop().unwrap();
    assert!(thread.facts.deleted);
    assert!(
        thread
            .items
            .iter()
            .any(|item| matches!(item.kind, ItemKind::Failure { .. })),
        "why a run failed"
    );
}

#[test]
fn the_questions_and_approvals_of_the_recording_have_their_text() {
    for thread in threads(fixture!("thread-05.jsonl")) {
        for request in thread.facts.requests {
            let text = thread.items.iter().find_map(|item| match &item.kind {
                ItemKind::Question { request: id, questions } if *id == request.id => {
                    Some(questions.iter().all(|question| !question.question.is_empty()))
                }
                ItemKind::Approval {
                    request: id, prompt, ..
                } if *id == request.id => Some(prompt.is_some()),
                _ => None,
            });
            assert_eq!(text, Some(true), "{}", request.kind);
        }
    }
}

#[test]
fn a_thread_whose_local_items_stand_among_the_visible_ones_alone_has_them_all() {
    let mut body: Value = serde_json::from_str(fixture!("thread-14.jsonl").lines().next().unwrap()).unwrap();
    let whole = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    let items = body["projection"]["turnItems"].take();
    let visible = items.as_array().unwrap().iter().enumerate().map(|(position, item)| {
        json!({"item": item, "position": position, "sourceItemId": item["id"], "sourceThreadId": item["threadId"], "visibility": "local"})
    });
    body["projection"]["visibleTurnItems"] = visible.collect();
    body["projection"]["turnItems"] = json!([]);
    body["turnItemsOmitLocalVisible"] = json!(true);
    let compact = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    assert_eq!(compact.items, whole.items);
}

#[test]
fn words_fields_and_kinds_of_a_newer_t3_are_taken_along() {
    let mut body: Value = serde_json::from_str(fixture!("thread-14.jsonl").lines().next().unwrap()).unwrap();
    body["projection"]["runs"][0]["status"] = json!("pondering");
    body["projection"]["runs"][0]["novelty"] = json!({"a": 1});
    body["projection"]["runtimeRequests"][0]["kind"] = json!("telepathy");
    body["projection"]["runtimeRequests"][0]["responseCapability"] = json!({"type": "dream", "depth": 3});
    body["projection"]["turnItems"][1]["type"] = json!("hologram");
    let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    assert_eq!(thread.facts.runs[0].status, "pondering");
    let request = &thread.facts.requests[0];
    assert_eq!(
        (request.kind.as_str(), request.capability.as_str()),
        ("telepathy", "dream")
    );

    let item = raw(&json!({"kind": "thread.dreamt", "sequence": 5}));
    assert_eq!(
        Protocol2.read_shell_item(&item).unwrap(),
        ShellItem::Unknown {
            kind: "thread.dreamt".to_owned()
        }
    );
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_the_place() {
    let line = fixture!("thread-14.jsonl").lines().next().unwrap();
    let mut body: Value = serde_json::from_str(line).unwrap();
    body["projection"]["runs"][0]["requestedAt"] = json!("yesterday");
    let error = Protocol2
        .read_thread(body.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("runs.requestedAt") && error.contains("yesterday"),
        "{error}"
    );

    let mut body: Value = serde_json::from_str(line).unwrap();
    body["projection"]["runs"][0]["ordinal"] = json!("first");
    let error = Protocol2
        .read_thread(body.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.contains("projection.runs[0].ordinal"), "{error}");

    let item = raw(&json!({"kind": "thread.removed", "sequence": 5}));
    let error = Protocol2.read_shell_item(&item).unwrap_err().to_string();
    assert!(
        error.contains("thread.removed") && error.contains("threadId"),
        "{error}"
    );
}

#[test]
fn a_row_keeps_the_beginning_of_a_long_message_and_no_half_character() {
    let line = fixture!("shell-14.jsonl").lines().next().unwrap();
    let mut item = serde_json::from_str::<Value>(line).unwrap()["item"].take();
    let threads = item["snapshot"]["threads"].as_array_mut().unwrap();
    let message =
        json!({"id": "m", "role": "assistant", "text": "ä".repeat(200_000), "updatedAt": "2026-11-30T06:02:20.169Z"});
    threads[0]["latestVisibleMessage"] = message;
    let ShellItem::Snapshot(ShellSnapshot { threads, .. }) = Protocol2.read_shell_item(&raw(&item)).unwrap() else {
        panic!("no snapshot");
    };
    let text = &threads[0].last_message.as_ref().unwrap().text;
    assert_eq!(
        (text.chars().count(), text.capacity()),
        (ThreadRow::MESSAGE_CHARS, 2 * ThreadRow::MESSAGE_CHARS)
    );
}

#[test]
fn the_recorded_config_names_providers_models_and_options() {
    let config = RawValue::from_string(fixture!("config.json").to_owned()).unwrap();
    let providers = Protocol2.read_providers(&config).unwrap();
    let ready: Vec<_> = providers
        .iter()
        .filter(|provider| provider.enabled)
        .map(|provider| provider.instance.0.as_str())
        .collect();
    assert_eq!(ready, ["grok"]);
    assert!(
        providers
            .iter()
            .any(|provider| provider.instance.0 == "claudeAgent" && provider.status == "disabled")
    );
    assert!(
        providers
            .iter()
            .flat_map(|provider| &provider.models)
            .any(|model| !model.options.is_empty())
    );
}

fn command() -> CommandId {
    CommandId("c".to_owned())
}

fn a_launch() -> Launch {
    Launch {
        command: command(),
        thread: ThreadId("t".to_owned()),
        message: MessageId("m".to_owned()),
        project: ProjectId("p".to_owned()),
        title: "Title".to_owned(),
        generate_title: false,
        text: "do it".to_owned(),
        model: ModelSelection {
            instance: ProviderInstanceId("codex".to_owned()),
            model: "gpt".to_owned(),
            options: vec![
                ("effort".to_owned(), OptionValue::Text("high".to_owned())),
                ("fast".to_owned(), OptionValue::Bool(true)),
            ],
        },
        runtime_mode: RuntimeMode::FullAccess,
        interaction_mode: InteractionMode::Default,
        workspace: Workspace::Worktree {
            base_ref: "main".to_owned(),
            branch: None,
        },
    }
}

fn sent(call: &Call) -> (&str, Value) {
    (call.tag, serde_json::from_str(call.payload.get()).unwrap())
}

#[test]
fn a_launch_says_that_it_comes_from_mcp_and_leaves_absent_things_out() {
    let call = Protocol2.launch(&a_launch()).unwrap();
    let expected = json!({
        "commandId": "c", "threadId": "t", "projectId": "p", "title": "Title", "creationSource": "mcp",
        "modelSelection": {"instanceId": "codex", "model": "gpt", "options": [{"id": "effort", "value": "high"}, {"id": "fast", "value": true}]},
        "runtimeMode": "full-access", "interactionMode": "default",
        "workspaceStrategy": {"type": "worktree", "baseRef": "main"},
        "initialMessage": {"messageId": "m", "text": "do it", "attachments": []},
    });
    assert_eq!(sent(&call), ("orchestration.launchThread", expected));
}

#[test]
fn a_launch_in_steps_has_command_ids_of_its_own_that_a_repetition_repeats() {
    let launch = Launch {
        workspace: Workspace::Root,
        ..a_launch()
    };
    let [create, message] = Protocol2.launch_in_steps(&launch).unwrap();
    let model = json!({"instanceId": "codex", "model": "gpt", "options": [{"id": "effort", "value": "high"}, {"id": "fast", "value": true}]});
    let expected = json!({
        "type": "thread.create", "commandId": "c:create", "threadId": "t", "projectId": "p", "title": "Title",
        "modelSelection": model, "runtimeMode": "full-access", "interactionMode": "default",
        "branch": null, "worktreePath": null, "createdBy": "user", "creationSource": "mcp",
    });
    assert_eq!(sent(&create), ("orchestration.dispatchCommand", expected));
    let expected = json!({
        "type": "message.dispatch", "commandId": "c:message", "threadId": "t", "messageId": "m", "text": "do it",
        "attachments": [], "createdBy": "user", "creationSource": "mcp", "dispatchMode": {"type": "start_immediately"},
    });
    assert_eq!(sent(&message), ("orchestration.dispatchCommand", expected));

    // Without launchThread nobody makes the worktree, and a deferred run would wait for ever.
    assert!(matches!(
        Protocol2.launch_in_steps(&a_launch()),
        Err(MachineError::Unsafe(_))
    ));
}

#[test]
fn an_answer_carries_the_one_field_of_its_kind() {
    let respond = |answer| Respond {
        command: command(),
        thread: ThreadId("t".to_owned()),
        request: RuntimeRequestId("r".to_owned()),
        answer,
    };
    let base = |kind: &str| json!({"type": kind, "commandId": "c", "threadId": "t", "requestId": "r"});
    let with = |field: &str, value: Value| {
        let mut command = base("runtime-request.respond");
        command[field] = value;
        command
    };
    let payload = |answer| sent(&Protocol2.respond(&respond(answer)).unwrap()).1;

    assert_eq!(
        payload(Answer::Decision("acceptForSession".to_owned())),
        with("decision", json!("acceptForSession"))
    );
    let answers = json!({"q1": "yes", "q2": ["a", "b"]});
    let Value::Object(map) = answers.clone() else { panic!() };
    assert_eq!(payload(Answer::Answers(map)), with("answers", answers));
    assert_eq!(payload(Answer::Dismiss), base("thread.user-input.dismiss"));

    let unknown = Protocol2.respond(&respond(Answer::Decision("perhaps".to_owned())));
    assert!(matches!(unknown, Err(MachineError::Unsafe(message)) if message.contains("acceptForSession")));
}

#[test]
fn messages_name_what_to_do_with_an_active_run() {
    let run = || RunId("r".to_owned());
    let modes = [
        (DispatchMode::Start, json!({"type": "start_immediately"})),
        (DispatchMode::Queue, json!({"type": "queue_after_active"})),
        (
            DispatchMode::Steer(run()),
            json!({"type": "steer_active", "targetRunId": "r"}),
        ),
        (
            DispatchMode::Restart(run()),
            json!({"type": "restart_active", "targetRunId": "r"}),
        ),
    ];
    for (mode, expected) in modes {
        let message = SendMessage {
            command: command(),
            thread: ThreadId("t".to_owned()),
            message: MessageId("m".to_owned()),
            text: "and then".to_owned(),
            model: None,
            mode,
        };
        let (_, payload) = sent(&Protocol2.send_message(&message).unwrap()).clone();
        assert_eq!(payload["dispatchMode"], expected);
        assert!(payload.get("modelSelection").is_none() && payload.get("titleSeed").is_none());
    }
}

#[test]
fn small_commands_are_as_t3_takes_them() {
    let (thread, run) = (ThreadId("t".to_owned()), RunId("r".to_owned()));
    let payload = |call: Result<Call, MachineError>| sent(&call.unwrap()).1;
    assert_eq!(
        payload(Protocol2.interrupt(&command(), &thread, &run, false)),
        json!({"type": "run.interrupt", "commandId": "c", "threadId": "t", "runId": "r"})
    );
    assert_eq!(
        payload(Protocol2.interrupt(&command(), &thread, &run, true)),
        json!({"type": "run.interrupt", "commandId": "c", "threadId": "t", "runId": "r", "holdQueue": true})
    );
    assert_eq!(
        payload(Protocol2.cancel_queued(&command(), &thread, &run)),
        json!({"type": "queued-run.cancel", "commandId": "c", "threadId": "t", "runId": "r"})
    );
    assert_eq!(
        payload(Protocol2.set_runtime_mode(&command(), &thread, RuntimeMode::Auto)),
        json!({"type": "thread.runtime-mode.set", "commandId": "c", "threadId": "t", "runtimeMode": "auto"})
    );
    assert_eq!(
        payload(Protocol2.set_interaction_mode(&command(), &thread, InteractionMode::Plan)),
        json!({"type": "thread.interaction-mode.set", "commandId": "c", "threadId": "t", "interactionMode": "plan"})
    );
}

#[test]
fn a_launch_answers_with_the_run_of_its_message() {
    let answer = raw(&json!({
        "threadId": "t", "resumed": true,
        "projection": {"messages": [{"id": "m", "runId": "run:1", "role": "user"}, {"id": "x", "runId": null}], "nodes": []},
    }));
    let launched = Protocol2.read_launched(&answer, &MessageId("m".to_owned())).unwrap();
    assert_eq!(
        (launched.run, launched.resumed),
        (Some(RunId("run:1".to_owned())), true)
    );
}
