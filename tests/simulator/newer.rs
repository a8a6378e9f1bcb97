//! What servers with the version gate do and the recorded one did not.

use serde_json::{Value, json};
use t3code_mcp::simulator::{ModelOptions, RunStatus, Simulator, SimulatorOptions};

use crate::client::{Answer, Http, Socket};
use crate::rules::{create, rows_until, say};

/// A server with the gate, a socket for commands and one that hears the shell.
struct Newer {
    simulator: Simulator,
    http: Http,
    control: Socket,
    shell: Socket,
}

async fn socket(http: &Http) -> Socket {
    let ticket = http.ticket().await;
    let base = http.base.replace("http", "ws");
    Socket::open(&format!("{base}/ws?wsTicket={ticket}&orchestrationProtocol=2"))
        .await
        .unwrap()
}

async fn start(options: SimulatorOptions) -> Newer {
    let simulator = Simulator::start(SimulatorOptions { gate: true, ..options })
        .await
        .unwrap();
    let http = Http::new(&simulator, Some("any"));
    let (mut control, mut shell) = (socket(&http).await, socket(&http).await);
    shell.begin("orchestration.subscribeShell", &json!({})).await;
    assert_eq!(control.command(&create("t")).await["_tag"], "Success");
    Newer {
        simulator,
        http,
        control,
        shell,
    }
}

async fn get(http: &Http, path: &str) -> Answer {
    let request = http.request("GET", path).header("x-t3-orchestration-protocol", "2");
    http.send(request).await
}

/// The requests of thread `t`.
fn requests(simulator: &Simulator) -> Value {
    simulator.projection("t").unwrap()["runtimeRequests"].clone()
}

#[tokio::test]
async fn the_whole_shell_leaves_the_archive_out() {
    let mut newer = start(SimulatorOptions::default()).await;
    let archive = json!({"type": "thread.archive", "commandId": "a", "threadId": "t"});
    newer.control.command(&archive).await;
    let shell = get(&newer.http, "/api/orchestration/shell").await.body;
    assert_eq!((&shell["threads"], &shell["archivedThreads"]), (&json!([]), &json!([])));
    newer
        .control
        .begin("orchestration.subscribeArchivedShell", &json!({}))
        .await;
    let items = newer.control.chunk().await;
    assert_eq!(items[0]["snapshot"]["threads"][0]["id"], "t");
}

#[tokio::test]
async fn a_bounded_read_is_cut_and_its_history_is_paged() {
    let mut newer = start(SimulatorOptions {
        bounded_runs: Some(2),
        ..SimulatorOptions::default()
    })
    .await;
    for number in 1..=5 {
        let text = format!("say number {number}");
        newer.control.command(&say("t", &number.to_string(), &text)).await;
        let done = format!("number {number}");
        newer
            .shell
            .until(|item| {
                item["thread"]["latestVisibleMessage"]["text"] == done.as_str()
                    && item["thread"]["status"] == "completed"
            })
            .await;
    }
    let whole = get(&newer.http, "/api/orchestration/threads/t").await.body;
    let cut = get(&newer.http, "/api/orchestration/threads/t/bounded").await.body;
    assert_eq!(whole["projection"]["runs"].as_array().unwrap().len(), 5);
    let projection = &cut["projection"];
    assert_eq!(
        projection["runs"],
        json!([whole["projection"]["runs"][3], whole["projection"]["runs"][4]])
    );
    assert_eq!(cut["hasMoreHistory"], true);
    assert_eq!(cut["latestLocalTurnOrdinal"], 5);
    for list in ["attempts", "nodes", "messages", "turnItems", "providerTurns"] {
        let of_cut = projection[list].as_array().unwrap();
        let of_whole = whole["projection"][list].as_array().unwrap();
        assert!(!of_cut.is_empty() && of_cut.len() < of_whole.len(), "{list}");
        assert!(of_cut.iter().all(|entry| of_whole.contains(entry)), "{list}");
    }

    let mut items = projection["visibleTurnItems"].as_array().unwrap().clone();
    let mut cursor = cut["historyCursor"].clone();
    let mut pages = 0;
    while let Some(from) = cursor.as_str() {
        let path = format!("/api/orchestration/threads/t/history?cursor={from}");
        let page = get(&newer.http, &path).await.body;
        items.splice(0..0, page["items"].as_array().unwrap().iter().cloned());
        assert_eq!(page["hasMoreHistory"], !page["nextCursor"].is_null());
        cursor = page["nextCursor"].clone();
        pages += 1;
    }
    assert_eq!(pages, 2);
    let ids = |items: &[Value]| -> Vec<Value> { items.iter().map(|item| item["sourceItemId"].clone()).collect() };
    assert_eq!(
        ids(&items),
        ids(whole["projection"]["visibleTurnItems"].as_array().unwrap())
    );
    let nonsense = get(&newer.http, "/api/orchestration/threads/t/history?cursor=nonsense").await;
    assert_eq!(nonsense.status, 400);
}

