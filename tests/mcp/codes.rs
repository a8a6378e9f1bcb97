//! Every code of a failed call, each made to happen, and what the caller reads then.

use std::fmt::Write as _;
use std::future::IntoFuture as _;
use std::net::Ipv4Addr;

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};
use t3code_mcp::gateway::ErrorCode;
use t3code_mcp::machine::{MachineSettings, RuntimeMode};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tokio::net::TcpListener;

use crate::support::{Running, machine, rules, settings, simulator, start_of, start_online};
use crate::tools::{redacted, snapshot};

/// A machine that is well, alone at an endpoint, and others of which each has its trouble.
struct World {
    alone: Running,
    troubled: Running,
    simulators: Vec<Simulator>,
}

impl World {
    async fn start() -> Self {
        let well = simulator().await;
        let mut capped = rules(&["*"]);
        capped.max_runtime_mode = Some(RuntimeMode::AutoAcceptEdits);
        let alone = start_online(vec![machine("mac", &well, capped)], settings()).await;

        let locked = Simulator::start(SimulatorOptions {
            token: Some("another-token".to_owned()),
            ..SimulatorOptions::default()
        });
        let (locked, reading, slow) = (locked.await.unwrap(), simulator().await, simulator().await);
        let reads_only = reading.faults().issue_token(&["orchestration:read"]);
        let members = vec![
            machine("locked", &locked, rules(&["*"])),
            with_token(machine("reading", &reading, rules(&["*"])), reads_only),
            machine("slow", &slow, rules(&["*"])),
            at(machine("newer", &slow, rules(&["*"])), &newer().await),
            at(machine("off", &slow, rules(&["*"])), "http://127.0.0.1:1"),
        ];
        let troubled = start_of(members, settings()).await;
        // Each is connected, or it is known why not.
        let known = |answer: &Value| {
            let mut machines = answer["machines"].as_array().unwrap().iter();
            machines.all(|machine| machine["online"] == true || !machine["error"].is_null())
        };
        troubled.until("t3_machines", json!({}), known).await;
        Self {
            alone,
            troubled,
            simulators: vec![well, locked, reading, slow],
        }
    }

    /// The thread of a prompt, once it shows that state.
    async fn thread(&self, prompt: &str, state: &str) -> Value {
        let dispatch = json!({"project": "t3-smoke", "prompt": prompt});
        let id = self.alone.answer("t3_dispatch", dispatch).await["thread_id"].clone();
        if state != "busy" {
            let view = self
                .alone
                .answer("t3_wait", json!({"thread_id": id, "timeout": 60}))
                .await;
            assert_eq!(view["state"], state, "{view}");
        }
        id
    }
}

type Member = (MachineSettings, t3code_mcp::fleet::Rules);

fn with_token((settings, rules): Member, token: String) -> Member {
    let token = Some(token.into());
    (MachineSettings { token, ..settings }, rules)
}

fn at((settings, rules): Member, url: &str) -> Member {
    let url = url.parse().unwrap();
    (MachineSettings { url, ..settings }, rules)
}

/// A server that speaks another protocol.
async fn newer() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refusal =
        json!({"code": "orchestration_protocol_incompatible", "message": "Update.", "orchestrationProtocolVersion": 3});
    let answer = move || {
        let refusal = refusal.clone();
        async move { (StatusCode::UPGRADE_REQUIRED, axum::Json(refusal)).into_response() }
    };
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    url
}

