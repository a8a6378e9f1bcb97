//! What a client's limits do in every tool: one row a tool, and a tool without one fails.

use std::sync::Arc;

use serde_json::{Value, json};
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::http::{Access, HttpSettings};
use t3code_mcp::machine::RuntimeMode;
use t3code_mcp::mcp::Client;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tempfile::TempDir;

use crate::support::{PATIENCE, Running, failure, machine, messages, rules, settings, start_kept};

const OWNER: &str = "owner-token-0123456789";
const MACHINES: &str = "machines-token-0123456789";
const PROJECTS: &str = "projects-token-0123456789";
const CEILING: &str = "ceiling-token-0123456789";
const READER: &str = "reader-token-0123456789";

/// The arguments of a call that is aimed at a name.
type Aim = fn(&str) -> Value;

/// A tool, and how each limit meets it.
struct Row {
    tool: &'static str,
    /// Answers without being told a place: then nothing of what is hidden is in it.
    lists: bool,
    /// How it is aimed at a machine, a project, a thread. What is hidden and what is not there answer alike.
    machine: Option<Aim>,
    project: Option<Aim>,
    thread: Option<Aim>,
    /// The call that changes something: refused to a reader. A tool without one only reads.
    change: Option<fn(&Spot) -> Value>,
    ceiling: Ceiling,
}

/// What the ceiling of a client does in a tool.
enum Ceiling {
    /// Nothing.
    Untouched,
    /// More is refused.
    Refuses(fn(&Spot) -> Value),
    /// What may not be decided is not shown.
    Hides(fn(&Spot) -> Value),
}

/// Where work is.
struct Spot {
    machine: &'static str,
    project: &'static str,
    /// The project's folder.
    path: &'static str,
    thread: String,
}

const ROW: Row = Row {
    tool: "",
    lists: false,
    machine: None,
    project: None,
    thread: None,
    change: None,
    ceiling: Ceiling::Untouched,
};

#[allow(clippy::too_many_lines, reason = "one row a tool")]
fn rows() -> Vec<Row> {
    vec![
        Row {
            tool: "t3_machines",
            lists: true,
            ..ROW
        },
        Row {
            tool: "t3_projects",
            lists: true,
            machine: Some(|machine| json!({"machine": machine})),
            ..ROW
        },
        Row {
            tool: "t3_models",
            machine: Some(|machine| json!({"machine": machine})),
            ..ROW
        },
        Row {
            tool: "t3_threads",
            lists: true,
            machine: Some(|machine| json!({"machine": machine})),
            project: Some(|project| json!({"machine": "mac", "project": project})),
            ..ROW
        },
        Row {
            tool: "t3_dispatch",
            machine: Some(|machine| json!({"machine": machine, "project": "t3-smoke", "prompt": "say x"})),
            project: Some(|project| json!({"machine": "mac", "project": project, "prompt": "say x"})),
            thread: Some(|thread| json!({"thread_id": thread, "prompt": "say x", "when_busy": "queue"})),
            change: Some(|spot| json!({"machine": spot.machine, "project": spot.project, "prompt": "say x"})),
            ceiling: Ceiling::Refuses(
                |spot| json!({"machine": spot.machine, "project": spot.project, "prompt": "say x", "runtime_mode": "auto"}),
            ),
            ..ROW
        },
        Row {
            tool: "t3_dispatch_many",
            machine: Some(|machine| json!({"items": [{"machine": machine, "project": "t3-smoke", "prompt": "say x"}]})),
            project: Some(|project| json!({"items": [{"machine": "mac", "project": project, "prompt": "say x"}]})),
            thread: Some(|thread| json!({"items": [{"thread_id": thread, "prompt": "say x", "when_busy": "queue"}]})),
            change: Some(
                |spot| json!({"items": [{"thread_id": spot.thread, "prompt": "say x", "when_busy": "queue"}]}),
            ),
            ceiling: Ceiling::Refuses(
                |spot| json!({"items": [{"machine": spot.machine, "project": spot.project, "prompt": "say x", "runtime_mode": "auto"}]}),
            ),
            ..ROW
        },
        Row {
            tool: "t3_wait",
            thread: Some(|thread| json!({"thread_ids": [thread], "timeout": 5})),
            ceiling: Ceiling::Hides(|spot| json!({"thread_id": spot.thread})),
            ..ROW
        },
        Row {
            tool: "t3_thread",
            thread: Some(|thread| json!({"thread_id": thread})),
            ceiling: Ceiling::Hides(|spot| json!({"thread_id": spot.thread})),
            ..ROW
        },
        Row {
            tool: "t3_diff",
            thread: Some(|thread| json!({"thread_id": thread})),
            ..ROW
        },
        Row {
            tool: "t3_answer",
            thread: Some(|thread| json!({"thread_id": thread, "decision": "accept"})),
            change: Some(|spot| json!({"thread_id": spot.thread, "decision": "accept"})),
            ceiling: Ceiling::Refuses(|spot| json!({"thread_id": spot.thread, "decision": "acceptAlways"})),
            ..ROW
        },
        Row {
            tool: "t3_interrupt",
            thread: Some(|thread| json!({"thread_id": thread})),
            change: Some(|spot| json!({"thread_id": spot.thread})),
            ..ROW
        },
        Row {
            tool: "t3_queue",
            thread: Some(|thread| json!({"thread_id": thread, "action": "list"})),
            change: Some(|spot| json!({"thread_id": spot.thread, "action": "resume"})),
            ..ROW
        },
        Row {
            tool: "t3_watch",
            lists: true,
            thread: Some(|thread| json!({"thread_id": thread, "enabled": true})),
            change: Some(|spot| json!({"thread_id": spot.thread, "enabled": false})),
            ..ROW
        },
        Row {
            tool: "t3_events",
            lists: true,
            thread: Some(|thread| json!({"thread_id": thread})),
            ceiling: Ceiling::Hides(|_| json!({})),
            ..ROW
        },
        Row {
            tool: "t3_archive",
            thread: Some(|thread| json!({"thread_id": thread})),
            change: Some(|spot| json!({"thread_id": spot.thread})),
            ..ROW
        },
        Row {
            tool: "t3_add_project",
            machine: Some(|machine| json!({"machine": machine, "path": "/home/dev/t3-smoke"})),
            // A folder is judged by its path: that there is a project is not told.
            project: Some(|path| json!({"machine": "mac", "path": format!("/{}", path.trim_start_matches('/'))})),
            change: Some(|spot| json!({"machine": spot.machine, "path": spot.path})),
            ..ROW
        },
        Row {
            tool: "t3_status",
            lists: true,
            machine: Some(|machine| json!({"machine": machine})),
            ..ROW
        },
        Row {
            tool: "t3_pair",
            machine: Some(|machine| json!({"machine": machine, "code": "ABCDEFGHJKLM"})),
            change: Some(|spot| json!({"machine": spot.machine, "code": "ABCDEFGHJKLM"})),
            ..ROW
        },
    ]
}

