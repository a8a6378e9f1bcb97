//! A machine against a server with the version gate, which leaves out what other reads and streams have.

use std::sync::Arc;

use serde_json::json;
use t3code_mcp::lifecycle::{ThreadState, fold};
use t3code_mcp::machine::{DispatchMode, Machine, SendMessage, Thread, ThreadRow};
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
    until(&machine, |machine| machine.status().online).await;
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

/// A thread whose runs have ended, one after the other, and the machine that knows it.
async fn thread_with_runs(machine: &Machine, count: usize) -> ThreadId {
    let thread = machine.launch(&launch("one", "say run 1")).await.unwrap().thread;
    until_row(machine, &thread, |row| row.status == "completed").await;
    for number in 2..=count {
        run_to_its_end(machine, &thread, number).await;
    }
    thread
}

async fn run_to_its_end(machine: &Machine, thread: &ThreadId, number: usize) {
    let text = format!("say run {number}");
    send(machine, thread, number, &text, DispatchMode::Queue).await;
    let said = format!("run {number}");
    let ended = |row: &ThreadRow| {
        row.status == "completed" && row.last_message.as_ref().is_some_and(|message| message.text == said)
    };
    until_row(machine, thread, ended).await;
}

fn ordinals(thread: &Thread) -> Vec<u64> {
    thread.facts.runs.iter().map(|run| run.ordinal).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_holds_every_open_run_is_enough() {
    let options = SimulatorOptions {
        bounded_runs: Some(3),
        ..SimulatorOptions::default()
    };
    let (simulator, machine, _guard) = online(options).await;
    let thread = thread_with_runs(&machine, 6).await;
    let before = simulator.thread_reads(&thread.0);
    // Nobody knows yet what of the older runs is open: the whole is read, once.
    let read = machine.read_thread(&thread).await.unwrap();
    assert_eq!((ordinals(&read), read.partial), ((1..=6).collect(), false));
    assert_eq!(simulator.thread_reads(&thread.0).whole, before.whole + 1);

    // From here on parts do, though what the first of them showed is soon out of them.
    for number in 7..=12 {
        run_to_its_end(&machine, &thread, number).await;
        let read = machine.read_thread(&thread).await.unwrap();
        let newest = number as u64;
        assert_eq!((ordinals(&read), read.partial), ((newest - 2..=newest).collect(), true));
        assert_eq!(read.messages.last().unwrap().text, format!("run {number}"));
        assert!(read.messages.iter().all(|message| message.text != "run 1"));
        assert_eq!(fold(&read.facts).state, ThreadState::Completed);
    }
    send(&machine, &thread, 13, "sleep 60", DispatchMode::Queue).await;
    until_row(&machine, &thread, |row| row.status == "running").await;
    send(&machine, &thread, 14, "say later", DispatchMode::Queue).await;
    let read = machine.read_thread(&thread).await.unwrap();
    assert_eq!((ordinals(&read), read.partial), (vec![12, 13, 14], true));
    let status = fold(&read.facts);
    assert_eq!((status.state, status.queue.len()), (ThreadState::Running, 1));
    assert_eq!(status.active.as_ref(), Some(&read.facts.runs[1].id));

    let reads = simulator.thread_reads(&thread.0);
    assert_eq!(reads.whole, before.whole + 1, "the whole was read once");
    assert!(reads.bounded >= 8, "{reads:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_bounded_reads_is_asked_for_one_once_and_then_for_the_whole() {
    for with_page in [false, true] {
        // The recorded build answers unknown paths with 503, one with its web app with 404 and a page.
        let options = SimulatorOptions {
            gate: with_page,
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.unwrap();
        if with_page {
            simulator.faults().lack_bounded_reads();
        }
        let (machine, _guard) = machine(&simulator.url());
        machine.ready(PATIENCE).await.unwrap();
        until(&machine, |machine| machine.status().online).await;
        let thread = thread_with_runs(&machine, 1).await;
        let first = machine.read_thread(&thread).await.unwrap();
        run_to_its_end(&machine, &thread, 2).await;
        let second = machine.read_thread(&thread).await.unwrap();
        assert!(!first.partial && !second.partial);
        assert_eq!(ordinals(&second), [1, 2]);
        let reads = simulator.thread_reads(&thread.0);
        assert!(reads.whole >= 2, "{reads:?}");
        assert_eq!(reads.bounded, 1, "{reads:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_was_cut_is_never_taken_for_the_whole() {
    let options = SimulatorOptions {
        bounded_runs: Some(2),
        ..SimulatorOptions::default()
    };
    let (simulator, machine, _guard) = online(options).await;
    let launched = machine.launch(&launch("one", "say first")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
    // The third run holds the thread, and the queue behind it is longer than what a bounded read shows.
    send(&machine, &launched.thread, 1, "sleep 60", DispatchMode::Queue).await;
    until_row(&machine, &launched.thread, |row| row.status == "running").await;
    for number in 2..5 {
        send(&machine, &launched.thread, number, "say later", DispatchMode::Queue).await;
    }
    let before = simulator.thread_reads(&launched.thread.0);
    let thread = machine.read_thread(&launched.thread).await.unwrap();
    let reads = simulator.thread_reads(&launched.thread.0);
    assert_eq!(reads.whole, before.whole + 1);
    let status: Vec<_> = thread.facts.runs.iter().map(|run| run.status.as_str()).collect();
    assert_eq!(status, ["completed", "running", "queued", "queued", "queued"]);
    assert!(!thread.partial);
}
