//! A machine stays connected, and says what it is when it cannot.

use serde_json::json;
use t3code_mcp::machine::MachineError;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use super::support::{by_someone_else, machine, online, simulator, until, until_row};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_shows_who_it_is_and_what_it_has() {
    let simulator = simulator().await;
    simulator.seed_threads(3);
    let (machine, _guard) = machine(&simulator.url());
    machine.ready(super::support::PATIENCE).await.unwrap();
    until(&machine, |machine| machine.status().online).await;

    let status = machine.status();
    assert_eq!((status.label.as_deref(), status.protocol), (Some("vm"), Some(2)));
    assert!(status.environment.is_some() && status.version.is_some() && status.error.is_none());
    assert_eq!(machine.threads().len(), 3);
    assert_eq!(machine.projects()[0].title, "t3-smoke");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_the_version_gate_are_spoken_to_as_well() {
    let simulator = Simulator::start(SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    let threads = simulator.seed_threads(2);
    let (machine, _guard) = machine(&simulator.url());
    until(&machine, |machine| {
        machine.status().online && machine.threads().len() == 2
    })
    .await;

    // Archived threads may come over a stream of their own; either way the row stays and says where the thread is.
    let thread = t3code_mcp::protocol::ThreadId(threads[0].clone());
    by_someone_else(
        &simulator.url(),
        json!({"type": "thread.archive", "commandId": "a", "threadId": threads[0]}),
    )
    .await;
    until_row(&machine, &thread, |row| row.archived).await;
    by_someone_else(
        &simulator.url(),
        json!({"type": "thread.unarchive", "commandId": "b", "threadId": threads[0]}),
    )
    .await;
    until_row(&machine, &thread, |row| !row.archived).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_socket_is_replaced_and_nothing_is_missed() {
    let (simulator, machine, _guard) = online().await;
    let mut watched = machine.watch_thread(&t3code_mcp::protocol::ThreadId("seed-0".to_owned()));
    simulator.faults().drop_sockets();
    simulator.seed_threads(2);
    until(&machine, |machine| {
        machine.status().online && machine.threads().len() == 2
    })
    .await;
    tokio::time::timeout(super::support::PATIENCE, watched.changed())
        .await
        .expect("who watched a thread is told")
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_away_says_since_when_and_keeps_what_it_knew() {
    let (simulator, machine, _guard) = online().await;
    simulator.seed_threads(1);
    until(&machine, |machine| machine.threads().len() == 1).await;
    let mut watched = machine.watch_thread(&t3code_mcp::protocol::ThreadId("seed-0".to_owned()));

    simulator.stop().await;
    until(&machine, |machine| !machine.status().online).await;
    let status = machine.status();
    assert!(status.unreachable_since.is_some() && status.error.is_some());
    assert_eq!(machine.threads().len(), 1);
    tokio::time::timeout(super::support::PATIENCE, watched.changed())
        .await
        .expect("who watches a thread is told")
        .unwrap();
    let read = machine
        .read_thread(&t3code_mcp::protocol::ThreadId("seed-0".to_owned()))
        .await;
    assert!(read.is_err(), "nothing old is served as if it were new");

    simulator.resume().await.unwrap();
    until(&machine, |machine| machine.status().online).await;
    let status = machine.status();
    assert!(status.unreachable_since.is_none() && status.error.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_environment_at_the_address_forgets_what_was_known() {
    let (simulator, machine, _guard) = online().await;
    simulator.seed_threads(5);
    until(&machine, |machine| machine.threads().len() == 5).await;
    let before = machine.status().environment;

    simulator.faults().fresh_database("another-environment");
    until(&machine, |machine| {
        machine.status().online && machine.status().environment != before
    })
    .await;
    assert_eq!(machine.threads().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_database_of_the_same_environment_forgets_what_it_lacks() {
    let (simulator, machine, _guard) = online().await;
    simulator.seed_threads(1);
    let backup = simulator.faults().backup();
    simulator.seed_threads(4);
    until(&machine, |machine| machine.threads().len() == 5).await;

    simulator.faults().restore(backup);
    until(&machine, |machine| machine.threads().len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_credential_shows_when_the_socket_goes() {
    let simulator = Simulator::start(SimulatorOptions {
        token: Some("any".to_owned()),
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    let (machine, _guard) = machine(&simulator.url());
    until(&machine, |machine| machine.status().online).await;
    simulator.faults().revoke_token("any");
    simulator.faults().drop_sockets();
    until(&machine, |machine| {
        matches!(machine.status().error, Some(MachineError::NeedsPairing { .. }))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_cannot_be_read_does_not_take_the_machine_away() {
    let (simulator, machine, _guard) = online().await;
    simulator.faults().push_shell_item(
        json!({"kind": "thread.updated", "sequence": 1_000_000, "location": "active", "thread": {"id": 7}}),
    );
    until(&machine, |machine| {
        matches!(machine.status().error, Some(MachineError::Decode(_)))
    })
    .await;
    assert!(machine.status().online);
    simulator.seed_threads(1);
    // What comes can be read again: first the row is there, then the error goes.
    until(&machine, |machine| {
        machine.threads().len() == 1 && machine.status().error.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_read_wakes_who_waits_and_a_read_tells() {
    let (simulator, machine, _guard) = online().await;
    let id = simulator.seed_threads(1).remove(0);
    let thread = t3code_mcp::protocol::ThreadId(id.clone());
    until_row(&machine, &thread, |_| true).await;
    let mut watched = machine.watch_thread(&thread);
    watched.mark_unchanged();
    simulator.faults().push_shell_item(
        json!({"kind": "thread.updated", "sequence": 1_000_000, "location": "active", "thread": {"id": id, "status": 7}}),
    );
    tokio::time::timeout(super::support::PATIENCE, watched.changed())
        .await
        .unwrap()
        .unwrap();
    assert!(machine.thread(&thread).is_none(), "an old row is not trusted");
    machine.read_thread(&thread).await.unwrap();
    until(&machine, |machine| {
        matches!(machine.status().error, Some(MachineError::Decode(_)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_newer_t3_are_counted_by_name() {
    let (simulator, machine, _guard) = online().await;
    simulator
        .faults()
        .push_shell_item(json!({"kind": "thread.dreamt", "sequence": 1_000_000}));
    // Once or twice: it comes by each stream that is open by then.
    until(&machine, |machine| {
        machine
            .status()
            .unknown_words
            .contains_key("stream item `thread.dreamt`")
    })
    .await;
    // However many there are: those that are not named are counted. With a location they come by the shell alone.
    for number in 0..70 {
        let kind = format!("thread.dreamt-{number}");
        let item = json!({"kind": kind, "sequence": 1_000_001 + number, "location": "active"});
        simulator.faults().push_shell_item(item);
    }
    until(&machine, |machine| {
        machine.status().unknown_words.get("others") == Some(&7)
    })
    .await;
    assert_eq!(machine.status().unknown_words.len(), 65);
}
