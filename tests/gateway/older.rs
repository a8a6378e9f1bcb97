//! A server of protocol 1 behind the same tools: the whole way, its traps, and its upgrade while the gateway runs.

use serde_json::{Value, json};
use t3code_mcp::gateway::{
    AnswerArgs, ArchiveArgs, DiffArgs, DispatchArgs, ErrorCode, GatewaySettings, MachinesArgs, Mode, ThreadArgs,
    WatchArgs, WhenBusy,
};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tempfile::tempdir;

use crate::support::*;

async fn older() -> Simulator {
    let options = SimulatorOptions {
        protocol: 1,
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

fn asking(text: &str) -> DispatchArgs {
    DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..prompt(text)
    }
}

fn to(thread: &str) -> AnswerArgs {
    AnswerArgs {
        thread_id: thread.to_owned(),
        ..AnswerArgs::default()
    }
}

#[tokio::test]
async fn a_prompt_runs_and_another_one_after_it() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("say hello").await;
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "hello"));
    house
        .dispatch(more(&started.thread_id, "fail no luck", WhenBusy::Reject))
        .await
        .unwrap();
    let view = house.ended(&started.thread_id).await;
    assert_eq!(view.state, "failed", "{view:?}");
    house
        .dispatch(more(&started.thread_id, "say again", WhenBusy::Reject))
        .await
        .unwrap();
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "again"));
}

#[tokio::test]
async fn machines_of_both_protocols_stand_side_by_side() {
    let (old, new) = (older().await, simulator().await);
    let machines = [("old", &old), ("new", &new)]
        .map(|(name, simulator)| (settings(name, &simulator.url()), rules(&["*"])))
        .to_vec();
    let house = house_of(machines, GatewaySettings::default());
    for name in ["old", "new"] {
        house.online(name).await;
    }
    for name in ["old", "new"] {
        let on = |text: &str| DispatchArgs {
            machine: Some(name.to_owned()),
            ..prompt(text)
        };
        let started = house.dispatch(on("say hello")).await.unwrap();
        let view = house.ended(&started.thread_id).await;
        assert_eq!(
            (view.machine.as_str(), view.state.as_str(), report(&view)),
            (name, "completed", "hello")
        );
    }
    let listed = house.gateway.machines(&caller(), MachinesArgs::default()).unwrap();
    let spoken: Vec<_> = listed
        .machines
        .iter()
        .map(|machine| (machine.name.as_str(), machine.protocol))
        .collect();
    assert!(
        spoken.contains(&("old", Some(1))) && spoken.contains(&("new", Some(2))),
        "{spoken:?}"
    );
    // Each is asked in its own words.
    let types = |simulator: &Simulator| -> Vec<Value> {
        simulator
            .received()
            .iter()
            .map(|command| command["type"].clone())
            .collect()
    };
    assert_eq!(types(&old), ["thread.create", "thread.turn.start"]);
    assert!(!types(&new).contains(&json!("thread.turn.start")));
}

