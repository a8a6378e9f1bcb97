//! The real binary over a T3 of protocol 1: every tool once, what a kill cuts off, and an upgrade that comes while nobody looks.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use t3code_mcp::protocol::Contract;

use crate::stdio::Client;
use crate::support::{Machine, Place, Running, until};

/// What doctor and `machines` say of a machine of this version.
fn compared(version: &str) -> (String, Value) {
    let machine = Machine::older_of(version);
    let place = machine.place();
    let doctor = place.run_with_token(&["doctor"]);
    assert_eq!(doctor.code, Some(0), "another version is no fault: {}", doctor.out);
    let machines: Value = serde_json::from_str(&place.run_with_token(&["machines", "--json"]).out).unwrap();
    (doctor.out, machines["machines"][0]["newer_than"].clone())
}

#[test]
fn the_version_of_a_machine_is_compared_with_the_one_that_the_program_was_built_for() {
    let contract = Contract::of(1).unwrap();
    let built_for = contract.version.unwrap();
    let (doctor, newer_than) = compared("0.99.0-nightly.1");
    let said = format!("✓ sim: it is newer than {contract}, which this program was built for");
    assert!(doctor.contains(&said), "{doctor}");
    assert_eq!(newer_than, built_for);

    let (doctor, newer_than) = compared(built_for);
    assert!(doctor.contains(&format!("built for {contract}, as it is")), "{doctor}");
    assert_eq!(newer_than, Value::Null);

    let (doctor, newer_than) = compared("0.0.28");
    assert!(doctor.contains(&format!("older than {contract}")), "{doctor}");
    assert_eq!(newer_than, Value::Null);

    let (doctor, newer_than) = compared("a build of my own");
    assert!(doctor.contains(&format!("was built for {contract}\n")), "{doctor}");
    assert_eq!(newer_than, Value::Null);
}

/// A client that counts its calls.
struct Caller {
    client: Client,
    calls: u64,
}

impl Caller {
    fn start(place: &Place) -> Self {
        Self {
            client: Client::start(place),
            calls: 0,
        }
    }

    fn done(&mut self, tool: &str, arguments: &Value) -> Value {
        self.calls += 1;
        self.client.done(self.calls, tool, arguments)
    }

    fn refused(&mut self, tool: &str, arguments: &Value) -> Value {
        self.calls += 1;
        self.client.refused(self.calls, tool, arguments)
    }

    /// Starts a thread and gives its id.
    fn dispatch(&mut self, prompt: &str) -> String {
        let task = json!({"machine": "sim", "project": "t3-smoke", "model": "codex/gpt-5", "prompt": prompt,
            "runtime_mode": "approval-required"});
        let dispatched = self.done("t3_dispatch", &task);
        dispatched["thread_id"].as_str().unwrap().to_owned()
    }

    /// Waits for the thread and gives the state that it comes to.
    fn wait(&mut self, thread: &str) -> Value {
        self.done("t3_wait", &json!({"thread_id": thread, "timeout": 25}))["state"].clone()
    }

    /// Waits until the thread works.
    fn until_running(&mut self, thread: &str) {
        until("the thread works", || {
            self.done("t3_thread", &json!({"thread_id": thread}))["state"] == "running"
        });
    }

    /// Id and kind of each event, once there are so many.
    fn events(&mut self, count: usize) -> Vec<(String, String)> {
        let mut told = Vec::new();
        let mut cursor = None;
        while told.len() < count {
            let mut arguments = json!({"wait": 25, "limit": 100});
            if let Some(cursor) = cursor {
                arguments["cursor"] = cursor;
            }
            let page = self.done("t3_events", &arguments);
            let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
            let events = page["events"].as_array().unwrap();
            assert!(!events.is_empty(), "{told:?} and no more");
            told.extend(events.iter().map(|event| (text(event, "id"), text(event, "event"))));
            cursor = Some(page["cursor"].clone());
        }
        told
    }

    fn kill(mut self) {
        self.client.serve.signal(Signal::KILL);
        assert_eq!(self.client.serve.end(), None, "it was killed");
    }
}

fn kinds(events: &[(String, String)]) -> Vec<&str> {
    events.iter().map(|(_, kind)| kind.as_str()).collect()
}

/// The binary that serves a simulated T3 of protocol 1, and where.
fn simulated(place: &Place) -> (Running, String) {
    let mut serving = place.start(&["simulate", "--protocol", "1", "--port", "0", "--json"]);
    let mut line = String::new();
    let out = serving.child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    (serving, said["url"].as_str().unwrap().to_owned())
}

