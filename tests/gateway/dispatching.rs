//! Starting, continuing and stopping runs.

use t3code_mcp::fleet::Rules;
use t3code_mcp::gateway::{
    DispatchArgs, ErrorCode, InterruptArgs, Mode, QueueAfter, ThreadArgs, WhenBusy, WorkspaceKind,
};
use t3code_mcp::protocol::RuntimeMode;

use crate::support::*;

#[tokio::test]
async fn a_dispatch_names_its_run_and_a_wait_tells_its_report() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("Say hello to the world\nsay hello").await;
    assert_eq!(
        (
            started.machine.as_str(),
            started.project.as_str(),
            started.title.as_str(),
            started.path.as_str()
        ),
        ("mac", "t3-smoke", "Say hello to the world", "/home/dev/t3-smoke")
    );
    let view = house.ended(&started.thread_id).await;
    assert_eq!((view.state.as_str(), report(&view)), ("completed", "hello"));
    assert_eq!(view.run.map(|run| run.id), started.run_id);
}

#[tokio::test]
async fn a_failed_run_says_why() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("fail no luck").await;
    let view = house.ended(&started.thread_id).await;
    assert_eq!(view.state, "failed");
    assert!(view.error.unwrap().message.contains("no luck"));
}

#[tokio::test]
async fn a_busy_thread_rejects_and_says_what_else_can_be_done() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    let error = house
        .dispatch(more(&first.thread_id, "say second", WhenBusy::Reject))
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::ThreadBusy);
    assert!(error.hint.unwrap().contains("when_busy"));
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_queued_prompt_runs_after_the_active_one_and_its_wait_tells_its_own_end() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 1").await;
    let second = house
        .dispatch(more(&first.thread_id, "say second", WhenBusy::Queue))
        .await
        .unwrap();
    assert_ne!(first.run_id, second.run_id);
    let view = house.ended(&first.thread_id).await;
    assert_eq!(
        (view.run.map(|run| run.id), report(&house.view(&first.thread_id).await)),
        (second.run_id, "second")
    );
}

#[tokio::test]
async fn a_steered_prompt_goes_into_the_active_run() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    house.until(&first.thread_id, |view| view.state == "running").await;
    let steered = house
        .dispatch(more(&first.thread_id, "say steered", WhenBusy::Steer))
        .await
        .unwrap();
    assert_eq!(steered.run_id, first.run_id);
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn steering_a_thread_that_rests_is_a_plain_start() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let second = house
        .dispatch(more(&first.thread_id, "say two", WhenBusy::Steer))
        .await
        .unwrap();
    assert_ne!(second.run_id, first.run_id);
    assert_eq!(report(&house.ended(&first.thread_id).await), "two");
}

#[tokio::test]
async fn of_two_prompts_at_once_one_is_taken_off_the_queue_again() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let send = |text: &str| house.dispatch(more(&first.thread_id, text, WhenBusy::Reject));
    let (a, b) = tokio::join!(send("sleep 600"), send("sleep 601"));
    let refused: Vec<_> = [a, b].into_iter().filter_map(code).collect();
    assert_eq!(refused, [ErrorCode::ThreadBusy]);
    assert!(house.view(&first.thread_id).await.queue.is_empty());
}

#[tokio::test]
async fn what_is_for_new_threads_is_refused_with_a_thread() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    for args in [
        DispatchArgs {
            title: Some("x".to_owned()),
            ..more(&first.thread_id, "say x", WhenBusy::Reject)
        },
        DispatchArgs {
            workspace: Some(WorkspaceKind::Project),
            ..more(&first.thread_id, "say x", WhenBusy::Reject)
        },
        DispatchArgs {
            branch: Some("x".to_owned()),
            ..more(&first.thread_id, "say x", WhenBusy::Reject)
        },
    ] {
        assert_eq!(code(house.dispatch(args).await), Some(ErrorCode::InvalidRequest));
    }
}

#[tokio::test]
async fn another_mode_is_set_before_the_message_and_only_while_idle() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    let asks = |when| DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..more(&first.thread_id, "say x", when)
    };
    assert_eq!(
        code(house.dispatch(asks(WhenBusy::Queue)).await),
        Some(ErrorCode::ThreadBusy)
    );
    house.interrupt(&first.thread_id, None).await.unwrap();
    let second = house.dispatch(asks(WhenBusy::Reject)).await.unwrap();
    assert_eq!(second.runtime_mode, "approval-required");
}

#[tokio::test]
async fn the_ceiling_lowers_a_default_and_denies_more() {
    let simulator = simulator().await;
    let capped = house_with(
        &simulator,
        Rules {
            max_runtime_mode: Some(RuntimeMode::AutoAcceptEdits),
            ..rules(&["*"])
        },
    )
    .await;
    let lowered = capped.start("say one").await;
    assert_eq!(
        (lowered.runtime_mode.as_str(), lowered.notes.len()),
        ("auto-accept-edits", 1)
    );
    let more_wanted = DispatchArgs {
        runtime_mode: Some(Mode::FullAccess),
        ..prompt("say two")
    };
    assert_eq!(
        code(capped.dispatch(more_wanted).await),
        Some(ErrorCode::RuntimeModeEscalationDenied)
    );

    let open = house(&simulator).await;
    let beyond = open.start("say three").await;
    open.ended(&beyond.thread_id).await;
    let continued = capped
        .dispatch(more(&beyond.thread_id, "say four", WhenBusy::Reject))
        .await;
    assert_eq!(code(continued), Some(ErrorCode::RuntimeModeEscalationDenied));
}

