//! Reads of threads, fresh after our own writes.

use t3code_mcp::machine::{DispatchMode, MachineError, SendMessage};
use t3code_mcp::protocol::{CommandId, MessageId, ThreadId};

use super::support::{launch, online, until_row};

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
