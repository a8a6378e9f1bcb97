//! What a thread shows in the moments between two states, and what others did to it meanwhile.

use super::*;
use crate::lifecycle::RunFacts;
use crate::machine::dialect::v1::archive::read_archived_thread;

fn with(body: &mut Value, field: &str, more: Value) {
    body["thread"][field].as_array_mut().unwrap().push(more);
}

fn read_at(body: &Value, memory: &Memory, now: &str) -> Thread {
    thread::read_body(body.to_string().as_bytes(), memory, now.parse().unwrap()).unwrap()
}

fn turn(id: &str, state: &str, at: usize) -> Value {
    json!({"turnId": id, "state": state, "requestedAt": AT[at], "startedAt": AT[at], "completedAt": Value::Null, "assistantMessageId": null})
}

#[test]
fn an_answer_of_the_wrong_kind_leaves_a_request_open() {
    let mut body = one("running", "running", None);
    let asks = json!({"requestId": "r1", "questions": [{"id": "q", "header": "h", "question": "?", "options": [{"label": "A", "description": ""}]}]});
    with(&mut body, "activities", activity("user-input.requested", "t1", asks, 1));
    let failed = |kind: &str| {
        let payload =
            json!({"requestId": "r1", "detail": "Stale pending approval request: r1. It does not survive restarts."});
        activity(kind, "t1", payload, 2)
    };
    with(&mut body, "activities", failed("provider.approval.respond.failed"));
    let shown = decode(&body, &Memory::default());
    assert_eq!(shown.facts.requests[0].status, "pending");
    assert_eq!(shown.undelivered.len(), 1);
    assert!(
        shown.undelivered[0].why.starts_with("Stale pending"),
        "{:?}",
        shown.undelivered
    );
    with(&mut body, "activities", failed("provider.user-input.respond.failed"));
    assert_eq!(decode(&body, &Memory::default()).facts.requests[0].status, "expired");
}

#[test]
fn a_request_that_names_no_turn_is_of_the_one_at_work() {
    let mut body = one("running", "running", None);
    let asked = |at| {
        let mut asked = activity(
            "approval.requested",
            "-",
            json!({"requestId": format!("r{at}"), "detail": "rm"}),
            at,
        );
        asked["turnId"] = Value::Null;
        asked
    };
    body["thread"]["activities"] = json!([asked(1)]);
    let status = |body: &Value| decode(body, &Memory::default()).facts.requests[0].status.clone();
    assert_eq!(status(&body), "pending");
    // The turn was asked for after it.
    body["thread"]["latestTurn"]["requestedAt"] = json!(AT[2]);
    body["thread"]["messages"] = json!([message("m1", "user", "do it", Value::Null, 2)]);
    assert_eq!(status(&body), "expired");
    let mut ended = one("ready", "completed", Some("done"));
    ended["thread"]["activities"] = json!([asked(1)]);
    assert_eq!(status(&ended), "expired");
}

#[test]
fn an_end_without_an_answer_says_so_and_a_plan_is_one() {
    let failed = |thread: &Thread| {
        let mut items = thread.items.iter();
        items.any(|item| matches!(&item.kind, ItemKind::Failure { class, .. } if class == "no_answer"))
    };
    let mut body = one("ready", "completed", None);
    let shown = decode(&body, &Memory::default());
    assert!(failed(&shown) && statuses(&shown) == ["interrupted"]);
    let memory = Memory::default();
    memory.handle_stopped(&ThreadId("thread".to_owned()), &RunId("m1".to_owned()));
    assert!(!failed(&decode(&body, &memory)));
    body["thread"]["proposedPlans"] = json!([{"id": "plan", "turnId": "t1", "planMarkdown": "1. do it", "implementedAt": null,
        "implementationThreadId": null, "createdAt": AT[1], "updatedAt": AT[1]}]);
    let shown = decode(&body, &Memory::default());
    assert!(!failed(&shown) && statuses(&shown) == ["completed"], "{shown:?}");
}

#[test]
fn what_was_stopped_works_until_its_agent_does_not() {
    let memory = Memory::default();
    // A message would be taken into it, and lost.
    assert_eq!(
        statuses(&decode(&one("running", "interrupted", Some("partly")), &memory)),
        ["running"]
    );
    assert_eq!(
        statuses(&decode(&one("ready", "completed", Some("partly")), &memory)),
        ["interrupted"]
    );
}