/// What there is before anything was done.
fn look_around(caller: &mut Caller) {
    let projects = caller.done("t3_projects", &json!({}));
    assert_eq!(projects["projects"][0]["title"], "t3-smoke", "{projects}");
    let machines = caller.done("t3_machines", &json!({}));
    let machine = &machines["machines"][0];
    assert_eq!(
        (&machine["protocol"], &machine["online"]),
        (&json!(1), &json!(true)),
        "{machine}"
    );
    let models = caller.done("t3_models", &json!({"machine": "sim"}));
    assert!(!models["models"].as_array().unwrap().is_empty());
    caller.done("t3_status", &json!({}));
}

#[test]
fn every_tool_works_on_it_or_says_which_t3_can() {
    let home = Place::new();
    let (_serving, url) = simulated(&home);
    let place = Place::with_machine(&url);
    let mut caller = Caller::start(&place);

    look_around(&mut caller);

    // A thread, and what it asks.
    let asking = caller.dispatch("say hello");
    assert_eq!(caller.wait(&asking), "completed");
    let view = caller.done("t3_thread", &json!({"thread_id": asking}));
    let said = view["messages"].as_array().unwrap().last().unwrap()["text"].clone();
    assert_eq!(said, "hello");
    caller.done("t3_dispatch", &json!({"thread_id": asking, "prompt": "ask"}));
    assert_eq!(caller.wait(&asking), "question");
    // One that is answered before the gateway's own reading saw it is not told, so each event is awaited.
    caller.events(2);
    let answers = json!({"thread_id": asking, "answers": {"color": "Red", "extras": ["A", "B"]}});
    caller.done("t3_answer", &answers);
    assert_eq!(caller.wait(&asking), "completed");
    caller.done(
        "t3_dispatch",
        &json!({"thread_id": asking, "prompt": "approve rm -rf build"}),
    );
    assert_eq!(caller.wait(&asking), "approval");
    caller.events(4);
    caller.done("t3_answer", &json!({"thread_id": asking, "decision": "accept"}));
    assert_eq!(caller.wait(&asking), "completed");
    caller.events(5);

    // What it lacks, and a stop.
    let busy = caller.dispatch("sleep 60");
    caller.until_running(&busy);
    for when_busy in ["queue", "steer", "restart"] {
        let more = json!({"thread_id": busy, "prompt": "say more", "when_busy": when_busy});
        let refused = caller.refused("t3_dispatch", &more);
        assert_eq!(refused["code"], "operation_rejected", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("protocol 2"), "{refused}");
    }
    let refused = caller.refused("t3_dispatch", &json!({"thread_id": busy, "prompt": "say more"}));
    assert_eq!(refused["code"], "thread_busy");
    let queued = caller.done("t3_queue", &json!({"thread_id": busy, "action": "list"}));
    assert_eq!(queued["queue"], json!([]));
    for action in ["cancel", "steer", "resume"] {
        let refused = caller.refused("t3_queue", &json!({"thread_id": busy, "action": action}));
        assert_eq!(refused["code"], "operation_rejected", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("protocol 2"), "{refused}");
    }
    let worktree = json!({"machine": "sim", "project": "t3-smoke", "prompt": "say apart", "workspace": "worktree", "base_ref": "main"});
    assert_eq!(caller.refused("t3_dispatch", &worktree)["code"], "operation_rejected");
    let stopped = caller.done("t3_interrupt", &json!({"thread_id": busy}));
    assert_eq!(stopped["state"], "interrupted");
    caller.events(6);

    // Several at once, and what one of them changed.
    let items = json!([
        {"machine": "sim", "project": "t3-smoke", "model": "codex/gpt-5", "prompt": "edit notes.txt"},
        {"machine": "sim", "project": "t3-smoke", "model": "codex/gpt-5", "prompt": "fail no luck"},
    ]);
    let many = caller.done("t3_dispatch_many", &json!({"items": items}));
    let id = |place: usize| many["results"][place]["ok"]["thread_id"].as_str().unwrap().to_owned();
    let (edited, failed) = (id(0), id(1));
    assert_eq!(
        (caller.wait(&edited), caller.wait(&failed)),
        (json!("completed"), json!("failed"))
    );
    let diff = caller.done("t3_diff", &json!({"thread_id": edited}));
    assert_eq!(diff["source"], "diff", "{diff}");
    assert!(diff["diff"].as_str().unwrap().contains("notes.txt"), "{diff}");
    let listed = caller.done("t3_threads", &json!({}));
    assert_eq!(listed["threads"].as_array().unwrap().len(), 4, "{listed}");

    // Into the archive and back.
    caller.done("t3_archive", &json!({"thread_id": edited}));
    for tool in ["t3_thread", "t3_diff", "t3_wait"] {
        let refused = caller.refused(tool, &json!({"thread_id": edited}));
        assert_eq!(refused["code"], "operation_rejected", "{refused}");
    }
    let back = caller.done("t3_archive", &json!({"thread_id": edited, "archived": false}));
    assert_eq!(back["changed"], true);
    assert_eq!(caller.wait(&edited), "completed");

    let added = caller.done("t3_add_project", &json!({"machine": "sim", "path": "/home/dev/other"}));
    assert_eq!(added["path"], "/home/dev/other", "{added}");
    let watched = caller.done("t3_watch", &json!({"thread_id": edited, "enabled": true}));
    assert_eq!(watched["watched"][0]["thread_id"], edited.as_str(), "{watched}");

    let told = caller.events(8);
    let mut kinds = kinds(&told);
    assert_eq!(
        kinds[..6],
        [
            "completed",
            "question",
            "completed",
            "approval",
            "completed",
            "interrupted"
        ]
    );
    // Two threads that ran side by side.
    kinds[6..].sort_unstable();
    assert_eq!(kinds[6..], ["completed", "failed"]);
}

