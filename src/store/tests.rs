//! What only the inside can bring about: a disk that is full, and a job that fails among others.
#![allow(clippy::unwrap_used)]

use jiff::Timestamp;
use tempfile::TempDir;

use super::{Batch, EventFilter, LEDGER_FILE, NewEvent, Store, StoreError};

async fn ledger() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    (folder, store)
}

fn batch(id: &str, size: usize) -> Batch {
    let event = NewEvent {
        id: id.to_owned(),
        occurred_at: Timestamp::UNIX_EPOCH,
        machine: "mac".to_owned(),
        thread: "one".to_owned().into(),
        project_id: None,
        client: None,
        kind: "completed".to_owned(),
        body: "x".repeat(size),
        deliver: true,
    };
    Batch {
        events: vec![event],
        ..Batch::default()
    }
}

async fn pages_at_most(store: &Store, more: i64) {
    store
        .write(move |connection| {
            Box::pin(async move {
                let pages: i64 = sqlx::query_scalar("PRAGMA page_count")
                    .fetch_one(&mut *connection)
                    .await?;
                let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {}", pages + more));
                sqlx::query(limit).fetch_all(connection).await?;
                Ok(())
            })
        })
        .await
        .unwrap();
}

async fn ids(store: &Store) -> Vec<String> {
    let page = store.events_after(0, 1_000, &EventFilter::default()).await.unwrap();
    page.events.into_iter().map(|event| event.id).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_loses_nothing_and_takes_more_once_there_is_room() {
    let (folder, store) = ledger().await;
    pages_at_most(&store, 40).await;
    let mut kept = Vec::new();
    let refused = loop {
        let id = format!("e{}", kept.len());
        match store.commit(batch(&id, 9_000)).await {
            Ok(_) => kept.push(id),
            Err(error) => break error,
        }
        assert!(kept.len() < 100, "it never got full");
    };
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("Make room"));
    assert!(kept.len() > 3);
    assert_eq!(
        ids(&store).await,
        kept,
        "reading goes on, and the refused one left no trace"
    );
    assert_eq!(store.delivery_counts().await.unwrap().waiting, kept.len() as u64);
    assert!(matches!(
        store.commit(batch("still", 9_000)).await,
        Err(StoreError::Full { .. })
    ));
    pages_at_most(&store, 1_000).await;
    store.commit(batch("again", 9_000)).await.unwrap();
    kept.push("again".to_owned());
    store.close().await;
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    assert!(store.set_aside().is_none());
    assert_eq!(ids(&store).await, kept);
}

#[tokio::test]
async fn a_job_that_fails_is_taken_back_alone() {
    let (_folder, store) = ledger().await;
    let failing = store.write(|connection| {
        Box::pin(async move {
            sqlx::query("INSERT INTO sessions VALUES ('s', 'c', 0, 0, '{}')")
                .execute(&mut *connection)
                .await?;
            sqlx::query("INSERT INTO sessions VALUES ('s', 'c', 0, 0, '{}')")
                .execute(connection)
                .await?;
            Ok(())
        })
    });
    // Polled in this order, all three are queued before the writer begins: one transaction.
    let (before, failed, after) = tokio::join!(store.commit(batch("a", 9)), failing, store.commit(batch("b", 9)));
    assert!(before.is_ok() && after.is_ok() && matches!(failed, Err(StoreError::Io { .. })));
    assert_eq!(ids(&store).await, ["a", "b"]);
    assert!(
        store.sessions().await.unwrap().is_empty(),
        "its first half is gone as well"
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_undo_what_it_asked_for() {
    let (_folder, store) = ledger().await;
    let mut changes = store.changes();
    let mut asked = Box::pin(store.commit(batch("a", 9)));
    assert!(futures_util::poll!(asked.as_mut()).is_pending());
    drop(asked);
    changes.changed().await.unwrap();
    assert_eq!(ids(&store).await, ["a"]);
}
