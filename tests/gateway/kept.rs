//! Receipts on disk: nothing is sent that is not written down, and what is written down holds over a restart.

use std::time::Duration;

use t3code_mcp::fleet::Rules;
use t3code_mcp::gateway::{Caller, DispatchArgs, ErrorCode, WhenBusy};
use t3code_mcp::simulator::RunStatus;
use t3code_mcp::store::{AnswerFate, Outcome, ReceiptKind};
use tempfile::tempdir;

use crate::support::*;

fn with_id(id: &str, text: &str) -> DispatchArgs {
    DispatchArgs {
        request_id: Some(id.to_owned()),
        ..prompt(text)
    }
}

#[tokio::test]
async fn a_request_id_holds_over_a_restart() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = house.dispatch(with_id("r", "say one")).await.unwrap();
    assert!(first.watch);
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let again = house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        (again.existing, again.matched.as_deref(), again.watch),
        (Some(true), Some("request_id"), true)
    );
    assert_eq!((&again.thread_id, &again.run_id), (&first.thread_id, &first.run_id));
    assert_eq!(
        code(house.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(simulator.runs().len(), 1);
    house.end().await;
}

#[tokio::test]
async fn other_arguments_are_refused_after_a_restart_while_the_machine_is_away() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    house.dispatch(with_id("r", "say one")).await.unwrap();
    house.end().await;
    simulator.stop().await;
    let house = KeptHouse::away(folder.path(), &simulator).await;
    assert_eq!(
        code(house.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    house.end().await;
}

#[tokio::test]
async fn what_is_sent_is_on_disk_before_it_is_sent() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = house.start("say warm").await;
    house.ended(&first.thread_id).await;
    let calls = [
        (with_id("launch", "say on"), ReceiptKind::Launch),
        (
            DispatchArgs {
                request_id: Some("continue".to_owned()),
                ..more(&first.thread_id, "say on", WhenBusy::Reject)
            },
            ReceiptKind::Continue,
        ),
    ];
    for (args, kind) in calls {
        let id = args.request_id.clone().unwrap();
        let received = simulator.received().len();
        // T3 takes it, and its answer is lost: the call is open for a while.
        simulator.faults().lose_next_answer(true);
        let gateway = std::sync::Arc::clone(&house.gateway);
        let call = tokio::spawn(async move { gateway.dispatch(&caller(), args).await });
        eventually("the command is sent", || simulator.received().len() > received).await;
        let kept = house
            .store
            .receipt("tester", &id)
            .await
            .unwrap()
            .expect("it is on disk");
        assert_eq!(kept.intent.kind, kind);
        let sent = simulator.received().last().cloned().unwrap();
        let text = sent.to_string();
        assert!(
            text.contains(&kept.intent.message.0) && text.contains(&kept.intent.thread.0),
            "{text}"
        );
        assert_eq!(kept.intent.baseline.is_some(), kind == ReceiptKind::Continue);
        assert!(kept.intent.environment.is_some() && kept.intent.protocol > 0 && kept.intent.watch.on);
        call.await.unwrap().unwrap();
        let kept = house.store.receipt("tester", &id).await.unwrap().unwrap();
        assert!(
            matches!(kept.outcome, Outcome::Started { run: Some(_) }),
            "{:?}",
            kept.outcome
        );
        house.ended(&first.thread_id).await;
    }
    house.end().await;
}

#[tokio::test]
async fn a_lost_answer_is_found_by_an_equal_call_after_a_restart_and_an_answered_one_is_not() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let (lost, answered) = (caller(), caller());
    let first = house.gateway.dispatch(&lost, prompt("say one")).await.unwrap();
    lost.delivery.lost();
    house.gateway.dispatch(&answered, prompt("say two")).await.unwrap();
    answered.delivery.answered();
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let found = house.dispatch(prompt("say one")).await.unwrap();
    assert_eq!(
        (found.existing, found.matched.as_deref()),
        (Some(true), Some("implicit"))
    );
    assert_eq!((&found.thread_id, &found.run_id), (&first.thread_id, &first.run_id));
    assert_eq!(house.dispatch(prompt("say two")).await.unwrap().existing, None);
    // The repetition was answered: now that one, too, is not to be found any more.
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    assert_eq!(house.dispatch(prompt("say one")).await.unwrap().existing, None);
    assert_eq!(simulator.thread_count(), 4);
    house.end().await;
}

