//! That no work is started twice.

use std::time::Duration;

use t3code_mcp::gateway::{Caller, Delivery, DispatchArgs, ErrorCode, MachinesArgs, WhenBusy};
use t3code_mcp::simulator::Simulator;

use crate::support::*;

fn with_id(id: &str, text: &str) -> DispatchArgs {
    DispatchArgs {
        request_id: Some(id.to_owned()),
        ..prompt(text)
    }
}

#[tokio::test]
async fn a_request_id_starts_one_run_for_ever() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.dispatch(with_id("r", "say one")).await.unwrap();
    let again = house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        (again.existing, again.matched.as_deref()),
        (Some(true), Some("request_id"))
    );
    assert_eq!((&again.thread_id, &again.run_id), (&first.thread_id, &first.run_id));
    // Another gateway remembers nothing, and still finds it.
    let restarted = crate::support::house(&simulator).await;
    let later = restarted.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!((later.existing, later.run_id), (Some(true), first.run_id));
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_request_id_with_other_arguments_is_refused_also_after_a_restart() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        code(house.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    let restarted = crate::support::house(&simulator).await;
    assert_eq!(
        code(restarted.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn equal_calls_with_one_request_id_at_once_start_one_run() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (a, b) = tokio::join!(
        house.dispatch(with_id("r", "say one")),
        house.dispatch(with_id("r", "say one"))
    );
    assert_eq!(a.unwrap().run_id, b.unwrap().run_id);
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_continued_thread_takes_a_request_id_once() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let args = || DispatchArgs {
        request_id: Some("r".to_owned()),
        ..more(&first.thread_id, "sleep 600", WhenBusy::Reject)
    };
    let second = house.dispatch(args()).await.unwrap();
    let again = house.dispatch(args()).await.unwrap();
    assert_eq!((again.existing, &again.run_id), (Some(true), &second.run_id));
    // Another gateway finds its message although the thread is busy with it.
    let later = crate::support::house(&simulator).await.dispatch(args()).await.unwrap();
    assert_eq!((later.existing, later.run_id), (Some(true), second.run_id));
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_found_and_an_answered_one_is_not() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let caller = || Caller::named("tester");
    let lost = caller();
    let first = house.gateway.dispatch(&lost, prompt("say one")).await.unwrap();
    lost.delivery.lost();
    let retry = caller();
    let found = house.gateway.dispatch(&retry, prompt("say one")).await.unwrap();
    assert_eq!(
        (found.existing, found.matched.as_deref()),
        (Some(true), Some("implicit"))
    );
    assert_eq!(found.run_id, first.run_id);
    retry.delivery.answered();
    let third = house.gateway.dispatch(&caller(), prompt("say one")).await.unwrap();
    assert_eq!(third.existing, None);
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn an_answer_that_t3_lost_is_asked_for_again() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    house.start("say warm").await;
    simulator.faults().lose_next_answer(true);
    let started = house.start("say once").await;
    assert_eq!(report(&house.ended(&started.thread_id).await), "once");
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_a_dispatch_half_way() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    house.start("say warm").await;
    {
        let caller = caller();
        let call = house.gateway.dispatch(&caller, prompt("say on"));
        let mut call = std::pin::pin!(call);
        // Polled once, then dropped: the call has begun and nobody waits for it any more.
        assert!(futures_util::poll!(&mut call).is_pending());
    }
    eventually("the run starts", || simulator.runs().len() == 2).await;
}

/// Stops the machine and waits until the gateway knows.
async fn away(simulator: &Simulator, house: &House) {
    simulator.stop().await;
    let online = || {
        house
            .gateway
            .machines(&caller(), MachinesArgs::default())
            .unwrap()
            .machines[0]
            .online
    };
    eventually("the gateway notices that the machine is away", || !online()).await;
}

/// Starts the machine again and waits until the gateway knows.
async fn back(simulator: &Simulator, house: &House) {
    simulator.resume().await.unwrap();
    let online = || {
        house
            .gateway
            .machines(&caller(), MachinesArgs::default())
            .unwrap()
            .machines[0]
            .online
    };
    eventually("the gateway notices that the machine is back", online).await;
}

#[tokio::test]
async fn an_unknown_outcome_stays_to_be_found_while_retries_fail() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    house.start("say warm").await;
    for _ in 0..3 {
        simulator.faults().lose_next_answer(true);
    }
    let unknown = house.dispatch(prompt("say once")).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::OutcomeUnknown);
    away(&simulator, &house).await;
    for _ in 0..2 {
        // It may have happened: that this try could not be sent says nothing of the first.
        assert_eq!(
            code(house.dispatch(prompt("say once")).await),
            Some(ErrorCode::OutcomeUnknown)
        );
    }
    back(&simulator, &house).await;
    let found = house.dispatch(prompt("say once")).await.unwrap();
    assert_eq!(
        (found.existing, found.matched.as_deref()),
        (Some(true), Some("implicit"))
    );
    assert_eq!(simulator.runs().len(), 2);
    let next = house.dispatch(prompt("say once")).await.unwrap();
    assert_eq!((next.existing, simulator.runs().len()), (None, 3));
}