/// Two machines with work that asks, in places of which each limited client sees one.
struct World {
    endpoint: Running,
    mac: Simulator,
    windows: Simulator,
    shown: Spot,
    /// On a machine that one client does not see.
    elsewhere: Spot,
    /// In a project that another does not see.
    secret: Spot,
    _ledger: TempDir,
}

fn clients() -> HttpSettings {
    let client = |token: &str, name: &str, limits: Limits| {
        let name = name.to_owned();
        (token.to_owned().into(), Arc::new(Client { name, limits }))
    };
    let all = Limits::default;
    HttpSettings {
        access: Access::Bearers(vec![
            client(OWNER, "owner", all()),
            client(
                MACHINES,
                "one-machine",
                Limits {
                    machines: Some(vec!["mac".to_owned()]),
                    ..all()
                },
            ),
            client(
                PROJECTS,
                "one-project",
                Limits {
                    projects: Some(Patterns::new(["t3-*", "/home/dev/t3-*"]).unwrap()),
                    ..all()
                },
            ),
            client(
                CEILING,
                "careful",
                Limits {
                    max_runtime_mode: Some(RuntimeMode::AutoAcceptEdits),
                    ..all()
                },
            ),
            client(
                READER,
                "reader",
                Limits {
                    read_only: true,
                    ..all()
                },
            ),
        ]),
        ..settings()
    }
}

