//! Receivers that are away, and workers that die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::SignedDuration;
use t3code_mcp::delivery::schedule::{GIVE_UP_AFTER, delay};
use t3code_mcp::delivery::{ATTEMPT_WITHIN, Clock as _, LEASE_MARGIN, start_with};
use t3code_mcp::store::DeliveryState::{Dead, Delivered, Waiting};
use t3code_mcp::store::{LEDGER_FILE, Resend, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::support::{Hook, Trial, answer, at, nowhere, settings};

/// How long a claim holds.
fn lease() -> SignedDuration {
    SignedDuration::try_from(ATTEMPT_WITHIN + LEASE_MARGIN).unwrap()
}

#[tokio::test]
async fn a_receiver_that_is_down_for_days_is_tried_on_schedule_given_up_and_can_be_told_again() {
    let mut trial = Trial::new(&settings(&nowhere())).await;
    trial.events("one", &["a"]).await;
    let mut failed = 1;
    let last = loop {
        let delivery = trial.attempted("a", failed).await;
        assert_eq!(
            delivery.last_error.as_deref(),
            Some("no connection: nothing listens there")
        );
        if delivery.state != Waiting {
            break delivery;
        }
        let wait = delivery.due_at.duration_since(trial.clock.now());
        let plain = delay(failed);
        assert!(wait >= plain * 4 / 5 && wait <= plain * 6 / 5, "{failed}: {wait}");
        trial.clock.set(delivery.due_at);
        failed += 1;
    };
    assert_eq!(last.state, Dead);
    let tried_for = trial.clock.now().duration_since(at(0));
    assert!(
        tried_for <= GIVE_UP_AFTER && tried_for > GIVE_UP_AFTER - delay(failed) * 6 / 5,
        "{tried_for}"
    );
    trial.stopped().await;

    let hook = Hook::always(200, &[], "").await;
    trial.start(&settings(&hook.url));
    let again = trial.store.retry_event("a", trial.clock.now()).await.unwrap();
    assert_eq!(again, Resend::Queued);
    assert_eq!(trial.decided("a").await.state, Delivered);
    assert_eq!(hook.so_far()[0].id(), "a");
}

#[tokio::test]
async fn a_receiver_that_is_back_after_two_days_gets_the_same_event() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let hook = Hook::new(move |_| {
        let status = if is_up.load(Ordering::Relaxed) { 200 } else { 503 };
        async move { answer(status, &[], "") }
    })
    .await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a", "b"]).await;
    let mut failed = 1;
    while trial.clock.now() < at(48 * 3600) {
        trial.clock.set(trial.attempted("a", failed).await.due_at);
        failed += 1;
    }
    trial.attempted("a", failed).await;
    up.store(true, Ordering::Relaxed);
    let due = trial.delivery("a").await.due_at.max(trial.delivery("b").await.due_at);
    trial.clock.set(due);
    assert_eq!(trial.decided("a").await.state, Delivered);
    let heard = hook.so_far();
    let of_a: Vec<_> = heard.iter().filter(|one| one.id() == "a").collect();
    assert!(of_a.iter().all(|one| one.body == of_a[0].body));
}

#[tokio::test]
async fn an_event_is_sent_when_it_is_committed_and_when_it_is_called_for_by_hand() {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let hook = Hook::new(move |_| {
        let status = if is_up.swap(true, Ordering::Relaxed) { 200 } else { 500 };
        async move { answer(status, &[], "") }
    })
    .await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a"]).await;
    trial.attempted("a", 1).await;
    // The clock stands: only the call wakes the worker.
    trial.store.retry_event("a", at(0)).await.unwrap();
    assert_eq!(trial.decided("a").await.state, Delivered);
}

#[tokio::test]
async fn a_worker_killed_while_it_sends_leaves_a_claim_that_runs_out_and_the_same_event_goes_again() {
    let answering = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&answering);
    let hook = Hook::new(move |_| {
        let answers = Arc::clone(&answers);
        async move {
            if !answers.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            answer(200, &[], "")
        }
    })
    .await;
    let mut trial = Trial::idle(at(0)).await;
    trial.events("one", &["a"]).await;
    // A process of its own, as it were: its ledger, its worker, and an end without a word.
    let doomed = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (path, hands, sending) = (
        trial.folder.path().join(LEDGER_FILE),
        trial.clock.clone(),
        settings(&hook.url),
    );
    doomed.spawn(async move {
        let store = Store::open(&path).await.unwrap();
        let worker = start_with(store, &sending, hands, CancellationToken::new()).unwrap();
        worker.stopped().await;
    });
    hook.heard(1).await;
    doomed.shutdown_background();
    answering.store(true, Ordering::Relaxed);

    let left = trial.delivery("a").await;
    assert_eq!((left.attempts, left.leased_until), (0, Some(at(0) + lease())));
    trial.start(&settings(&hook.url));
    trial.clock.set(at(0) + lease() - SignedDuration::from_secs(1));
    trial.events("two", &["b"]).await;
    assert_eq!(trial.decided("b").await.state, Delivered);
    assert_eq!(hook.so_far().len(), 2, "the claim still held");
    trial.clock.set(at(0) + lease());
    assert_eq!(trial.decided("a").await.state, Delivered);
    let heard = hook.so_far();
    assert_eq!((heard[0].id(), heard[2].id()), ("a", "a"));
    assert_eq!(heard[0].body, heard[2].body);
}

#[tokio::test]
async fn a_clock_that_jumps_over_a_claim_does_not_send_twice_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let hook = Hook::new(move |heard| {
        let waits = Arc::clone(&waits);
        async move {
            if heard.id() == "a" {
                waits.acquire().await.unwrap().forget();
            }
            answer(200, &[], "")
        }
    })
    .await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a"]).await;
    hook.heard(1).await;
    trial.clock.set(at(3600));
    trial.events("two", &["b"]).await;
    trial.decided("b").await;
    assert_eq!(hook.so_far().len(), 2);
    gate.add_permits(1);
    assert_eq!(trial.decided("a").await.state, Delivered);
    assert_eq!(hook.so_far().len(), 2);
}

#[tokio::test]
async fn a_stop_lets_what_is_under_way_end_and_begins_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let hook = Hook::new(move |_| {
        let waits = Arc::clone(&waits);
        async move {
            waits.acquire().await.unwrap().forget();
            answer(200, &[], "")
        }
    })
    .await;
    let mut trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a"]).await;
    hook.heard(1).await;
    trial.stop.cancel();
    trial.events("two", &["b"]).await;
    gate.add_permits(9);
    trial.stopped().await;
    assert_eq!(trial.delivery("a").await.state, Delivered);
    let b = trial.delivery("b").await;
    assert_eq!((b.state, b.attempts, b.leased_until), (Waiting, 0, None));
    assert_eq!(hook.so_far().len(), 1);
}
