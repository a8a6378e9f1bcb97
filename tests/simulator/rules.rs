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

fn with(mut value: Value, field: &str, new: Value) -> Value {
    value[field] = new;
    value
}

async fn shell(http: &Http) -> Socket {
    let mut shell = http.socket().await;
    shell
        .begin(
            "orchestration.subscribeShell",
            &json!({"requestCompletionMarker": true}),
        )
        .await;
    shell.until(|item| item["kind"] == "synchronized").await;
    shell
}

async fn resumed(http: &Http, after: u64) -> Vec<Value> {
    let mut shell = http.socket().await;
    let ask = json!({"afterSequence": after, "requestCompletionMarker": true});
    shell.begin("orchestration.subscribeShell", &ask).await;
    shell.until(|item| item["kind"] == "synchronized").await
}

fn kinds(items: &[Value]) -> Vec<&str> {
    items.iter().filter_map(|item| item["kind"].as_str()).collect()
}

#[tokio::test]
async fn a_title_that_a_message_brings_is_shown_as_being_made_until_it_is_settled() {
    let (simulator, http) = start().await;
    let (mut shell, mut control) = (shell(&http).await, http.socket().await);
    control.command(&create("t")).await;
    let message = with(say("t", "1", "sleep 30"), "titleSeed", json!("A seed"));
    control.command(&message).await;
    let being_made = |item: &Value| item["thread"]["titleRegeneration"].is_object();
    let rows = shell.until(being_made).await;
    let row = &rows.last().unwrap()["thread"];
    assert_eq!(row["title"], "A seed");
    assert_eq!(row["titleRegeneration"]["requestId"], message["commandId"]);
    assert!(row["titleRegeneration"]["startedAt"].is_string());
    let rows = shell.until(|item| item["thread"]["titleRegeneration"].is_null()).await;
    assert_eq!(rows.last().unwrap()["thread"]["title"], "A seed");

    // A title that was being made when the server died is not made any more.
    control
        .command(&with(say("t", "2", "sleep 30"), "titleSeed", json!("Another")))
        .await;
    assert!(simulator.projection("t").unwrap()["thread"]["titleRegeneration"].is_object());
    simulator.restart().await.unwrap();
    assert!(simulator.projection("t").unwrap()["thread"]["titleRegeneration"].is_null());
}