#[tokio::test]
async fn questions_and_approvals_are_answered() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("ask").await;
    let asked = house.ended(&started.thread_id).await;
    assert_eq!(
        (asked.state.as_str(), asked.pending[0].questions.len()),
        ("question", 2)
    );
    let answers = json!({"color": "Red", "extras": ["A", "B"]});
    house
        .answer(AnswerArgs {
            answers: Some(map(&answers)),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    let view = house.ended(&started.thread_id).await;
    assert_eq!(view.state, "completed");
    assert!(report(&view).contains("Red"), "{}", report(&view));

    let started = house.dispatch(asking("approve rm -rf build")).await.unwrap();
    let asked = house.ended(&started.thread_id).await;
    assert_eq!(asked.state, "approval");
    assert_eq!(
        asked.pending[0].approval.clone().unwrap().detail.as_deref(),
        Some("rm -rf build")
    );
    house
        .answer(AnswerArgs {
            decision: Some("accept".to_owned()),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    let view = house.ended(&started.thread_id).await;
    assert_eq!(view.state, "completed");
    assert!(report(&view).contains("allow-once"), "{}", report(&view));

    // A decision that ends the turn is shown as completed by T3.
    let started = house.dispatch(asking("approve rm -rf build")).await.unwrap();
    house.ended(&started.thread_id).await;
    house
        .answer(AnswerArgs {
            decision: Some("cancel".to_owned()),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    assert_eq!(house.ended(&started.thread_id).await.state, "interrupted");
}

#[tokio::test]
async fn an_interrupt_that_t3_shows_as_completed_is_an_interrupt() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    let answer = house.interrupt(&started.thread_id, None).await.unwrap();
    assert_eq!(answer.state, "interrupted");
    let shell = simulator.received();
    assert!(
        shell
            .iter()
            .any(|command| command["type"] == "thread.turn.interrupt" && command["turnId"].is_string())
    );
    assert_eq!(house.ended(&started.thread_id).await.state, "interrupted");
    let refused = house.start("refuse").await;
    assert_eq!(
        house.ended(&refused.thread_id).await.state,
        "interrupted",
        "nothing was said"
    );
}

#[tokio::test]
async fn an_interrupt_while_codex_asks_does_not_block_the_server() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.dispatch(asking("approve rm -rf build")).await.unwrap();
    assert_eq!(house.ended(&started.thread_id).await.state, "approval");
    assert_eq!(
        house.interrupt(&started.thread_id, None).await.unwrap().state,
        "interrupted"
    );
    assert!(!simulator.is_wedged());
    // The flags of the shell stay set; nothing is asked any more.
    let view = house.view(&started.thread_id).await;
    assert!(view.pending.is_empty() && view.state == "interrupted", "{view:?}");
    house
        .dispatch(more(&started.thread_id, "say on", WhenBusy::Reject))
        .await
        .unwrap();
    assert_eq!(house.ended(&started.thread_id).await.state, "completed");
}

#[tokio::test]
async fn what_protocol_1_lacks_is_refused_with_the_version_that_has_it() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    for when_busy in [WhenBusy::Queue, WhenBusy::Steer, WhenBusy::Restart] {
        let error = house
            .dispatch(more(&started.thread_id, "say more", when_busy))
            .await
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::OperationRejected, "{error:?}");
        assert!(error.message.contains("protocol 2"), "{}", error.message);
    }
    let error = house
        .dispatch(more(&started.thread_id, "say more", WhenBusy::Reject))
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::ThreadBusy);
    let hint = error.hint.unwrap_or_default();
    assert!(!hint.contains("when_busy"), "what it offers has to be there: {hint}");
    let starts = simulator
        .received()
        .iter()
        .filter(|command| command["type"] == "thread.turn.start")
        .count();
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn an_archived_thread_is_listed_refuses_prompts_and_comes_back() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("say hello").await;
    house.ended(&started.thread_id).await;
    let archive = |archived: bool| ArchiveArgs {
        thread_id: started.thread_id.clone(),
        archived: Some(archived),
    };
    house.gateway.archive(&caller(), archive(true)).await.unwrap();
    let refused = house
        .dispatch(more(&started.thread_id, "say more", WhenBusy::Reject))
        .await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::OperationRejected);
    let args = ThreadArgs {
        thread_id: started.thread_id.clone(),
        turns: None,
    };
    let viewed = house.gateway.thread(&caller(), args).await.unwrap_err();
    let args = DiffArgs {
        thread_id: started.thread_id.clone(),
        run: None,
    };
    let compared = house.gateway.diff(&caller(), args).await.unwrap_err();
    let waited = house.wait(wait_for(&started.thread_id)).await.unwrap_err();
    for error in [viewed, compared, waited] {
        assert_eq!(error.code, ErrorCode::OperationRejected, "{error:?}");
        let says = |what: &str| error.message.contains(what);
        assert!(says("t3_archive") && says("protocol 2"), "{}", error.message);
    }
    let again = house.gateway.archive(&caller(), archive(true)).await.unwrap();
    assert!(again.archived && !again.changed);
    let restored = house.gateway.archive(&caller(), archive(false)).await.unwrap();
    assert!(restored.changed);
    assert_eq!(report(&house.view(&started.thread_id).await), "hello");
    house
        .dispatch(more(&started.thread_id, "say more", WhenBusy::Reject))
        .await
        .unwrap();
    assert_eq!(report(&house.ended(&started.thread_id).await), "more");
    let starts = simulator
        .received()
        .iter()
        .filter(|command| command["type"] == "thread.turn.start")
        .count();
    assert_eq!(starts, 2);
}

