//! Replays what a recorded client did, connection by connection, and holds every answer against the recorded one.
//!
//! Frames of a thread's stream and exits are compared one by one and in order. The shell is coalesced by time: rows are compared
//! whenever both sides show the same state of a thread, and before each act of the client ours must have come where the recorded one was.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use t3code_mcp::simulator::{Simulator, SimulatorOptions, Timing};

use crate::client::{Http, Socket};
use crate::recordings::lines;
use crate::shape::differences;

/// The good bearer.
const TOKEN: &str = "recorded";
/// Longer than any recorded run takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a run is looked at whose end is awaited.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Where an answer tells how far the database had come.
const SEQUENCES: [&str; 4] = [
    "/sequence",
    "/exit/value/sequence",
    "/snapshotSequence",
    "/snapshot/snapshotSequence",
];
/// The most that a stream catches up on.
const REPLAYED: u64 = 1000;

struct Replay {
    simulator: Simulator,
    http: Http,
    sockets: HashMap<String, Socket>,
    /// Events of each connection that came in a chunk and were not compared yet.
    events: HashMap<String, Vec<Value>>,
    /// The recorded row that ours must reach, by connection and thread.
    rows: HashMap<(String, String, String), Value>,
    /// The states that were found last.
    reached: HashMap<(String, String, String), Value>,
    tokens: HashMap<&'static str, String>,
    /// Recorded sequences, each with ours.
    sequences: BTreeMap<u64, u64>,
    /// Recorded shell streams on which rows came.
    caught_up_on: HashSet<String>,
    /// The server was killed and is up again.
    restarted: bool,
    problems: Vec<String>,
}

/// What two rows of one thread must share to show the same state.
fn state(row: &Value) -> Value {
    let row = &row["thread"];
    json!([
        row["status"],
        row["activityRunStatus"],
        row["itemCount"],
        row["pendingRuntimeRequest"].is_null(),
        row["archivedAt"].is_null(),
        row["title"],
        row["titleRegeneration"].is_null(),
        row["runtimeMode"],
        row["latestVisibleMessage"]["role"]
    ])
}

impl Replay {
    async fn start(smoke_project: bool) -> Self {
        Self::start_at_pace(smoke_project, Timing::recorded()).await
    }

    async fn start_at_pace(smoke_project: bool, timing: Timing) -> Self {
        let mut options = SimulatorOptions {
            token: Some(TOKEN.to_owned()),
            smoke_project,
            ..SimulatorOptions::default()
        };
        options.model.timing = timing;
        options.model.folders.push("/home/dev/t3-smoke-two".to_owned());
        let simulator = Simulator::start(options).await.unwrap();
        let http = Http::new(&simulator, Some(TOKEN));
        let faults = simulator.faults();
        let tokens = HashMap::from([
            ("read", faults.issue_token(&["orchestration:read"])),
            ("operate", faults.issue_token(&["orchestration:operate"])),
        ]);
        Self {
            simulator,
            http,
            sockets: HashMap::new(),
            events: HashMap::new(),
            rows: HashMap::new(),
            reached: HashMap::new(),
            tokens,
            sequences: BTreeMap::new(),
            caught_up_on: HashSet::new(),
            restarted: false,
            problems: Vec::new(),
        }
    }

    fn hold(&mut self, place: &str, recorded: &Value, ours: &Value) {
        for path in SEQUENCES {
            if let (Some(theirs), Some(own)) = (recorded.pointer(path), ours.pointer(path)) {
                self.sequences.insert(theirs.as_u64().unwrap(), own.as_u64().unwrap());
            }
        }
        for difference in differences(recorded, ours) {
            self.problems.push(format!("{place}: {difference}"));
        }
    }

    fn token_for(&self, who: &str) -> &str {
        match who {
            "readonly" | "read-only token" | "revoked token" => &self.tokens["read"],
            "operate-only" | "operate-only token" => &self.tokens["operate"],
            _ => TOKEN,
        }
    }