#[test]
fn what_a_turn_says_after_a_message_to_the_busy_thread_is_its_own() {
    let mut body = one("running", "running", None);
    with(&mut body, "messages", message("m2", "user", "besides", Value::Null, 1));
    // The second one began a turn that is never shown as the newest; it is at work as long as the session is.
    with(&mut body, "activities", activity("tool.updated", "t2", json!({}), 2));
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["running", "running"]);
    with(
        &mut body,
        "messages",
        message("a2", "assistant", "besides", json!("t2"), 2),
    );
    with(
        &mut body,
        "messages",
        message("a1", "assistant", "at last", json!("t1"), 3),
    );
    let thread = &mut body["thread"];
    thread["latestTurn"]["state"] = json!("completed");
    thread["latestTurn"]["completedAt"] = json!(AT[4]);
    thread["session"]["status"] = json!("ready");
    thread["session"]["activeTurnId"] = Value::Null;
    let shown = decode(&body, &Memory::default());
    assert_eq!(statuses(&shown), ["completed", "completed"]);
    let said: Vec<_> = shown
        .messages
        .iter()
        .filter(|message| message.role == "assistant")
        .map(|message| message.run.clone().unwrap().0)
        .collect();
    assert_eq!(said, ["m2", "m1"]);
}

#[test]
fn a_turn_that_is_heard_of_before_it_is_shown_as_the_newest_is_no_end() {
    let mut body = one("starting", "completed", Some("done"));
    with(&mut body, "messages", message("m2", "user", "more", Value::Null, 3));
    let asks = json!({"requestId": "r1", "questions": []});
    with(&mut body, "activities", activity("user-input.requested", "t2", asks, 4));
    assert_eq!(statuses(&decode(&body, &Memory::default())), ["completed", "running"]);
    body["thread"]["session"]["status"] = json!("running");
    body["thread"]["session"]["activeTurnId"] = json!("t2");
    body["thread"]["latestTurn"] = turn("t2", "running", 3);
    let shown = decode(&body, &Memory::default());
    assert_eq!(
        (statuses(&shown), shown.facts.requests[0].status.as_str()),
        (vec!["completed", "running"], "pending")
    );
}

#[test]
fn a_message_to_a_thread_that_died_begins_a_run_of_its_own() {
    let memory = Memory::default();
    memory.handle_started(AT[3].parse().unwrap());
    let mut body = one("running", "running", Some("partly"));
    assert_eq!(statuses(&decode(&body, &memory)), ["interrupted"]);
    // It is stored before the session of the dead agent is seen to be stopped.
    with(&mut body, "messages", message("m2", "user", "go on", Value::Null, 4));
    let shown = decode(&body, &memory);
    assert_eq!(statuses(&shown), ["interrupted", "starting"]);
    assert_eq!(shown.messages.last().unwrap().run, Some(RunId("m2".to_owned())));
    // Somebody else sent it without a stop: the session starts, and shows the dead turn still.
    body["thread"]["session"]["status"] = json!("starting");
    body["thread"]["session"]["activeTurnId"] = json!("t1");
    body["thread"]["session"]["updatedAt"] = json!(AT[4]);
    assert_eq!(statuses(&decode(&body, &memory)), ["interrupted", "starting"]);
    // T3 shows what died as completed then, and what it had said is no answer.
    body["thread"]["session"]["status"] = json!("ready");
    body["thread"]["latestTurn"]["state"] = json!("completed");
    assert_eq!(statuses(&decode(&body, &memory))[0], "interrupted");
}

#[test]
fn a_stop_that_is_told_late_ends_no_message_that_came_after_it() {
    let mut body = one("stopped", "interrupted", Some("partly"));
    with(&mut body, "messages", message("m2", "user", "go on", Value::Null, 1));
    let soon = "2026-11-30T10:00:05Z";
    assert_eq!(
        statuses(&read_at(&body, &Memory::default(), soon)),
        ["interrupted", "starting"]
    );
    let memory = Memory::default();
    memory.handle_stopped(&ThreadId("thread".to_owned()), &RunId("m2".to_owned()));
    assert_eq!(statuses(&read_at(&body, &memory, soon)), ["interrupted", "interrupted"]);
    body["thread"]["session"]["updatedAt"] = json!("2026-11-30T10:00:09Z");
    assert_eq!(
        statuses(&read_at(&body, &Memory::default(), "2026-11-30T10:00:10Z")),
        ["interrupted", "interrupted"]
    );
}

#[test]
fn how_long_a_message_of_ours_waits_is_told_by_our_own_clock() {
    let mut body = one("ready", "completed", Some("done"));
    with(&mut body, "messages", message("m2", "user", "more", Value::Null, 4));
    let memory = Memory::default();
    // The server's clock is behind by two months.
    memory.handle_sent(&MessageId("m2".to_owned()), Timestamp::UNIX_EPOCH);
    // The first try came to nothing.
    memory.handle_sent(&MessageId("m2".to_owned()), later());
    assert_eq!(statuses(&decode(&body, &memory)), ["completed", "starting"]);
    assert_eq!(
        statuses(&read_at(&body, &memory, "2026-12-01T00:02:01Z")),
        ["completed", "cancelled"]
    );
}

