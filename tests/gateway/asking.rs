//! Questions and approvals.

use serde_json::json;
use t3code_mcp::gateway::{AnswerArgs, DispatchArgs, ErrorCode, Mode, WhenBusy};
use t3code_mcp::simulator::Simulator;

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
    let house = house(&simulator).await;
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
    let house = house(&simulator).await;
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
    let house = house(&simulator).await;
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
    let house = house(&simulator).await;
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
    let house = house(&simulator).await;
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
    let house = house(&simulator).await;
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

/// How many answers T3 was sent.
fn sent(simulator: &Simulator) -> usize {
    let answers = ["runtime-request.respond", "thread.user-input.dismiss"];
    let commands = simulator.received();
    commands
        .iter()
        .filter(|command| answers.iter().any(|kind| command["type"] == *kind))
        .count()
}

fn answers(thread: &str, answers: &serde_json::Value) -> AnswerArgs {
    AnswerArgs {
        answers: Some(map(answers)),
        ..to(thread)
    }
}

fn decision(thread: &str, word: &str) -> AnswerArgs {
    AnswerArgs {
        decision: Some(word.to_owned()),
        ..to(thread)
    }
}

/// T3 takes each of these and never tells the agent: the run would hang. None of them is sent.
#[tokio::test]
async fn what_would_hang_the_run_is_never_sent() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let asks = DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..prompt("approve rm -rf build")
    };
    let approval = house.dispatch(asks).await.unwrap().thread_id;
    let question = house.start("ask1").await.thread_id;
    house.ended(&approval).await;
    house.ended(&question).await;
    let dismissed = |thread: &str| AnswerArgs {
        dismiss: Some(true),
        ..to(thread)
    };
    let both = AnswerArgs {
        decision: Some("accept".to_owned()),
        ..answers(&question, &json!({"color": "Red"}))
    };
    for wrong in [
        to(&approval),
        to(&question),
        both,
        AnswerArgs {
            dismiss: Some(false),
            ..to(&question)
        },
        answers(&approval, &json!({"color": "Red"})),
        answers(&approval, &json!({})),
        dismissed(&approval),
        decision(&approval, "yes"),
        decision(&approval, "Accept"),
        decision(&approval, ""),
        decision(&question, "accept"),
        decision(&question, "cancel"),
        answers(&question, &json!({})),
        answers(&question, &json!({"color": ""})),
        answers(&question, &json!({"color": null})),
        answers(&question, &json!({"color": []})),
        answers(&question, &json!({"colour": "Red"})),
        answers(&question, &json!({"color": {"label": "Red"}})),
    ] {
        let what = format!("{wrong:?}");
        let error = house.answer(wrong).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{what}: {error}");
        assert_eq!(sent(&simulator), 0, "{what}");
    }
    house.answer(decision(&approval, "decline")).await.unwrap();
    house
        .answer(answers(&question, &json!({"color": "Blue"})))
        .await
        .unwrap();
    for thread in [approval, question] {
        assert_eq!(house.ended(&thread).await.state, "completed");
    }
}

#[tokio::test]
async fn each_decision_that_is_offered_does_what_it_says() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    for (word, end, said) in [
        ("accept", "completed", "allow-once"),
        ("acceptForSession", "completed", "allow-always"),
        ("acceptAlways", "completed", "allow-always"),
        ("decline", "completed", "reject-once"),
        ("cancel", "interrupted", ""),
    ] {
        let asks = DispatchArgs {
            runtime_mode: Some(Mode::ApprovalRequired),
            ..prompt("approve make clean")
        };
        let thread = house.dispatch(asks).await.unwrap().thread_id;
        let asked = house.ended(&thread).await;
        let offered = asked.pending[0].approval.clone().unwrap().decisions;
        assert!(offered.contains(&word.to_owned()), "{word}: {offered:?}");
        house.answer(decision(&thread, word)).await.unwrap();
        let view = house.ended(&thread).await;
        assert!(
            [end, "cancelled"].contains(&view.state.as_str()),
            "{word}: {}",
            view.state
        );
        assert!(report(&view).contains(said), "{word}: {}", report(&view));
    }
}