    /// Requests have random ids: the recorded one is replaced by ours in the same place of its thread.
    fn translate(&self, recorded: &[Value], frame: &Value) -> Value {
        let mut frame = frame.clone();
        if let Some(after) = frame["payload"]["afterSequence"].as_u64()
            && let Some((theirs, own)) = self
                .sequences
                .range(..=after)
                .next_back()
                .or_else(|| self.sequences.range(after..).next())
        {
            frame["payload"]["afterSequence"] = (after + own).saturating_sub(*theirs).into();
        }
        let Some(request) = frame["payload"]["requestId"]
            .as_str()
            .filter(|id| id.starts_with("runtime-request:provider:"))
        else {
            return frame;
        };
        let thread = frame["payload"]["threadId"].as_str().unwrap().to_owned();
        let known = known_requests(recorded);
        let (owner, place) = known.get(request).cloned().unwrap();
        let projection = self.simulator.projection(&owner).unwrap();
        let own = projection["runtimeRequests"][place]["id"].clone();
        assert!(own.is_string(), "{thread} asked for {request}");
        frame["payload"]["requestId"] = own;
        frame
    }

    async fn open(&mut self, conn: &str) {
        let http = Http {
            token: Some(self.token_for(conn).to_owned()),
            ..self.http.clone()
        };
        self.sockets.insert(conn.to_owned(), http.socket().await);
    }

    /// Before the client acts, our shell shows what the recorded one showed.
    async fn settle(&mut self) {
        for ((conn, request, thread), recorded) in std::mem::take(&mut self.rows) {
            let wanted = state(&recorded);
            let kind = recorded["kind"].clone();
            let place = (conn.clone(), request.clone(), thread.clone());
            if self.reached.get(&place) == Some(&wanted) {
                continue;
            }
            self.reached.insert(place, wanted.clone());
            loop {
                let fits = |row: &Value| row["kind"] == kind && (kind != "thread.updated" || state(row) == wanted);
                let key = format!("{conn}/{request}");
                let rows = self.events.entry(key.clone()).or_default();
                let own = |row: &Value| row["thread"]["id"] == thread.as_str() || row["threadId"] == thread.as_str();
                if let Some(place) = rows.iter().position(|row| own(row) && fits(row)) {
                    let row = rows.remove(place);
                    // Its older rows are done with; those of other threads are looked for yet.
                    let mut older = rows.drain(..place).filter(|row| !own(row)).collect::<Vec<_>>();
                    older.append(rows);
                    *rows = older;
                    self.hold(&format!("{conn} row of {thread}"), &recorded, &row);
                    break;
                }
                self.read_chunk(
                    &conn,
                    &format!(
                        "{recorded} among {:?}",
                        self.events[&key].iter().map(state).collect::<Vec<_>>()
                    ),
                )
                .await;
            }
        }
    }

    async fn next(&mut self, conn: &str, awaited: &str) -> Value {
        match self.sockets.get_mut(conn).unwrap().next().await {
            Ok(frame) => frame,
            Err(end) => panic!("{conn}: {end:?} instead of {awaited}\n{}", self.problems.join("\n")),
        }
    }

    async fn read_chunk(&mut self, conn: &str, awaited: &str) {
        let frame = self.next(conn, awaited).await;
        let socket = self.sockets.get_mut(conn).unwrap();
        if frame["_tag"] != "Chunk" {
            self.problems.push(format!("{conn}: {frame} instead of a chunk"));
            return;
        }
        socket
            .send(&json!({"_tag": "Ack", "requestId": frame["requestId"]}))
            .await;
        let key = format!("{conn}/{}", frame["requestId"].as_str().unwrap());
        let values = frame["values"].as_array().unwrap().clone();
        self.events.entry(key).or_default().extend(values);
    }