#[tokio::test]
async fn a_thread_that_others_archive_while_it_works_is_told_of_and_is_watched_when_it_is_back() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    let watch = WatchArgs {
        thread_id: Some(started.thread_id.clone()),
        enabled: Some(true),
    };
    house.gateway.watch(&caller(), watch).await.unwrap();
    let archive = json!({"type": "thread.archive", "commandId": "theirs", "threadId": started.thread_id});
    simulator.command(&archive).unwrap();
    let events = house.until_events(1).await;
    let body: Value = serde_json::from_str(&events[0].body).unwrap();
    // It is there: nothing is gone.
    assert_eq!(
        (&body["event"], &body["reason"]),
        (&json!("interrupted"), &Value::Null),
        "{body}"
    );
    assert_eq!(
        (&body["state"], &body["partial"]),
        (&json!("interrupted"), &json!(true)),
        "{body}"
    );
    assert!(
        house
            .watched()
            .await
            .iter()
            .any(|watched| watched.thread.0 == started.thread_id)
    );
    let restore = ArchiveArgs {
        thread_id: started.thread_id.clone(),
        archived: Some(false),
    };
    house.gateway.archive(&caller(), restore).await.unwrap();
    house
        .dispatch(more(&started.thread_id, "say on", WhenBusy::Reject))
        .await
        .unwrap();
    let kinds: Vec<String> = house
        .until_events(2)
        .await
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["interrupted", "completed"]);
    house.end().await;
}

#[tokio::test]
async fn a_project_that_cannot_be_read_hides_nothing_of_what_is_followed() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("sleep 6").await;
    house.until(&started.thread_id, |view| view.state != "starting").await;
    simulator.faults().spoil_projects();
    let events = house.until_events(1).await;
    assert_eq!(events[0].kind, "completed", "{}", events[0].body);
    assert_eq!(house.events().await.len(), 1);
    house.end().await;
}

#[tokio::test]
async fn a_server_without_routes_and_markers_is_read_over_its_streams() {
    let simulator = older().await;
    simulator.faults().lack_routes();
    let house = house(&simulator).await;
    let started = house.start("say hello").await;
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "hello"));
}

#[tokio::test]
async fn what_a_restart_left_running_for_ever_is_told_once_and_cured() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    simulator.restart().await.unwrap();
    let events = house.until_events(1).await;
    assert_eq!(events[0].kind, "interrupted");
    house
        .until(&started.thread_id, |view| view.state == "interrupted")
        .await;
    house
        .dispatch(more(&started.thread_id, "say back", WhenBusy::Reject))
        .await
        .unwrap();
    assert_eq!(report(&house.ended(&started.thread_id).await), "back");
    let stops = simulator
        .received()
        .iter()
        .filter(|command| command["type"] == "thread.session.stop")
        .count();
    assert_eq!(stops, 1);
    let kinds: Vec<String> = house
        .until_events(2)
        .await
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["interrupted", "completed"]);
    house.end().await;
}

#[tokio::test]
async fn an_upgrade_while_the_gateway_runs_loses_and_doubles_nothing() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let done = house.start("say done").await;
    house.ended(&done.thread_id).await;
    let at_work = house.start("sleep 60").await;
    house.until(&at_work.thread_id, |view| view.state == "running").await;
    house.until_events(1).await;
    simulator.upgrade().await.unwrap();
    let events = house.until_events(2).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["completed", "interrupted"]);
    for thread in [&done.thread_id, &at_work.thread_id] {
        house.dispatch(more(thread, "say on", WhenBusy::Reject)).await.unwrap();
        assert_eq!(report(&house.ended(thread).await), "on");
    }
    let events = house.until_events(4).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["completed", "interrupted", "completed", "completed"]);
    // The run that was dispatched before is found by the name that it had.
    let before = t3code_mcp::gateway::WaitArgs {
        run_id: at_work.run_id.clone(),
        ..wait_for(&at_work.thread_id)
    };
    assert_eq!(
        house.wait(before).await.unwrap().thread.unwrap().run.unwrap().status,
        "interrupted"
    );
    house.end().await;
}

#[tokio::test]
async fn an_answer_that_t3_took_and_its_agent_did_not_get_is_no_answer() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("ask").await;
    assert_eq!(house.ended(&started.thread_id).await.state, "question");
    let answer = || AnswerArgs {
        answers: Some(map(&json!({"color": "Red", "extras": ["A"]}))),
        ..to(&started.thread_id)
    };
    simulator.faults().lose_responses(true);
    let error = house.answer(answer()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OperationRejected, "{error:?}");
    assert!(
        error.message.contains("No active provider session"),
        "{}",
        error.message
    );
    simulator.faults().lose_responses(false);
    house.answer(answer()).await.unwrap();
    assert_eq!(house.ended(&started.thread_id).await.state, "completed");
}

