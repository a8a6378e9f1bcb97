//! An endpoint on a real socket with trial tools, and clients of both eras that show every byte.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::SignedDuration;
use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use t3code_mcp::fleet::{Fleet, Limits, Patterns, Rules};
use t3code_mcp::gateway::tracking::Tracking;
use t3code_mcp::gateway::{
    ANSWER_CHARS, Delivered, Delivery, ErrorCode, Gateway, GatewaySettings, Ledger, Tick, ToolError,
};
use t3code_mcp::http::{self, Access, HttpSettings, endpoint};
use t3code_mcp::lifecycle::Limits as WatchLimits;
use t3code_mcp::machine::MachineSettings;
use t3code_mcp::mcp::sessions::{SessionSettings, Sessions};
use t3code_mcp::mcp::{Call, Client, Effect, Server, Tool};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use t3code_mcp::store::{LEDGER_FILE, Store};
use t3code_mcp::watch::{self, WatchSettings};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Longer than anything takes; only a failure reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The gateway keeps nothing for trial tools, so what they see lives here, by the `key` that each call gives.
#[derive(Default)]
pub struct Seen {
    pub began: Notify,
    pub release: Notify,
    pub unheard: AtomicUsize,
    pub committed: AtomicUsize,
    pub delivery: OnceLock<Delivery>,
    pub client: OnceLock<(String, Option<String>)>,
}

static SEEN: OnceLock<std::sync::Mutex<std::collections::HashMap<String, Arc<Seen>>>> = OnceLock::new();

