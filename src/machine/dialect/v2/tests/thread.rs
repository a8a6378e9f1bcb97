//! Reads of threads and of the server's config.

use serde_json::{Value, json};

use super::raw;
use crate::machine::dialect::{ConfigItem, Dialect, Protocol2};
use crate::machine::domain::{ItemKind, Thread};
use crate::machine::mirror::ShellItem;
use crate::machine::recordings::{config, reads};

fn threads(recording: &str) -> Vec<Thread> {
    let read = |body: &Value| Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    reads(recording).iter().map(read).collect()
}

#[test]
fn a_queued_run_whose_message_went_to_another_run_was_promoted_into_it() {
    let thread = threads("04-queue-steer-interrupt").pop().unwrap();
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
fn a_run_that_was_killed_while_it_was_prepared_had_left_the_queue() {
    // The recorded server was killed: run 1 was at work, run 2 waited in the queue.
    let mut body = reads("07-replay-kill-restart")
        .into_iter()
        .find(|body| body["snapshotSequence"] == 1705)
        .unwrap();
    let started = |body: &Value| {
        let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
        let runs = thread.facts.runs.iter();
        runs.map(|run| (run.status.clone(), run.started_at.map(|at| at.to_string())))
            .collect::<Vec<_>>()
    };
    let cancelled = |at: Option<&str>| ("cancelled".to_owned(), at.map(str::to_owned));
    assert_eq!(
        started(&body),
        [cancelled(Some("2026-11-30T05:53:00.285Z")), cancelled(None)]
    );
    // The same a moment earlier: T3 has not yet said that it started.
    body["projection"]["runs"][0]["startedAt"] = Value::Null;
    let user_message = body["projection"]["turnItems"][0]["startedAt"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(started(&body), [cancelled(Some(&user_message)), cancelled(None)]);
    body["projection"]["turnItems"][0]["startedAt"] = Value::Null;
    body["projection"]["turnItems"][0]["updatedAt"] = json!("2026-11-30T05:53:00.111Z");
    assert_eq!(
        started(&body),
        [cancelled(Some("2026-11-30T05:53:00.111Z")), cancelled(None)]
    );
    body["projection"]["runs"][0]["workStartedAt"] = json!("2026-11-30T05:53:00.222Z");
    assert_eq!(
        started(&body),
        [cancelled(Some("2026-11-30T05:53:00.222Z")), cancelled(None)]
    );
}

#[test]
fn a_run_of_the_recording_that_waits_or_waited_in_the_queue_has_not_started() {
    for thread in threads("04-queue-steer-interrupt") {
        for run in thread.facts.runs {
            let never = run.status == "queued" || run.status == "cancelled";
            assert_eq!(
                run.started_at.is_none(),
                never,
                "run {} at {}",
                run.ordinal,
                thread.sequence
            );
        }
    }
}

#[test]
fn the_run_of_a_message_is_the_messages_own_and_not_the_runs_last_message() {
    let thread = threads("04-queue-steer-interrupt").pop().unwrap();
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
    let thread = threads("14-two-pending").remove(0);
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
    let mut body: Value = reads("14-two-pending").remove(0);
    body["projection"]["turnItems"] = json!([]);
    let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    assert!(thread.facts.requests.iter().all(|request| request.run.is_some()));
}

#[test]
fn a_secret_that_is_asked_for_is_a_request_though_t3_has_none() {
    let mut body: Value = reads("14-two-pending").remove(0);
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
    let thread = threads("06-idempotency-scopes-lifecycle").pop().unwrap();
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
    for thread in threads("05-approval-userinput") {
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
fn of_outputs_and_inputs_of_megabytes_only_the_beginning_is_kept() {
    const PART: usize = 1 << 18;
    let mut body = reads("05-approval-userinput").remove(0);
    let items = body["projection"]["turnItems"].as_array_mut().unwrap();
    let mut tool = items
        .iter()
        .find(|item| item["type"] == "command_execution")
        .unwrap()
        .clone();
    tool["input"] = json!("in".repeat(PART));
    tool["output"] = json!("out".repeat(PART));
    items.resize(items.len() + 8, tool);
    // What views do not use at all.
    body["projection"]["nodes"][0]["novelty"] = json!("new".repeat(PART));
    body["projection"]["visibleTurnItems"] = body["projection"]["turnItems"].clone();
    let text = body.to_string();
    assert!(text.len() > 80 * PART);
    let thread = Protocol2.read_thread(text.as_bytes()).unwrap();
    let tools = thread
        .items
        .iter()
        .filter(|item| matches!(&item.kind, ItemKind::Tool { detail, .. } if detail.starts_with("inin")));
    assert_eq!(tools.count(), 8);
    assert!(format!("{thread:?}").len() < PART / 2, "all that is kept");
}

#[test]
fn a_thread_whose_local_items_stand_among_the_visible_ones_alone_has_them_all() {
    let mut body: Value = reads("14-two-pending").remove(0);
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
    let mut body: Value = reads("14-two-pending").remove(0);
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
    assert_eq!(
        thread.unknown_words,
        [
            "run status `pondering`",
            "request kind `telepathy`",
            "response capability `dream`",
            "turn item `hologram`"
        ]
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
    let line = &reads("14-two-pending").remove(0).to_string();
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
fn the_recorded_config_names_providers_models_and_options() {
    let config = raw(&config());
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

#[test]
fn what_the_stream_of_the_config_tells_of_providers_is_read_and_the_rest_left_alone() {
    let providers = |item: Value| match Protocol2.read_config_item(&raw(&item)) {
        Ok(ConfigItem::Providers(providers)) => providers,
        other => panic!("{other:?}"),
    };
    let whole = providers(json!({"version": 1, "type": "snapshot", "config": config()}));
    assert_eq!(whole, Protocol2.read_providers(&raw(&config())).unwrap());
    let mut shown = config()["providers"].clone();
    shown[3]["usageLimits"] =
        json!({"windows": [{"kind": "weekly", "usedPercent": 12, "resetsAt": "soon"}, {"label": "broken"}]});
    let some = providers(json!({"version": 1, "type": "providerStatuses", "payload": {"providers": [shown[3], null]}}));
    assert_eq!((some.len(), some[0].instance.0.as_str()), (1, "grok"));
    assert_eq!((some[0].limits.len(), some[0].limits[0].label.as_str()), (1, "weekly"));
    for (kind, expected) in [
        ("settingsUpdated", ConfigItem::Settings),
        ("somethingNew", ConfigItem::Other),
    ] {
        let item = Protocol2.read_config_item(&raw(&json!({"version": 1, "type": kind, "payload": {}})));
        assert_eq!(item.unwrap(), expected);
    }
}