#[tokio::test]
async fn a_provider_that_steers_inside_its_turn_gets_only_the_message() {
    let (simulator, http) = start().await;
    let (mut shell, mut control) = (shell(&http).await, http.socket().await);
    let codex = json!({"instanceId": "codex", "model": "gpt-5"});
    control.command(&with(create("t"), "modelSelection", codex)).await;
    control.command(&say("t", "1", "sleep 1")).await;
    rows_until(&mut shell, "t", "running").await;
    let run = simulator.runs().remove(0).id;
    let steer = with(
        say("t", "2", "hurry"),
        "dispatchMode",
        json!({"type": "steer_active", "targetRunId": run}),
    );
    assert_eq!(control.command(&steer).await["_tag"], "Success");
    let projection = simulator.projection("t").unwrap();
    assert_eq!(projection["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(projection["messages"][1]["runId"], run.as_str());
}

#[tokio::test]
async fn a_restart_cancels_what_ran_waited_and_asked() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    let mut rows = shell(&http).await;
    for thread in ["busy", "asking"] {
        control.command(&create(thread)).await;
    }
    control.command(&say("busy", "1", "sleep 60")).await;
    let queued = control.command(&say("busy", "2", "say later")).await;
    control.command(&say("asking", "3", "approve ls")).await;
    rows.until(|item| item["thread"]["id"] == "asking" && item["thread"]["pendingRuntimeRequest"].is_object())
        .await;
    simulator.restart().await.unwrap();
    let mut control = http.socket().await;
    assert_eq!(control.command(&say("busy", "2", "whatever")).await, queued);
    let status: Vec<_> = simulator.runs().iter().map(|run| run.status.as_str()).collect();
    assert_eq!(status, ["cancelled", "cancelled", "cancelled"]);
    let request = simulator.projection("asking").unwrap()["runtimeRequests"][0].clone();
    assert_eq!(request["status"], "expired");
    let answer = json!({"type": "runtime-request.respond", "commandId": "late", "threadId": "asking",
        "requestId": request["id"], "decision": "accept"});
    let refused = control.command(&answer).await;
    let words = refused["cause"][0]["error"]["message"].as_str().unwrap();
    assert!(words.ends_with(" is expired."), "{words}");
}

#[tokio::test]
async fn a_resume_begins_with_the_whole_shell_and_repeats_what_it_covers() {
    let (simulator, http) = start().await;
    simulator.seed_threads(3);
    let head = simulator.head();
    let items = resumed(&http, head - 2).await;
    assert_eq!(
        kinds(&items),
        [
            "snapshot",
            "snapshot",
            "thread.updated",
            "thread.updated",
            "synchronized"
        ]
    );
    assert!(items[2]["sequence"].as_u64().unwrap() <= items[0]["snapshot"]["snapshotSequence"].as_u64().unwrap());
    assert_eq!(
        kinds(&resumed(&http, head + 50).await),
        ["snapshot", "snapshot", "synchronized"]
    );
}

#[tokio::test]
async fn a_gap_of_more_than_a_thousand_is_not_replayed() {
    let (simulator, http) = start().await;
    simulator.seed_threads(1001);
    assert_eq!(
        kinds(&resumed(&http, 0).await),
        ["snapshot", "snapshot", "synchronized"]
    );
}

#[tokio::test]
async fn an_unknown_thread_is_an_error_only_without_a_sequence() {
    let (_simulator, http) = start().await;
    let mut socket = http.socket().await;
    let exit = socket
        .call("orchestration.subscribeThread", &json!({"threadId": "nope"}))
        .await;
    assert_eq!(
        exit["cause"][0]["error"]["_tag"],
        "OrchestrationV2GetThreadProjectionError"
    );
    let ask = json!({"threadId": "nope", "afterSequence": 0, "requestCompletionMarker": true});
    socket.begin("orchestration.subscribeThread", &ask).await;
    assert_eq!(socket.chunk().await, [json!({"kind": "synchronized"})]);
}

async fn start_newer() -> (Simulator, Http) {
    let options = SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    let http = Http::new(&simulator, Some("any"));
    (simulator, http)
}

#[tokio::test]
async fn the_version_gate_comes_before_credentials() {
    let (simulator, http) = start_newer().await;
    assert_eq!(
        http.get("/.well-known/t3/environment").await.body["orchestrationProtocolVersion"],
        2
    );
    let url = format!("{}/ws", simulator.url().replace("http", "ws"));
    let Err(tokio_tungstenite::tungstenite::Error::Http(response)) = Socket::open(&url).await.map(drop) else {
        panic!("the upgrade was not refused");
    };
    assert_eq!(response.status(), 426);
    let body: Value = serde_json::from_slice(&response.into_body().unwrap()).unwrap();
    assert_eq!(body["orchestrationProtocolVersion"], 2);
    let reads = http.get("/api/orchestration/shell").await;
    assert_eq!((reads.status, reads.body), (400, json!("")));
    let told = http
        .request("GET", "/api/orchestration/shell")
        .header("x-t3-orchestration-protocol", "2");
    assert_eq!(http.send(told).await.status, 200);
}

#[tokio::test]
async fn newer_servers_send_metadata_alone_on_resume() {
    let (simulator, http) = start_newer().await;
    simulator.seed_threads(2);
    let url = format!(
        "{}/ws?wsTicket={}&orchestrationProtocol=2",
        simulator.url().replace("http", "ws"),
        http.ticket().await
    );
    let mut socket = Socket::open(&url).await.unwrap();
    let ask = json!({"afterSequence": simulator.head() - 1, "requestCompletionMarker": true});
    socket.begin("orchestration.subscribeShell", &ask).await;
    let items = socket.until(|item| item["kind"] == "synchronized").await;
    assert_eq!(kinds(&items), ["snapshot", "thread.updated", "synchronized"]);
    assert_eq!(items[0]["snapshot"]["threads"], json!([]));
    assert!(items[0]["resolvedRepositoryIdentityRoots"].is_array());
}

#[tokio::test]
async fn a_lost_answer_was_applied_once() {
    let (simulator, http) = start().await;
    let mut control = http.socket().await;
    control.command(&create("t")).await;
    simulator.faults().lose_next_answer(true);
    control
        .begin("orchestration.dispatchCommand", &say("t", "1", "say once"))
        .await;
    assert_eq!(control.next().await, Err(None));
    let mut control = http.socket().await;
    assert_eq!(control.command(&say("t", "1", "say once")).await["_tag"], "Success");
    assert_eq!(simulator.runs().len(), 1);
    assert_eq!(simulator.received().len(), 3);
}

#[tokio::test]
async fn faults_change_what_a_client_sees() {
    let (simulator, http) = start().await;
    let faults = simulator.faults();
    let mut rows = shell(&http).await;
    faults.push_shell_item(json!({"kind": "from.the.future", "sequence": 9}));
    rows.until(|item| item["kind"] == "from.the.future").await;
    faults.rename_status("running", "dreaming");
    let mut control = http.socket().await;
    faults.hold_shell(true);
    control.command(&create("held")).await;
    faults.push_shell_item(json!({"kind": "from.the.future", "sequence": 10}));
    let items = rows.until(|item| item["kind"] == "from.the.future").await;
    assert_eq!(items.len(), 1, "{items:?}");
    faults.hold_shell(false);
    rows_until(&mut rows, "held", "idle").await;
    control.command(&create("t")).await;
    control.command(&say("t", "1", "sleep 60")).await;
    rows_until(&mut rows, "t", "dreaming").await;
    let before = http.get("/.well-known/t3/environment").await.body["environmentId"].clone();
    faults.fresh_database("another");
    assert_eq!(rows.next().await, Err(None));
    assert_ne!(
        http.get("/.well-known/t3/environment").await.body["environmentId"],
        before
    );
    assert_eq!(http.get("/api/orchestration/threads/t").await.status, 404);
    assert_eq!(
        http.get("/api/projects").await.body["projects"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    faults.revoke_token("any");
    assert_eq!(http.get("/api/orchestration/shell").await.status, 401);
}

#[tokio::test]
async fn a_machine_that_is_out_of_reach_keeps_its_database() {
    let (simulator, http) = start().await;
    simulator.seed_threads(1);
    simulator.stop().await;
    assert!(tokio::net::TcpStream::connect(simulator.addr()).await.is_err());
    simulator.resume().await.unwrap();
    assert_eq!(http.get("/api/orchestration/threads/seed-0").await.status, 200);
}

#[tokio::test]
async fn ten_thousand_threads_and_a_thousand_runs_fit() {
    let options = SimulatorOptions {
        model: t3code_mcp::simulator::ModelOptions {
            timing: t3code_mcp::simulator::Timing::fast(),
            ..t3code_mcp::simulator::ModelOptions::recorded()
        },
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    let http = Http::new(&simulator, Some("any"));
    let threads = simulator.seed_threads(10_000);
    let mut control = http.socket().await;
    for (place, thread) in threads.iter().take(1_000).enumerate() {
        let exit = control
            .command(&say(thread, &format!("load-{place}"), "say done"))
            .await;
        assert_eq!(exit["_tag"], "Success");
    }
    let last = threads.get(999).unwrap();
    let mut events = http.socket().await;
    let ask = json!({"threadId": last, "afterSequence": 0});
    events.begin("orchestration.subscribeThread", &ask).await;
    events
        .until(|item| item["event"]["type"] == "run.updated" && item["event"]["payload"]["status"] == "completed")
        .await;
    let done = simulator
        .runs()
        .iter()
        .filter(|run| run.status.as_str() == "completed")
        .count();
    assert_eq!(done, 1_000);
}

#[tokio::test]
async fn two_answers_at_once_end_the_turn_once() {
    let (simulator, http) = start().await;
    let (mut rows, mut control) = (shell(&http).await, http.socket().await);
    control.command(&create("t")).await;
    control.command(&say("t", "1", "approve2")).await;
    rows.until(|item| item["thread"]["itemCount"] == 5).await;
    let requests = simulator.projection("t").unwrap()["runtimeRequests"].clone();
    for (id, decision) in [(0, "accept"), (1, "decline")] {
        let answer = json!({"type": "runtime-request.respond", "commandId": decision, "threadId": "t",
            "requestId": requests[id]["id"], "decision": decision});
        control.begin("orchestration.dispatchCommand", &answer).await;
    }
    let last = rows_until(&mut rows, "t", "completed").await.pop().unwrap();
    assert_eq!(last["thread"]["itemCount"], 7);
}
