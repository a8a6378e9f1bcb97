//! Tracked threads.

use crate::support::{again, ledger, of_events, raw, run, tracked};
use t3code_mcp::lifecycle::{RequestState, RunState, TrackedRequest, TrackedThread, Watch};
use t3code_mcp::store::{Batch, StoreError, Tracked};

fn keep(threads: Vec<Tracked>) -> Batch {
    Batch {
        upsert: threads,
        ..Batch::default()
    }
}

#[tokio::test]
async fn threads_come_back_as_they_were_kept() {
    let (folder, store) = ledger().await;
    let bare = Tracked {
        environment: None,
        project_id: None,
        project_title: None,
        title: None,
        thread: TrackedThread {
            unreachable: false,
            latest: Watch {
                on: false,
                origin: None,
                client: None,
            },
            every: false,
            baseline: None,
            runs: Vec::new(),
            requests: Vec::new(),
            dispatched: Vec::new(),
            ..tracked("bare").thread
        },
        ..tracked("bare")
    };
    let mut states = tracked("states");
    states.thread.runs = RunState::ALL.iter().map(|state| run("states", 1, *state)).collect();
    states.thread.requests = RequestState::ALL
        .iter()
        .map(|state| TrackedRequest {
            state: *state,
            run: None,
            ..tracked("states").thread.requests.remove(0)
        })
        .collect();
    let elsewhere = Tracked {
        machine: "linux".to_owned(),
        ..tracked("one")
    };
    let threads = vec![tracked("one"), bare, states, elsewhere];
    store.commit(keep(threads.clone())).await.unwrap();
    let store = again(&folder, store).await;
    assert_eq!(store.tracked().await.unwrap(), threads);
}

#[tokio::test]
async fn a_thread_takes_the_place_of_what_was_kept_of_it_and_forgetting_leaves_nothing() {
    let (_folder, store) = ledger().await;
    store.commit(keep(vec![tracked("one"), tracked("two")])).await.unwrap();
    let mut changed = tracked("one");
    changed.title = Some("another".to_owned());
    changed.thread.runs.remove(0);
    changed.thread.requests.clear();
    changed.thread.dispatched.clear();
    let batch = Batch {
        forget: vec![
            ("mac".to_owned(), "two".to_owned().into()),
            ("mac".to_owned(), "none".to_owned().into()),
        ],
        ..keep(vec![changed.clone()])
    };
    store.commit(batch).await.unwrap();
    assert_eq!(store.tracked().await.unwrap(), [changed]);
    let orphans: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM tracked_runs) + (SELECT count(*) FROM tracked_requests) \
         + (SELECT count(*) FROM tracked_messages)",
    )
    .fetch_one(&mut raw(store.path()).await)
    .await
    .unwrap();
    assert_eq!(orphans, 1, "the changed thread's one run");
}

#[tokio::test]
async fn a_state_that_this_version_does_not_know_is_named_with_its_row() {
    let (_folder, store) = ledger().await;
    store.commit(keep(vec![tracked("one")])).await.unwrap();
    sqlx::query("UPDATE tracked_runs SET state = 'dreaming' WHERE position = 1")
        .execute(&mut raw(store.path()).await)
        .await
        .unwrap();
    let error = store.tracked().await.unwrap_err();
    assert!(matches!(error, StoreError::Word { .. }));
    assert_eq!(
        error.to_string(),
        "The ledger's table tracked_runs says `dreaming` at `run 5 of one`, which this version does not know. Start the \
         version that wrote it."
    );
    store.commit(of_events(Vec::new())).await.expect("writing goes on");
}