async fn simulated() -> Simulator {
    // One that offers decisions of its own.
    Simulator::start(SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

impl World {
    async fn start() -> Self {
        let (mac, windows) = (simulated().await, simulated().await);
        mac.add_project("project-hidden", "secret", "/home/dev/secret");
        let members = vec![
            machine("mac", &mac, rules(&["t3-*", "secret", "/home/dev/*"])),
            machine("windows-box", &windows, rules(&["*"])),
        ];
        let ledger = tempfile::tempdir().unwrap();
        let endpoint = start_kept(ledger.path(), members, clients()).await;
        let [shown, elsewhere, secret] = [
            ("mac", "t3-smoke", "/home/dev/t3-smoke"),
            ("windows-box", "t3-smoke", "/home/dev/t3-smoke"),
            ("mac", "secret", "/home/dev/secret"),
        ]
        .map(|(machine, project, path)| Spot {
            machine,
            project,
            path,
            thread: String::new(),
        });
        let mut world = Self {
            endpoint,
            mac,
            windows,
            shown,
            elsewhere,
            secret,
            _ledger: ledger,
        };
        world.online().await;
        world.shown.thread = world.asking(&world.shown).await;
        world.elsewhere.thread = world.asking(&world.elsewhere).await;
        world.secret.thread = world.asking(&world.secret).await;
        let mut cursor = Value::Null;
        let mut told = 0;
        while told < 3 {
            let mut more = json!({"wait": 50});
            if cursor.is_string() {
                more["cursor"] = cursor;
            }
            let more = world.owner("t3_events", more).await;
            told += more["events"].as_array().unwrap().len();
            cursor = more["cursor"].clone();
        }
        world
    }

    /// Waits until both machines are connected.
    async fn online(&self) {
        let look = async {
            let all = |answer: &Value| {
                let mut machines = answer["machines"].as_array().unwrap().iter();
                machines.all(|machine| machine["online"] == true)
            };
            while !all(&self.owner("t3_machines", json!({})).await) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("they are online");
    }

    /// A thread that waits for a decision.
    async fn asking(&self, spot: &Spot) -> String {
        let dispatch = json!({"machine": spot.machine, "project": spot.project, "prompt": "approve make clean",
            "runtime_mode": "approval-required", "model": "codex/gpt-5"});
        let thread = self.owner("t3_dispatch", dispatch).await["thread_id"].clone();
        let wait = json!({"thread_id": thread, "timeout": 60});
        assert_eq!(self.owner("t3_wait", wait).await["state"], "approval");
        thread.as_str().unwrap().to_owned()
    }

    async fn owner(&self, tool: &str, arguments: Value) -> Value {
        let result = self.endpoint.call_as(OWNER, tool, &arguments).await;
        assert_ne!(result["isError"], true, "{tool} {arguments}: {result}");
        result["structuredContent"].clone()
    }

    /// How many commands the machines were sent.
    fn sent(&self) -> usize {
        self.mac.received().len() + self.windows.received().len()
    }
}

/// The error that a call told, or that its only item did.
fn refusal(result: &Value) -> Option<Value> {
    if result["isError"] == true {
        return Some(failure(result));
    }
    let item = &result["structuredContent"]["results"][0]["error"];
    (!item.is_null()).then(|| item.clone())
}

fn code(result: &Value) -> String {
    refusal(result).map_or_else(String::new, |error| error["code"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_has_a_row_and_says_whether_it_changes_anything() {
    let world = World::start().await;
    let listed = world.endpoint.modern_as(OWNER, "tools/list", json!({}));
    let listed = messages(listed.send().await.unwrap()).await.pop().unwrap();
    let tools: Vec<(String, bool)> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let reads = tool["annotations"]["readOnlyHint"] == true;
            (tool["name"].as_str().unwrap().to_owned(), !reads)
        })
        .collect();
    let rows: Vec<(String, bool)> = rows()
        .iter()
        .map(|row| (row.tool.to_owned(), row.change.is_some()))
        .collect();
    assert_eq!(tools, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_limit_hides_is_not_there_for_any_tool() {
    let world = World::start().await;
    let before = world.sent();
    for (token, hidden, words) in [
        (MACHINES, &world.elsewhere, ["windows-box", &world.elsewhere.thread]),
        (PROJECTS, &world.secret, ["secret", &world.secret.thread]),
    ] {
        for row in rows() {
            let tool = row.tool;
            if row.lists {
                let listed = world.endpoint.call_as(token, tool, &json!({})).await.to_string();
                for word in words {
                    assert!(!listed.contains(word), "{tool} shows {word}: {listed}");
                }
                let all = world.endpoint.call_as(OWNER, tool, &json!({})).await.to_string();
                // It tells nothing of projects.
                let knows = token == MACHINES || tool != "t3_status";
                assert!(
                    !knows || all.contains(words[0]) || all.contains(words[1]),
                    "{tool} hides it from all: {all}"
                );
            }
            let mut aims: Vec<(Aim, &str)> = Vec::new();
            aims.extend(row.thread.map(|aim| (aim, hidden.thread.as_str())));
            if token == MACHINES {
                aims.extend(row.machine.map(|aim| (aim, hidden.machine)));
            } else if let Some(aim) = row.project {
                aims.extend([(aim, hidden.path), (aim, hidden.project), (aim, "project-hidden")]);
            }
            for (aim, name) in aims {
                // As long as what is hidden, and a path where that is one.
                let nobody = if name.starts_with('/') {
                    "/home/xyz/nobody"
                } else {
                    "nobody"
                };
                let there = world.endpoint.call_as(token, tool, &aim(name)).await;
                let nowhere = world.endpoint.call_as(token, tool, &aim(nobody)).await;
                let same = |result: &Value, name: &str| {
                    // How long it waited may differ by a tenth.
                    let told = if tool == "t3_wait" {
                        &result["structuredContent"]["threads"]
                    } else {
                        result
                    };
                    told.to_string().replace(name, "<it>")
                };
                assert_eq!(same(&there, name), same(&nowhere, nobody), "{tool} {name}");
                let told = code(&there);
                let right = match tool {
                    // Whoever asks for its events is told of none.
                    "t3_events" => told.is_empty() && there["structuredContent"]["events"] == json!([]),
                    // Of several threads each is told apart.
                    "t3_wait" => there["structuredContent"]["threads"][0]["error"]["class"] == "thread_not_found",
                    "t3_add_project" if token == PROJECTS => told == "invalid_request",
                    _ => ["unknown_machine", "project_not_found", "thread_not_found"].contains(&told.as_str()),
                };
                assert!(right, "{tool} {name}: {there}");
            }
        }
    }
    assert_eq!(world.sent(), before, "something was sent for what does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_everything_and_changes_nothing() {
    let world = World::start().await;
    let before = world.sent();
    for row in rows() {
        let tool = row.tool;
        if let Some(change) = row.change {
            let refused = world.endpoint.call_as(READER, tool, &change(&world.shown)).await;
            assert_eq!(code(&refused), "insufficient_scope", "{tool}: {refused}");
            assert!(refused.to_string().contains("reader"), "{tool}: {refused}");
        }
        let reads = match (row.change.is_some(), tool) {
            (true, "t3_queue") => vec![json!({"thread_id": world.shown.thread, "action": "list"})],
            (true, "t3_watch") => vec![json!({}), json!({"thread_id": world.shown.thread})],
            (true, _) => Vec::new(),
            (false, _) => [
                row.lists.then(|| json!({})),
                row.machine.map(|aim| aim("mac")),
                row.project.map(|aim| aim("t3-smoke")),
                row.thread.map(|aim| aim(&world.shown.thread)),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        for arguments in reads {
            let read = world.endpoint.call_as(READER, tool, &arguments).await;
            assert_ne!(read["isError"], true, "{tool} {arguments}: {read}");
        }
    }
    assert_eq!(world.sent(), before, "a reader sent something");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_holds_in_every_tool_that_could_pass_it() {
    let world = World::start().await;
    let before = world.sent();
    for row in rows() {
        let tool = row.tool;
        match row.ceiling {
            Ceiling::Refuses(arguments) => {
                let refused = world.endpoint.call_as(CEILING, tool, &arguments(&world.shown)).await;
                let told = code(&refused);
                assert!(
                    ["runtime_mode_escalation_denied", "invalid_request"].contains(&told.as_str()),
                    "{tool}: {refused}"
                );
                assert!(!refusal(&refused).unwrap()["valid"].to_string().contains("acceptAlways"));
            }
            Ceiling::Hides(arguments) => {
                let arguments = arguments(&world.shown);
                let all = world.owner(tool, arguments.clone()).await.to_string();
                assert!(all.contains("acceptAlways"), "{tool}: {all}");
                let shown = world.endpoint.call_as(CEILING, tool, &arguments).await.to_string();
                assert!(shown.contains("acceptForSession"), "{tool}: {shown}");
                assert!(!shown.contains("acceptAlways"), "{tool}: {shown}");
            }
            // What only reads is the same to both.
            Ceiling::Untouched => {
                let reads = row.lists.then(|| json!({}));
                let of = row.thread.filter(|_| row.change.is_none());
                for arguments in reads.into_iter().chain(of.map(|aim| aim(&world.shown.thread))) {
                    let shown = world.endpoint.call_as(CEILING, tool, &arguments).await;
                    assert_ne!(shown["isError"], true, "{tool} {arguments}: {shown}");
                }
            }
        }
    }
    assert_eq!(world.sent(), before, "more was sent than the ceiling allows");
    // The decision is the owner's to take.
    let always = json!({"thread_id": world.shown.thread, "decision": "acceptAlways"});
    world.owner("t3_answer", always).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_named_in_what_comes_of_its_calls() {
    let world = World::start().await;
    let events = world.owner("t3_events", json!({})).await;
    for event in events["events"].as_array().unwrap() {
        assert_eq!(event["client"], "owner", "{event}");
    }
    // A request id is its client's own.
    let dispatch = json!({"machine": "mac", "project": "t3-smoke", "prompt": "say x", "request_id": "once"});
    let mut threads = Vec::new();
    for token in [OWNER, CEILING, OWNER, CEILING] {
        let result = world.endpoint.call_as(token, "t3_dispatch", &dispatch).await;
        threads.push(result["structuredContent"]["thread_id"].clone());
    }
    assert_ne!(threads[0], threads[1]);
    assert_eq!(threads[..2], threads[2..]);
    // Events of what another client dispatched stay on, unless nothing bounds who turns them off.
    let off = json!({"thread_id": world.shown.thread, "enabled": false});
    let refused = world.endpoint.call_as(CEILING, "t3_watch", &off).await;
    assert_eq!(code(&refused), "insufficient_scope", "{refused}");
    world.owner("t3_watch", off).await;
}
