//! Replays what a recorded client did with a server of protocol 1, and holds what became of it against the recorded: the outcome of each
//! command, the states that the shell went through, and what a read shows. What the stand-ins of the agents said is not compared.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use t3code_mcp::simulator::{Simulator, SimulatorOptions, Timing};

use crate::client::{Http, Socket};

/// Longer than any recorded turn takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a read is tried again that does not show enough yet.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Commands that the simulator does not know.
const LEFT_OUT: [&str; 12] = [
    "project.create at a path that was taken out",
    "project.delete",
    "project.meta.update",
    "thread.checkpoint.revert",
    "thread.meta.update",
    "thread.pin",
    "thread.settle",
    "thread.snooze",
    "thread.unpin",
    "thread.unsettle",
    "thread.unsnooze",
    "thread.turn.start with bootstrap",
];

/// Where the recorded project lies; a git repository.
const ROOT: &str = "/home/dev/t3-smoke";

struct Replay {
    simulator: Simulator,
    http: Http,
    commands: Socket,
    shell: Socket,
    /// What our shell showed of each thread and was not looked at yet.
    shown: HashMap<String, Vec<Value>>,
    /// What the recorded one showed last.
    wanted: HashMap<String, Value>,
    /// Ids that a server makes up: the recorded one, and ours.
    ids: HashMap<String, String>,
    /// What our server said to each command, by connection and request.
    outcomes: HashMap<(String, String), Value>,
    /// Threads of each project.
    made: Vec<(String, String)>,
    /// Threads that are made or deleted by a command that the simulator does not know.
    foreign: HashSet<String>,
    compared: usize,
    problems: Vec<String>,
}

/// What a row says of its thread's work.
fn state(row: &Value) -> Value {
    json!({
        "session": row["session"]["status"], "at work": !row["session"]["activeTurnId"].is_null(), "turn": row["latestTurn"]["state"],
        "approval": row["hasPendingApprovals"], "question": row["hasPendingUserInput"], "archived": !row["archivedAt"].is_null(),
    })
}

/// What a read says of what was asked and what became of it.
fn facts(thread: &Value) -> Value {
    let list = |field: &str| thread[field].as_array().into_iter().flatten();
    let users = list("messages").filter(|message| message["role"] == "user");
    let asks = list("activities").filter_map(|activity| {
        let kind = activity["kind"].as_str()?;
        let said = ["decision", "status"]
            .iter()
            .find_map(|field| activity["payload"][field].as_str());
        let tells = ["approval.", "user-input.", "provider.", "checkpoint.captured"];
        tells
            .iter()
            .any(|of| kind.starts_with(of))
            .then(|| format!("{kind} {}", said.unwrap_or_default()))
    });
    let mut asks: Vec<String> = asks.collect();
    // Of one moment: T3 sorts them by chance.
    asks.sort();
    json!({
        "session": thread["session"]["status"], "turn": thread["latestTurn"]["state"], "over": !thread["latestTurn"]["completedAt"].is_null(),
        "asked": users.map(|message| message["text"].clone()).collect::<Vec<_>>(),
        "requests": asks,
        "checkpoints": list("checkpoints").map(|checkpoint| checkpoint["status"].clone()).collect::<Vec<_>>(),
    })
}

/// The command's type, with what the simulator may not know of it.
fn kind(command: &Value) -> String {
    let kind = command["type"].as_str().unwrap_or_default();
    match () {
        () if command["bootstrap"].is_object() => format!("{kind} with bootstrap"),
        () if command["workspaceRoot"] == "<path>" => format!("{kind} at a path that was taken out"),
        () => kind.to_owned(),
    }
}

impl Replay {
    async fn start() -> Self {
        let mut options = SimulatorOptions {
            protocol: 1,
            ..SimulatorOptions::default()
        };
        options.smoke_project = false;
        options.model.timing = Timing::recorded();
        options.model.repositories.push(ROOT.to_owned());
        let simulator = Simulator::start(options).await.unwrap();
        let http = Http::new(&simulator, Some("any"));
        let commands = http.socket().await;
        let mut shell = http.socket().await;
        shell.begin("orchestration.subscribeShell", &json!({})).await;
        Self {
            simulator,
            http,
            commands,
            shell,
            shown: HashMap::new(),
            wanted: HashMap::new(),
            ids: HashMap::new(),
            outcomes: HashMap::new(),
            made: Vec::new(),
            foreign: HashSet::new(),
            compared: 0,
            problems: Vec::new(),
        }
    }