#[test]
fn an_end_is_settled_once_its_checkpoint_is_there() {
    let id = ThreadId("thread".to_owned());
    let mut body = one("ready", "completed", Some("partly"));
    let settles = |body: &Value, memory: &Memory, now: &str| {
        read_at(body, memory, now);
        memory.is_settling(&id)
    };
    let memory = Memory::default();
    decode(&one("running", "running", None), &memory);
    assert!(!memory.is_settling(&id));
    assert!(settles(&body, &memory, "2026-11-30T10:00:02.1Z"));
    assert!(
        !settles(&body, &memory, "2026-11-30T10:00:03.2Z"),
        "it waits for a moment alone"
    );
    with(
        &mut body,
        "activities",
        activity("checkpoint.captured", "t1", json!({"status": "missing"}), 2),
    );
    let memory = Memory::default();
    assert!(!settles(&body, &memory, "2026-11-30T10:00:02.1Z"));
    // What ended long ago is as it is.
    body["thread"]["activities"] = json!([]);
    assert!(!settles(&body, &Memory::default(), "2026-11-30T11:00:00Z"));
    // Where no turn before left a checkpoint, none comes.
    with(&mut body, "messages", message("m2", "user", "more", Value::Null, 3));
    with(
        &mut body,
        "messages",
        message("a2", "assistant", "done", json!("t2"), 4),
    );
    body["thread"]["latestTurn"] = turn("t2", "completed", 3);
    assert!(!settles(&body, &Memory::default(), "2026-11-30T10:00:04Z"));
}

#[test]
fn a_row_tells_of_a_message_that_came_to_nothing_and_of_what_died() {
    let dialect = Protocol1::new(Arc::default());
    let shown = |row: &Value| {
        let item = json!({"kind": "thread-upserted", "sequence": 5, "thread": row});
        match dialect.read_shell_item(&raw(&item)).unwrap() {
            ShellItem::ThreadUpdated(row) => row,
            other => panic!("{other:?}"),
        }
    };
    let mut failed = row_of(&one("error", "completed", Some("done")));
    failed["latestUserMessageAt"] = json!(AT[2]);
    assert_eq!(shown(&failed).status, "failed");
    failed["latestTurn"] = Value::Null;
    assert_eq!(shown(&failed).status, "failed");
    failed["session"]["status"] = json!("ready");
    assert_eq!(shown(&failed).status, "starting");
    // Which of several requests is open, no flag says: each change may be another one.
    let mut asks = row_of(&one("running", "running", None));
    asks["hasPendingApprovals"] = json!(true);
    let first = shown(&asks).pending.unwrap().id;
    asks["updatedAt"] = json!(AT[3]);
    assert_ne!(shown(&asks).pending.unwrap().id, first);
    dialect.memory.handle_started(AT[3].parse().unwrap());
    assert_eq!(shown(&asks).status, "interrupted");
}

#[test]
fn an_archived_thread_that_was_never_read_is_told_of_by_what_was_known_of_it() {
    let known = RunFacts {
        id: RunId("m1".to_owned()),
        ordinal: 1,
        status: "running".to_owned(),
        requested_at: AT[0].parse().unwrap(),
        started_at: None,
        completed_at: None,
        queue_held: false,
        queue_position: None,
        promoted_into: None,
        continuation_of: None,
        user_message: MessageId("m1".to_owned()),
    };
    let mut body = one("ready", "completed", None);
    body["thread"]["latestTurn"]["assistantMessageId"] = json!("a1");
    let id = ThreadId("thread".to_owned());
    let read = |known: &[RunFacts]| {
        let thread = read_archived_thread(&raw(&in_archive(&body)), &id, known, &Memory::default());
        thread.unwrap().unwrap()
    };
    assert_eq!(statuses(&read(std::slice::from_ref(&known))), ["completed"]);
    assert!(read(&[]).facts.runs.is_empty());

    // The turn that is shown is that of a message that somebody sent since.
    let mut later = in_archive(&body);
    later["threads"][0]["latestUserMessageAt"] = json!(AT[1]);
    later["threads"][0]["latestTurn"]["requestedAt"] = json!(AT[1]);
    let read = read_archived_thread(&raw(&later), &id, &[known], &Memory::default());
    assert!(read.unwrap().unwrap().facts.runs.is_empty());
}

#[test]
fn what_is_told_late_of_a_turn_that_is_over_takes_no_message_into_it() {
    let mut body = one("ready", "completed", Some("done"));
    with(&mut body, "messages", message("m2", "user", "more", Value::Null, 3));
    with(
        &mut body,
        "activities",
        activity("context-window.updated", "t1", json!({"usedTokens": 7}), 4),
    );
    let shown = read_at(&body, &Memory::default(), "2026-11-30T10:00:05Z");
    assert_eq!(statuses(&shown), ["completed", "starting"]);
    assert_eq!(shown.messages.last().unwrap().run, Some(RunId("m2".to_owned())));
}