#[test]
fn an_interrupt_whose_end_a_kill_cuts_off_is_told_once_as_an_interrupt() {
    let machine = Machine::older_slow_to_stop(Duration::from_millis(700));
    let place = machine.place();
    let mut caller = Caller::start(&place);
    let thread = caller.dispatch("sleep 60");
    caller.until_running(&thread);
    // Nobody waits for the answer: it would come with the end.
    caller.client.call(1_000, "t3_interrupt", &json!({"thread_id": thread}));
    let asked = |command: &Value| command["type"] == "thread.turn.interrupt";
    until("it was asked to stop", || {
        machine.simulator.received().iter().any(asked)
    });
    caller.kill();
    // T3 shows it as completed by now, with a checkpoint that is missing.
    let missing = |activity: &Value| activity["payload"]["status"] == "missing";
    let over = |shown: &Value| shown["thread"]["activities"].as_array().unwrap().iter().any(missing);
    until("it is over", || {
        machine.simulator.projection(&thread).is_some_and(|shown| over(&shown))
    });
    let shown = machine.simulator.projection(&thread).unwrap();
    assert_eq!(shown["thread"]["latestTurn"]["state"], "completed");
    let mut caller = Caller::start(&place);
    let told = caller.events(1);
    assert_eq!(kinds(&told), ["interrupted"]);
    caller.kill();
    let mut caller = Caller::start(&place);
    assert_eq!(caller.wait(&thread), "interrupted");
    let after = caller.dispatch("say after it");
    assert_eq!(caller.wait(&after), "completed");
    let all = caller.events(2);
    assert_eq!((&all[0], kinds(&all)), (&told[0], vec!["interrupted", "completed"]));
}

#[test]
fn an_upgrade_while_a_killed_gateway_is_away_tells_each_run_once() {
    let machine = Machine::older();
    let place = machine.place();
    let mut caller = Caller::start(&place);
    let done = caller.dispatch("say done");
    assert_eq!(caller.wait(&done), "completed");
    let asks = caller.dispatch("approve rm -rf build");
    assert_eq!(caller.wait(&asks), "approval");
    let before = caller.events(2);
    assert_eq!(kinds(&before), ["completed", "approval"]);
    let ends_away = caller.dispatch("sleep 1");
    let at_work = caller.dispatch("sleep 60");
    caller.until_running(&at_work);
    caller.kill();
    let state = |shown: &Value| shown["thread"]["latestTurn"]["state"].clone();
    until("one has ended", || {
        let shown = machine.simulator.projection(&ends_away);
        shown.is_some_and(|shown| state(&shown) == "completed")
    });
    machine.upgrade();

    let mut caller = Caller::start(&place);
    let told = caller.events(5);
    assert_eq!(told[..2], before[..], "what was told keeps its id");
    let mut after = kinds(&told[2..]);
    after.sort_unstable();
    assert_eq!(after, ["completed", "interrupted", "interrupted"]);
    assert_eq!(caller.wait(&ends_away), "completed");
    assert_eq!(
        (caller.wait(&at_work), caller.wait(&asks)),
        (json!("interrupted"), json!("interrupted"))
    );
    caller.kill();

    // Nothing more is told of them, whoever looks; a run of the newer server is.
    let mut caller = Caller::start(&place);
    caller.done("t3_dispatch", &json!({"thread_id": at_work, "prompt": "say on"}));
    assert_eq!(caller.wait(&at_work), "completed");
    let all = caller.events(6);
    assert_eq!(all[..5], told[..]);
    assert_eq!(kinds(&all[5..]), ["completed"]);
    let machines = caller.done("t3_machines", &json!({}));
    assert_eq!(machines["machines"][0]["protocol"], 2, "{machines}");
}