    async fn recorded_chunk(&mut self, conn: &str, frame: &Value) {
        let request = frame["requestId"].as_str().unwrap().to_owned();
        let key = format!("{conn}/{request}");
        for value in frame["values"].as_array().unwrap() {
            match value["kind"].as_str().unwrap() {
                "thread.updated" | "thread.removed" => {
                    let thread = value["thread"]["id"].as_str().or(value["threadId"].as_str()).unwrap();
                    self.caught_up_on.insert(key.clone());
                    // The recorded server had threads from before.
                    if self.simulator.projection(thread).is_none() {
                        continue;
                    }
                    self.rows
                        .insert((conn.to_owned(), request.clone(), thread.to_owned()), value.clone());
                }
                "project.updated" => {}
                kind => {
                    let own = loop {
                        let waiting = self.events.entry(key.clone()).or_default();
                        let place = match kind {
                            // Rows of the shell come when they come.
                            "snapshot" | "synchronized" => waiting.iter().position(|own| own["kind"] == kind),
                            _ => (!waiting.is_empty()).then_some(0),
                        };
                        match place {
                            Some(place) if kind == "synchronized" && !key.starts_with("thread") => {
                                // Rows came before it on both sides, or on neither.
                                let rows = waiting[..place].iter().any(|own| own["kind"] == "thread.updated");
                                if rows != self.caught_up_on.contains(&key) {
                                    self.problems.push(format!("{key}: caught up: {rows}"));
                                }
                                break waiting.remove(place);
                            }
                            Some(place) => break waiting.remove(place),
                            None => self.read_chunk(conn, &value.to_string()).await,
                        }
                    };
                    let place = format!("{conn} {} {}", value["sequence"], value["event"]["type"]);
                    self.hold(&place, value, &own);
                }
            }
        }
    }

    async fn recorded_frame(&mut self, conn: &str, frame: &Value) {
        if frame["_tag"] == "Chunk" {
            self.recorded_chunk(conn, frame).await;
            return;
        }
        let own = loop {
            let own = self.next(conn, &frame.to_string()).await;
            if own["_tag"] != "Chunk" {
                break own;
            }
            let key = format!("{conn}/{}", own["requestId"].as_str().unwrap());
            let socket = self.sockets.get_mut(conn).unwrap();
            socket
                .send(&json!({"_tag": "Ack", "requestId": own["requestId"]}))
                .await;
            let values = own["values"].as_array().unwrap().clone();
            self.events.entry(key).or_default().extend(values);
        };
        self.hold(&format!("{conn} exit {}", frame["requestId"]), frame, &own);
    }

