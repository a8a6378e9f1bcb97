//! Commands, the traps that T3 sets for them, and lost answers.

use serde_json::{Map, Value, json};
use t3code_mcp::machine::{Answer, DispatchMode, Machine, MachineError, Respond, SendMessage};
use t3code_mcp::protocol::{CommandId, MessageId, ProjectId, ProviderInstanceId, RunId, RuntimeRequestId, ThreadId};
use t3code_mcp::simulator::Simulator;

use super::support::{by_someone_else, launch, machine, online, simulator, until, until_row};

fn message(name: &str, thread: &ThreadId, text: &str) -> SendMessage {
    SendMessage {
        command: CommandId(format!("command-{name}")),
        thread: thread.clone(),
        message: MessageId(format!("message-{name}")),
        text: text.to_owned(),
        model: None,
        mode: DispatchMode::Start,
    }
}

/// How often T3 was sent a command of this id.
fn times(simulator: &Simulator, command: &str) -> usize {
    simulator
        .received()
        .iter()
        .filter(|received| received["commandId"] == command)
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_makes_one_thread_with_a_run_and_says_that_it_comes_from_mcp() {
    let (simulator, machine, _guard) = online().await;
    let launched = machine.launch(&launch("one", "say hello")).await.unwrap();
    assert!(launched.run.is_some() && !launched.resumed);
    until_row(&machine, &launched.thread, |row| row.latest_run == launched.run).await;
    assert_eq!(
        simulator.projection("thread-one").unwrap()["thread"]["creationSource"],
        "mcp"
    );

    let again = machine.launch(&launch("one", "say hello")).await.unwrap();
    assert_eq!((again.run, again.resumed), (launched.run, true));
    assert_eq!(simulator.thread_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_with_the_same_command() {
    let (simulator, machine, _guard) = online().await;
    simulator.faults().lose_next_answer(true);
    let launched = machine.launch(&launch("one", "say hello")).await.unwrap();
    assert!(launched.resumed, "T3 had done it already");
    assert_eq!(
        (
            times(&simulator, "command-one"),
            simulator.thread_count(),
            simulator.runs().len()
        ),
        (2, 1, 1)
    );

    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
    simulator.faults().lose_next_answer(true);
    machine
        .send_message(&message("two", &launched.thread, "say more"))
        .await
        .unwrap();
    assert_eq!((times(&simulator, "command-two"), simulator.runs().len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_away_is_unreachable_and_nothing_is_sent_later() {
    let (simulator, machine, _guard) = online().await;
    simulator.stop().await;
    until(&machine, |machine| !machine.status().online).await;
    let refused = machine.launch(&launch("one", "say hello")).await;
    assert!(matches!(refused, Err(MachineError::Unreachable { .. })), "{refused:?}");
    simulator.resume().await.unwrap();
    until(&machine, |machine| machine.status().online).await;
    assert_eq!(simulator.received(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_id_stays_refused() {
    let (_simulator, machine, _guard) = online().await;
    let thread = machine.launch(&launch("one", "say hello")).await.unwrap().thread;
    let interrupt = async || {
        let (command, run) = (CommandId("c".to_owned()), RunId("no such run".to_owned()));
        machine.interrupt(&command, &thread, &run, false).await
    };
    let MachineError::Rejected { message: first, .. } = interrupt().await.unwrap_err() else {
        panic!("not refused")
    };
    let MachineError::Rejected { message: second, .. } = interrupt().await.unwrap_err() else {
        panic!("not refused")
    };
    assert!(
        first.contains("no such run") && second.contains("previously rejected"),
        "{first} / {second}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_project_is_refused_before_anything_is_sent() {
    let (simulator, machine, _guard) = online().await;
    let mut launch = launch("one", "say hello");
    launch.project = ProjectId("nowhere".to_owned());
    let refused = machine.launch(&launch).await;
    assert!(matches!(refused, Err(MachineError::Unsafe(_))), "{refused:?}");
    assert_eq!(simulator.received(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_on_which_nothing_would_start_is_refused_until_it_is_enabled() {
    // Before the machine comes: it hears of later changes only after a while.
    let simulator = simulator().await;
    simulator.faults().set_provider_enabled("grok", false);
    let (machine, _guard) = machine(&simulator.url());
    until(&machine, |machine| machine.status().online).await;
    let refused = machine.launch(&launch("one", "say hello")).await;
    assert!(
        matches!(&refused, Err(MachineError::Unsafe(message)) if message.contains("grok")),
        "{refused:?}"
    );
    let mut unknown = launch("one", "say hello");
    unknown.model.instance = ProviderInstanceId("gork".to_owned());
    assert!(matches!(machine.launch(&unknown).await, Err(MachineError::Unsafe(_))));
    assert_eq!(simulator.received(), Vec::<Value>::new());

    // What was kept of the providers does not outlive its being wrong.
    simulator.faults().set_provider_enabled("grok", true);
    let launched = machine.launch(&launch("one", "say hello")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_a_deleted_or_unknown_thread_is_refused_before_it_is_sent() {
    let (simulator, machine, _guard) = online().await;
    let thread = machine.launch(&launch("one", "say hello")).await.unwrap().thread;
    until_row(&machine, &thread, |row| row.status == "completed").await;
    by_someone_else(
        &simulator.url(),
        json!({"type": "thread.delete", "commandId": "d", "threadId": thread.0}),
    )
    .await;
    until(&machine, |machine| machine.thread(&thread).is_none()).await;

    let refused = machine.send_message(&message("late", &thread, "say more")).await;
    assert!(matches!(refused, Err(MachineError::Unsafe(_))), "{refused:?}");
    let unknown = machine
        .send_message(&message("lost", &ThreadId("never".to_owned()), "say more"))
        .await;
    assert!(matches!(unknown, Err(MachineError::ThreadNotFound)), "{unknown:?}");
    assert_eq!(
        (times(&simulator, "command-late"), times(&simulator, "command-lost")),
        (0, 0)
    );
    assert!(machine.read_thread(&thread).await.unwrap().facts.deleted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_thread_queues_a_message_which_can_be_taken_off_again() {
    let (_simulator, machine, _guard) = online().await;
    let launched = machine.launch(&launch("one", "sleep 60")).await.unwrap();
    until_row(&machine, &launched.thread, |row| row.status == "running").await;
    machine
        .send_message(&message("two", &launched.thread, "say more"))
        .await
        .unwrap();

    let thread = machine.read_thread(&launched.thread).await.unwrap();
    let queued = thread
        .facts
        .runs
        .iter()
        .find(|run| run.status == "queued")
        .expect("T3 queues it without a word");
    machine
        .cancel_queued(&CommandId("off".to_owned()), &launched.thread, &queued.id)
        .await
        .unwrap();
    let thread = machine.read_thread(&launched.thread).await.unwrap();
    assert!(thread.facts.runs.iter().all(|run| run.status != "queued"));

    let run = launched.run.unwrap();
    machine
        .interrupt(&CommandId("stop".to_owned()), &launched.thread, &run, false)
        .await
        .unwrap();
    until_row(&machine, &launched.thread, |row| row.active_run.is_none()).await;
}

/// Launches a thread and waits for what it asks.
async fn asking(machine: &Machine, name: &str, prompt: &str) -> (ThreadId, RuntimeRequestId) {
    let thread = machine.launch(&launch(name, prompt)).await.unwrap().thread;
    until_row(machine, &thread, |row| row.pending.is_some()).await;
    let request = machine.thread(&thread).unwrap().pending.clone().unwrap().id;
    (thread, request)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_takes_a_decision_and_nothing_that_would_hang_its_run() {
    let (simulator, machine, _guard) = online().await;
    let (thread, request) = asking(&machine, "one", "approve rm -rf build").await;
    let respond = |command: &str, answer| Respond {
        command: CommandId(command.to_owned()),
        thread: thread.clone(),
        request: request.clone(),
        answer,
    };
    for wrong in [
        Answer::Answers(Map::new()),
        Answer::Dismiss,
        Answer::Decision("maybe".to_owned()),
    ] {
        let refused = machine.respond(&respond("wrong", wrong)).await;
        assert!(matches!(refused, Err(MachineError::Unsafe(_))), "{refused:?}");
    }
    assert_eq!(times(&simulator, "wrong"), 0);
    machine
        .respond(&respond("right", Answer::Decision("accept".to_owned())))
        .await
        .unwrap();
    until_row(&machine, &thread, |row| row.status == "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_takes_answers_and_no_decision() {
    let (simulator, machine, _guard) = online().await;
    let (thread, request) = asking(&machine, "one", "ask1").await;
    let question = machine.read_thread(&thread).await.unwrap();
    let asked = question.items.iter().find_map(|item| match &item.kind {
        t3code_mcp::machine::ItemKind::Question { request: id, questions } if *id == request => questions.first(),
        _ => None,
    });
    let answers = Map::from_iter([(asked.unwrap().id.clone(), json!("whatever"))]);
    let respond = |command: &str, answer| Respond {
        command: CommandId(command.to_owned()),
        thread: thread.clone(),
        request: request.clone(),
        answer,
    };
    let refused = machine
        .respond(&respond("wrong", Answer::Decision("accept".to_owned())))
        .await;
    assert!(matches!(refused, Err(MachineError::Unsafe(_))), "{refused:?}");
    assert_eq!(times(&simulator, "wrong"), 0);
    machine
        .respond(&respond("right", Answer::Answers(answers)))
        .await
        .unwrap();
    until_row(&machine, &thread, |row| row.status == "completed").await;

    let unknown = Respond {
        request: RuntimeRequestId("no such request".to_owned()),
        ..respond("unknown", Answer::Dismiss)
    };
    assert!(matches!(machine.respond(&unknown).await, Err(MachineError::Unsafe(_))));
}
