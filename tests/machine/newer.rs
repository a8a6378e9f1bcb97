//! A machine against a server with the version gate, which leaves out what other reads and streams have.

use std::sync::Arc;

use serde_json::json;
use t3code_mcp::machine::{DispatchMode, Machine, SendMessage};
use t3code_mcp::protocol::{CommandId, MessageId, ThreadId};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tokio_util::sync::DropGuard;

use super::support::{PATIENCE, by_someone_else, launch, machine, until, until_row};

async fn online(options: SimulatorOptions) -> (Simulator, Arc<Machine>, DropGuard) {
    let simulator = Simulator::start(SimulatorOptions { gate: true, ..options })
        .await
        .unwrap();
    let (machine, guard) = machine(&simulator.url());
    machine.ready(PATIENCE).await.unwrap();
    (simulator, machine, guard)
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_that_only_the_archives_stream_shows_are_known() {
    let options = SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    let threads = simulator.seed_threads(2);
    let archive = json!({"type": "thread.archive", "commandId": "a", "threadId": threads[0]});
    by_someone_else(&simulator.url(), archive).await;
    // Connected after the archiving: the shell tells nothing of that thread.
    let (machine, _guard) = machine(&simulator.url());
    let archived = ThreadId(threads[0].clone());
    until_row(&machine, &archived, |row| row.archived).await;
    until(&machine, |machine| machine.threads().len() == 2).await;
    let unarchive = json!({"type": "thread.unarchive", "commandId": "b", "threadId": threads[0]});
    by_someone_else(&simulator.url(), unarchive).await;
    until_row(&machine, &archived, |row| !row.archived).await;
}

async fn send(machine: &Machine, thread: &ThreadId, number: usize, text: &str, mode: DispatchMode) {
    machine
        .send_message(&SendMessage {
            command: CommandId(format!("c{number}")),
            thread: thread.clone(),
            message: MessageId(format!("m{number}")),
            text: text.to_owned(),
            model: None,
            mode,
        })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_was_cut_is_never_taken_for_the_whole() {
    let options = SimulatorOptions {
        bounded_runs: Some(2),
        ..SimulatorOptions::default()
    };
    let (_simulator, machine, _guard) = online(options).await;
    let launched = machine.launch(&launch("one", "say first")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
    // The third run holds the thread, and the queue behind it is longer than what a bounded read shows.
    send(&machine, &launched.thread, 1, "sleep 60", DispatchMode::Queue).await;
    until_row(&machine, &launched.thread, |row| row.status == "running").await;
    for number in 2..5 {
        send(&machine, &launched.thread, number, "say later", DispatchMode::Queue).await;
    }
    let thread = machine.read_thread(&launched.thread).await.unwrap();
    let status: Vec<_> = thread.facts.runs.iter().map(|run| run.status.as_str()).collect();
    assert_eq!(status, ["completed", "running", "queued", "queued", "queued"]);
    assert!(!thread.partial);
}
