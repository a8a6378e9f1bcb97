//! Questions and approvals.

use serde_json::json;
use t3code_mcp::gateway::{AnswerArgs, DispatchArgs, ErrorCode, Mode};

use crate::support::*;

fn to(thread: &str) -> AnswerArgs {
    AnswerArgs {
        thread_id: thread.to_owned(),
        ..AnswerArgs::default()
    }
}

#[tokio::test]
async fn a_question_ends_the_wait_and_its_answer_lets_the_run_go_on() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let started = house.start("ask").await;
    let asked = house.ended(&started.thread_id).await;
    assert_eq!(
        (asked.state.as_str(), asked.pending[0].questions.len()),
        ("question", 2)
    );

    let partial = AnswerArgs {
        answers: Some(map(&json!({"color": "Red"}))),
        ..to(&started.thread_id)
    };
    let error = house.answer(partial).await.unwrap_err();
    assert_eq!(
        (error.code, &error.extra["missing"]),
        (ErrorCode::InvalidRequest, &json!(["extras"]))
    );

    let whole = json!({"color": "Red", "extras": ["A", "B"]});
    let answered = house
        .answer(AnswerArgs {
            answers: Some(map(&whole)),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    assert_eq!(answered.answered, [asked.pending[0].request_id.clone()]);
    let view = house.ended(&started.thread_id).await;
    assert_eq!(view.state, "completed");
    assert!(report(&view).contains("Red"), "{}", report(&view));
}

#[tokio::test]
async fn an_approval_takes_only_what_t3_offers() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let asks = DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..prompt("approve rm -rf build")
    };
    let started = house.dispatch(asks).await.unwrap();
    let asked = house.ended(&started.thread_id).await;
    assert_eq!(asked.state, "approval");
    let approval = asked.pending[0].approval.clone().unwrap();
    assert_eq!(approval.detail.as_deref(), Some("rm -rf build"));

    let always = AnswerArgs {
        decision: Some("acceptAlways".to_owned()),
        ..to(&started.thread_id)
    };
    let error = house.answer(always).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"][0].as_str()),
        (ErrorCode::InvalidRequest, Some("accept"))
    );
    let wrong_kind = AnswerArgs {
        answers: Some(map(&json!({"x": "y"}))),
        ..to(&started.thread_id)
    };
    assert_eq!(code(house.answer(wrong_kind).await), Some(ErrorCode::InvalidRequest));
    let dismissed = AnswerArgs {
        dismiss: Some(true),
        ..to(&started.thread_id)
    };
    assert_eq!(code(house.answer(dismissed).await), Some(ErrorCode::InvalidRequest));

    house
        .answer(AnswerArgs {
            decision: Some("accept".to_owned()),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    assert_eq!(house.ended(&started.thread_id).await.state, "completed");
}

#[tokio::test]
async fn of_two_pending_requests_one_has_to_be_named() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let asks = DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..prompt("approve2")
    };
    let started = house.dispatch(asks).await.unwrap();
    let asked = house.until(&started.thread_id, |view| view.pending.len() == 2).await;
    let accept = || AnswerArgs {
        decision: Some("accept".to_owned()),
        ..to(&started.thread_id)
    };
    let error = house.answer(accept()).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"].as_array().map(Vec::len)),
        (ErrorCode::InvalidRequest, Some(2))
    );
    for pending in &asked.pending {
        let named = AnswerArgs {
            request_id: Some(pending.request_id.clone()),
            ..accept()
        };
        house.answer(named).await.unwrap();
    }
    assert_eq!(house.ended(&started.thread_id).await.state, "completed");
}

#[tokio::test]
async fn a_dismissed_question_is_closed() {
    // Servers of before the version gate do not know this command.
    let simulator = newer_simulator().await;
    let house = house(&simulator);
    let started = house.start("ask1").await;
    house.ended(&started.thread_id).await;
    house
        .answer(AnswerArgs {
            dismiss: Some(true),
            ..to(&started.thread_id)
        })
        .await
        .unwrap();
    assert!(house.ended(&started.thread_id).await.pending.is_empty());
}

#[tokio::test]
async fn what_waits_for_nothing_takes_no_answer() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let started = house.start("say one").await;
    house.ended(&started.thread_id).await;
    let accept = AnswerArgs {
        decision: Some("accept".to_owned()),
        ..to(&started.thread_id)
    };
    assert_eq!(code(house.answer(accept).await), Some(ErrorCode::RequestNotFound));
    let both = AnswerArgs {
        decision: Some("accept".to_owned()),
        dismiss: Some(true),
        ..to(&started.thread_id)
    };
    assert_eq!(code(house.answer(both).await), Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn a_request_of_a_session_that_is_gone_cannot_be_answered() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let started = house.start("ask1").await;
    house.ended(&started.thread_id).await;
    simulator.restart().await.unwrap();
    house
        .until(&started.thread_id, |view| {
            view.unreachable_since.is_none() && view.state == "cancelled"
        })
        .await;
    let accept = AnswerArgs {
        answers: Some(map(&json!({"color": "Red"}))),
        ..to(&started.thread_id)
    };
    assert!(matches!(
        code(house.answer(accept).await),
        Some(ErrorCode::RequestNotFound | ErrorCode::RequestNotAnswerable)
    ));
}
