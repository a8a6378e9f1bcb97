//! The tools as clients of both eras meet them: over HTTP, with a simulated machine behind.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use crate::support::{ALICE, Running, failure, machine, result, rules, settings, simulator, start_of, start_over};

/// A client and all that it was told.
struct Client<'a> {
    endpoint: &'a Running,
    /// None in the newest revision.
    session: Option<String>,
    calls: Cell<u64>,
    told: RefCell<String>,
}

impl<'a> Client<'a> {
    fn modern(endpoint: &'a Running) -> Self {
        Self {
            endpoint,
            session: None,
            calls: Cell::new(0),
            told: RefCell::default(),
        }
    }

    async fn legacy(endpoint: &'a Running) -> Self {
        Self {
            session: Some(endpoint.session(ALICE).await),
            ..Self::modern(endpoint)
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.calls.set(self.calls.get() + 1);
        let request = match &self.session {
            Some(session) => self.endpoint.legacy_call(session, self.calls.get(), tool, &arguments),
            None => self.endpoint.modern_call(tool, &arguments),
        };
        let result = result(request).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        writeln!(self.told.borrow_mut(), "# {tool} {arguments}\n{text}\n").unwrap();
        result
    }

    /// The answer of a call that goes well.
    async fn answer(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// The code of a call that does not.
    async fn code(&self, tool: &str, arguments: Value) -> String {
        let error = failure(&self.call(tool, arguments).await);
        error["code"].as_str().unwrap().to_owned()
    }

    /// What it was told, without what is another in each run.
    fn told(&self) -> String {
        redacted(&self.told.borrow())
    }
}

pub fn redacted(text: &str) -> String {
    let mut ids: Vec<String> = Vec::new();
    let id = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let text = id.replace_all(text, |found: &Captures<'_>| {
        let at = ids.iter().position(|known| *known == found[0]).unwrap_or_else(|| {
            ids.push(found[0].to_owned());
            ids.len() - 1
        });
        format!("<id {}>", at + 1)
    });
    let mut text = text.into_owned();
    for (what, instead) in [
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
        (r"127\.0\.0\.1:\d+", "<address>"),
        (r"Waited \d+ s", "Waited <n> s"),
        (r"(waited|seconds|days_left): -?[\d.]+", "$1: <n>"),
        // Which of them depends on this computer's mood.
        (r"\b(starting|running|finishing)\b([^:])", "<at work>$2"),
    ] {
        text = Regex::new(what).unwrap().replace_all(&text, instead).into_owned();
    }
    text
}

/// To each question its first option.
fn answers(view: &Value) -> Value {
    let questions = view["pending"][0]["questions"].as_array().unwrap();
    let first = |question: &Value| {
        (
            question["id"].as_str().unwrap().to_owned(),
            question["options"][0]["label"].clone(),
        )
    };
    Value::Object(questions.iter().map(first).collect::<Map<_, _>>())
}

async fn work(client: &Client<'_>) {
    let projects = client.answer("t3_projects", json!({})).await;
    assert_eq!(projects["projects"][0]["title"], "t3-smoke");
    let machines = client.answer("t3_machines", json!({})).await;
    assert_eq!(machines["machines"][0]["online"], true);
    let models = client.answer("t3_models", json!({"machine": "mac"})).await;
    assert_eq!(models["models"][0]["instance"], "codex");
    let dispatch = json!({"machine": "mac", "project": "t3-smoke", "prompt": "Build it.\nReport at the end.\nask"});
    let thread = client.answer("t3_dispatch", dispatch).await["thread_id"].clone();
    let view = client
        .answer("t3_wait", json!({"thread_id": thread, "timeout": 60}))
        .await;
    assert_eq!(view["state"], "question");
    client
        .answer("t3_answer", json!({"thread_id": thread, "answers": answers(&view)}))
        .await;
    let view = client
        .answer("t3_wait", json!({"thread_ids": [thread], "timeout": 60}))
        .await;
    assert_eq!(view["threads"][0]["state"], "completed");
    let view = client
        .answer("t3_thread", json!({"thread_id": thread, "turns": 1}))
        .await;
    assert_eq!(view["state"], "completed");
    let more = json!({"thread_id": thread, "prompt": "sleep 600", "request_id": "more"});
    client.answer("t3_dispatch", more.clone()).await;
    let same = client.answer("t3_dispatch", more).await;
    assert_eq!(
        (&same["existing"], &same["matched"]),
        (&json!(true), &json!("request_id"))
    );
    let busy = json!({"thread_id": thread, "prompt": "say no"});
    assert_eq!(client.code("t3_dispatch", busy).await, "thread_busy");
    let next = json!({"thread_id": thread, "prompt": "say no", "when_busy": "queue"});
    let run = client.answer("t3_dispatch", next).await["run_id"].clone();
    let listed = client
        .answer("t3_queue", json!({"thread_id": thread, "action": "list"}))
        .await;
    assert_eq!(listed["queue"][0]["run_id"], run);
    let cancel = json!({"thread_id": thread, "action": "cancel", "run_id": run});
    assert_eq!(client.answer("t3_queue", cancel).await["outcome"], "cancelled");
    let stopped = client.answer("t3_interrupt", json!({"thread_id": thread})).await;
    assert_eq!(stopped["state"], "interrupted");
    let items = json!([
        {"project": "t3-smoke", "prompt": "sleep 600", "watch": false},
        {"project": "shop", "prompt": "say two"},
    ]);
    let many = client.answer("t3_dispatch_many", json!({"items": items})).await;
    assert_eq!(many["results"][1]["error"]["code"], "project_not_found");
}

#[tokio::test]
async fn the_whole_way_is_told_alike_in_both_eras() {
    let (one, other) = (simulator().await, simulator().await);
    let (one, other) = (start_over(&one, settings()).await, start_over(&other, settings()).await);
    let (modern, legacy) = (Client::modern(&one), Client::legacy(&other).await);
    futures_util::future::join(work(&modern), work(&legacy)).await;
    assert_eq!(modern.told(), legacy.told());
    snapshot("the_whole_way", &modern.told());
}

async fn fail(client: &Client<'_>) {
    let thread = client
        .answer("t3_dispatch", json!({"project": "t3-smoke", "prompt": "say hello"}))
        .await["thread_id"]
        .clone();
    client
        .answer("t3_wait", json!({"thread_id": thread, "timeout": 60}))
        .await;
    for (tool, arguments, code) in [
        ("t3_interrupt", json!({"thread_id": thread}), "thread_not_interruptible"),
        (
            "t3_answer",
            json!({"thread_id": thread, "decision": "accept"}),
            "request_not_found",
        ),
        ("t3_answer", json!({"thread_id": thread}), "invalid_request"),
        ("t3_thread", json!({"thread_id": "nowhere"}), "thread_not_found"),
        ("t3_wait", json!({"thread_id": "nowhere"}), "thread_not_found"),
        ("t3_wait", json!({"thread_id": thread, "timeout": 1}), "invalid_request"),
        ("t3_projects", json!({"machine": "windows"}), "unknown_machine"),
        (
            "t3_dispatch",
            json!({"machine": "windows", "project": "t3-smoke", "prompt": "x"}),
            "unknown_machine",
        ),
        (
            "t3_dispatch",
            json!({"project": "shop", "prompt": "x"}),
            "project_not_found",
        ),
        (
            "t3_dispatch",
            json!({"project": "t3-smoke", "prompt": "x", "model": "grok/none"}),
            "model_unavailable",
        ),
        (
            "t3_dispatch",
            json!({"project": "t3-smoke", "prompt": " "}),
            "invalid_request",
        ),
        (
            "t3_dispatch",
            json!({"project": "t3-smoke", "prompt": "x", "runtime_mode": "root"}),
            "invalid_request",
        ),
    ] {
        assert_eq!(client.code(tool, arguments.clone()).await, code, "{tool} {arguments}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_alike_in_both_eras() {
    let (one, other) = (simulator().await, simulator().await);
    let (one, other) = (start_over(&one, settings()).await, start_over(&other, settings()).await);
    let (modern, legacy) = (Client::modern(&one), Client::legacy(&other).await);
    futures_util::future::join(fail(&modern), fail(&legacy)).await;
    assert_eq!(modern.told(), legacy.told());
    snapshot("what_goes_wrong", &modern.told());
}

#[tokio::test]
async fn a_machine_that_is_down_is_told_and_delays_nobody() {
    let simulator = simulator().await;
    simulator.stop().await;
    let endpoint = start_of(vec![machine("mac", &simulator, rules(&["*"]))], settings()).await;
    let client = Client::modern(&endpoint);
    let projects = client.answer("t3_projects", json!({})).await;
    assert_eq!(projects["unreachable"][0]["machine"], "mac");
    let machines = client.answer("t3_machines", json!({})).await;
    assert_eq!(machines["machines"][0]["online"], false);
    for (tool, arguments) in [
        ("t3_dispatch", json!({"project": "t3-smoke", "prompt": "x"})),
        ("t3_thread", json!({"thread_id": "t"})),
        ("t3_wait", json!({"thread_id": "t"})),
    ] {
        assert_eq!(client.code(tool, arguments).await, "machine_unreachable", "{tool}");
    }
}

pub fn snapshot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_snapshot!(name, text);
    });
}