    /// The recorded server had the project by then.
    async fn with_project(mut self) -> Self {
        let create = json!({"type": "project.create", "commandId": "before", "projectId": "project-t3-smoke-v1", "title": "t3-smoke-v1",
            "workspaceRoot": ROOT, "createdAt": "2026-11-30T06:09:12.422Z"});
        self.commands.command(&create).await;
        self
    }

    /// The same with our ids.
    fn translate(&self, command: &Value) -> Value {
        let mut command = command.clone();
        for field in ["requestId", "turnId"] {
            if let Some(own) = command[field].as_str().and_then(|id| self.ids.get(id)) {
                command[field] = json!(own);
            }
        }
        command
    }

    /// The turn and the requests that two reads show in the same places are the same.
    fn learn(&mut self, recorded: &Value, ours: &Value) {
        let turn = |thread: &Value| thread["latestTurn"]["turnId"].as_str().map(str::to_owned);
        self.ids.extend(turn(recorded).zip(turn(ours)));
        let requests = |thread: &Value| {
            let activities = thread["activities"].as_array().into_iter().flatten();
            let asked = activities.filter(|activity| {
                activity["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.ends_with(".requested"))
            });
            let ids = asked.filter_map(|activity| activity["payload"]["requestId"].as_str().map(str::to_owned));
            ids.collect::<Vec<_>>()
        };
        self.ids.extend(requests(recorded).into_iter().zip(requests(ours)));
    }

    /// Before the client acts, our shell has shown what the recorded one showed.
    async fn settle(&mut self, note: &str) {
        for (thread, wanted) in std::mem::take(&mut self.wanted) {
            let wait = async {
                loop {
                    let shown = self.shown.entry(thread.clone()).or_default();
                    if let Some(place) = shown.iter().position(|state| *state == wanted) {
                        shown.drain(..place);
                        return;
                    }
                    for value in self.shell.chunk().await {
                        let row = &value["thread"];
                        let id = row["id"].as_str().or(value["threadId"].as_str()).unwrap_or_default();
                        let state = if row.is_null() { json!("removed") } else { state(row) };
                        self.shown.entry(id.to_owned()).or_default().push(state);
                    }
                }
            };
            if tokio::time::timeout(PATIENCE, wait).await.is_err() {
                let shown = self.shown.entry(thread.clone()).or_default();
                self.problems
                    .push(format!("{note}: {thread} shows {shown:?}, recorded {wanted}"));
            }
            self.compared += 1;
        }
    }

    async fn command(&mut self, note: &str, key: (String, String), command: &Value) {
        if LEFT_OUT.contains(&kind(command).as_str()) {
            let made = self.made.iter().filter(|(project, _)| command["projectId"] == *project);
            let deleted = made
                .filter(|_| command["type"] == "project.delete")
                .map(|(_, thread)| thread.clone());
            self.foreign.extend(deleted);
            if command["bootstrap"].is_object() {
                self.foreign.extend(command["threadId"].as_str().map(str::to_owned));
            }
            return;
        }
        if let (Some(project), Some(thread)) = (command["projectId"].as_str(), command["threadId"].as_str()) {
            self.made.push((project.to_owned(), thread.to_owned()));
        }
        self.settle(note).await;
        let command = self.translate(command);
        let exit = self.commands.command(&command).await;
        self.outcomes.insert(key, exit);
    }

    /// Whether it was taken, and else why not.
    fn outcome(&mut self, place: &str, ours: &Value, recorded: &Value) {
        let told = |exit: &Value| {
            let cause = &exit["cause"][0];
            (
                exit["_tag"].clone(),
                cause["_tag"].clone(),
                cause["error"]["message"].clone(),
            )
        };
        if told(ours) != told(recorded) {
            self.problems
                .push(format!("{place}: {:?}, recorded {:?}", told(ours), told(recorded)));
        }
        self.compared += 1;
    }

    async fn read(&mut self, note: &str, path: &str, recorded: &Value) {
        self.settle(note).await;
        let wanted = facts(recorded);
        let mut last = Value::Null;
        let wait = async {
            loop {
                let answer = self.http.get(path).await;
                last = answer.body["thread"].clone();
                if facts(&last) == wanted {
                    return;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            self.problems
                .push(format!("{note}:\n     ours {}\n recorded {wanted}", facts(&last)));
        }
        self.learn(recorded, &last);
        self.compared += 1;
    }

    async fn run(mut self, lines: Vec<Value>) -> Self {
        let mut note = String::new();
        let mut asked = Value::Null;
        for line in &lines {
            if self.problems.len() > 9 {
                break;
            }
            let body = &line["body"];
            let key = |id: &Value| (line["conn"].to_string(), id.to_string());
            match (line["dir"].as_str(), line["kind"].as_str(), body["_tag"].as_str()) {
                (_, Some("note"), _) => body.as_str().unwrap_or_default().clone_into(&mut note),
                (Some("c2s"), Some("http"), _) => asked = body.clone(),
                (Some("s2c"), Some("http"), _) if asked["json"].is_object() => {
                    let key = (String::new(), String::new());
                    self.command(&note, key.clone(), &asked["json"]).await;
                    if let Some(ours) = self.outcomes.remove(&key) {
                        let taken = ours["_tag"] == "Success";
                        if taken != (body["status"] == 200) {
                            self.problems.push(format!("{note}: {ours}, recorded {body}"));
                        }
                        self.compared += 1;
                    }
                }
                (Some("s2c"), Some("http"), _) if body["body"]["thread"].is_object() => {
                    let (path, thread) = (asked["path"].as_str().unwrap_or_default(), &body["body"]["thread"]);
                    let id = thread["id"].as_str().unwrap_or_default();
                    // Parts of a thread are not served.
                    if !path.contains('?') && !self.foreign.contains(id) {
                        self.read(&note, path, thread).await;
                    }
                }
                (Some("c2s"), _, Some("Request")) if body["tag"] == "orchestration.dispatchCommand" => {
                    self.command(&note, key(&body["id"]), &body["payload"]).await;
                }
                (Some("s2c"), _, Some("Exit")) => {
                    if let Some(ours) = self.outcomes.remove(&key(&body["requestId"])) {
                        self.outcome(&note, &ours, &body["exit"]);
                    }
                }
                (Some("s2c"), _, Some("Chunk")) => {
                    for value in body["values"].as_array().into_iter().flatten() {
                        let (row, removed) = (&value["thread"], &value["threadId"]);
                        if let Some(id) = row["id"].as_str().or(removed.as_str())
                            && !self.foreign.contains(id)
                        {
                            let wanted = if row.is_null() { json!("removed") } else { state(row) };
                            self.wanted.insert(id.to_owned(), wanted);
                        }
                    }
                }
                _ => {}
            }
        }
        self.settle("the end").await;
        self
    }
}

fn lines(name: &str) -> Vec<Value> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/recordings-1/{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn replay(replay: Replay, name: &str) {
    let replay = replay.run(lines(name)).await;
    println!("{name}: {} compared", replay.compared);
    assert!(
        replay.problems.is_empty(),
        "{} of {} differ:\n{}",
        replay.problems.len(),
        replay.compared,
        replay.problems.join("\n")
    );
    drop(replay.simulator);
}

#[tokio::test]
async fn turns_of_protocol_1_go_as_recorded() {
    replay(Replay::start().await, "03-turns").await;
}

#[tokio::test]
async fn busy_threads_interrupts_and_stops_of_protocol_1_go_as_recorded() {
    replay(Replay::start().await.with_project().await, "04-busy-interrupt-stop").await;
}

#[tokio::test]
async fn approvals_and_questions_of_protocol_1_go_as_recorded() {
    replay(
        Replay::start().await.with_project().await,
        "05-approval-userinput-interrupt",
    )
    .await;
}

#[tokio::test]
async fn repeats_and_archives_of_protocol_1_go_as_recorded() {
    replay(
        Replay::start().await.with_project().await,
        "06-idempotency-lifecycle-several-threads",
    )
    .await;
}
