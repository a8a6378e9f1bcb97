//! A client of an older revision and a gateway that is killed under it: the real binary, raw HTTP.

use std::net::SocketAddr;

use reqwest::{Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::{Machine, Place, Running};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn place(machine: &Machine) -> Place {
    let url = machine.simulator.url();
    Place::new().config(&format!(
        "[machines.sim]\nurl = \"{url}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n\
         [[server.client]]\nname = \"alice\"\ntoken_env = \"ALICE\"\n[[server.client]]\nname = \"bob\"\ntoken_env = \"BOB\"\n"
    ))
}

/// A gateway that runs, and the clients' way to it.
struct Gateway {
    running: Running,
    address: SocketAddr,
    http: reqwest::Client,
    runtime: Runtime,
}

impl Gateway {
    fn start(place: &Place) -> Self {
        // Nothing here needs it, but no client is built without one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut command = place.command(&["serve", "--port", "0"]);
        command.env("T3_TOKEN", "any").env("ALICE", ALICE).env("BOB", BOB);
        let mut running = Running::start(command);
        Self {
            address: running.address(),
            running,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            runtime: Runtime::new().unwrap(),
        }
    }

    fn end(mut self, signal: Signal) {
        self.running.signal(signal);
        self.running.end();
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn initialize(&self) -> String {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "trial", "version": "1"}}});
        self.runtime.block_on(async {
            let response = self.post(ALICE, None, &body).await;
            assert_eq!(response.status(), 200);
            response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
        })
    }

    async fn post(&self, token: &str, session: Option<&str>, body: &Value) -> Response {
        let request = self.http.post(self.url()).bearer_auth(token).json(body);
        let mut request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-06-18");
        }
        request.send().await.unwrap()
    }

    async fn asked(&self, session: &str, id: u64, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(ALICE, Some(session), &body).await;
        assert_eq!(response.status(), 200, "{method}");
        let text = response.text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let message: Value = data
            .filter_map(|data| serde_json::from_str(data).ok())
            .next_back()
            .unwrap();
        message["result"].clone()
    }

    fn status(&self, token: &str, session: &str) -> StatusCode {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"});
        self.runtime
            .block_on(async { self.post(token, Some(session), &body).await.status() })
    }

    async fn stream(&self, session: &str) -> Response {
        let request = self.http.get(self.url()).bearer_auth(ALICE);
        let request = request
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session);
        request.send().await.unwrap()
    }

    fn delete(&self, session: &str) -> StatusCode {
        let request = self
            .http
            .delete(self.url())
            .bearer_auth(ALICE)
            .header("mcp-session-id", session);
        self.runtime.block_on(async { request.send().await.unwrap().status() })
    }
}

#[test]
fn a_session_goes_on_over_restarts_and_stays_its_clients() {
    let machine = Machine::start();
    let place = place(&machine);
    let gateway = Gateway::start(&place);
    let session = gateway.initialize();
    // What a client was told holds, however soon the end comes.
    gateway.end(Signal::KILL);
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let gateway = Gateway::start(&place);
        assert_eq!(gateway.status(BOB, &session), 404, "it is alice's");
        gateway.runtime.block_on(async {
            let call = json!({"name": "t3_machines", "arguments": {}});
            let (listed, called, mut stream) = tokio::join!(
                gateway.asked(&session, 1, "tools/list", json!({})),
                gateway.asked(&session, 2, "tools/call", call),
                gateway.stream(&session),
            );
            assert!(!listed["tools"].as_array().unwrap().is_empty());
            assert_eq!(called["structuredContent"]["machines"][0]["name"], "sim", "{called}");
            assert_eq!(stream.status(), 200);
            assert!(stream.chunk().await.unwrap().is_some(), "the stream is empty");
        });
        assert_eq!(gateway.status(BOB, &session), 404, "it is alice's");
        let unknown = uuid::Uuid::new_v4().to_string();
        assert_eq!(gateway.status(ALICE, &unknown), 404);
        gateway.end(signal);
    }
    let gateway = Gateway::start(&place);
    assert_eq!(gateway.delete(&session), 204);
    gateway.end(Signal::KILL);
    let gateway = Gateway::start(&place);
    assert_eq!(gateway.status(ALICE, &session), 404);
}
