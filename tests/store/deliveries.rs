//! Deliveries.

use jiff::Timestamp;
use t3code_mcp::store::{
    Attempt, AttemptOutcome, DeliveryState, Due, ListFilter, NewEvent, PASSED_AFTER_ATTEMPTS, Resend, Store,
};

use crate::support::{again, at, event, ledger, of_events};

/// How long a claim holds.
pub const LEASE: i64 = 60;

pub fn attempt(outcome: AttemptOutcome, now: Timestamp) -> Attempt {
    Attempt {
        at: now,
        outcome,
        status: Some(500),
        error: Some("no".to_owned()),
        body: None,
    }
}

pub async fn claim(store: &Store, seconds: i64, max: u32) -> Vec<Due> {
    store.claim_due(at(seconds), at(seconds + LEASE), max).await.unwrap()
}

async fn claimed(store: &Store, seconds: i64) -> Vec<String> {
    claim(store, seconds, 9).await.into_iter().map(|due| due.id).collect()
}

async fn fail(store: &Store, due: &Due, seconds: i64) {
    let retry = attempt(AttemptOutcome::Retry(at(seconds)), at(seconds));
    assert!(store.record(due, &retry).await.unwrap());
}

#[tokio::test]
async fn a_claim_is_its_holders_alone_until_its_lease_is_over() {
    let (folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    assert_eq!(claimed(&store, 9).await, Vec::<String>::new(), "not due yet");
    let first = claim(&store, 10, 9).await.remove(0);
    assert_eq!((first.first_attempt_at, first.claim, first.frozen), (at(10), 1, false));
    let store = again(&folder, store).await;
    assert_eq!(store.next_due(at(11)).await.unwrap(), Some(at(10 + LEASE)));
    assert_eq!(claimed(&store, 10 + LEASE - 1).await, Vec::<String>::new());
    let second = claim(&store, 10 + LEASE, 9).await.remove(0);
    assert_eq!(
        (second.first_attempt_at, second.claim),
        (at(10), 2),
        "the first attempt is the first claim"
    );
    let late = attempt(AttemptOutcome::Retry(at(500)), at(75));
    assert!(
        !store.record(&first, &late).await.unwrap(),
        "the first claim has run out"
    );
    let (id, state) = (&second.id, async || {
        store.delivery(&second.id).await.unwrap().unwrap().delivery.unwrap()
    });
    assert_eq!(
        (state().await.attempts, state().await.leased_until),
        (0, Some(at(10 + 2 * LEASE))),
        "{id}"
    );
    assert!(
        store
            .record(&first, &attempt(AttemptOutcome::Delivered, at(76)))
            .await
            .unwrap(),
        "it was delivered"
    );
    assert!(
        !store
            .record(&second, &attempt(AttemptOutcome::Dead, at(77)))
            .await
            .unwrap()
    );
    assert_eq!(state().await.state, DeliveryState::Delivered);
    assert_eq!(store.next_due(at(999)).await.unwrap(), None);
}

#[tokio::test]
async fn claimers_at_once_never_get_the_same_event_nor_two_of_a_thread() {
    let (_folder, store) = ledger().await;
    let events = (0..40)
        .map(|n| event(&format!("e{n}"), &format!("t{}", n % 20)))
        .collect();
    store.commit(of_events(events)).await.unwrap();
    let claims = (0..10).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, 20, 3).await })
    });
    let mut got = Vec::new();
    for claim in claims {
        got.extend(claim.await.unwrap());
    }
    let mut threads: Vec<_> = got.iter().map(|due| due.thread.clone()).collect();
    threads.sort();
    threads.dedup();
    assert_eq!((got.len(), threads.len()), (20, 20));
}