    async fn http(&mut self, note: &str, request: &Value, recorded: &Value) {
        let (method, path) = (request["method"].as_str().unwrap(), request["path"].as_str().unwrap());
        // Session ids and pairing codes belong to the recorded server.
        if note.contains("revoke") {
            self.simulator.faults().revoke_token(&self.tokens["read"]);
            return;
        }
        let mut form = request["form"].clone();
        if form["subject_token"] != "WRONGCODE123" && form.is_object() && note != "same code again" {
            form["subject_token"] = self
                .simulator
                .faults()
                .pairing_code(std::time::Duration::from_mins(1))
                .into();
        }
        self.caught_up(&recorded["body"]["projection"]).await;
        let token = match request["headers"]["authorization"].as_str() {
            None => None,
            Some("Bearer <redacted>") if !note.contains("broken") => Some(self.token_for(note).to_owned()),
            Some(_) => Some("nonsense".to_owned()),
        };
        let http = Http {
            token,
            ..self.http.clone()
        };
        let mut call = http.request(method, path);
        if request["json"].is_object() {
            call = call.json(&request["json"]);
        } else if let Some(form) = form.as_object() {
            let pairs = form.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap()));
            let body = url::form_urlencoded::Serializer::new(String::new())
                .extend_pairs(pairs)
                .finish();
            call = call
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body);
        }
        let answer = http.send(call).await;
        let place = format!("{method} {path} ({note})");
        if recorded["status"] != answer.status {
            self.problems
                .push(format!("{place}: {} recorded {}", answer.status, recorded["status"]));
        }
        for (name, value) in recorded["headers"].as_object().unwrap() {
            if answer.header(name) != value.as_str() {
                self.problems.push(format!(
                    "{place}: {name} is {:?}, recorded {value}",
                    answer.header(name)
                ));
            }
        }
        self.hold(&place, &recorded["body"], &answer.body);
    }

    /// A recorded client often read when it knew that a run had ended: ours must have ended as well.
    async fn caught_up(&self, recorded: &Value) {
        let ended = |status: &Value| {
            ["completed", "failed", "cancelled", "interrupted"]
                .iter()
                .any(|end| status == end)
        };
        let Some(thread) = recorded["thread"]["id"].as_str() else {
            return;
        };
        let wanted = recorded["runs"].as_array().unwrap();
        let reached = || {
            let own = self.simulator.projection(thread).unwrap_or_default();
            wanted
                .iter()
                .enumerate()
                .all(|(place, run)| !ended(&run["status"]) || ended(&own["runs"][place]["status"]))
        };
        let wait = async {
            while !reached() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, wait).await.is_ok(),
            "{thread} did not end"
        );
    }

    async fn upgrade(&mut self, conn: &str, recorded: &Value) {
        let base = self.simulator.url().replace("http", "ws");
        let url = match conn {
            "no-ticket" => format!("{base}/ws"),
            "bearer-as-ticket" => format!("{base}/ws?wsTicket={TOKEN}"),
            _ => format!("{base}/ws?wsTicket=bad"),
        };
        let Err(tokio_tungstenite::tungstenite::Error::Http(response)) = Socket::open(&url).await.map(drop) else {
            self.problems.push(format!("{conn} was not refused"));
            return;
        };
        assert_eq!(recorded["status"], response.status().as_u16());
        let body = response.into_body().unwrap_or_default();
        self.hold(conn, &recorded["body"], &serde_json::from_slice(&body).unwrap());
    }

    async fn closed(&mut self, conn: &str, code: u64) {
        let mut socket = self.sockets.remove(conn).unwrap();
        self.rows.retain(|(of, ..), _| of != conn);
        match code {
            1005 => assert_eq!(socket.next().await, Err(Some(1005)), "{conn}"),
            // Cut off, with whatever came before.
            1006 if self.restarted => loop {
                if let Err(end) = socket.next().await {
                    assert_eq!(end, None, "{conn}");
                    return;
                }
            },
            1006 => drop(socket),
            _ => socket.close().await,
        }
    }

    /// The recorded server had a project by then.
    async fn with_project(&mut self, id: &str, title: &str, root: &str, model: Value) {
        self.open("before").await;
        let create = json!({"type": "project.create", "commandId": id, "projectId": id, "title": title, "workspaceRoot": root,
            "createWorkspaceRootIfMissing": true, "defaultModelSelection": model});
        let socket = self.sockets.get_mut("before").unwrap();
        socket.call("projects.mutate", &create).await;
    }

    /// The recorded database was older than this recording.
    async fn with_history(&mut self) {
        self.open("before").await;
        let socket = self.sockets.get_mut("before").unwrap();
        let model = json!({"instanceId": "grok", "model": "grok-build"});
        let create = json!({"type": "thread.create", "commandId": "before", "threadId": "thread-before",
            "projectId": "project-t3-smoke", "title": "before", "modelSelection": model, "runtimeMode": "full-access",
            "interactionMode": "default", "branch": null, "worktreePath": null, "createdBy": "user", "creationSource": "web"});
        socket.command(&create).await;
        for number in 0..REPLAYED + REPLAYED / 2 {
            let title = format!("before {number}");
            let rename = json!({"type": "thread.metadata.update", "commandId": title, "threadId": "thread-before", "title": title});
            socket.command(&rename).await;
        }
    }

    async fn run(mut self, lines: Vec<Value>) {
        for (place, line) in lines.iter().enumerate() {
            let (dir, kind) = (line["dir"].as_str().unwrap(), line["kind"].as_str().unwrap());
            let conn = line["conn"].as_str().unwrap_or_default();
            let body = &line["body"];
            match (dir, kind) {
                ("c2s", "http") => self.settle().await,
                ("s2c", "http") => {
                    let request = lines[..place]
                        .iter()
                        .rev()
                        .find(|line| line["kind"] == "http" && line["dir"] == "c2s");
                    let note = line["note"].as_str().unwrap_or_default().to_owned();
                    self.http(&note, &request.unwrap()["body"], body).await;
                }
                ("s2c", "ws-opened") => self.open(conn).await,
                ("s2c", "ws-open-rejected") => self.upgrade(conn, body).await,
                ("c2s", "frame") => {
                    self.settle().await;
                    let frame = self.translate(&lines[..place], body);
                    self.sockets.get_mut(conn).unwrap().send(&frame).await;
                }
                ("c2s", "frame-raw") => {
                    if let Some(socket) = self.sockets.get_mut(conn) {
                        socket.send_text(body.as_str().unwrap()).await;
                    }
                }
                ("c2s", "frame-binary") => {
                    self.sockets
                        .get_mut(conn)
                        .unwrap()
                        .send_binary(body.as_str().unwrap())
                        .await;
                }
                ("s2c", "frame") => self.recorded_frame(conn, body).await,
                ("s2c", "ws-closed") => {
                    if body["code"].as_u64().unwrap_or(1000) == 1000 {
                        self.settle().await;
                    }
                    self.closed(conn, body["code"].as_u64().unwrap_or(1000)).await;
                }
                ("note", "note") if body == "kill -9 the server" => {
                    self.simulator.restart().await.unwrap();
                    self.restarted = true;
                }
                _ => {}
            }
        }
        self.problems.dedup();
        assert!(
            self.problems.is_empty(),
            "{} differences:\n{}",
            self.problems.len(),
            self.problems.join("\n")
        );
    }
}

