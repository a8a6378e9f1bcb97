//! That no work is started twice.

use t3code_mcp::gateway::{Caller, DispatchArgs, ErrorCode, WhenBusy};

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
    let house = house(&simulator);
    let first = house.dispatch(with_id("r", "say one")).await.unwrap();
    let again = house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        (again.existing, again.matched.as_deref()),
        (Some(true), Some("request_id"))
    );
    assert_eq!((&again.thread_id, &again.run_id), (&first.thread_id, &first.run_id));
    // Another gateway remembers nothing, and still finds it.
    let restarted = crate::support::house(&simulator);
    let later = restarted.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!((later.existing, later.run_id), (Some(true), first.run_id));
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_request_id_with_other_arguments_is_refused_also_after_a_restart() {
    let simulator = simulator().await;
    let house = house(&simulator);
    house.dispatch(with_id("r", "say one")).await.unwrap();
    assert_eq!(
        code(house.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    let restarted = crate::support::house(&simulator);
    assert_eq!(
        code(restarted.dispatch(with_id("r", "say two")).await),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn equal_calls_with_one_request_id_at_once_start_one_run() {
    let simulator = simulator().await;
    let house = house(&simulator);
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
    let house = house(&simulator);
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    let args = || DispatchArgs {
        request_id: Some("r".to_owned()),
        ..more(&first.thread_id, "sleep 20", WhenBusy::Reject)
    };
    let second = house.dispatch(args()).await.unwrap();
    let again = house.dispatch(args()).await.unwrap();
    assert_eq!((again.existing, &again.run_id), (Some(true), &second.run_id));
    // Another gateway finds its message although the thread is busy with it.
    let later = crate::support::house(&simulator).dispatch(args()).await.unwrap();
    assert_eq!((later.existing, later.run_id), (Some(true), second.run_id));
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_found_and_an_answered_one_is_not() {
    let simulator = simulator().await;
    let house = house(&simulator);
    let caller = || Caller::named("tester");
    let lost = caller();
    let first = house.gateway.dispatch(&lost, prompt("say one")).await.unwrap();
    drop(lost.delivery.lost_on_drop());
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
    let house = house(&simulator);
    house.start("say warm").await;
    simulator.faults().lose_next_answer(true);
    let started = house.start("say once").await;
    assert_eq!(report(&house.ended(&started.thread_id).await), "once");
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_stop_a_dispatch_half_way() {
    let simulator = simulator().await;
    let house = house(&simulator);
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