pub fn seen(key: &str) -> Arc<Seen> {
    let all = SEEN.get_or_init(Default::default);
    Arc::clone(all.lock().unwrap().entry(key.to_owned()).or_default())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialArgs {
    /// Which test calls.
    pub key: String,
    /// Wait until it is released.
    #[serde(default)]
    pub hold: bool,
    /// Panic.
    #[serde(default)]
    pub panic: bool,
    /// How many heartbeats to send first.
    #[serde(default)]
    pub ticks: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct TrialAnswer {
    pub key: String,
}

struct Unheard<'a>(&'a Seen, bool);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.unheard.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn trial(call: &Call, args: TrialArgs) -> Result<TrialAnswer, ToolError> {
    assert!(!args.panic, "a trial panic");
    let seen = seen(&args.key);
    let _ = seen.delivery.set(call.caller.delivery.clone());
    let _ = seen
        .client
        .set((call.caller.client.clone(), call.caller.origin.clone()));
    for number in 0..args.ticks {
        if let Some(progress) = &call.progress {
            let tick = Tick {
                number,
                elapsed: Duration::ZERO,
                message: "running".into(),
            };
            t3code_mcp::gateway::ProgressSink::tick(progress, tick).await;
        }
    }
    let mut unheard = Unheard(&seen, false);
    seen.began.notify_one();
    if args.hold {
        seen.release.notified().await;
    }
    unheard.1 = true;
    drop(unheard);
    seen.committed.fetch_add(1, Ordering::SeqCst);
    Ok(TrialAnswer { key: args.key })
}

macro_rules! trial_tool {
    ($type:ident, $name:literal, $effect:expr) => {
        pub struct $type;

        impl Tool for $type {
            const NAME: &'static str = $name;
            const TITLE: &'static str = "A trial";
            const DESCRIPTION: &'static str = "A trial.";
            const EFFECT: Effect = $effect;
            type Args = TrialArgs;
            type Answer = TrialAnswer;

            async fn call(_: &Arc<Gateway>, call: &Call, args: TrialArgs) -> Result<TrialAnswer, ToolError> {
                trial(call, args).await
            }

            fn summary(answer: &TrialAnswer) -> String {
                format!("Tried {}.", answer.key)
            }
        }
    };
}

trial_tool!(TrialRead, "trial_read", Effect::Reads);
trial_tool!(TrialChange, "trial_change", Effect::Changes);

pub fn gateway(stop: &CancellationToken) -> Arc<Gateway> {
    Gateway::new(
        Fleet::start(vec![], stop),
        GatewaySettings::default(),
        None,
        stop.clone(),
    )
}

pub fn server(stop: &CancellationToken) -> Server {
    Server::new(gateway(stop))
        .with_tool::<TrialRead>()
        .with_tool::<TrialChange>()
}

/// A simulated machine slow enough that a thread's state, right after a call, does not depend on this computer's.
pub async fn simulator() -> Simulator {
    let mut options = SimulatorOptions::default();
    options.model.timing.prepare = Duration::from_millis(700);
    options.model.timing.checkpoint = Duration::from_millis(700);
    Simulator::start(options).await.unwrap()
}

/// An endpoint over one simulated machine, `mac`, all of whose projects are allowed and which is online.
pub async fn start_over(simulator: &Simulator, settings: HttpSettings) -> Running {
    start_online(vec![machine("mac", simulator, rules(&["*"]))], settings).await
}

/// An endpoint over these machines, once they are online.
pub async fn start_online(members: Vec<(MachineSettings, Rules)>, settings: HttpSettings) -> Running {
    let endpoint = start_of(members, settings).await;
    online(&endpoint).await;
    endpoint
}

/// The rules of a machine that allows what matches.
pub fn rules(patterns: &[&str]) -> Rules {
    Rules {
        projects: Patterns::new(patterns.iter().copied()).unwrap(),
        ..Rules::default()
    }
}

/// A simulated machine as the gateway knows it.
pub fn machine(name: &str, simulator: &Simulator, rules: Rules) -> (MachineSettings, Rules) {
    let settings = MachineSettings {
        name: name.to_owned(),
        url: simulator.url().parse().unwrap(),
        token: Some("any".to_owned().into()),
        ca_file: None,
        frame_limit: 64 << 20,
    };
    (settings, rules)
}

/// An endpoint over these machines, some of which may be down.
pub async fn start_of(members: Vec<(MachineSettings, Rules)>, settings: HttpSettings) -> Running {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (stop, machines) = (CancellationToken::new(), CancellationToken::new());
    let fleet = Fleet::start(members, &machines);
    let gateway = Gateway::new(fleet, GatewaySettings::default(), None, stop.clone());
    serve(Server::new(gateway), settings, stop, machines).await
}

/// The same with a ledger in the folder: runs are watched and events are kept.
pub async fn start_kept(folder: &Path, members: Vec<(MachineSettings, Rules)>, settings: HttpSettings) -> Running {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (stop, machines) = (CancellationToken::new(), CancellationToken::new());
    let fleet = Fleet::start(members, &machines);
    let store = Store::open(&folder.join(LEDGER_FILE)).await.unwrap();
    let (tracking, wishes) = Tracking::new();
    let watched = WatchSettings {
        limits: WatchLimits {
            finish_timeout: SignedDuration::from_mins(3),
            stall_after: None,
        },
        unreachable_after: None,
        deliver: false,
        final_word: true,
    };
    watch::start(Arc::clone(&fleet), store.clone(), watched, wishes, stop.clone())
        .await
        .unwrap();
    let ledger = Ledger { store, tracking };
    let gateway = Gateway::new(fleet, GatewaySettings::default(), Some(ledger), stop.clone());
    serve(Server::new(gateway), settings, stop, machines).await
}

/// An endpoint that runs.
pub struct Running {
    pub url: String,
    pub http: reqwest::Client,
    pub sessions: Arc<Sessions>,
    pub stop: CancellationToken,
    pub served: tokio::task::JoinHandle<()>,
    machines: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.machines.cancel();
    }
}

pub const ALICE: &str = "alice-token-0123456789";
pub const BOB: &str = "bob-token-0123456789";