#[tokio::test]
async fn the_next_event_of_a_thread_passes_one_that_failed_four_times_and_is_marked() {
    let (_folder, store) = ledger().await;
    store
        .commit(of_events(vec![event("a", "one"), event("b", "one"), event("c", "one")]))
        .await
        .unwrap();
    for failed in 0..PASSED_AFTER_ATTEMPTS {
        let due = claim(&store, 20, 9).await;
        assert_eq!(due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(
            (due[0].attempts, due[0].out_of_order, due[0].frozen),
            (failed, false, failed > 0)
        );
        fail(&store, &due[0], 20).await;
    }
    let b = claim(&store, 20, 9).await;
    assert_eq!(
        (b.len(), b[0].id.as_str(), b[0].out_of_order),
        (1, "b", true),
        "one of a thread at a time"
    );
    store
        .record(&b[0], &attempt(AttemptOutcome::Delivered, at(22)))
        .await
        .unwrap();
    let c = claim(&store, 22, 9).await.remove(0);
    assert_eq!((c.id.as_str(), c.out_of_order), ("c", true), "a is still undelivered");
    store
        .record(&c, &attempt(AttemptOutcome::Delivered, at(23)))
        .await
        .unwrap();
    let a = claim(&store, 24, 9).await.remove(0);
    assert_eq!((a.id.as_str(), a.out_of_order), ("a", false));
}

#[tokio::test]
async fn a_body_is_sent_again_as_it_was_first_sent() {
    let (_folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    let due = claim(&store, 20, 1).await.remove(0);
    let mut first = attempt(AttemptOutcome::Retry(at(30)), at(21));
    first.body = Some("frozen".to_owned());
    store.record(&due, &first).await.unwrap();
    let due = claim(&store, 30, 1).await.remove(0);
    assert_eq!((due.body.as_str(), due.frozen), ("frozen", true));
    let mut second = attempt(AttemptOutcome::Retry(at(40)), at(31));
    second.body = Some("another".to_owned());
    store.record(&due, &second).await.unwrap();
    assert_eq!(claim(&store, 40, 1).await.remove(0).body, "frozen");
}

#[tokio::test]
async fn only_what_is_dead_or_waits_its_turn_is_sent_again_by_hand() {
    let (_folder, store) = ledger().await;
    let silent = NewEvent {
        deliver: false,
        ..event("silent", "two")
    };
    store
        .commit(of_events(vec![event("a", "one"), event("b", "one"), silent]))
        .await
        .unwrap();
    let retry = async |id: &str, seconds| store.retry_event(id, at(seconds)).await.unwrap();
    assert_eq!(retry("none", 20).await, Resend::Unknown);
    assert_eq!(retry("silent", 20).await, Resend::NotForDelivery);
    assert_eq!(retry("b", 20).await, Resend::Behind);
    let a = claim(&store, 20, 1).await.remove(0);
    assert_eq!(retry("a", 21).await, Resend::InFlight);
    fail(&store, &a, 5_000).await;
    let mut changes = store.changes();
    assert_eq!(retry("a", 22).await, Resend::Queued);
    assert!(
        changes.has_changed().unwrap(),
        "whoever waits for the next one is woken"
    );
    changes.mark_unchanged();
    let a = claim(&store, 22, 1).await.remove(0);
    store.record(&a, &attempt(AttemptOutcome::Dead, at(23))).await.unwrap();
    let b = claim(&store, 23, 9).await.remove(0);
    assert_eq!((b.id.as_str(), b.out_of_order), ("b", false));
    store
        .record(&b, &attempt(AttemptOutcome::Delivered, at(24)))
        .await
        .unwrap();
    assert_eq!(retry("b", 25).await, Resend::Delivered);
    let counts = store.delivery_counts().await.unwrap();
    assert_eq!(
        (counts.waiting, counts.in_flight, counts.dead, counts.oldest_waiting),
        (0, 0, 1, None)
    );
    let dead = ListFilter {
        state: Some(DeliveryState::Dead),
        before: None,
    };
    assert_eq!(store.deliveries(dead, 9).await.unwrap().len(), 1);
    assert_eq!(retry("a", 30).await, Resend::Queued);
    let a = claim(&store, 31, 9).await.remove(0);
    assert_eq!(
        (a.id.as_str(), a.attempts, a.first_attempt_at, a.resent, a.frozen),
        ("a", 0, at(31), true, true)
    );
    let all: Vec<String> = store
        .deliveries(ListFilter::default(), 9)
        .await
        .unwrap()
        .into_iter()
        .map(|l| l.event.id)
        .collect();
    assert_eq!(
        all,
        ["silent", "b", "a"],
        "newest first, with those that are not for delivery"
    );
}
