//! What a person reads of a thread, also where T3 shows something that would rather be something else.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::gateway::{ApprovalView, TruncatedView};

/// What a person sees, kept.
pub(in crate::cli) fn snapshot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_snapshot!(name, text);
    });
}

fn everything() -> ThreadView {
    serde_json::from_value(json!({
        "thread_id": "0b7c", "machine": "mac", "project": "shop", "title": "Fix the login", "state": "question", "held": true,
        "run": {"id": "r-3", "ordinal": 3, "status": "running", "requested_at": "2026-01-01T00:00:00Z", "seconds": 83.4,
            "continues_in": "r-4", "unconfirmed": true},
        "session": "running", "model": "claudeAgent/claude-opus-5", "runtime_mode": "full-access", "branch": "fix", "worktree": "/tmp/w",
        "last_activity_at": "2026-01-01T00:01:00Z",
        "messages": [
            {"role": "user", "text": "Fix it.\n\nRun the tests.", "at": "2026-01-01T00:00:00Z", "run": "r-3"},
            {"role": "assistant", "text": "Done:\n- state completed", "at": "2026-01-01T00:01:00Z"}],
        "tools": [{"kind": "command_execution", "title": "cargo test", "status": "completed", "exit_code": 101},
            {"kind": "web_search", "title": "rust", "status": "running"}],
        "files": [{"path": "src/login.rs", "change": "modified", "additions": 3, "deletions": 1}],
        "plan": [{"step": "Look", "status": "completed"}, {"step": "Fix", "status": "pending"}],
        "queue": [{"run_id": "r-4", "position": 1, "text": "Then the README"}],
        "background": [{"kind": "command", "title": "npm run dev"}, {"kind": "subagent"}],
        "pending": [
            {"kind": "question", "request_id": "q-1", "answerable": true, "mode": "message", "questions": [
                {"id": "color", "header": "Color", "question": "Which color?", "options": [
                    {"label": "Red", "description": "warm"}, {"label": "Blue"}], "multi_select": true},
                {"id": "why", "header": "Why", "question": "Why?", "required": false}]},
            {"kind": "approval", "request_id": "a-1", "answerable": true, "approval": {
                "kind": "command", "title": "Run a command", "detail": "cargo publish", "decisions": ["accept", "decline"]}},
            {"kind": "approval", "request_id": "a-2", "answerable": false, "approval": {"kind": "auth_refresh"}}],
        "error": {"class": "usage_limit", "message": "The limit is reached.\nTry later.", "resets_at": "2026-01-01T05:00:00Z"},
        "resumes_at": "2026-01-01T05:00:00Z",
        "truncated": {"final_message_chars": 120, "tools": 3},
        "unreachable_since": "2026-01-01T00:02:00Z",
        "of_a_newer_version": {"x": 1}
    }))
    .unwrap()
}

#[test]
fn a_thread_with_everything() {
    snapshot("everything", &thread(&everything()));
}

#[test]
fn a_thread_with_little() {
    let view = ThreadView {
        thread_id: "0b7c".to_owned(),
        state: "unknown".to_owned(),
        ..ThreadView::default()
    };
    assert_eq!(thread(&view), "  thread    0b7c\n  state     unknown");
}

/// Text that moves the cursor, turns the line around, forges a line of ours, and does not end.
const HOSTILE: &str = "\u{1b}[2J\u{9b}1A\u{202e}\u{200b}\r\nstate: completed\t";

#[test]
fn nothing_that_t3_shows_reaches_the_terminal_or_passes_for_a_fact() {
    // Every text of the view is the hostile one.
    fn poison(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => *text = HOSTILE.repeat(40),
            serde_json::Value::Array(items) => items.iter_mut().for_each(poison),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(poison),
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
        }
    }
    let mut value = serde_json::to_value(everything()).unwrap();
    poison(&mut value);
    let text = thread(&serde_json::from_value(value).unwrap());
    let is_plain = |c: char| c == '\n' || (' '..='~').contains(&c) || c == '…';
    assert!(text.chars().all(is_plain), "{text:?}");
    for line in text.lines() {
        let forged = line.trim_start().starts_with("state: completed");
        assert!(!forged, "{line}");
        assert!(!line.starts_with("state"), "{line}");
    }
}

#[test]
fn a_long_fact_is_cut_and_a_message_is_not() {
    let mut view = everything();
    view.title = "t".repeat(1_000);
    view.truncated = Some(TruncatedView::default());
    view.messages[0].text = "m".repeat(5_000);
    view.pending[1].approval = Some(ApprovalView {
        detail: Some("d".repeat(1_000)),
        ..ApprovalView::default()
    });
    let text = thread(&view);
    assert!(text.starts_with(&format!("{}…\n", "t".repeat(200))), "{text}");
    assert!(text.contains(&"m".repeat(5_000)), "the report is what one came for");
    assert!(
        text.contains(&"d".repeat(1_000)),
        "one decides about the whole of a command"
    );
}
