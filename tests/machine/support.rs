//! What the tests share: a machine on a server, waiting for a condition, a raw line to T3.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use serde_json::value::to_raw_value;
use t3code_mcp::machine::http::HttpClient;
use t3code_mcp::machine::socket::{SessionHandle, SocketOptions};
use t3code_mcp::machine::{
    InteractionMode, Launch, Machine, MachineSettings, ModelSelection, RuntimeMode, ThreadRow, Workspace,
};
use t3code_mcp::protocol::{CommandId, MessageId, ProjectId, ProviderInstanceId, ThreadId};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The longest that a condition is waited for; a test that gets there has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub async fn simulator() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.unwrap()
}

pub fn settings(url: &str) -> MachineSettings {
    MachineSettings {
        name: "vm".to_owned(),
        url: url.parse().unwrap(),
        token: Some(SecretString::from("any")),
        ca_file: None,
        frame_limit: 64 * 1024 * 1024,
    }
}

/// A machine that stops with the guard.
pub fn machine(url: &str) -> (Arc<Machine>, DropGuard) {
    let stop = CancellationToken::new();
    (Machine::start(settings(url), stop.clone()), stop.drop_guard())
}

/// A simulated server and a machine that is online with it.
pub async fn online() -> (Simulator, Arc<Machine>, DropGuard) {
    let simulator = simulator().await;
    let (machine, guard) = machine(&simulator.url());
    machine.ready(PATIENCE).await.unwrap();
    until(&machine, |machine| machine.status().online).await;
    (simulator, machine, guard)
}

/// Waits until the machine's memory shows something.
pub async fn until(machine: &Machine, shown: impl Fn(&Machine) -> bool) {
    let mut shell = machine.watch_shell();
    let wait = async {
        while !shown(machine) {
            shell.changed().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(
        waited.is_ok(),
        "it never came; the machine's status is {:?}",
        machine.status()
    );
}

/// Waits until the row of a thread shows something.
pub async fn until_row(machine: &Machine, thread: &ThreadId, shown: impl Fn(&ThreadRow) -> bool) {
    until(machine, |machine| machine.thread(thread).is_some_and(|row| shown(&row))).await;
}

/// A new thread in the smoke project whose agent obeys the prompt.
pub fn launch(name: &str, prompt: &str) -> Launch {
    Launch {
        command: CommandId(format!("command-{name}")),
        thread: ThreadId(format!("thread-{name}")),
        message: MessageId(format!("message-{name}")),
        project: ProjectId("project-t3-smoke".to_owned()),
        title: name.to_owned(),
        generate_title: false,
        text: prompt.to_owned(),
        model: ModelSelection {
            instance: ProviderInstanceId("grok".to_owned()),
            model: "grok-build".to_owned(),
            options: Vec::new(),
        },
        runtime_mode: RuntimeMode::ApprovalRequired,
        interaction_mode: InteractionMode::Default,
        workspace: Workspace::Root,
    }
}

/// Sends a command past the machine, as another client of T3 would.
pub async fn by_someone_else(url: &str, command: Value) {
    let settings = settings(url);
    let http = HttpClient::new(&settings).unwrap();
    let ticket = http.ticket().await.unwrap();
    let options = SocketOptions {
        frame_limit: settings.frame_limit,
    };
    let session = SessionHandle::connect(&http, &ticket, &options, CancellationToken::new())
        .await
        .unwrap();
    let payload = to_raw_value(&command).unwrap();
    session
        .command("orchestration.dispatchCommand", payload, PATIENCE)
        .await
        .unwrap();
}
