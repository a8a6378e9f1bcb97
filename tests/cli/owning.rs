//! Several processes on one state directory: one owns it, the others work through it, and one of them takes its place when it dies.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::stdio::Client;
use crate::support::{Machine, Place, Running, http};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(5);

fn place(machine: &Machine, hook: &Receiver) -> Place {
    Place::new().config(&format!(
        "[machines.sim]\nurl = \"{}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n[hook]\nurl = \"http://{}/hook\"\n",
        machine.simulator.url(),
        hook.address
    ))
}

fn serve(place: &Place) -> (Running, SocketAddr) {
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("T3_TOKEN", "any").env("T3CODE_MCP_TOKEN", TOKEN);
    let mut running = Running::start(command);
    let line = running.until("listens on http://");
    let (_, address) = line.split_once("http://").unwrap();
    let address = address.trim().trim_end_matches("/mcp").parse().unwrap();
    (running, address)
}

/// A call of a tool over HTTP.
fn call(address: SocketAddr, tool: &str, arguments: &Value) -> Value {
    let head = format!(
        "POST /mcp HTTP/1.1\nHost: {address}\nAuthorization: Bearer {TOKEN}\n{}",
        rest(tool)
    );
    result(&http(address, &head, &body(tool, arguments)))
}

fn rest(tool: &str) -> String {
    format!(
        "Content-Type: application/json\nAccept: application/json, text/event-stream\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: {tool}"
    )
}

fn body(tool: &str, arguments: &Value) -> String {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
    .to_string()
}

fn result(answer: &str) -> Value {
    let lines = answer.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let message = lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .next_back();
    message.unwrap_or_else(|| panic!("no message: {answer}"))["result"].clone()
}

/// Waits until `done`.
fn until(within: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + within;
    while !done() {
        assert!(Instant::now() < end, "it did not come true: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn threads_told(hook: &Receiver) -> Vec<String> {
    let told = hook.received().into_iter();
    told.map(|event| event["thread_id"].as_str().unwrap().to_owned())
        .collect()
}

fn dispatched(answer: &Value) -> String {
    let facts = answer.get("structuredContent").unwrap_or(answer);
    assert_eq!(facts["watch"], true, "{answer}");
    facts["thread_id"].as_str().unwrap().to_owned()
}

fn work(name: &str, number: usize) -> Value {
    json!({"project": "t3-smoke", "prompt": format!("{name} {number}\nsay done")})
}

#[test]
fn four_processes_on_one_state_work_as_one() {
    const EACH: usize = 33;
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut first = Client::start(&place);
    let (_serve, address) = serve(&place);
    let mut second = Client::start(&place);

    let made = Arc::new(Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for (name, client) in [("first", &mut first), ("second", &mut second)] {
            let made = Arc::clone(&made);
            scope.spawn(move || {
                for number in 0..EACH {
                    let thread = dispatched(&client.done(number as u64 + 1, "t3_dispatch", &work(name, number)));
                    made.lock().unwrap().push(thread);
                }
            });
        }
        let made = Arc::clone(&made);
        scope.spawn(move || {
            for number in 0..=EACH {
                let thread = dispatched(&call(address, "t3_dispatch", &work("http", number)));
                made.lock().unwrap().push(thread);
            }
        });
        // Meanwhile the command line looks at the same outbox.
        let ran = place.run(&["events", "list", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    });
    let made: BTreeSet<String> = made.lock().unwrap().iter().cloned().collect();
    assert_eq!(made.len(), 3 * EACH + 1);
    until(Duration::from_mins(1), "every run is told", || {
        threads_told(&hook).len() >= made.len()
    });
    let told = threads_told(&hook);
    assert_eq!(told.len(), made.len(), "an event came twice");
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), made);
    let ran = place.run(&["events", "list", "--limit", "1000", "--json"]);
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(listed["events"].as_array().unwrap().len(), made.len());
    // The command line sees the owner's machines, and starts none of its own.
    let ran = place.run(&["projects", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let projects: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(projects["projects"][0]["title"], "t3-smoke", "{projects}");
}

#[test]
fn when_the_owner_is_killed_another_takes_over_and_open_calls_go_on_there() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut owner = Client::start(&place);
    let mut follower = Client::start(&place);
    let thread =
        follower.done(1, "t3_dispatch", &json!({"project": "t3-smoke", "prompt": "sleep 4"}))["thread_id"].clone();
    follower.call(2, "t3_wait", &json!({"thread_id": thread, "timeout": 60}));
    follower.progress();

    let killed = Instant::now();
    owner.serve.signal(Signal::KILL);
    owner.serve.end();
    follower.serve.until("this process keeps the ledger now");
    assert!(killed.elapsed() < TAKES_OVER_WITHIN);
    let view = follower.answer(2)["structuredContent"].clone();
    assert_eq!(
        (&view["state"], &view["timed_out"]),
        (&json!("completed"), &json!(false)),
        "{view}"
    );
    until(Duration::from_secs(20), "the end is told", || {
        !threads_told(&hook).is_empty()
    });
    assert_eq!(threads_told(&hook), [thread.as_str().unwrap()]);
    // Who comes next works through the new owner.
    let mut third = Client::start(&place);
    assert_eq!(third.done(1, "t3_dispatch", &work("third", 1))["watch"], true);
}

#[test]
fn owners_are_killed_while_others_dispatch_and_nothing_is_lost_or_doubled() {
    const KILLS: usize = 4;
    const EACH: usize = 6;
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut doomed = Client::start(&place);
    let mut working = Client::start(&place);
    let mut made = BTreeSet::new();
    for kill in 0..KILLS {
        // Each dispatch has no request_id: what was under way when the owner died must be found, not begun again.
        for number in 0..EACH {
            let id = (kill * EACH + number) as u64 + 1;
            working.call(id, "t3_dispatch", &work("killed", kill * EACH + number));
            if number == EACH / 2 {
                doomed.serve.signal(Signal::KILL);
            }
        }
        // In whatever order they come.
        for _ in 0..EACH {
            let answer = working.next(|message| message["id"].is_u64())["result"].clone();
            assert_ne!(answer["isError"], true, "{answer}");
            made.insert(dispatched(&answer));
        }
        doomed.serve.end();
        // The one that works becomes the owner, and dies in its turn.
        working.serve.until("this process keeps the ledger now");
        let next = Client::start(&place);
        working.serve.signal(Signal::KILL);
        working.serve.end();
        working = next;
        working.serve.until("this process keeps the ledger now");
        doomed = working;
        working = Client::start(&place);
    }
    assert_eq!(made.len(), KILLS * EACH, "two dispatches share a thread");
    let runs: Vec<String> = machine.simulator.runs().into_iter().map(|run| run.thread).collect();
    assert_eq!(runs.len(), made.len(), "a dispatch was begun twice");
    assert_eq!(runs.into_iter().collect::<BTreeSet<_>>(), made);
    until(Duration::from_mins(1), "every run is told", || {
        threads_told(&hook).into_iter().collect::<BTreeSet<_>>() == made
    });
    let ids: BTreeSet<String> = hook
        .received()
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), made.len(), "a run has two events");
}