#[tokio::test]
async fn a_call_that_died_with_its_process_has_lost_its_answer() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    // Nobody ever says what became of the answer.
    let first = house.gateway.dispatch(&caller(), prompt("say one")).await.unwrap();
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let found = house.dispatch(prompt("say one")).await.unwrap();
    assert_eq!((found.existing, found.run_id), (Some(true), first.run_id));
    // Another client's equal call is another one.
    let other = house
        .gateway
        .dispatch(&Caller::named("other"), prompt("say one"))
        .await
        .unwrap();
    assert_eq!(other.existing, None);
    house.end().await;
}

#[tokio::test]
async fn the_fate_of_an_answer_is_written_down_when_it_is_known() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let (lost, answered) = (caller(), caller());
    house.gateway.dispatch(&lost, with_id("a", "say one")).await.unwrap();
    house
        .gateway
        .dispatch(&answered, with_id("b", "say two"))
        .await
        .unwrap();
    let fate = async |id: &str| house.store.receipt("tester", id).await.unwrap().unwrap().answer;
    assert_eq!(
        (fate("a").await, fate("b").await),
        (AnswerFate::Pending, AnswerFate::Pending)
    );
    lost.delivery.lost();
    answered.delivery.answered();
    let until = async |id: &str, so: fn(AnswerFate) -> bool| {
        tokio::time::timeout(PATIENCE, async {
            while !so(fate(id).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("it is written down");
    };
    until("a", |fate| matches!(fate, AnswerFate::Lost(_))).await;
    until("b", |fate| fate == AnswerFate::Answered).await;
    house.end().await;
}

#[tokio::test]
async fn another_database_gets_nothing_of_a_call_that_was_made_before() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    house.dispatch(with_id("r", "say one")).await.unwrap();
    house.end().await;
    simulator.faults().fresh_database("another");
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let refused = house.dispatch(with_id("r", "say one")).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidRequest);
    assert!(refused.message.contains("another database"), "{refused}");
    assert_eq!(simulator.thread_count(), 0);
    // New work is welcome.
    assert_eq!(house.dispatch(with_id("s", "say one")).await.unwrap().existing, None);
    house.end().await;
}

#[tokio::test]
async fn a_ledger_that_takes_nothing_lets_nothing_be_sent() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = house.start("say warm").await;
    house.ended(&first.thread_id).await;
    let received = simulator.received().len();
    house.store.close().await;
    for args in [prompt("say on"), more(&first.thread_id, "say on", WhenBusy::Reject)] {
        let refused = house.dispatch(args).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Internal);
        assert!(refused.message.contains("Nothing was sent"), "{refused}");
    }
    assert_eq!(simulator.received().len(), received);
}

#[tokio::test]
async fn the_conversation_before_is_known_after_a_restart() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let from = |origin: &str| Caller {
        origin: Some(origin.to_owned()),
        ..caller()
    };
    let first = house.gateway.dispatch(&from("one"), prompt("say one")).await.unwrap();
    house.until_events(1).await;
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let args = more(&first.thread_id, "say two", WhenBusy::Reject);
    let second = house.gateway.dispatch(&from("two"), args).await.unwrap();
    assert_eq!(second.previous_origin.as_deref(), Some("one"));
    house.end().await;
}

#[tokio::test]
async fn a_run_that_ended_while_the_gateway_was_away_is_told_once() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.dispatch(with_id("r", "sleep 1")).await.unwrap();
    house.end().await;
    eventually("the run ends", || {
        simulator.runs().iter().all(|run| run.status == RunStatus::Completed)
    })
    .await;
    for _ in 0..2 {
        let house = KeptHouse::over(folder.path(), &simulator).await;
        let events = house.until_events(1).await;
        let again = house.dispatch(with_id("r", "sleep 1")).await.unwrap();
        assert_eq!(again.run_id, started.run_id);
        let told: Vec<_> = events
            .iter()
            .map(|event| (event.kind.as_str(), &event.thread.0))
            .collect();
        assert_eq!(told, [("completed", &started.thread_id)]);
        house.end().await;
    }
}

#[tokio::test]
async fn the_late_word_of_a_call_that_was_repeated_undoes_no_answer() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = Caller {
        delivery: t3code_mcp::gateway::Delivery::reported(),
        ..caller()
    };
    house.gateway.dispatch(&first, prompt("say one")).await.unwrap();
    first.delivery.away();
    let again = house.dispatch(prompt("say one")).await.unwrap();
    assert_eq!(again.existing, Some(true));
    first.delivery.lost();
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    assert_eq!(house.dispatch(prompt("say one")).await.unwrap().existing, None);
    house.end().await;
}