#[tokio::test]
async fn a_lost_answer_stays_to_be_found_while_the_machine_cannot_be_asked() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let lost = caller();
    let first = house.gateway.dispatch(&lost, prompt("say one")).await.unwrap();
    lost.delivery.lost();
    away(&simulator, &house).await;
    assert_eq!(
        code(house.dispatch(prompt("say one")).await),
        Some(ErrorCode::MachineUnreachable)
    );
    back(&simulator, &house).await;
    let found = house.dispatch(prompt("say one")).await.unwrap();
    assert_eq!((found.existing, &found.thread_id), (Some(true), &first.thread_id));
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn an_equal_call_joins_one_whose_caller_hung_up_before_anything_was_sent() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("say warm").await.thread_id;
    house.ended(&thread).await;
    for args in [prompt("say on"), more(&thread, "say on", WhenBusy::Reject)] {
        let before = simulator.runs().len();
        simulator.faults().delay(Duration::from_millis(300));
        let gone = caller();
        {
            let mut call = std::pin::pin!(house.gateway.dispatch(&gone, args.clone()));
            assert!(futures_util::poll!(&mut call).is_pending());
        }
        gone.delivery.lost();
        assert_eq!(simulator.runs().len(), before, "nothing was sent yet");
        let joined = house.dispatch(args).await.unwrap();
        simulator.faults().delay(Duration::ZERO);
        assert_eq!(
            (joined.existing, joined.matched.as_deref(), simulator.runs().len()),
            (Some(true), Some("implicit"), before + 1)
        );
        house.ended(&thread).await;
    }
}

#[tokio::test]
async fn a_prompt_that_was_taken_off_again_runs_when_it_is_sent_again_with_its_request_id() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let send = |text: &str| DispatchArgs {
        request_id: Some(text.to_owned()),
        ..more(&first.thread_id, text, WhenBusy::Reject)
    };
    let (a, b) = tokio::join!(house.dispatch(send("sleep 600")), house.dispatch(send("sleep 601")));
    let refused = if a.is_err() { "sleep 600" } else { "sleep 601" };
    assert!(a.is_err() != b.is_err(), "one of them was taken off");
    house.interrupt(&first.thread_id, None).await.unwrap();
    // Another gateway remembers nothing of it.
    for house in [crate::support::house(&simulator).await, house] {
        let again = house.dispatch(send(refused)).await.unwrap();
        let view = house.until(&first.thread_id, |view| view.state == "running").await;
        assert_eq!(view.run.map(|run| run.id), again.run_id);
    }
    // The first, the one that was in the way, the one that was taken off, and the one that runs.
    assert_eq!(simulator.runs().len(), 4);
}

#[tokio::test]
async fn what_a_request_id_started_is_found_although_it_could_not_be_started_now() {
    let simulator = simulator().await;
    let args = || with_id("r", "say one");
    let first = house(&simulator).await.dispatch(args()).await.unwrap();
    simulator.faults().set_provider_enabled("codex", false);
    let later = house(&simulator).await.dispatch(args()).await.unwrap();
    assert_eq!((later.existing, &later.thread_id), (Some(true), &first.thread_id));
    // A client to which the project is hidden learns nothing of it.
    let hidden = house_with(&simulator, rules(&["other-*"])).await;
    assert_eq!(code(hidden.dispatch(args()).await), Some(ErrorCode::ProjectNotFound));
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_request_id_that_started_nothing_may_be_used_with_arguments_that_were_put_right() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let wrong = DispatchArgs {
        model: Some("codex/none".to_owned()),
        ..with_id("r", "say one")
    };
    assert_eq!(code(house.dispatch(wrong).await), Some(ErrorCode::ModelUnavailable));
    assert!(house.dispatch(with_id("r", "say one")).await.is_ok());
}

/// A caller whose edge says what becomes of its answer.
fn heard() -> Caller {
    Caller {
        delivery: Delivery::reported(),
        ..caller()
    }
}

#[tokio::test]
async fn an_equal_call_waits_for_what_becomes_of_the_answer_before_it() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    for (n, lost) in [(1, true), (2, false)] {
        let text = format!("say {n}");
        let (first, second, third) = (heard(), heard(), heard());
        let one = house.gateway.dispatch(&first, prompt(&text)).await.unwrap();
        // Its answer is on its way, and two equal calls come.
        let mut next = Box::pin(house.gateway.dispatch(&second, prompt(&text)));
        let mut last = Box::pin(house.gateway.dispatch(&third, prompt(&text)));
        tokio::select! {
            biased;
            said = &mut next => panic!("nothing was known yet: {said:?}"),
            said = &mut last => panic!("nothing was known yet: {said:?}"),
            // Long enough for a dispatch that waits for nothing.
            other = house.dispatch(prompt("say other")) => other.unwrap(),
        };
        if lost {
            first.delivery.lost();
        } else {
            first.delivery.answered();
        }
        let two = next.await.unwrap();
        assert_eq!(
            (two.existing, two.thread_id == one.thread_id),
            (lost.then_some(true), lost)
        );
        second.delivery.answered();
        assert_eq!(last.await.unwrap().existing, None);
        third.delivery.answered();
    }
    // Once merged, once not; a third each time, and the two others.
    assert_eq!(simulator.thread_count(), 2 + 3 + 2);
}

#[tokio::test]
async fn a_call_that_was_given_up_and_is_late_takes_the_place_of_its_repetition() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (first, second) = (heard(), heard());
    first.delivery.lost();
    let two = house.gateway.dispatch(&second, prompt("say one")).await.unwrap();
    second.delivery.answered();
    let one = house.gateway.dispatch(&first, prompt("say one")).await.unwrap();
    assert_eq!((one.existing, one.thread_id), (Some(true), two.thread_id));
    assert_eq!(simulator.thread_count(), 1);
}