#[test]
fn a_process_that_works_through_another_answers_its_waits_when_it_is_told_to_stop() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let _owner = Client::start(&place);
    let mut follower = Client::start(&place);
    let work = json!({"project": "t3-smoke", "prompt": "sleep 600"});
    let thread = follower.done(1, "t3_dispatch", &work)["thread_id"].clone();
    follower.call(2, "t3_wait", &json!({"thread_id": thread, "timeout": 600}));
    follower.progress();
    follower.serve.signal(Signal::TERM);
    let wait = follower.answer(2)["structuredContent"].clone();
    assert_eq!(wait["still_running"], true, "{wait}");
    assert_eq!(follower.serve.end(), Some(0), "{}", follower.serve.said);
}

#[test]
fn nobody_gets_more_by_working_through_another_process() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut owner = Client::start(&place);
    assert_eq!(
        owner.done(1, "t3_projects", &json!({}))["projects"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let url = machine.simulator.url();
    let narrow = place.path("narrow.toml");
    std::fs::write(
        &narrow,
        format!("[machines.sim]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"other\"]\n[machines.more]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n"),
    )
    .unwrap();
    let mut follower = Client::start_as(&place, &narrow, &[], &[]);
    assert!(follower.serve.until("does not have this machine").contains("more"));
    assert_eq!(follower.done(1, "t3_projects", &json!({}))["projects"], json!([]));
    let config = place.path("cwd/t3code.toml");
    let mut low = Client::start_as(&place, &config, &["--max-mode", "auto"], &[]);
    let work = json!({"project": "t3-smoke", "prompt": "say it", "runtime_mode": "full-access"});
    low.call(1, "t3_dispatch", &work);
    let refused = low.answer(1);
    assert!(
        refused.to_string().contains("runtime_mode_escalation_denied"),
        "{refused}"
    );
}

#[test]
fn the_socket_speaks_mcp_to_its_user_and_to_nobody_else() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let (_serve, address) = serve(&place);
    let socket = find_socket(&place);
    let ask = |head: &str, body: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let head = head.replace('\n', "\r\n");
        write!(
            stream,
            "{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let head = format!("POST /mcp HTTP/1.1\nHost: localhost\n{}", rest("t3_projects"));
    let answer = result(&ask(&head, &body("t3_projects", &json!({}))));
    assert_eq!(
        answer["structuredContent"]["projects"][0]["title"], "t3-smoke",
        "{answer}"
    );
    assert!(ask("GET /owner HTTP/1.1\nHost: x", "").contains("\"delivers\":true"));
    // By TCP these paths do not exist, whoever asks.
    for path in ["/owner", "/events", "/events/evt_1"] {
        let head = format!("GET {path} HTTP/1.1\nHost: {address}\nAuthorization: Bearer {TOKEN}");
        assert!(http(address, &head, "").starts_with("HTTP/1.1 404"), "{path}");
    }
    // Nor is anybody believed there who says on whose behalf he calls.
    let mut forged: Value = serde_json::from_str(&body("t3_projects", &json!({}))).unwrap();
    forged["params"]["_meta"]["t3code-mcp/caller"] =
        json!({"client": "x", "read_only": false, "within": {}, "under_way_ms": 0});
    let head = format!(
        "POST /mcp HTTP/1.1\nHost: {address}\nAuthorization: Bearer {TOKEN}\n{}",
        rest("t3_projects")
    );
    let answer = result(&http(address, &head, &forged.to_string()));
    assert_eq!(
        answer["structuredContent"]["projects"][0]["title"], "t3-smoke",
        "{answer}"
    );
}

fn find_socket(place: &Place) -> std::path::PathBuf {
    fn find(directory: &Path) -> Option<std::path::PathBuf> {
        let entries: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.iter().find_map(|path| {
            if path.ends_with("gateway.sock") {
                Some(path.clone())
            } else if path.is_dir() {
                find(path)
            } else {
                None
            }
        })
    }
    let mut found = None;
    until(TAKES_OVER_WITHIN, "the owner listens", || {
        found = find(&place.path("home"));
        found.is_some()
    });
    found.unwrap()
}