pub fn settings() -> HttpSettings {
    let bearer = |token: &str, name: &str| {
        let client = Client {
            name: name.into(),
            ..Client::default()
        };
        (token.to_owned().into(), Arc::new(client))
    };
    HttpSettings {
        sessions: SessionSettings {
            // Long for a test: what stays away in a test stays away for good.
            away: Duration::from_mins(10),
            ..SessionSettings::default()
        },
        ..HttpSettings::new(Access::Bearers(vec![bearer(ALICE, "alice"), bearer(BOB, "bob")]))
    }
}

/// The same where Alice has limits.
pub fn limited(limits: Limits) -> HttpSettings {
    let client = Client {
        name: "alice".into(),
        limits,
    };
    HttpSettings {
        access: Access::Bearers(vec![(ALICE.to_owned().into(), Arc::new(client))]),
        ..settings()
    }
}

pub fn client() -> reqwest::Client {
    // Tests run in any order and many at once: the first one sets the process's TLS provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        // No connection is used twice, so that dropping an answer is hanging up.
        .pool_max_idle_per_host(0)
        .build()
        .unwrap()
}

/// An endpoint without machines, with the trial tools.
pub async fn start(settings: HttpSettings) -> Running {
    let stop = CancellationToken::new();
    serve(server(&stop), settings, stop, CancellationToken::new()).await
}

/// As a serving process does it, on a real socket.
async fn serve(
    server: Server,
    settings: HttpSettings,
    stop: CancellationToken,
    machines: CancellationToken,
) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = endpoint(server, settings, &stop);
    let sessions = Arc::clone(&endpoint.sessions);
    let serving = http::serve(listener, endpoint, stop.clone());
    Running {
        url,
        http: client(),
        sessions,
        stop,
        served: tokio::spawn(serving),
        machines,
    }
}

impl Running {
    pub fn post(&self, token: &str) -> RequestBuilder {
        self.http
            .post(format!("{}/mcp", self.url))
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
    }

    /// A request of the newest revision.
    pub fn modern(&self, method: &str, params: Value) -> RequestBuilder {
        self.modern_as(ALICE, method, params)
    }

