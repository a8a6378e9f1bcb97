//! `demo`: the whole way in one process - a simulated T3, the gateway over HTTP, and an MCP client that dispatches a thread, watches it,
//! answers its question and reads the result, while a receiver is told of both by events. Everything goes over real sockets, as it would
//! between four computers.

mod client;
mod receiver;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use jiff::SignedDuration;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::ledger::{self, Purpose};
use super::{Failure, output, runtime};
use crate::config::DEFAULT_CLIENT;
use crate::config::state::StateDir;
use crate::fleet::{Fleet, Patterns, Rules};
use crate::gateway::{Gateway, GatewaySettings};
use crate::http::{self, Access, HttpSettings};
use crate::lifecycle::Limits;
use crate::machine::MachineSettings;
use crate::mcp::{Client, Server};
use crate::protocol::Untrusted;
use crate::simulator::{Simulator, SimulatorOptions};
use crate::watch::WatchSettings;
use client::DemoClient;
use receiver::{Receiver, Scratch};

/// The demo takes seconds; if it takes longer, something is wrong.
const GIVE_UP_AFTER: Duration = Duration::from_mins(1);
/// What a machine may send in one frame.
const FRAME_LIMIT: usize = 64 * 1024 * 1024;
/// What is watched: nothing in a demo stands still.
const WATCH: WatchSettings = WatchSettings {
    limits: Limits {
        finish_timeout: SignedDuration::from_mins(3),
        stall_after: None,
    },
    unreachable_after: None,
    deliver: true,
    final_word: true,
};
/// The machine's name.
const MACHINE: &str = "simulated";

/// The task. The simulated agent obeys its last line; a real one would do what stands above.
const PROMPT: &str = "\
Add a health check to the shop's server. Change nothing else; run its tests; end with a report.
ask";

/// See it work: a simulated T3, the gateway and a client in one process.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  t3code-mcp demo")]
pub(super) struct Args {}

/// Plays it through.
pub(super) fn run(_: &Args) -> Result<(), Failure> {
    runtime::run(async {
        timeout(GIVE_UP_AFTER, demo()).await.map_err(|_| {
            Failure::said(format!(
                "the demo did not end within {GIVE_UP_AFTER:?}; that is a fault of this program"
            ))
        })?
    })?
}

async fn demo() -> Result<(), Failure> {
    let token = SecretString::from(uuid::Uuid::new_v4().simple().to_string());
    let simulator = Simulator::start(SimulatorOptions {
        token: Some(token.expose_secret().to_owned()),
        ..SimulatorOptions::default()
    })
    .await
    .map_err(Failure::said)?;
    step("a simulated T3 server", &simulator.url());

    let stop = CancellationToken::new();
    let bearer = SecretString::from(uuid::Uuid::new_v4().simple().to_string());
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .map_err(Failure::said)?;
    let url = format!("http://{}{}", listener.local_addr().map_err(Failure::said)?, http::PATH);
    // As when serving, the machine outlives the last call.
    let machines = CancellationToken::new();
    let fleet = fleet(&simulator, &token, &machines)?;
    let (scratch, mut receiver) = (Scratch::new(), Receiver::start().await?);
    step("a receiver of hook events", receiver.hook.url.as_str());
    let purpose = Purpose {
        watch: WATCH,
        keep_events: GIVE_UP_AFTER,
        hook: Some(&receiver.hook),
    };
    let state = StateDir::open(scratch.path()).map_err(Failure::said)?;
    let ownership = ledger::own(&state)?
        .ok_or_else(|| Failure::said("its own state directory is in use; that is a fault of this program"))?;
    let ledger = ledger::open_at(&state, ownership, &fleet, purpose, &stop).await?;
    let handle = Some(ledger.handle());
    let server = Server::new(Gateway::new(fleet, GatewaySettings::default(), handle, stop.clone()));
    let endpoint = http::endpoint(server, settings(&bearer), &stop);
    let serving = tokio::spawn(http::serve(listener, endpoint, stop.clone()));
    step("the gateway, for MCP clients", &url);

    let client = DemoClient::connect(&url, &bearer).await?;
    let played = play(&client, &mut receiver).await;
    client.close().await;
    stop.cancel();
    serving.await.map_err(Failure::said)?;
    ledger.close().await;
    machines.cancel();
    simulator.stop().await;
    played?;
    say("done: this is what your agent does with t3_dispatch, t3_wait, t3_answer and t3_thread");
    Ok(())
}

