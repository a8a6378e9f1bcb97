//! Threads taken over from another program.

use t3code_mcp::lifecycle::Watch;
use t3code_mcp::store::{Batch, TakenOver};

use crate::support::{again, at, ledger, tracked};

fn taken(thread: &str, seconds: i64, on: bool) -> TakenOver {
    TakenOver {
        machine: "mac".to_owned(),
        thread: thread.to_owned().into(),
        watch: Watch {
            on,
            origin: Some("chat:1".to_owned()),
            client: Some("default".to_owned()),
        },
        at: at(seconds),
    }
}

#[tokio::test]
async fn a_thread_is_taken_over_once_for_ever_and_waits_until_it_is_followed() {
    let (folder, store) = ledger().await;
    let first = vec![
        taken("one", 0, true),
        taken("two", 0, true),
        taken("unwatched", 0, false),
    ];
    assert_eq!(store.take_over(first.clone()).await.unwrap(), first);
    let more = vec![taken("one", 5, false), taken("three", 5, true)];
    assert_eq!(store.take_over(more).await.unwrap(), [taken("three", 5, true)]);
    let store = again(&folder, store).await;
    let waiting = async |store: &t3code_mcp::store::Store| {
        let mut waiting = store.waiting_to_be_read().await.unwrap();
        waiting.sort_by(|one, other| one.thread.0.cmp(&other.thread.0));
        waiting
    };
    assert_eq!(
        waiting(&store).await,
        [taken("one", 0, true), taken("three", 5, true), taken("two", 0, true)]
    );
    let batch = Batch {
        upsert: vec![tracked("one")],
        taken_over: vec![("mac".to_owned(), "one".to_owned().into())],
        ..Batch::default()
    };
    store.commit(batch).await.unwrap();
    assert_eq!(waiting(&store).await, [taken("three", 5, true), taken("two", 0, true)]);
    assert!(store.take_over(vec![taken("one", 9, true)]).await.unwrap().is_empty());
}