#[tokio::test]
async fn a_run_that_a_restart_cut_off_goes_on_in_another() {
    let newer = start(SimulatorOptions {
        model: ModelOptions {
            continues_after_restart: true,
            ..ModelOptions::recorded()
        },
        ..SimulatorOptions::default()
    })
    .await;
    let Newer {
        simulator,
        http,
        mut control,
        mut shell,
    } = newer;
    control.command(&say("t", "1", "sleep 0.5")).await;
    rows_until(&mut shell, "t", "running").await;
    simulator.restart().await.unwrap();
    let mut shell = socket(&http).await;
    shell.begin("orchestration.subscribeShell", &json!({})).await;
    rows_until(&mut shell, "t", "completed").await;
    let runs = simulator.projection("t").unwrap()["runs"].clone();
    assert_eq!(runs[0]["status"], "cancelled");
    assert_eq!(runs[1]["restartContinuationOfRunId"], runs[0]["id"]);
    assert_eq!(runs[1]["status"], "completed");
}

#[tokio::test]
async fn an_answer_to_a_question_that_outlived_its_run_starts_another() {
    let mut newer = start(SimulatorOptions::default()).await;
    newer.control.command(&say("t", "1", "ask message")).await;
    rows_until(&mut newer.shell, "t", "completed").await;
    let request = requests(&newer.simulator)[0].clone();
    assert_eq!(
        (&request["status"], &request["responseCapability"]),
        (&json!("pending"), &json!({"type": "message"}))
    );
    newer.simulator.restart().await.unwrap();
    assert_eq!(requests(&newer.simulator)[0]["status"], "pending");
    let mut control = socket(&newer.http).await;
    let answer = json!({"type": "runtime-request.respond", "commandId": "answer", "threadId": "t",
        "requestId": request["id"], "answers": {"color": "Red"}});
    assert_eq!(control.command(&answer).await["_tag"], "Success");
    assert_eq!(newer.simulator.runs().len(), 2);
    assert_eq!(requests(&newer.simulator)[0]["status"], "resolved");
}

#[tokio::test]
async fn background_work_goes_on_after_its_run_and_ends() {
    let mut newer = start(SimulatorOptions::default()).await;
    newer.control.command(&say("t", "1", "background 3")).await;
    let tasks = |item: &Value| item["thread"]["pendingBackgroundTasks"].as_array().map_or(0, Vec::len);
    let rows = newer
        .shell
        .until(|item| item["thread"]["status"] == "completed" && tasks(item) == 1)
        .await;
    assert_eq!(
        rows.last().unwrap()["thread"]["pendingBackgroundTasks"][0]["kind"],
        "command"
    );
    newer.shell.until(|item| tasks(item) == 0).await;
    let statuses: Vec<_> = newer.simulator.runs().iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Completed]);
}

#[tokio::test]
async fn an_approval_names_the_decisions_that_it_takes() {
    let mut newer = start(SimulatorOptions::default()).await;
    newer.control.command(&say("t", "1", "approve ls")).await;
    newer
        .shell
        .until(|item| item["thread"]["pendingRuntimeRequest"].is_object())
        .await;
    let items = newer.simulator.projection("t").unwrap()["turnItems"].clone();
    let approval = items
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["type"] == "approval_request");
    let options = approval.unwrap()["options"].as_array().unwrap();
    assert!(
        options
            .iter()
            .any(|option| option["decision"] == "acceptAlways" && option["label"].is_string())
    );
    // After a restart nobody can answer it.
    newer.simulator.restart().await.unwrap();
    assert_eq!(
        requests(&newer.simulator)[0]["responseCapability"]["type"],
        "not_resumable"
    );
}
