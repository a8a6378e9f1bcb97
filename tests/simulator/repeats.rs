//! Repetitions: command ids that were used before, request ids that are used twice, acknowledgements that nobody waits for.

use serde_json::{Value, json};
use t3code_mcp::simulator::SimulatorOptions;

use crate::rules::{create, say, start};

fn launch(command: &str, thread: &str, project: &str) -> Value {
    json!({"commandId": command, "threadId": thread, "projectId": project, "title": "launched",
        "modelSelection": {"instanceId": "grok", "model": "grok-build"}, "runtimeMode": "full-access",
        "interactionMode": "default", "workspaceStrategy": {"type": "root"},
        "initialMessage": {"messageId": format!("message-{thread}"), "text": "say launched", "attachments": []}})
}

#[tokio::test]
async fn a_launch_with_the_id_of_a_command_makes_nothing() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    control.command(&create("t")).await;
    let again = launch("create-t", "other", "project-t3-smoke");
    let exit = control.call("orchestration.launchThread", &again).await;
    assert_eq!(
        (&exit["value"]["resumed"], &exit["value"]["threadId"]),
        (&json!(true), &json!("t"))
    );
    assert_eq!((simulator.thread_count(), simulator.runs().len()), (1, 0));
}

#[tokio::test]
async fn a_launch_with_the_id_of_a_refused_command_stays_refused() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    let refused = control.command(&say("never", "1", "say x")).await;
    assert_eq!(refused["_tag"], "Failure");
    let again = launch("command-1", "t", "project-t3-smoke");
    let exit = control.call("orchestration.launchThread", &again).await;
    let words = exit["cause"][0]["error"]["cause"]["message"].as_str().unwrap();
    assert!(
        words.starts_with("Command command-1 was previously rejected: "),
        "{words}"
    );
    assert_eq!(simulator.thread_count(), 0);
}

#[tokio::test]
async fn a_refused_launch_stays_refused() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    let exit = control
        .call("orchestration.launchThread", &launch("l", "t", "project-nope"))
        .await;
    assert_eq!(exit["cause"][0]["error"]["cause"]["cause"], "Project not found.");
    let good = launch("l", "t", "project-t3-smoke");
    let exit = control.call("orchestration.launchThread", &good).await;
    let words = exit["cause"][0]["error"]["cause"]["message"].as_str().unwrap();
    assert!(words.starts_with("Command l was previously rejected: "), "{words}");
    let exit = control
        .command(&json!({"type": "thread.archive", "commandId": "l", "threadId": "t"}))
        .await;
    let words = exit["cause"][0]["error"]["message"].as_str().unwrap();
    assert!(words.starts_with("Command l was previously rejected: "), "{words}");
    assert_eq!(simulator.thread_count(), 0);
}

#[tokio::test]
async fn a_command_with_the_id_of_a_launch_is_answered_with_the_launchs_sequence() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    let before = simulator.head();
    control
        .call("orchestration.launchThread", &launch("l", "t", "project-t3-smoke"))
        .await;
    simulator.seed_threads(3);
    let again = json!({"type": "thread.delete", "commandId": "l", "threadId": "t"});
    let first = control.command(&again).await["value"]["sequence"].as_u64().unwrap();
    assert!(before < first && first < simulator.head(), "{before} {first}");
    simulator.seed_threads(3);
    assert_eq!(control.command(&again).await["value"]["sequence"], first);
    assert_eq!(
        simulator.projection("t").unwrap()["thread"]["deletedAt"],
        Value::Null,
        "the body of a repetition does not count"
    );
}

fn request(id: &str, tag: &str, payload: &Value) -> Value {
    json!({"_tag": "Request", "id": id, "tag": tag, "payload": payload, "headers": []})
}

/// Frames up to the answer to a ping: what the server had to say by then.
async fn said(socket: &mut crate::client::Socket) -> Vec<Value> {
    socket.send(&json!({"_tag": "Ping"})).await;
    let mut frames = Vec::new();
    loop {
        let frame = socket.next().await.unwrap();
        if frame["_tag"] == "Pong" {
            return frames;
        }
        frames.push(frame);
    }
}

#[tokio::test]
async fn two_streams_of_one_request_id_both_go_on() {
    let (simulator, http) = start().await;
    simulator.seed_threads(2);
    let mut socket = http.socket().await;
    for thread in ["seed-0", "seed-1"] {
        let ask = json!({"threadId": thread});
        socket.send(&request("7", "orchestration.subscribeThread", &ask)).await;
        let first = socket.next().await.unwrap();
        assert_eq!(first["values"][0]["projection"]["thread"]["id"], thread);
        socket.send(&json!({"_tag": "Ack", "requestId": "7"})).await;
    }
    let mut control = http.socket().await;
    for thread in ["seed-0", "seed-1"] {
        let archive = json!({"type": "thread.archive", "commandId": thread, "threadId": thread});
        control.command(&archive).await;
        let values = socket.chunk().await;
        assert_eq!(values[0]["event"]["threadId"], thread);
    }
    socket.send(&json!({"_tag": "Interrupt", "requestId": "7"})).await;
    let exit = socket.next().await.unwrap();
    assert_eq!(exit["exit"]["cause"][0]["_tag"], "Interrupt");
}

#[tokio::test]
async fn acknowledgements_that_nobody_waits_for_do_not_count() {
    let options = SimulatorOptions::default();
    let simulator = t3code_mcp::simulator::Simulator::start(options).await.unwrap();
    let http = crate::client::Http::new(&simulator, Some("any"));
    simulator.seed_threads(1);
    let mut socket = http.socket().await;
    let ask = json!({"threadId": "seed-0", "requestCompletionMarker": true});
    socket.send(&request("1", "orchestration.subscribeThread", &ask)).await;
    for _ in 0..2 {
        socket.chunk().await;
    }
    // Nothing is out now: these are for nothing.
    for _ in 0..5 {
        socket.send(&json!({"_tag": "Ack", "requestId": "1"})).await;
    }
    assert_eq!(said(&mut socket).await, Vec::<Value>::new());
    let mut control = http.socket().await;
    let pin = |number: u32| json!({"type": "thread.pin", "commandId": format!("p{number}"), "threadId": "seed-0"});
    control.command(&pin(1)).await;
    let first = socket.next().await.unwrap();
    assert_eq!(first["_tag"], "Chunk");
    // The second event waits for the acknowledgement of the first. What another stream tells of it shows that it is there.
    let mut witness = http.socket().await;
    let head = simulator.head();
    let watch = json!({"threadId": "seed-0", "afterSequence": head});
    witness.begin("orchestration.subscribeThread", &watch).await;
    control.command(&pin(2)).await;
    witness.chunk().await;
    assert_eq!(said(&mut socket).await, Vec::<Value>::new());
    socket.send(&json!({"_tag": "Ack", "requestId": "1"})).await;
    assert_eq!(socket.next().await.unwrap()["_tag"], "Chunk");
}
