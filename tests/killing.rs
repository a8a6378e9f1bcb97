//! The gateway is killed at random points - before, between and after the commands of a dispatch, while events are made and delivered -
//! and loses and doubles nothing: the real binary against the simulator and a receiver, compared with the simulator's own history.
//!
//! `KILLS` says how often (default 12), `SEED` makes a run come again as far as the clock allows; both are printed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

// What the tests of the command line start it with; only a part of it is needed here.
#[path = "cli/support.rs"]
#[allow(dead_code, unreachable_pub, unused_macros, unused_imports)]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use serde_json::{Value, json};
use support::{Machine, Place, Running};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const KILLS: u64 = 12;
/// How long everything may take to come to rest after the last start.
const AT_REST_WITHIN: Duration = Duration::from_mins(1);

/// A small generator of numbers: the test must come again from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the receiver got: each event's id, and its body.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

struct Receiver {
    address: SocketAddr,
    received: Received,
    runtime: tokio::runtime::Runtime,
}

impl Receiver {
    fn start() -> Self {
        let received = Received::default();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let keep = Arc::clone(&received);
        let take = move |headers: axum::http::HeaderMap, body: String| {
            let keep = Arc::clone(&keep);
            async move {
                let id = headers["webhook-id"].to_str().unwrap().to_owned();
                keep.lock().unwrap().push((id, serde_json::from_str(&body).unwrap()));
            }
        };
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, Router::new().route("/hook", post(take))).await });
        Self {
            address,
            received,
            runtime,
        }
    }
}

fn serve(place: &Place) -> (Running, SocketAddr) {
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("T3_TOKEN", "any").env("T3CODE_MCP_TOKEN", TOKEN);
    let mut running = Running::start(command);
    let line = running.until("listens on http://");
    let (_, place) = line.split_once("http://").unwrap();
    let address = place.trim().trim_end_matches("/mcp").parse().unwrap();
    (running, address)
}

/// One call of a tool; nothing where the gateway died over it.
async fn call(client: &reqwest::Client, address: SocketAddr, tool: &str, arguments: Value) -> Option<Value> {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "killing", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    let answer = client
        .post(format!("http://{address}/mcp"))
        .bearer_auth(TOKEN)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .json(&body)
        .send()
        .await
        .ok()?;
    let text = answer.text().await.ok()?;
    let message = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let message: Value = message.filter_map(|line| serde_json::from_str(line).ok()).next_back()?;
    Some(message["result"].clone())
}

fn dispatch(request: u64) -> Value {
    let work = if request.is_multiple_of(3) {
        "sleep 1"
    } else {
        "say done"
    };
    json!({"prompt": format!("Work {request}.\n{work}"), "project": "t3-smoke", "request_id": format!("request-{request}")})
}

#[test]
fn a_gateway_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let kills: u64 = number("KILLS").unwrap_or(KILLS);
    let seed: u64 = number("SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("KILLS={kills} SEED={seed}");
    let mut random = Random(seed);

    let machine = Machine::start();
    let hook = Receiver::start();
    let place = Place::new().config(&format!(
        "[machines.sim]\nurl = \"{}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n[hook]\nurl = \"http://{}/hook\"\n",
        machine.simulator.url(),
        hook.address
    ));
    // Nothing here needs it, but no client is built without one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = hook.runtime.block_on(async { reqwest::Client::builder().build() });
    let client = client.unwrap();

    let mut asked = 0;
    for _ in 0..kills {
        let (mut gateway, address) = serve(&place);
        let life = Duration::from_millis(random.below(900));
        let begun = asked;
        asked += 1 + random.below(4);
        // The calls that this life begins, and again some that an earlier one did not answer.
        let first = begun.saturating_sub(random.below(4));
        let calls: Vec<_> = (first..asked)
            .map(|request| {
                let client = client.clone();
                hook.runtime
                    .spawn(async move { call(&client, address, "t3_dispatch", dispatch(request)).await })
            })
            .collect();
        std::thread::park_timeout(life);
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        for call in calls {
            hook.runtime.block_on(call).unwrap();
        }
    }

    // A client repeats until it has an answer.
    let (_gateway, address) = serve(&place);
    let mut threads = BTreeMap::new();
    for request in 0..asked {
        let until = Instant::now() + AT_REST_WITHIN;
        loop {
            let answer = hook
                .runtime
                .block_on(call(&client, address, "t3_dispatch", dispatch(request)));
            if let Some(thread) = answer
                .as_ref()
                .and_then(|answer| answer["structuredContent"]["thread_id"].as_str())
            {
                threads.insert(request, thread.to_owned());
                break;
            }
            assert!(Instant::now() < until, "request {request} is never taken: {answer:?}");
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }

    let runs = || machine.simulator.runs();
    let wanted: BTreeSet<String> = threads.values().cloned().collect();
    let told = || -> BTreeSet<String> {
        let received = hook.received.lock().unwrap();
        received
            .iter()
            .map(|(_, body)| body["thread_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let until = Instant::now() + AT_REST_WITHIN;
    while told() != wanted && Instant::now() < until {
        std::thread::park_timeout(Duration::from_millis(100));
    }

    assert_eq!(threads.len(), wanted.len(), "two requests share a thread");
    let made: BTreeSet<String> = runs().into_iter().map(|run| run.thread).collect();
    assert_eq!(made, wanted, "threads were made that nobody asked for, or are missing");
    assert_eq!(runs().len(), wanted.len(), "a thread has another run than its one");
    assert_eq!(told(), wanted, "an end was lost");
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, body) in hook.received.lock().unwrap().iter() {
        assert_eq!(body["event"], "completed", "{body}");
        assert_eq!(body["id"].as_str(), Some(id.as_str()));
        ids.entry(body["thread_id"].as_str().unwrap().to_owned())
            .or_default()
            .insert(id.clone());
    }
    assert!(
        ids.values().all(|ids| ids.len() == 1),
        "an end was told under two ids: {ids:?}"
    );
}