#[tokio::test]
async fn a_disabled_provider_and_an_unknown_model_are_refused_before_anything_is_sent() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let with = |model: &str| DispatchArgs {
        model: Some(model.to_owned()),
        ..prompt("say x")
    };
    assert_eq!(
        code(house.dispatch(with("claudeAgent/claude-opus-5")).await),
        Some(ErrorCode::ProviderUnavailable)
    );
    assert_eq!(
        code(house.dispatch(with("codex/none")).await),
        Some(ErrorCode::ModelUnavailable)
    );
    assert_eq!(simulator.thread_count(), 0);
}

#[tokio::test]
async fn a_provider_that_was_enabled_since_the_last_look_is_taken() {
    let simulator = simulator().await;
    // Before the gateway comes: it hears of later changes only after a while.
    simulator.faults().set_provider_enabled("codex", false);
    let house = house(&simulator).await;
    assert_eq!(
        code(house.dispatch(prompt("say x")).await),
        Some(ErrorCode::ProviderUnavailable)
    );
    simulator.faults().set_provider_enabled("codex", true);
    assert!(house.dispatch(prompt("say x")).await.is_ok());
}

#[tokio::test]
async fn without_a_project_the_only_one_is_taken_and_several_are_listed() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let without = || DispatchArgs {
        project: None,
        ..prompt("say x")
    };
    assert_eq!(house.dispatch(without()).await.unwrap().project, "t3-smoke");
    let none_allowed = house_with(&simulator, rules(&["other-*"])).await;
    let error = none_allowed.dispatch(without()).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"].as_array().map(Vec::len)),
        (ErrorCode::InvalidRequest, Some(0))
    );
    let error = house
        .dispatch(DispatchArgs {
            project: Some("nope".to_owned()),
            ..prompt("say x")
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"][0].as_str()),
        (ErrorCode::ProjectNotFound, Some("t3-smoke"))
    );
}

#[tokio::test]
async fn an_interrupt_returns_when_the_run_has_ended_and_names_the_next() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    let second = house
        .dispatch(more(&first.thread_id, "sleep 601", WhenBusy::Queue))
        .await
        .unwrap();
    house.until(&first.thread_id, |view| view.state == "running").await;
    let stopped = house
        .interrupt(&first.thread_id, first.run_id.as_deref())
        .await
        .unwrap();
    assert_eq!(
        (stopped.state.as_str(), stopped.next_run),
        ("interrupted", second.run_id)
    );
}

#[tokio::test]
async fn a_queued_run_is_cancelled_and_the_active_one_goes_on() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    let second = house
        .dispatch(more(&first.thread_id, "sleep 601", WhenBusy::Queue))
        .await
        .unwrap();
    let stopped = house
        .interrupt(&first.thread_id, second.run_id.as_deref())
        .await
        .unwrap();
    assert_eq!(stopped.state, "cancelled");
    let view = house.view(&first.thread_id).await;
    assert_eq!((view.run.map(|run| run.id), view.queue.len()), (first.run_id, 0));
}

#[tokio::test]
async fn what_rests_cannot_be_interrupted() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    assert_eq!(
        code(house.interrupt(&first.thread_id, None).await),
        Some(ErrorCode::ThreadNotInterruptible)
    );
    let named = house.interrupt(&first.thread_id, first.run_id.as_deref()).await;
    assert_eq!(code(named), Some(ErrorCode::ThreadNotInterruptible));
}

#[tokio::test]
async fn a_held_queue_is_named_and_ends_a_wait() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 600").await;
    let second = house
        .dispatch(more(&first.thread_id, "sleep 601", WhenBusy::Queue))
        .await
        .unwrap();
    house.until(&first.thread_id, |view| view.state == "running").await;
    let hold = InterruptArgs {
        thread_id: first.thread_id.clone(),
        run_id: None,
        queue: Some(QueueAfter::Hold),
    };
    let stopped = house.gateway.interrupt(&caller(), hold).await.unwrap();
    assert_eq!((stopped.state.as_str(), stopped.next_run), ("interrupted", None));
    let waited = house.wait(wait_for(&first.thread_id)).await.unwrap();
    let view = waited.thread.unwrap();
    assert_eq!(
        (view.state.as_str(), view.held, view.run.map(|run| run.id)),
        ("queued", Some(true), second.run_id)
    );
    let error = house
        .dispatch(more(&first.thread_id, "say x", WhenBusy::Reject))
        .await
        .unwrap_err();
    assert!(error.code == ErrorCode::ThreadBusy && error.hint.unwrap().contains("t3_queue"));
}

#[tokio::test]
async fn turns_has_its_bounds() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    let with = |turns| ThreadArgs {
        thread_id: first.thread_id.clone(),
        turns: Some(turns),
    };
    for turns in [0, 21] {
        assert_eq!(
            code(house.gateway.thread(&caller(), with(turns)).await),
            Some(ErrorCode::InvalidRequest)
        );
    }
}

#[tokio::test]
async fn a_wrong_name_is_repeated_only_in_part() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let long = || Some("x".repeat(50_000));
    for args in [
        DispatchArgs {
            machine: long(),
            ..prompt("say one")
        },
        DispatchArgs {
            project: long(),
            ..prompt("say one")
        },
        DispatchArgs {
            model: long(),
            ..prompt("say one")
        },
        DispatchArgs {
            model: Some(format!("codex/{}", "x".repeat(50_000))),
            ..prompt("say one")
        },
    ] {
        let error = house.dispatch(args).await.unwrap_err();
        assert!(error.message.len() < 500 && error.message.contains('…'), "{error}");
    }
}