#[tokio::test]
async fn the_rules_of_questions_are_kept_and_values_are_sent_for_labels() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("ask form").await.thread_id;
    let asked = house.ended(&thread).await;
    assert_eq!(asked.pending[0].questions.len(), 3);
    for (wrong, why) in [
        (json!({"size": "Huge", "parts": "A"}), "only its options"),
        (json!({"size": ["Small", "Large"], "parts": "A"}), "one answer"),
        (json!({"size": "Small"}), "Missing: `parts`"),
        (json!({"parts": ["A"], "note": "none"}), "Missing: `size`"),
    ] {
        let error = house.answer(answers(&thread, &wrong)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{wrong}");
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    assert_eq!(sent(&simulator), 0);
    let right = json!({"size": "Large", "parts": ["A", "B"], "note": "in my own words"});
    house.answer(answers(&thread, &right)).await.unwrap();
    let commands = simulator.received();
    let command = commands
        .iter()
        .find(|command| command["type"] == "runtime-request.respond")
        .unwrap();
    assert_eq!(
        command["answers"],
        json!({"size": "l-1", "parts": ["A", "B"], "note": "in my own words"})
    );
    assert!(command.get("decision").is_none(), "{command}");
    let view = house.ended(&thread).await;
    assert!(
        report(&view).contains(r#""Which parts?":["A","B"]"#),
        "{}",
        report(&view)
    );

    // By its value, and without what may be left out.
    let thread = house.start("ask form").await.thread_id;
    house.ended(&thread).await;
    let right = json!({"size": ["s-1"], "parts": ["B"]});
    house.answer(answers(&thread, &right)).await.unwrap();
    assert_eq!(house.ended(&thread).await.state, "completed");
}

#[tokio::test]
async fn a_request_is_answered_once_by_whoever_comes_first() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("ask1").await.thread_id;
    let asked = house.ended(&thread).await;
    let request = asked.pending[0].request_id.clone();
    house.answer(answers(&thread, &json!({"color": "Red"}))).await.unwrap();
    let named = AnswerArgs {
        request_id: Some(request),
        ..answers(&thread, &json!({"color": "Blue"}))
    };
    for again in [named, answers(&thread, &json!({"color": "Blue"}))] {
        let error = house.answer(again).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::RequestNotFound, "{error}");
    }
    assert_eq!(sent(&simulator), 1);
    assert!(report(&house.ended(&thread).await).contains("Red"));

    // Of several that are pending, one is decided by a person in T3's own window meanwhile.
    let asks = DispatchArgs {
        runtime_mode: Some(Mode::ApprovalRequired),
        ..prompt("approve2")
    };
    let thread = house.dispatch(asks).await.unwrap().thread_id;
    let asked = house.until(&thread, |view| view.pending.len() == 2).await;
    let [first, second] = [0, 1].map(|at| asked.pending[at].request_id.clone());
    simulator
        .command(
            &json!({"type": "runtime-request.respond", "commandId": "theirs", "threadId": thread,
            "requestId": first, "decision": "decline"}),
        )
        .unwrap();
    let late = AnswerArgs {
        request_id: Some(first.clone()),
        ..decision(&thread, "accept")
    };
    let error = house.answer(late).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::RequestNotFound, "{error}");
    assert!(error.to_string().contains(&first), "{error}");
    // The other one is the only one now, and needs no name.
    house.until(&thread, |view| view.pending.len() == 1).await;
    let answered = house.answer(decision(&thread, "accept")).await.unwrap();
    assert_eq!(answered.answered, [second]);
    assert_eq!(house.ended(&thread).await.state, "completed");
}

#[tokio::test]
async fn of_answers_at_the_same_time_one_counts() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("ask1").await.thread_id;
    house.ended(&thread).await;
    let each = ["Red", "Blue", "Red", "Blue"].map(|color| house.answer(answers(&thread, &json!({"color": color}))));
    let results = futures_util::future::join_all(each).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert_eq!(error.code, ErrorCode::RequestNotFound, "{error}");
    }
    assert_eq!(house.ended(&thread).await.state, "completed");
}

