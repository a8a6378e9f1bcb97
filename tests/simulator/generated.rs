//! Whatever the simulator sends is a value of the types that are generated from T3's schemas: it is read as one, and printed again it
//! is the same.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use t3code_mcp::protocol::{DecodeError, decode, v2};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::client::{Http, Socket};
use crate::rules::{create, rows_until, say};

/// Reads a type from a JSON value.
fn decode_json<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    decode(value.to_string().as_bytes())
}

/// An optional field may be left out or be null: the schemas make no difference.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn holds<T: DeserializeOwned + Serialize>(value: &Value) {
    let read: T = decode_json(value).unwrap();
    let (mut sent, mut printed) = (value.clone(), serde_json::to_value(read).unwrap());
    without_nulls(&mut sent);
    without_nulls(&mut printed);
    assert_eq!(sent, printed);
}

async fn socket(http: &Http) -> Socket {
    let ticket = http.ticket().await;
    let base = http.base.replace("http", "ws");
    Socket::open(&format!("{base}/ws?wsTicket={ticket}&orchestrationProtocol=2"))
        .await
        .unwrap()
}

async fn everything_fits(gate: bool) {
    let options = SimulatorOptions {
        gate,
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    let http = Http::new(&simulator, Some("any"));
    let (mut rows, mut control, mut thread) = (socket(&http).await, socket(&http).await, socket(&http).await);
    holds::<v2::ExecutionEnvironmentDescriptor>(&http.get("/.well-known/t3/environment").await.body);

    rows.begin(
        "orchestration.subscribeShell",
        &json!({"requestCompletionMarker": true}),
    )
    .await;
    let mut items = rows.until(|item| item["kind"] == "synchronized").await;
    holds::<v2::DispatchCommandResult>(&control.command(&create("t")).await["value"]);
    thread
        .begin("orchestration.subscribeThread", &json!({"threadId": "t"}))
        .await;
    let mut scripts = vec![
        ("1", "tool", "completed"),
        ("2", "fail so", "failed"),
        ("3", "edit a.txt", "running"),
    ];
    if gate {
        scripts.insert(0, ("0", "ask message", "completed"));
        scripts.insert(0, ("b", "background 60", "completed"));
    }
    for (id, text, end) in &scripts {
        control.command(&say("t", id, text)).await;
        items.extend(rows_until(&mut rows, "t", end).await);
    }
    control.command(&say("t", "4", "say x")).await;
    let both =
        |item: &Value| item["thread"]["status"] == "queued" && item["thread"]["pendingRuntimeRequest"].is_object();
    items.extend(rows.until(both).await);
    let launch = json!({"commandId": "l", "threadId": "launched", "projectId": "project-t3-smoke", "title": "launched",
        "modelSelection": {"instanceId": "grok", "model": "grok-build"}, "runtimeMode": "full-access",
        "interactionMode": "default", "workspaceStrategy": {"type": "worktree", "baseRef": "main"},
        "initialMessage": {"text": "say launched", "attachments": []}});
    let launched = control.call("orchestration.launchThread", &launch).await;
    holds::<v2::ThreadLaunchResult>(&launched["value"]);
    items.extend(rows_until(&mut rows, "launched", "completed").await);
    for item in &items {
        holds::<v2::ShellStreamItem>(item);
    }

    let asks = |item: &Value| item["event"]["payload"]["type"] == "approval_request";
    for event in thread.until(asks).await {
        holds::<v2::ThreadStreamItem>(&event);
    }
    let before = simulator.projection("t").unwrap();
    simulator.restart().await.unwrap();
    for projection in [before, simulator.projection("t").unwrap()] {
        holds::<v2::ThreadProjection>(&projection);
        for run in projection["runs"].as_array().unwrap() {
            holds::<v2::Run>(run);
        }
        assert!(!projection["runtimeRequests"].as_array().unwrap().is_empty());
        for request in projection["runtimeRequests"].as_array().unwrap() {
            holds::<v2::RuntimeRequest>(request);
        }
    }
}

#[tokio::test]
async fn what_the_recorded_server_sends_is_of_the_generated_types() {
    Box::pin(everything_fits(false)).await;
}

#[tokio::test]
async fn what_newer_servers_send_is_of_the_generated_types() {
    Box::pin(everything_fits(true)).await;
}