#[tokio::test]
async fn an_interrupt_of_others_that_t3_shows_as_completed_alone_is_told_as_an_interrupt() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    // T3's own window may name no turn: then nothing but the checkpoint tells it, and that comes later.
    let interrupt = json!({"type": "thread.turn.interrupt", "commandId": "theirs", "threadId": started.thread_id,
        "createdAt": "2026-12-01T00:00:00Z"});
    simulator.command(&interrupt).unwrap();
    assert_eq!(house.until_events(1).await[0].kind, "interrupted");
    assert_eq!(house.ended(&started.thread_id).await.state, "interrupted");
    house.end().await;
}

#[tokio::test]
async fn a_message_right_after_an_interrupt_is_not_taken_into_what_is_being_stopped() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 60").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    house.interrupt(&started.thread_id, None).await.unwrap();
    let next = house
        .dispatch(more(&started.thread_id, "say next", WhenBusy::Reject))
        .await
        .unwrap();
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "next"));
    assert_eq!(view.run.unwrap().id, next.run_id.unwrap());
}

#[tokio::test]
async fn what_ended_in_the_archive_while_the_gateway_was_away_is_told_as_what_it_was() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("approve ls").await;
    assert_eq!(house.until_events(1).await[0].kind, "approval");
    house.end().await;
    let shown = || simulator.projection(&started.thread_id).unwrap()["thread"].clone();
    let accept = json!({"type": "thread.approval.respond", "commandId": "theirs too", "threadId": started.thread_id,
        "requestId": shown()["activities"][0]["payload"]["requestId"], "decision": "accept", "createdAt": "2026-12-01T00:00:00Z"});
    simulator.command(&accept).unwrap();
    eventually("it is over", || shown()["latestTurn"]["state"] == "completed").await;
    let archive = json!({"type": "thread.archive", "commandId": "theirs", "threadId": started.thread_id});
    simulator.command(&archive).unwrap();
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let events = house.until_events(2).await;
    let body: Value = serde_json::from_str(&events[1].body).unwrap();
    assert_eq!(
        (&body["event"], &body["reason"], &body["partial"]),
        (&json!("completed"), &Value::Null, &json!(true)),
        "{body}"
    );
    house.end().await;
}

#[tokio::test]
async fn a_prompt_with_another_mode_waits_for_the_agent_that_begins_anew() {
    let (simulator, folder) = (older().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let started = house.start("say hello").await;
    house.ended(&started.thread_id).await;
    let again = DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..more(&started.thread_id, "say more", WhenBusy::Reject)
    };
    let again = house.dispatch(again).await.unwrap();
    assert_eq!(again.runtime_mode, "approval-required");
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "more"));
    let kinds: Vec<String> = house
        .until_events(2)
        .await
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(kinds, ["completed", "completed"]);
    house.end().await;
}

#[tokio::test]
async fn an_interrupt_waits_for_its_run_to_begin() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 60").await;
    // T3 would lose it.
    let answer = house.interrupt(&started.thread_id, None).await.unwrap();
    assert_eq!(answer.state, "interrupted");
    let types: Vec<Value> = simulator
        .received()
        .iter()
        .map(|command| command["type"].clone())
        .collect();
    assert_eq!(types, ["thread.create", "thread.turn.start", "thread.turn.interrupt"]);
}

#[tokio::test]
async fn a_thread_whose_message_t3_refused_takes_that_of_the_same_call_again() {
    let simulator = older().await;
    let house = house(&simulator).await;
    let call = || DispatchArgs {
        request_id: Some("once".to_owned()),
        ..prompt("say hello")
    };
    for kind in ["thread.create", "thread.turn.start"] {
        simulator.faults().refuse_next(kind);
        let error = house.dispatch(call()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::OperationRejected, "{error:?}");
        assert!(error.message.contains("Something broke"), "{}", error.message);
    }
    let started = house.dispatch(call()).await.unwrap();
    assert_eq!(report(&house.ended(&started.thread_id).await), "hello");
    let again = house.dispatch(call()).await.unwrap();
    assert_eq!((again.existing, &again.thread_id), (Some(true), &started.thread_id));
    let shown = simulator.projection(&started.thread_id).unwrap();
    assert_eq!(shown["thread"]["messages"].as_array().unwrap().len(), 2);
}