fn fleet(
    simulator: &Simulator,
    token: &SecretString,
    machines: &CancellationToken,
) -> Result<std::sync::Arc<Fleet>, Failure> {
    let machine = MachineSettings {
        name: MACHINE.to_owned(),
        url: simulator.url().parse().map_err(Failure::said)?,
        token: Some(token.clone()),
        ca_file: None,
        frame_limit: FRAME_LIMIT,
    };
    let rules = Rules {
        projects: Patterns::new(["*"]).map_err(Failure::said)?,
        ..Rules::default()
    };
    Ok(Fleet::start(vec![(machine, rules)], machines))
}

fn settings(bearer: &SecretString) -> HttpSettings {
    let client = Client {
        name: DEFAULT_CLIENT.to_owned(),
        ..Client::default()
    };
    HttpSettings::new(Access::Bearers(vec![(bearer.clone(), std::sync::Arc::new(client))]))
}

/// What an agent does with the tools.
async fn play(client: &DemoClient, receiver: &mut Receiver) -> Result<(), Failure> {
    say(&format!("{} lists {} tools", client.server(), client.tools().await?));
    let projects = client.call("t3_projects", &json!({})).await?;
    let project = text(&projects, "/projects/0/title")?;
    step(
        "t3_projects",
        &format!("{project} on {}", text(&projects, "/projects/0/machine")?),
    );

    let dispatched = client
        .call(
            "t3_dispatch",
            &json!({"machine": MACHINE, "project": project, "prompt": PROMPT}),
        )
        .await?;
    let thread = text(&dispatched, "/thread_id")?;
    step(
        "t3_dispatch",
        &format!(
            "{:?} runs in {}",
            text(&dispatched, "/title")?,
            text(&dispatched, "/model")?
        ),
    );

    let mut view = client
        .call("t3_wait", &json!({"thread_id": thread, "timeout": 30}))
        .await?;
    step("t3_wait", &format!("the thread's state is {}", text(&view, "/state")?));
    if text(&view, "/state")? != "question" {
        return Err(Failure::said(
            "the simulated agent did not ask its question; that is a fault of this program",
        ));
    }
    tell(&receiver.next().await?)?;
    let answers = answers(&view)?;
    client
        .call("t3_answer", &json!({"thread_id": thread, "answers": answers}))
        .await?;
    step(
        "t3_answer",
        &format!("{} questions answered; the run goes on", answers.len()),
    );

    view = client
        .call("t3_wait", &json!({"thread_id": thread, "timeout": 30}))
        .await?;
    step("t3_wait", &format!("the thread's state is {}", text(&view, "/state")?));
    if text(&view, "/state")? != "completed" {
        return Err(Failure::said(
            "the simulated agent did not complete its run; that is a fault of this program",
        ));
    }
    tell(&receiver.next().await?)?;
    view = client.call("t3_thread", &json!({"thread_id": thread})).await?;
    let last = view
        .pointer("/messages")
        .and_then(Value::as_array)
        .and_then(|messages| messages.last());
    let result = last.and_then(|message| message.get("text")).and_then(Value::as_str);
    step("t3_thread", "the agent's last message:");
    for line in result
        .ok_or_else(|| Failure::said("the thread has no message; that is a fault of this program"))?
        .lines()
    {
        say(&format!("    | {line}"));
    }
    Ok(())
}

/// What the receiver got.
fn tell(event: &Value) -> Result<(), Failure> {
    step(
        "the receiver",
        &format!("{} of {:?}", text(event, "/event")?, text(event, "/title")?),
    );
    Ok(())
}

/// To each question its first option.
fn answers(view: &Value) -> Result<Map<String, Value>, Failure> {
    let questions = view.pointer("/pending/0/questions").and_then(Value::as_array);
    let mut answers = Map::new();
    for question in questions.into_iter().flatten() {
        let id = text(question, "/id")?;
        let option = text(question, "/options/0/label")?;
        say(&format!("    ? {} → {option}", text(question, "/question")?));
        answers.insert(id, Value::String(option));
    }
    Ok(answers)
}

fn text(value: &Value, pointer: &str) -> Result<String, Failure> {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| Failure::said(format!("an answer lacks {pointer}; that is a fault of this program")))
}

fn step(what: &str, found: &str) {
    say(&format!("{what}: {found}"));
}

fn say(line: &str) {
    output::say(format_args!("{}", Untrusted(line)));
}
