//! Reads of threads, fresh after our own writes.

use serde_json::json;
use t3code_mcp::machine::{DispatchMode, Machine, MachineError, SendMessage, Thread};
use t3code_mcp::protocol::{CommandId, MessageId, ThreadId};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use super::support::{PATIENCE, launch, machine, online, until, until_row};

/// The stream goes far beyond all that was written, with a row of another thread.
async fn goes_beyond(simulator: &Simulator, machine: &Machine) {
    let far = simulator.head() + 1_000_000;
    simulator.faults().push_shell_item(
        json!({"kind": "thread.removed", "sequence": far, "location": "active", "threadId": "another"}),
    );
    until(machine, |machine| machine.sequence() >= far).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_never_was_is_not_found() {
    let (_simulator, machine, _guard) = online().await;
    let read = machine.read_thread(&ThreadId("never".to_owned())).await;
    assert!(matches!(read, Err(MachineError::ThreadNotFound)), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_after_a_write_has_the_write() {
    let (_simulator, machine, _guard) = online().await;
    let launched = machine.launch(&launch("one", "say hello")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
    for number in 0..5 {
        let message = MessageId(format!("m{number}"));
        let sequence = machine
            .send_message(&SendMessage {
                command: CommandId(format!("c{number}")),
                thread: launched.thread.clone(),
                message: message.clone(),
                text: "say more".to_owned(),
                model: None,
                mode: DispatchMode::Queue,
            })
            .await
            .unwrap();
        let thread = machine.read_thread(&launched.thread).await.unwrap();
        assert!(
            thread
                .messages
                .iter()
                .any(|known| known.id == message && known.run.is_some())
        );
        assert!(
            machine.thread(&launched.thread).unwrap().sequence >= sequence,
            "the mirror shows it too"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_run_are_read_when_its_row_ends() {
    let (_simulator, machine, _guard) = online().await;
    let launched = machine.launch(&launch("one", "say done and dusted")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
    let thread = machine.read_thread(&launched.thread).await.unwrap();
    let last = thread.messages.last().unwrap();
    assert_eq!((last.role.as_str(), last.streaming), ("assistant", false));
    assert!(last.text.contains("done and dusted"), "{}", last.text);
    assert_eq!(thread.facts.runs[0].status, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_before_a_write_serves_nobody_after_it_although_the_stream_is_past_it_already() {
    let options = SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    };
    let simulator = Simulator::start(options).await.unwrap();
    let (machine, _guard) = machine(&simulator.url());
    machine.ready(PATIENCE).await.unwrap();
    let thread = machine.launch(&launch("one", "sleep 600")).await.unwrap().thread;
    until_row(&machine, &thread, |row| row.status == "running").await;
    let behind = SendMessage {
        command: CommandId("behind".to_owned()),
        thread: thread.clone(),
        message: MessageId("behind".to_owned()),
        text: "sleep 600".to_owned(),
        model: None,
        mode: DispatchMode::Queue,
    };
    machine.send_message(&behind).await.unwrap();
    let run = machine.read_thread(&thread).await.unwrap().facts.runs[0].id.clone();
    let stop = CommandId("stop".to_owned());
    machine.interrupt(&stop, &thread, &run, true).await.unwrap();
    let is_held = |thread: &Thread| thread.facts.runs.iter().any(|run| run.queue_held);
    until_row(&machine, &thread, |row| {
        row.active_run.is_none() && row.sequence == simulator.head()
    })
    .await;
    goes_beyond(&simulator, &machine).await;

    assert!(is_held(&machine.read_thread(&thread).await.unwrap()));
    let resume = CommandId("resume".to_owned());
    let sequence = machine.resume_queue(&resume, &thread).await.unwrap();
    assert!(!is_held(&machine.read_thread(&thread).await.unwrap()));
    // Who lists waits for its row.
    machine.caught_up().await;
    assert!(machine.thread(&thread).unwrap().sequence >= sequence);
}