/// A call that fails with the code: one for each, and none is left out. Nothing that goes through MCP is limited in its rate.
async fn failing(world: &World, code: ErrorCode) -> Option<(&Running, &'static str, Value)> {
    let dispatch = |more: Value| {
        let mut arguments = json!({"project": "t3-smoke", "prompt": "say hello"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        arguments
    };
    let alone = &world.alone;
    let on = |machine: &str| Some((&world.troubled, "t3_dispatch", dispatch(json!({"machine": machine}))));
    match code {
        ErrorCode::InvalidRequest => Some((alone, "t3_dispatch", dispatch(json!({"workspace": "worktree"})))),
        ErrorCode::UnknownMachine => Some((alone, "t3_projects", json!({"machine": "windows"}))),
        ErrorCode::ProjectNotFound => Some((alone, "t3_dispatch", dispatch(json!({"project": "shop"})))),
        ErrorCode::ThreadNotFound => Some((alone, "t3_thread", json!({"thread_id": "nowhere"}))),
        ErrorCode::ThreadBusy => {
            let thread = world.thread("sleep 600", "busy").await;
            Some((alone, "t3_dispatch", json!({"thread_id": thread, "prompt": "say more"})))
        }
        ErrorCode::ThreadNotInterruptible => {
            let thread = world.thread("say hello", "completed").await;
            Some((alone, "t3_interrupt", json!({"thread_id": thread})))
        }
        ErrorCode::RequestNotFound => {
            let thread = world.thread("say hello", "completed").await;
            Some((alone, "t3_answer", json!({"thread_id": thread, "decision": "accept"})))
        }
        ErrorCode::RequestNotAnswerable => {
            let thread = world.thread("login", "approval").await;
            Some((alone, "t3_answer", json!({"thread_id": thread, "decision": "accept"})))
        }
        ErrorCode::ModelUnavailable => Some((alone, "t3_dispatch", dispatch(json!({"model": "grok/none"})))),
        ErrorCode::ProviderUnavailable => {
            let model = json!({"model": "claudeAgent/claude-opus-5"});
            Some((alone, "t3_dispatch", dispatch(model)))
        }
        ErrorCode::RuntimeModeEscalationDenied => {
            Some((alone, "t3_dispatch", dispatch(json!({"runtime_mode": "full-access"}))))
        }
        ErrorCode::NeedsPairing => on("locked"),
        ErrorCode::InsufficientScope => on("reading"),
        ErrorCode::ProtocolUnsupported => on("newer"),
        ErrorCode::MachineUnreachable => on("off"),
        ErrorCode::OperationRejected => Some((alone, "t3_add_project", json!({"machine": "mac", "path": "/srv/none"}))),
        ErrorCode::OutcomeUnknown => {
            // Its first answer is heard, so that those that are lost are the next one's.
            let first = dispatch(json!({"machine": "slow"}));
            world.troubled.answer("t3_dispatch", first).await;
            for _ in 0..3 {
                world.simulators[3].faults().lose_next_answer(true);
            }
            let next = json!({"machine": "slow", "prompt": "say more"});
            Some((&world.troubled, "t3_dispatch", dispatch(next)))
        }
        ErrorCode::RateLimited => None,
        ErrorCode::Internal => Some((alone, "t3_events", json!({}))),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_says_what_happened_and_what_to_do() {
    // The list that tests and clients walk is whole: each is where its declaration is, and nothing comes behind the last.
    for (place, code) in ErrorCode::ALL.into_iter().enumerate() {
        assert_eq!(code as usize, place);
    }
    let world = World::start().await;
    let (mut told, mut wrong) = (String::new(), Vec::new());
    for code in ErrorCode::ALL {
        let Some((endpoint, tool, arguments)) = failing(&world, code).await else {
            continue;
        };
        let error = endpoint.error(tool, arguments.clone()).await;
        assert_eq!(error["code"], code.as_str(), "{tool} {arguments}: {error}");
        let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str());
        // What is wrong with arguments is what to mend.
        let mends = code == ErrorCode::InvalidRequest;
        if hint.is_none() && !mends {
            wrong.push(format!("{code} does not say what to do next: {error}"));
        }
        for sentence in [Some(message), hint].into_iter().flatten() {
            if !sentence.ends_with(['.', '?']) || sentence.contains('\n') {
                wrong.push(format!("{code} tells no sentence: {sentence}"));
            }
        }
        writeln!(
            told,
            "# {code}: {tool} {arguments}\n{message}\n{}\n",
            hint.unwrap_or_default()
        )
        .unwrap();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    snapshot("the_codes", &redacted(&told));
}