    /// The same by whoever has the token.
    pub fn modern_as(&self, token: &str, method: &str, mut params: Value) -> RequestBuilder {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        for (key, value) in meta.as_object().unwrap() {
            params["_meta"][key] = value.clone();
        }
        let mut request = self
            .post(token)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if let Some(name) = params["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        request.json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    /// The answer of a call that goes well.
    pub async fn answer(&self, tool: &str, arguments: Value) -> Value {
        let result = result(self.modern_call(tool, &arguments)).await;
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// The answer of a call that is repeated until it is so.
    pub async fn until(&self, tool: &str, arguments: Value, so: impl Fn(&Value) -> bool) -> Value {
        let look = async {
            loop {
                let answer = self.answer(tool, arguments.clone()).await;
                if so(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, look).await;
        found.unwrap_or_else(|_| panic!("{tool} {arguments} never came to it"))
    }

    /// The error of a call that does not.
    pub async fn error(&self, tool: &str, arguments: Value) -> Value {
        failure(&result(self.modern_call(tool, &arguments)).await)
    }

    /// What a call of whoever has the token comes to, well or not.
    pub async fn call_as(&self, token: &str, tool: &str, arguments: &Value) -> Value {
        result(self.modern_as(token, "tools/call", json!({"name": tool, "arguments": arguments}))).await
    }

    pub fn modern_call(&self, tool: &str, arguments: &Value) -> RequestBuilder {
        self.modern("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Opens a session; its id.
    pub async fn session(&self, token: &str) -> String {
        let response = self.post(token).json(&initialize()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let _ = messages(response).await;
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let response = self
            .post(token)
            .header("mcp-session-id", &id)
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 202);
        id
    }

    pub fn legacy(&self, session: &str, id: u64, method: &str, params: &Value) -> RequestBuilder {
        self.post(ALICE)
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", "2025-11-25")
            .json(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    pub fn legacy_call(&self, session: &str, id: u64, tool: &str, arguments: &Value) -> RequestBuilder {
        self.legacy(
            session,
            id,
            "tools/call",
            &json!({"name": tool, "arguments": arguments}),
        )
    }
}

pub fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "trial", "version": "1"}}})
}

/// Whatever came back, as the JSON-RPC messages in it.
pub async fn messages(response: Response) -> Vec<Value> {
    let headers = response.headers().clone();
    let text = response.text().await.unwrap();
    parse(&headers, &text)
}

fn parse(headers: &HeaderMap, text: &str) -> Vec<Value> {
    if headers["content-type"]
        .to_str()
        .unwrap()
        .starts_with("application/json")
    {
        return vec![serde_json::from_str(text).unwrap()];
    }
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| !data.is_empty())
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The result of the request. That of a call is what its tool promises, whichever test asks.
pub async fn result(request: RequestBuilder) -> Value {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let sent: Value = serde_json::from_slice(request.body().unwrap().as_bytes().unwrap()).unwrap();
    let response = client.execute(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let result = messages(response).await.pop().unwrap()["result"].clone();
    if sent["method"] == "tools/call" {
        keeps_its_promise(sent["params"]["name"].as_str().unwrap(), &result);
    }
    result
}

/// A failed call tells one of the known codes; an answer fits the tool's own schema, names no field beyond it, and is told in short text too.
fn keeps_its_promise(tool: &str, result: &Value) {
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        !text.is_empty() && text.chars().count() <= ANSWER_CHARS,
        "{tool}: {text}"
    );
    if result["isError"] == true {
        let error = failure(result);
        let known = ErrorCode::ALL.iter().any(|code| error["code"] == code.as_str());
        assert!(known && error["message"].is_string(), "{tool}: {error}");
        return;
    }
    let stop = CancellationToken::new();
    let listed = rmcp::ServerHandler::get_tool(&server(&stop), tool).unwrap();
    let schema = Value::Object((*listed.output_schema.unwrap()).clone());
    let answer = &result["structuredContent"];
    let wrong: Vec<String> = jsonschema::draft202012::new(&schema)
        .unwrap()
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{tool}: {wrong:?} in {answer}");
    names_nothing_else(tool, &schema, answer);
}

fn names_nothing_else(path: &str, schema: &Value, answer: &Value) {
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                let known = schema["properties"].get(name);
                let open = schema.get("additionalProperties").is_some() || schema["properties"].is_null();
                assert!(known.is_some() || open, "{path}.{name} is not in the output schema");
                names_nothing_else(&format!("{path}.{name}"), known.unwrap_or(&Value::Null), value);
            }
        }
        Value::Array(items) => {
            for item in items {
                names_nothing_else(&format!("{path}[]"), &schema["items"], item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The error that a failed call tells.
pub fn failure(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.get("structuredContent").is_none(), "{result}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// Reads until the first byte of the answer is there; the rest stays open.
pub async fn first_bytes(response: Response) -> (String, impl Sized) {
    let mut stream = Box::pin(response.bytes_stream());
    let bytes = stream.next().await.unwrap().unwrap();
    (String::from_utf8_lossy(&bytes).into_owned(), stream)
}

/// Waits until every machine of the endpoint answers, however busy this computer is.
pub async fn online(endpoint: &Running) {
    let all = |answer: &Value| {
        let mut machines = answer["machines"].as_array().unwrap().iter();
        machines.all(|machine| machine["online"] == true)
    };
    endpoint.until("t3_machines", json!({}), all).await;
}

/// Waits until the endpoint knows that its first machine is away.
pub async fn offline(endpoint: &Running) {
    let away = |answer: &Value| answer["machines"][0]["online"] == false;
    endpoint.until("t3_machines", json!({}), away).await;
}

/// Waits for a condition; fails loudly when it never comes.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "never came: {what}");
}

pub fn delivered(seen: &Seen) -> Option<Delivered> {
    seen.delivery.get().and_then(Delivery::state)
}