#[tokio::test]
async fn a_question_is_dismissed_once_and_an_older_t3_that_cannot_keeps_it() {
    let dismissed = |thread: &str| AnswerArgs {
        dismiss: Some(true),
        ..to(thread)
    };
    let simulator = newer_simulator().await;
    let newer = house(&simulator).await;
    let thread = newer.start("ask1").await.thread_id;
    newer.ended(&thread).await;
    newer.answer(dismissed(&thread)).await.unwrap();
    assert_eq!(
        code(newer.answer(dismissed(&thread)).await),
        Some(ErrorCode::RequestNotFound)
    );
    assert_eq!(newer.ended(&thread).await.state, "completed");

    let simulator = crate::support::simulator().await;
    let older = house(&simulator).await;
    let thread = older.start("ask1").await.thread_id;
    older.ended(&thread).await;
    let error = older.answer(dismissed(&thread)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::OperationRejected, "{error}");
    assert_eq!(older.view(&thread).await.state, "question");
    older.answer(answers(&thread, &json!({"color": "Red"}))).await.unwrap();
    assert_eq!(older.ended(&thread).await.state, "completed");
}

#[tokio::test]
async fn what_only_t3_itself_can_answer_is_shown_and_named() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("login").await.thread_id;
    let asked = house.ended(&thread).await;
    assert_eq!((asked.state.as_str(), asked.pending[0].answerable), ("approval", false));
    assert!(asked.pending[0].approval.clone().unwrap().decisions.is_empty());
    for wrong in [
        decision(&thread, "accept"),
        answers(&thread, &json!({"color": "Red"})),
        AnswerArgs {
            dismiss: Some(true),
            ..to(&thread)
        },
    ] {
        let error = house.answer(wrong).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::RequestNotAnswerable, "{error}");
        assert_eq!(error.hint.as_deref(), Some("Answer it in T3 on mac."));
    }
    assert_eq!(sent(&simulator), 0);
    house.interrupt(&thread, None).await.unwrap();
}

#[tokio::test]
async fn an_answer_to_a_question_that_outlived_its_run_starts_one_or_queues_it() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("ask message").await.thread_id;
    let asked = house
        .until(&thread, |view| !view.pending.is_empty() && view.state == "completed")
        .await;
    assert_eq!(asked.pending[0].mode.as_deref(), Some("message"));
    let before = asked.run.unwrap().id;
    // It is as much a question as any: an answer that fits not starts nothing.
    assert_eq!(
        code(house.answer(answers(&thread, &json!({}))).await),
        Some(ErrorCode::InvalidRequest)
    );
    let answered = house.answer(answers(&thread, &json!({"color": "Red"}))).await.unwrap();
    let run = answered.run_id.unwrap();
    assert_ne!(run, before);
    let view = house.ended(&thread).await;
    assert_eq!((view.state.as_str(), view.run.unwrap().id), ("completed", run));
    assert!(view.pending.is_empty());

    // While another run is at work it waits behind it.
    let thread = house.start("ask message").await.thread_id;
    house
        .until(&thread, |view| !view.pending.is_empty() && view.state == "completed")
        .await;
    house
        .dispatch(more(&thread, "sleep 600", WhenBusy::Reject))
        .await
        .unwrap();
    let answered = house.answer(answers(&thread, &json!({"color": "Red"}))).await.unwrap();
    let queued = answered.run_id.unwrap();
    let view = house.until(&thread, |view| !view.queue.is_empty()).await;
    assert_eq!(view.queue[0].run_id, queued);

    // Dismissed, it is gone, at once and without a run.
    let thread = house.start("ask message").await.thread_id;
    house
        .until(&thread, |view| !view.pending.is_empty() && view.state == "completed")
        .await;
    let runs = simulator.runs().len();
    house
        .answer(AnswerArgs {
            dismiss: Some(true),
            ..to(&thread)
        })
        .await
        .unwrap();
    assert_eq!(simulator.runs().len(), runs);
    assert!(house.view(&thread).await.pending.is_empty());
}
