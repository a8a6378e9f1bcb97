//! A disk that is really full: `T3CODE_MCP_TEST_SMALL_DISK=<a folder on a file system of some MiB> cargo test --test store full -- --ignored`.

use std::fs;
use std::path::Path;

use t3code_mcp::store::{LEDGER_FILE, NewEvent, Store, StoreError};

use crate::support::{event, event_ids, of_events};

#[tokio::test]
#[ignore = "wants a small disk"]
async fn a_disk_without_room_refuses_loses_nothing_and_takes_more_once_there_is_room() {
    let folder = std::env::var("T3CODE_MCP_TEST_SMALL_DISK").expect("names a folder on a small disk");
    let (path, ballast) = (Path::new(&folder).join(LEDGER_FILE), Path::new(&folder).join("ballast"));
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let store = Store::open(&path).await.unwrap();
    let mut kept = event_ids(&store).await;
    let big = |n: usize| NewEvent {
        body: "x".repeat(20_000),
        ..event(&format!("e{n}"), "one")
    };
    let refused = loop {
        match store.commit(of_events(vec![big(kept.len())])).await {
            Ok(committed) => kept.extend(committed.new),
            Err(error) => break error,
        }
        assert!(kept.len() < 10_000, "the disk is not small");
    };
    println!("{} kept, then: {refused}", kept.len());
    assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
    assert_eq!(event_ids(&store).await, kept);
    fs::remove_file(&ballast).unwrap();
    kept.extend(store.commit(of_events(vec![big(kept.len())])).await.unwrap().new);
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    assert!(store.set_aside().is_none());
    assert_eq!(event_ids(&store).await, kept);
    store.close().await;
}