#[tokio::test]
async fn what_a_request_id_started_is_followed_by_a_ledger_that_knows_nothing_of_it() {
    let (simulator, lost, folder) = (simulator().await, tempdir().unwrap(), tempdir().unwrap());
    let house = KeptHouse::over(lost.path(), &simulator).await;
    let first = house.dispatch(with_id("r", "say one")).await.unwrap();
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let found = house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        (found.existing, found.watch, found.run_id),
        (Some(true), true, first.run_id)
    );
    assert_eq!(house.until_events(1).await[0].kind, "completed");
    assert!(house.store.receipt("tester", "r").await.unwrap().is_some());
    house.end().await;
}

#[tokio::test]
async fn an_attempt_that_t3_refused_is_followed_by_another_that_is_written_down_too() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let send = |text: &str| DispatchArgs {
        request_id: Some(text.to_owned()),
        ..more(&first.thread_id, text, WhenBusy::Reject)
    };
    // T3 takes both, and queues one, which is taken off again.
    let (a, b) = tokio::join!(house.dispatch(send("sleep 600")), house.dispatch(send("sleep 601")));
    assert!(a.is_err() != b.is_err(), "one of them was taken off");
    let refused = if a.is_err() { "sleep 600" } else { "sleep 601" };
    let kept = house.store.receipt("tester", refused).await.unwrap().unwrap();
    assert_eq!((kept.attempt, kept.outcome), (0, Outcome::Nothing));
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    house.interrupt(&first.thread_id, None).await.unwrap();
    let again = house.dispatch(send(refused)).await.unwrap();
    assert_eq!(again.existing, None);
    let next = house.store.receipt("tester", refused).await.unwrap().unwrap();
    assert_eq!(next.attempt, 1);
    assert_ne!(next.intent.message, kept.intent.message);
    house.interrupt(&first.thread_id, None).await.unwrap();
    // The first, the one that was in the way and the second attempt; nothing is told of the one that was taken off.
    let events = house.until_events(3).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["completed", "interrupted", "interrupted"]);
    house.end().await;
}

#[tokio::test]
async fn after_a_restart_too_a_wait_ends_with_what_its_caller_dispatched_last() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let first = house.start("say one").await;
    house.until(&first.thread_id, |view| view.state == "completed").await;
    let other = Caller::named("other");
    let next = more(&first.thread_id, "say two", WhenBusy::Reject);
    let next = house.gateway.dispatch(&other, next).await.unwrap();
    house
        .until(&first.thread_id, |view| {
            view.state == "completed" && view.run.as_ref().map(|run| &run.id) == next.run_id.as_ref()
        })
        .await;
    house.end().await;

    let house = KeptHouse::over(folder.path(), &simulator).await;
    let waited = house.wait(wait_for(&first.thread_id)).await.unwrap();
    assert_eq!(
        waited.thread.unwrap().run.map(|run| run.id),
        first.run_id,
        "the run of another client is not what this one waits for"
    );
    house.end().await;
}

#[tokio::test]
async fn what_is_watched_in_the_scratch_project_is_not_taken_for_hidden_after_a_restart() {
    let (simulator, folder) = (newer_simulator().await, tempdir().unwrap());
    let machines = || {
        let rules = Rules {
            scratch: true,
            ..rules(&["web-*"])
        };
        vec![(settings("mac", &simulator.url()), rules)]
    };
    let house = KeptHouse::start(folder.path(), machines()).await;
    house.online("mac").await;
    let anywhere = DispatchArgs {
        project: None,
        ..prompt("ask")
    };
    let started = house.dispatch(anywhere).await.unwrap();
    assert!(started.watch);
    house.until_events(1).await;
    house.end().await;
    let house = KeptHouse::start(folder.path(), machines()).await;
    house.online("mac").await;
    let view = house.view(&started.thread_id).await;
    assert_eq!(view.state, "question");
    house.interrupt(&started.thread_id, None).await.unwrap();
    let events = house.until_events(2).await;
    let last: serde_json::Value = serde_json::from_str(&events[1].body).unwrap();
    assert_eq!(
        (&last["event"], last.get("reason")),
        (&"interrupted".into(), None),
        "{last}"
    );
    house.end().await;
}