/// Each request that the recording showed: its thread and its place among that thread's requests.
fn known_requests(recorded: &[Value]) -> HashMap<String, (String, usize)> {
    let mut known = HashMap::new();
    let mut count: HashMap<String, usize> = HashMap::new();
    let mut see = |thread: &str, id: &str| {
        if !known.contains_key(id) {
            let place = count.entry(thread.to_owned()).or_default();
            known.insert(id.to_owned(), (thread.to_owned(), *place));
            *place += 1;
        }
    };
    for line in recorded {
        for value in line["body"]["values"].as_array().into_iter().flatten() {
            if value["event"]["type"] == "runtime-request.updated" {
                see(
                    value["event"]["threadId"].as_str().unwrap(),
                    value["event"]["payload"]["id"].as_str().unwrap(),
                );
            }
        }
        let projection = &line["body"]["body"]["projection"];
        for request in projection["runtimeRequests"].as_array().into_iter().flatten() {
            see(
                projection["thread"]["id"].as_str().unwrap(),
                request["id"].as_str().unwrap(),
            );
        }
    }
    known
}

macro_rules! recording {
    ($($name:ident: $file:literal, $smoke:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            Replay::start($smoke).await.run(lines($file)).await;
        }
    )*};
}

recording! {
    routes_and_credentials_answer_as_recorded: "01-http-auth", false;
    frames_are_answered_as_recorded: "02-ws-framing", true;
    odd_frames_are_answered_as_recorded: "02b-ws-framing-odd", false;
    runs_go_as_recorded: "03-runs", false;
    queue_steer_and_interrupt_go_as_recorded: "04-queue-steer-interrupt", true;
    approvals_and_questions_go_as_recorded: "05-approval-userinput", true;
    a_wedged_run_hangs_as_recorded: "05a-respond-without-decision-wedges-run", true;
}

#[tokio::test]
async fn replays_a_kill_and_a_restart_go_as_recorded() {
    let mut replay = Replay::start(true).await;
    replay.with_history().await;
    replay.run(lines("07-replay-kill-restart")).await;
}

#[tokio::test]
async fn idempotency_scopes_and_lifecycle_go_as_recorded() {
    let replay = Replay::start(true).await;
    replay.simulator.faults().set_provider_enabled("codex", false);
    replay.run(lines("06-idempotency-scopes-lifecycle")).await;
}

/// Recording 14 was made while the client of 13 kept silent: its stream shows what the other did.
#[tokio::test]
async fn titles_launches_and_two_pending_requests_go_as_recorded() {
    // That day the agent thought longer: its title was settled first.
    let timing = Timing {
        turn: Duration::from_millis(300),
        ..Timing::recorded()
    };
    let mut replay = Replay::start_at_pace(false, timing).await;
    replay
        .with_project("project-x", "x", "/home/dev/t3-smoke-ws", Value::Null)
        .await;
    let mut both = lines("13-idle-and-title");
    let mut other = lines("14-two-pending");
    for line in &mut other {
        if let Some(conn) = line["conn"].as_str() {
            line["conn"] = format!("other {conn}").into();
        }
    }
    let made = |line: &Value| {
        let values = line["body"]["values"].as_array().into_iter().flatten();
        values
            .clone()
            .any(|item| item["kind"] == "project.updated" && item["project"]["id"] == "project-two")
    };
    let place = both.iter().position(made).unwrap();
    both.splice(place..place, other);
    replay.run(both).await;
}
