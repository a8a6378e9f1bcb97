//! Pruning.

use std::time::Duration;

use t3code_mcp::store::{Attempt, AttemptOutcome, EventFilter, NewEvent};

use crate::support::{at, event, event_ids, ledger, of_events, raw};

const DAY: i64 = 86_400;

#[tokio::test]
async fn old_events_go_but_not_what_is_still_to_be_sent_or_was_given_up() {
    let (_folder, store) = ledger().await;
    let old = |id: &str, deliver: bool| NewEvent {
        deliver,
        ..event(id, id)
    };
    let silent = (0..1_300).map(|n| old(&format!("silent {n}"), false));
    let others = ["delivered", "waiting", "dead"].map(|id| old(id, true));
    let fresh = NewEvent {
        occurred_at: at(20 * DAY),
        deliver: false,
        ..event("fresh", "fresh")
    };
    let events = others.into_iter().chain(silent).chain([fresh]).collect();
    store.commit(of_events(events)).await.unwrap();
    for (due, outcome) in store.claim_due(at(20), at(80), 9).await.unwrap().iter().zip([
        AttemptOutcome::Delivered,
        AttemptOutcome::Retry(at(99 * DAY)),
        AttemptOutcome::Dead,
    ]) {
        let attempt = Attempt {
            at: at(21),
            outcome,
            status: None,
            error: None,
            body: None,
        };
        assert!(store.record(due, &attempt).await.unwrap());
    }
    let month = Duration::from_hours(30 * 24);
    assert_eq!(store.prune(at(29 * DAY), month).await.unwrap().events, 0);
    assert_eq!(store.prune(at(31 * DAY), month).await.unwrap().events, 1_301);
    assert_eq!(event_ids(&store).await, ["waiting", "dead", "fresh"]);
    let page = async |cursor| store.events_after(cursor, 9, &EventFilter::default()).await.unwrap();
    assert!(page(0).await.truncated && page(1_302).await.truncated);
    assert!(
        !page(1_303).await.truncated,
        "nothing is missing behind the last one that went"
    );
    let (deliveries, free): (i64, i64) = (
        sqlx::query_scalar("SELECT count(*) FROM deliveries")
            .fetch_one(&mut raw(store.path()).await)
            .await
            .unwrap(),
        sqlx::query_scalar("PRAGMA freelist_count")
            .fetch_one(&mut raw(store.path()).await)
            .await
            .unwrap(),
    );
    assert_eq!((deliveries, free), (2, 0), "their room went back to the disk");
    assert_eq!(store.prune(at(31 * DAY), month).await.unwrap().events, 0);
    assert_eq!(
        store.commit(of_events(vec![event("new", "new")])).await.unwrap().cursor,
        1_305,
        "no number twice"
    );
}
