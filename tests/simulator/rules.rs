//! The rules of the wire reference, one by one, on a real socket.

use serde_json::{Value, json};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::client::{Http, Socket};

pub async fn start() -> (Simulator, Http) {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let http = Http::new(&simulator, Some("any"));
    (simulator, http)
}

pub fn create(thread: &str) -> Value {
    json!({"type": "thread.create", "commandId": format!("create-{thread}"), "threadId": thread,
        "projectId": "project-t3-smoke", "title": "a thread",
        "modelSelection": {"instanceId": "grok", "model": "grok-build"}, "runtimeMode": "approval-required",
        "interactionMode": "default", "branch": null, "worktreePath": null, "createdBy": "user", "creationSource": "web"})
}

pub fn say(thread: &str, id: &str, text: &str) -> Value {
    json!({"type": "message.dispatch", "commandId": format!("command-{id}"), "threadId": thread,
        "messageId": format!("message-{id}"), "text": text, "attachments": [], "createdBy": "user",
        "creationSource": "web", "dispatchMode": {"type": "start_immediately"}})
}

/// The rows of a thread, until its status fits.
pub async fn rows_until(shell: &mut Socket, thread: &str, status: &str) -> Vec<Value> {
    let fits = |item: &Value| item["thread"]["id"] == thread && item["thread"]["status"] == status;
    let seen = shell.until(fits).await;
    seen.into_iter().filter(|item| item["thread"]["id"] == thread).collect()
}

#[tokio::test]
async fn a_run_says_what_it_was_told_to_say() {
    let (_simulator, http) = start().await;
    let (mut shell, mut control) = (http.socket().await, http.socket().await);
    shell
        .begin(
            "orchestration.subscribeShell",
            &json!({"requestCompletionMarker": true}),
        )
        .await;
    shell.until(|item| item["kind"] == "synchronized").await;
    assert_eq!(control.command(&create("t")).await["_tag"], "Success");
    assert_eq!(
        control.command(&say("t", "1", "Please.\nsay hello there")).await["_tag"],
        "Success"
    );
    let rows = rows_until(&mut shell, "t", "completed").await;
    let last = &rows.last().unwrap()["thread"];
    assert_eq!(last["latestVisibleMessage"]["text"], "hello there");
    assert_eq!(last["activeRunId"], Value::Null);
    let read = http.get("/api/orchestration/threads/t").await;
    assert_eq!(read.body["projection"]["runs"][0]["status"], "completed");
}
