//! Several processes on one state directory: one owns it, the others work through it, and one of them takes its place when it dies.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use t3code_mcp::simulator::RunStatus;

use crate::receiver::Receiver;
use crate::stdio::Client;
use crate::support::{
    BEARER, Machine, Place, Running, call, call_body, call_headers, call_result, http, until, until_within,
};

fn place(machine: &Machine, hook: &Receiver) -> Place {
    Place::new().config(&format!(
        "[machines.sim]\nurl = \"{}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n[hook]\nurl = \"http://{}/hook\"\n",
        machine.simulator.url(),
        hook.address
    ))
}

fn serve(place: &Place) -> (Running, SocketAddr) {
    place.serve(&[], &[("T3_TOKEN", "any"), ("T3CODE_MCP_TOKEN", BEARER)])
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
                let thread = dispatched(&call(address, BEARER, "t3_dispatch", &work("http", number)).1);
                made.lock().unwrap().push(thread);
            }
        });
        // Meanwhile the command line looks at the same outbox.
        let ran = place.run(&["events", "list", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    });
    let made: BTreeSet<String> = made.lock().unwrap().iter().cloned().collect();
    assert_eq!(made.len(), 3 * EACH + 1);
    until_within(Duration::from_mins(1), "every run is told", || {
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

    owner.serve.signal(Signal::KILL);
    owner.serve.end();
    follower.serve.until("this process keeps the ledger now");
    let view = follower.answer(2)["structuredContent"].clone();
    assert_eq!(
        (&view["state"], &view["timed_out"]),
        (&json!("completed"), &json!(false)),
        "{view}"
    );
    until("the end is told", || !threads_told(&hook).is_empty());
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
    until_within(Duration::from_mins(1), "every run is told", || {
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
    assert_eq!(shown(&mut owner).len(), 1);
    let narrow = narrow(&place, &machine.simulator.url());
    let mut follower = Client::start_as(&place, &narrow, &[], &[]);
    assert_eq!(shown(&mut follower), Vec::<Value>::new());
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

fn shown(client: &mut Client) -> Vec<Value> {
    client.done(1_000, "t3_projects", &json!({}))["projects"]
        .as_array()
        .unwrap()
        .clone()
}

/// A config of the same machine in which another project is allowed, without a hook.
fn narrow(place: &Place, url: &str) -> PathBuf {
    let path = place.path("narrow.toml");
    let config = format!("[machines.sim]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"other\"]\n");
    std::fs::write(&path, config).unwrap();
    path
}

#[test]
fn who_takes_over_with_less_than_the_operator_set_ends_nothing_and_leaves_the_events_to_the_hook() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut owner = Client::start(&place);
    let mut heir = Client::start_as(&place, &narrow(&place, &machine.simulator.url()), &[], &[]);
    // Long enough that its end comes after the owner's.
    let thread =
        owner.done(1, "t3_dispatch", &json!({"project": "t3-smoke", "prompt": "sleep 8"}))["thread_id"].clone();
    owner.serve.signal(Signal::KILL);
    owner.serve.end();
    heir.serve.until("this process keeps the ledger now");
    // Another one, without any machine.
    let nothing = place.path("nothing.toml");
    std::fs::write(&nothing, "").unwrap();
    let mut last = Client::start_as(&place, &nothing, &[], &[]);
    heir.serve.signal(Signal::KILL);
    heir.serve.end();
    last.serve.until("this process keeps the ledger now");
    until("the run ends", || {
        machine
            .simulator
            .runs()
            .iter()
            .all(|run| run.status == RunStatus::Completed)
    });
    assert_eq!(threads_told(&hook), Vec::<String>::new());
    // The operator's own process goes first, and has the last word.
    let (_serve, _) = serve(&place);
    until("the end is told", || !threads_told(&hook).is_empty());
    let told = hook.received();
    assert_eq!(
        (&told[0]["event"], &told[0]["thread_id"]),
        (&json!("completed"), &thread),
        "{told:?}"
    );
    assert_eq!(told.len(), 1);
    last.serve.until("keeps the ledger from now on");
}

#[test]
fn an_owner_that_ends_in_order_cuts_no_wait_of_others() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut owner = Client::start(&place);
    let (serving, address) = follower_serve(&place, &mut owner);
    let mut other = Client::start(&place);
    // Long enough that its end comes after the owner's.
    let work = json!({"project": "t3-smoke", "prompt": "sleep 8"});
    let (_, thread) = call(address, BEARER, "t3_dispatch", &work);
    let thread = thread["structuredContent"]["thread_id"].clone();
    other.call(1, "t3_wait", &json!({"thread_id": thread, "timeout": 60}));
    other.progress();
    let first = other.ticks();
    // The serving process took the place of the client's; now it ends as well.
    serving.signal(Signal::TERM);
    let view = other.answer(1)["structuredContent"].clone();
    assert_eq!(
        (&view["state"], &view["timed_out"]),
        (&json!("completed"), &json!(false)),
        "{view}"
    );
    assert!(other.ticks() > first, "heartbeats count on");
}

/// A process that serves, beside one that a client started: it takes that one's place.
fn follower_serve(place: &Place, owner: &mut Client) -> (Running, SocketAddr) {
    let started = serve(place);
    owner.serve.until("keeps the ledger from now on");
    started
}

#[test]
fn a_process_that_serves_keeps_its_clients_sessions_whoever_was_the_owner() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let mut client = Client::start(&place);
    let (serving, address) = follower_serve(&place, &mut client);
    // What the client's process passes on is done there.
    assert_eq!(shown(&mut client).len(), 1);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}});
    let head = |session: &str| {
        format!(
            "POST /mcp HTTP/1.1\nHost: {address}\nAuthorization: Bearer {BEARER}\nContent-Type: application/json\nAccept: application/json, text/event-stream{session}"
        )
    };
    let opened = http(address, &head(""), &hello.to_string());
    let session = opened
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap()
        .to_owned();
    serving.signal(Signal::KILL);
    drop(serving);
    client.serve.until("this process keeps the ledger now");
    let mut command = place.command(&["serve", "--port", &address.port().to_string()]);
    command.env("T3_TOKEN", "any").env("T3CODE_MCP_TOKEN", BEARER);
    let mut again = Running::start(command);
    again.until("listens on http://");
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let answer = http(
        address,
        &head(&format!("\nMcp-Session-Id: {session}")),
        &ping.to_string(),
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_process_that_would_do_other_things_than_the_owner_does_not_begin() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let _owner = Client::start(&place);
    let more = place.path("more.toml");
    let url = machine.simulator.url();
    std::fs::write(
        &more,
        format!("[machines.more]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n"),
    )
    .unwrap();
    let ran = place.run(&["serve", "--stdio", "--config", more.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("does not have the machine more"), "{}", ran.err);
    assert!(ran.err.contains("--state-dir"), "{}", ran.err);
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
    let head = format!("POST /mcp HTTP/1.1\nHost: localhost\n{}", call_headers("t3_projects"));
    let answer = call_result(&ask(&head, &call_body("t3_projects", &json!({})).to_string()));
    assert_eq!(
        answer["structuredContent"]["projects"][0]["title"], "t3-smoke",
        "{answer}"
    );
    assert!(ask("GET /owner HTTP/1.1\nHost: x", "").contains("\"delivers\":true"));
    let head = format!("{head}\nAuthorization: Bearer wrong");
    assert!(ask(&head, &call_body("t3_projects", &json!({})).to_string()).starts_with("HTTP/1.1 401"));
    // By TCP these paths do not exist, whoever asks.
    for path in ["/owner", "/events", "/events/evt_1"] {
        let head = format!("GET {path} HTTP/1.1\nHost: {address}\nAuthorization: Bearer {BEARER}");
        assert!(http(address, &head, "").starts_with("HTTP/1.1 404"), "{path}");
    }
    // Nor is anybody believed there who says on whose behalf he calls.
    let mut forged = call_body("t3_projects", &json!({}));
    forged["params"]["_meta"]["t3code-mcp/caller"] =
        json!({"client": "x", "read_only": false, "within": {}, "under_way_ms": 0});
    let head = format!(
        "POST /mcp HTTP/1.1\nHost: {address}\nAuthorization: Bearer {BEARER}\n{}",
        call_headers("t3_projects")
    );
    let answer = call_result(&http(address, &head, &forged.to_string()));
    assert_eq!(
        answer["structuredContent"]["projects"][0]["title"], "t3-smoke",
        "{answer}"
    );
}

#[test]
fn a_socket_that_somebody_removed_is_made_again() {
    let machine = Machine::start();
    let hook = Receiver::start();
    let place = place(&machine, &hook);
    let _owner = Client::start(&place);
    let socket = find_socket(&place);
    std::fs::remove_file(&socket).unwrap();
    until("the socket is back", || socket.exists());
    // Who comes now works through the owner.
    let mut second = Client::start(&place);
    assert_eq!(second.done(1, "t3_dispatch", &work("second", 1))["watch"], true);
    until("the end is told", || !threads_told(&hook).is_empty());
}

fn find_socket(place: &Place) -> PathBuf {
    fn find(directory: &Path) -> Option<PathBuf> {
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
    until("the owner listens", || {
        found = find(&place.path("home"));
        found.is_some()
    });
    found.unwrap()
}
