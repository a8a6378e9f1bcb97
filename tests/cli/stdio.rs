//! `serve --stdio` as an MCP client starts it: one JSON message a line, and an end in order whichever way it comes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Machine, Place, Running};

/// An MCP client and the server that it started.
pub struct Client {
    pub serve: Running,
    /// The heartbeat that came last.
    ticks: f64,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    pub fn start(place: &Place) -> Self {
        Self::start_with(place, &[])
    }

    /// With more in its environment.
    pub fn start_with(place: &Place, variables: &[(&str, &str)]) -> Self {
        Self::start_as(place, &place.path("cwd/t3code.toml"), &[], variables)
    }

    /// With that config, those further arguments, and more in its environment.
    pub fn start_as(place: &Place, config: &Path, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = place.command(&["serve", "--stdio", "--config", config.to_str().unwrap()]);
        command.args(more);
        command.env("T3_TOKEN", "any").stdin(Stdio::piped());
        command.envs(variables.iter().copied());
        let mut serve = Running::start(command);
        let mut client = Self {
            stdin: serve.child.stdin.take(),
            stdout: BufReader::new(serve.child.stdout.take().unwrap()),
            serve,
            ticks: 0.0,
        };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        assert_eq!(client.answer(0)["serverInfo"]["name"], "t3code-mcp");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a call with a progress token.
    pub fn call(&mut self, id: u64, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// The next message that is wanted; others are passed over.
    pub fn next(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "stdout ended");
            // Nothing but messages comes this way.
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(tick) = message["params"]["progress"].as_f64() {
                self.ticks = tick;
            }
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The number of the heartbeat that came last.
    pub fn ticks(&self) -> f64 {
        self.ticks
    }

    /// Waits for a heartbeat.
    pub fn progress(&mut self) {
        self.next(|message| message["method"] == "notifications/progress");
    }

    pub fn answer(&mut self, id: u64) -> Value {
        self.next(|message| message["id"] == id)["result"].clone()
    }

    /// What a call that must fail says.
    pub fn refused(&mut self, id: u64, tool: &str, arguments: &Value) -> Value {
        self.call(id, tool, arguments);
        let answer = self.answer(id);
        assert_eq!(answer["isError"], true, "{answer}");
        serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap()
    }

    pub fn done(&mut self, id: u64, tool: &str, arguments: &Value) -> Value {
        self.call(id, tool, arguments);
        let answer = self.answer(id);
        assert_ne!(answer["isError"], true, "{answer}");
        answer["structuredContent"].clone()
    }
}

#[test]
fn a_client_on_the_pipes_goes_the_whole_way_and_ends_it_by_leaving() {
    let machine = Machine::start();
    let mut client = Client::start(&machine.place());
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    assert_eq!(client.answer(1)["tools"].as_array().unwrap().len(), 18);
    let dispatch = json!({"project": "t3-smoke", "prompt": "say hello"});
    let thread = client.done(2, "t3_dispatch", &dispatch)["thread_id"].clone();
    let view = client.done(3, "t3_wait", &json!({"thread_id": thread, "timeout": 60}));
    assert_eq!(view["state"], "completed");
    drop(client.stdin.take());
    assert_eq!(client.serve.end(), Some(0), "{}", client.serve.said);
    assert!(!client.serve.said.contains("left before"), "{}", client.serve.said);
}

/// With a wait open and a dispatch on its way, to a machine that answers once the end has begun.
fn ends_in_order(end: impl FnOnce(&mut Client)) {
    let machine = Machine::start();
    let mut client = Client::start(&machine.place());
    let dispatch = json!({"project": "t3-smoke", "prompt": "sleep 600"});
    let thread = client.done(1, "t3_dispatch", &dispatch)["thread_id"].clone();
    client.call(2, "t3_wait", &json!({"thread_id": thread, "timeout": 600}));
    client.next(|message| message["method"] == "notifications/progress");
    machine.faults.hang(true);
    client.call(
        3,
        "t3_dispatch",
        &json!({"project": "t3-smoke", "prompt": "say on its way"}),
    );
    // Lines are taken in their order: once this is answered, that was taken.
    client.done(4, "t3_machines", &json!({}));
    end(&mut client);
    let wait = client.answer(2);
    assert_eq!(wait["structuredContent"]["still_running"], true, "{wait}");
    machine.faults.hang(false);
    let dispatched = client.answer(3);
    assert!(dispatched["structuredContent"]["thread_id"].is_string(), "{dispatched}");
    assert_eq!(client.serve.end(), Some(0), "{}", client.serve.said);
    assert!(!client.serve.said.contains("left before"), "{}", client.serve.said);
    assert_eq!(machine.simulator.runs().len(), 2);
}

#[test]
fn when_stdin_ends_open_waits_are_answered_and_what_was_being_sent_is_seen_through() {
    ends_in_order(|client| drop(client.stdin.take()));
}

#[test]
fn at_a_signal_open_waits_are_answered_and_what_was_being_sent_is_seen_through() {
    ends_in_order(|client| client.serve.signal(Signal::TERM));
}

#[test]
fn a_second_open_call_with_one_id_is_refused_at_once_and_the_first_goes_on() {
    let machine = Machine::start();
    let mut client = Client::start(&machine.place());
    let dispatch = json!({"project": "t3-smoke", "prompt": "sleep 2"});
    let thread = client.done(1, "t3_dispatch", &dispatch)["thread_id"].clone();
    let wait = json!({"thread_id": thread, "timeout": 60});
    client.call(2, "t3_wait", &wait);
    client.next(|message| message["method"] == "notifications/progress");
    client.call(2, "t3_machines", &json!({}));
    let refused = client.next(|message| message["id"] == 2);
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(client.answer(2)["structuredContent"]["state"], "completed");
    // Its id is free again.
    client.done(2, "t3_machines", &json!({}));
}
