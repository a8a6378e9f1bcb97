//! What goes after what, and how much at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use t3code_mcp::delivery::AT_ONCE;
use t3code_mcp::store::DeliveryState::{Delivered, Waiting};
use tokio::sync::{Semaphore, watch};

use crate::support::{Hook, Trial, answer, event, settings};

#[tokio::test]
async fn later_events_of_a_thread_pass_after_the_fourth_failure_and_say_so() {
    let hook = Hook::new(|heard| async move { answer(if heard.id() == "a" { 500 } else { 200 }, &[], "") }).await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a", "b", "c"]).await;
    for failed in 1..=4 {
        let a = trial.attempted("a", failed).await;
        assert_eq!(a.state, Waiting);
        if failed < 4 {
            assert_eq!(hook.so_far().len(), failed as usize, "nobody passes yet");
            trial.clock.set(a.due_at);
        }
    }
    assert_eq!(trial.decided("b").await.state, Delivered);
    assert_eq!(trial.decided("c").await.state, Delivered);
    trial.clock.set(trial.delivery("a").await.due_at);
    trial.attempted("a", 5).await;
    let heard = hook.so_far();
    let ids: Vec<&str> = heard.iter().map(super::support::Heard::id).collect();
    assert_eq!(ids, ["a", "a", "a", "a", "b", "c", "a"]);
    let marked: Vec<bool> = heard.iter().map(|one| one.json()["out_of_order"] == true).collect();
    assert_eq!(marked, [false, false, false, false, true, true, false]);
}

#[tokio::test]
async fn an_event_that_passed_and_failed_is_sent_again_with_its_mark_byte_for_byte() {
    let hook = Hook::new(|heard| async move { answer(if heard.id() == "a" { 500 } else { 503 }, &[], "") }).await;
    let trial = Trial::new(&settings(&hook.url)).await;
    trial.events("one", &["a", "b"]).await;
    for failed in 1..=4 {
        trial.clock.set(trial.attempted("a", failed).await.due_at);
    }
    trial.clock.set(trial.attempted("b", 1).await.due_at);
    trial.attempted("b", 2).await;
    let of_b: Vec<_> = hook.so_far().into_iter().filter(|one| one.id() == "b").collect();
    assert!(of_b.len() >= 2);
    assert!(of_b.iter().all(|one| one.body == of_b[0].body));
    assert_eq!(of_b[0].json()["out_of_order"], true);
}

#[tokio::test]
async fn eight_go_at_once_and_never_two_of_one_thread() {
    const EVENTS: usize = 40;
    let gate = Arc::new(Semaphore::new(0));
    let active = Arc::new(watch::Sender::new(BTreeMap::<String, usize>::new()));
    let most: Arc<Mutex<(usize, usize)>> = Arc::default();
    let hook = {
        let (gate, active, most) = (Arc::clone(&gate), Arc::clone(&active), Arc::clone(&most));
        Hook::new(move |heard| {
            let (gate, active, most) = (Arc::clone(&gate), Arc::clone(&active), Arc::clone(&most));
            async move {
                let thread = heard.json()["thread_id"].as_str().unwrap().to_owned();
                active.send_modify(|active| {
                    *active.entry(thread.clone()).or_default() += 1;
                    let mut most = most.lock().unwrap();
                    most.0 = most.0.max(active.values().sum());
                    most.1 = most.1.max(active.values().copied().max().unwrap_or(0));
                });
                gate.acquire().await.unwrap().forget();
                active.send_modify(|active| *active.get_mut(&thread).unwrap() -= 1);
                answer(200, &[], "")
            }
        })
        .await
    };
    let trial = Trial::new(&settings(&hook.url)).await;
    let now = t3code_mcp::delivery::Clock::now(&*trial.clock);
    let events = (0..EVENTS)
        .map(|n| event(&format!("e{n}"), &format!("t{}", n % 12), now))
        .collect();
    trial.commit(events).await;
    let full = |active: &BTreeMap<String, usize>| active.values().sum::<usize>() == AT_ONCE;
    for done in 0..=EVENTS - AT_ONCE - 12 {
        hook.heard(AT_ONCE + done).await;
        active.subscribe().wait_for(full).await.unwrap();
        gate.add_permits(1);
    }
    gate.add_permits(EVENTS);
    for n in 0..EVENTS {
        assert_eq!(trial.decided(&format!("e{n}")).await.state, Delivered);
    }
    assert_eq!(*most.lock().unwrap(), (AT_ONCE, 1));
    let heard = hook.so_far();
    assert_eq!(heard.len(), EVENTS);
    for thread in 0..12 {
        let numbers: Vec<usize> = heard
            .iter()
            .filter(|one| one.json()["thread_id"] == format!("t{thread}"))
            .map(|one| one.id()[1..].parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
}
