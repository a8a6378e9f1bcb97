//! What a client sees of a thread.

use super::*;
use crate::gateway::samples::{at, message, request, run, thread};
use crate::machine::{FileChange, PlanStep, QuestionOption, Thread};
use crate::protocol::RuntimeRequestId;

fn scene() -> Scene<'static> {
    Scene {
        machine: "mac",
        project: "app",
        turns: 2,
        now: at(2_000),
        ceiling: RuntimeMode::FullAccess,
        unreachable_since: None,
        run: None,
    }
}

fn seen(thread: &Thread) -> ThreadView {
    view(&scene(), &Standing::of(thread, Vec::new()))
}

fn item(kind: ItemKind) -> Item {
    Item {
        run: Some(crate::gateway::samples::run_id(2)),
        ordinal: 1,
        status: "completed".to_owned(),
        title: None,
        at: at(210),
        kind,
    }
}

fn snapshot(name: &str, view: &ThreadView) {
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_json_snapshot!(name, view);
    });
}

#[test]
fn a_thread_with_everything() {
    let mut thread = thread(vec![
        run(1, "completed"),
        run(2, "failed"),
        run(3, "running"),
        run(4, "queued"),
    ]);
    thread
        .messages
        .push(message("a-2", Some(2), "assistant", "I could not."));
    thread.items = vec![
        item(ItemKind::Tool {
            kind: "command_execution".to_owned(),
            detail: "cargo test".to_owned(),
            exit_code: Some(101),
        }),
        item(ItemKind::Question {
            request: RuntimeRequestId("q".to_owned()),
            questions: vec![Question {
                id: "color".to_owned(),
                header: "Color".to_owned(),
                question: "Which color?".to_owned(),
                options: vec![QuestionOption {
                    label: "Red".to_owned(),
                    description: String::new(),
                    value: Some("r".to_owned()),
                }],
                multi_select: Some(false),
                allow_custom: None,
                required: None,
            }],
        }),
        item(ItemKind::Approval {
            request: RuntimeRequestId("a".to_owned()),
            prompt: Some("rm -rf build".to_owned()),
            app: None,
            options: Vec::new(),
        }),
    ];
    thread.facts.requests = vec![
        request("q", "user_input", 3),
        request("a", "command", 3),
        request("s", "secret", 3),
    ];
    thread.plan = vec![PlanStep {
        text: "look".to_owned(),
        status: "completed".to_owned(),
    }];
    thread.files = vec![FileChange {
        run: Some(crate::gateway::samples::run_id(2)),
        path: "src/main.rs".to_owned(),
        change: "modified".to_owned(),
        additions: 3,
        deletions: 1,
    }];
    thread.background = vec![BackgroundTask {
        kind: "command".to_owned(),
        title: Some("npm run dev".to_owned()),
    }];
    thread.usage = Some(serde_json::json!({"usedTokens": 1200}));
    thread.session = Some("ready".to_owned());
    snapshot("everything", &seen(&thread));
}

#[test]
fn a_new_thread_shows_only_what_is_known() {
    snapshot("new", &seen(&thread(vec![])));
}

#[test]
fn a_failed_run_shows_why() {
    let mut thread = thread(vec![run(2, "failed")]);
    thread.items = vec![item(ItemKind::Failure {
        class: "usage_limit".to_owned(),
        message: "The limit is reached.".to_owned(),
        resets_at: Some("2026-11-30T12:00:00Z".to_owned()),
    })];
    let error = seen(&thread).error;
    assert_eq!(
        error.map(|e| (e.class, e.resets_at.is_some())),
        Some(("usage_limit".to_owned(), true))
    );
}

#[test]
fn only_the_newest_turns_are_shown_and_a_queued_prompt_is_no_turn() {
    let thread = thread(vec![
        run(1, "completed"),
        run(2, "completed"),
        run(3, "running"),
        run(4, "queued"),
    ]);
    let runs: Vec<_> = seen(&thread).messages.into_iter().filter_map(|m| m.run).collect();
    assert_eq!(runs, ["run-2", "run-3"]);
}

#[test]
fn a_cancelled_queued_run_does_not_hide_the_one_that_works() {
    let mut taken_off = run(2, "cancelled");
    taken_off.started_at = None;
    let view = seen(&thread(vec![run(1, "running"), taken_off]));
    assert_eq!(
        (view.state.as_str(), view.run.map(|r| r.id)),
        ("running", Some("run-1".to_owned()))
    );
}

#[test]
fn accept_always_is_shown_only_where_it_is_offered_and_everything_is_allowed() {
    let mut thread = thread(vec![run(2, "running")]);
    thread.facts.requests = vec![request("a", "command", 2)];
    let offered = |words: &[&str]| {
        words
            .iter()
            .map(|word| DecisionOption {
                decision: (*word).to_owned(),
                label: (*word).to_owned(),
            })
            .collect::<Vec<_>>()
    };
    thread.items = vec![item(ItemKind::Approval {
        request: RuntimeRequestId("a".to_owned()),
        prompt: None,
        app: None,
        options: offered(&["accept", "acceptAlways", "decline"]),
    })];
    let standing = Standing::of(&thread, Vec::new());
    let request = &standing.status.pending[0];
    assert_eq!(
        decisions_of(&standing, request, RuntimeMode::FullAccess),
        ["accept", "acceptAlways", "decline"]
    );
    assert_eq!(
        decisions_of(&standing, request, RuntimeMode::Auto),
        ["accept", "decline"]
    );
}

#[test]
fn a_row_alone_never_says_that_it_ended() {
    let thread = thread(vec![]);
    let row = |status: &str, activity: Option<&str>| ThreadRow {
        id: thread.head.id.clone(),
        project: thread.head.project.clone(),
        title: String::new(),
        model: thread.head.model.clone(),
        runtime_mode: String::new(),
        interaction_mode: String::new(),
        branch: None,
        worktree: None,
        archived: false,
        deleted: false,
        subagent: false,
        status: status.to_owned(),
        active_run: None,
        activity: activity.map(str::to_owned),
        latest_run: Some(crate::gateway::samples::run_id(1)),
        latest_run_requested_at: None,
        latest_run_completed_at: None,
        pending: None,
        last_message: None,
        background: Vec::new(),
        updated_at: at(0),
        sequence: 1,
        unknown_words: Vec::new(),
    };
    assert_eq!(state_of_row(&row("cancelled", None)), ThreadState::Running);
    assert_eq!(state_of_row(&row("completed", Some("waiting"))), ThreadState::Finishing);
    assert_eq!(state_of_row(&row("queued", None)), ThreadState::Queued);
}
