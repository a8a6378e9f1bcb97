//! `serve` over HTTP, told to stop in the middle of things.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Machine, Running, http};

const HEAD: &str = "Content-Type: application/json\nAccept: application/json, text/event-stream";

struct Session {
    address: SocketAddr,
    id: String,
}

impl Session {
    fn open(address: SocketAddr) -> Self {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let answer = http(
            address,
            &format!("POST /mcp HTTP/1.1\nHost: {address}\n{HEAD}"),
            &hello.to_string(),
        );
        let id = answer
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "))
            .unwrap()
            .trim()
            .to_owned();
        let session = Self { address, id };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        http(address, &session.head(), &initialized.to_string());
        session
    }

    fn head(&self) -> String {
        format!(
            "POST /mcp HTTP/1.1\nHost: {}\n{HEAD}\nMcp-Session-Id: {}",
            self.address, self.id
        )
    }

    /// Begins a call; its answer is still to be read.
    fn begin(&self, id: u64, tool: &str, arguments: &Value) -> Open {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        let mut stream = TcpStream::connect(self.address).unwrap();
        let head = self.head().replace('\n', "\r\n");
        write!(
            stream,
            "{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        Open {
            stream,
            read: String::new(),
        }
    }

    fn done(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        self.begin(id, tool, arguments).answer()
    }
}

struct Open {
    stream: TcpStream,
    read: String,
}

impl Open {
    fn until(&mut self, wanted: &str) {
        while !self.read.contains(wanted) {
            let mut bytes = [0; 4_096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "it ended without {wanted:?}: {}", self.read);
            self.read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// The result's data.
    fn answer(mut self) -> Value {
        self.stream.read_to_string(&mut self.read).unwrap();
        let data = self.read.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let answer = messages.rfind(|message| message.get("result").is_some());
        let answer = answer.unwrap_or_else(|| panic!("no result came: {}", self.read));
        answer["result"]["structuredContent"].clone()
    }
}

#[test]
fn at_a_signal_open_waits_are_answered_and_what_was_being_sent_is_seen_through() {
    let machine = Machine::start();
    let place = machine.place();
    let mut command = place.command(&["serve", "--port", "0", "--auth", "none"]);
    command.env("T3_TOKEN", "any");
    let mut serve = Running::start(command);
    let session = Session::open(serve.address());
    let dispatch = json!({"project": "t3-smoke", "prompt": "sleep 600"});
    let thread = session.done(1, "t3_dispatch", &dispatch)["thread_id"].clone();
    let mut wait = session.begin(2, "t3_wait", &json!({"thread_id": thread, "timeout": 600}));
    wait.until("notifications/progress");
    machine.faults.hang(true);
    let mut dispatch = session.begin(
        3,
        "t3_dispatch",
        &json!({"project": "t3-smoke", "prompt": "say on its way"}),
    );
    // The first event of its stream: the call has been taken.
    dispatch.until("\ndata:");
    serve.signal(Signal::TERM);
    let waited = wait.answer();
    assert_eq!(waited["still_running"], true, "{waited}");
    machine.faults.hang(false);
    let dispatched = dispatch.answer();
    assert!(dispatched["thread_id"].is_string(), "{dispatched}");
    assert_eq!(serve.end(), Some(0), "{}", serve.said);
    assert!(!serve.said.contains("left before"), "{}", serve.said);
    assert_eq!(machine.simulator.runs().len(), 2);
}
