//! What the ledger takes, for the table in the README: `cargo test --release --test store measured -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use t3code_mcp::lifecycle::RunState;
use t3code_mcp::store::{Batch, EventFilter, LEDGER_FILE, NewEvent, Store};

use crate::support::{at, event, ledger, of_events, run, tracked};

fn took(what: &str, began: Instant) {
    println!("{what}: {:.0?}", began.elapsed());
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_hundred_thousand_tracked_threads() {
    let (folder, store) = ledger().await;
    let began = Instant::now();
    for part in 0..100 {
        let upsert = (0..1_000).map(|n| {
            let thread = format!("0190a7c2-5b1e-7c3a-9d2f-{:012}", part * 1_000 + n);
            let mut tracked = tracked(&thread);
            tracked.thread.runs = vec![run(&thread, 4, RunState::Running)];
            tracked.thread.requests.clear();
            tracked.thread.dispatched.clear();
            tracked
        });
        let batch = Batch {
            upsert: upsert.collect(),
            ..Batch::default()
        };
        store.commit(batch).await.unwrap();
    }
    took("100,000 threads written", began);
    store.close().await;
    let began = Instant::now();
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    took("opened", began);
    let began = Instant::now();
    assert_eq!(store.tracked().await.unwrap().len(), 100_000);
    took("100,000 threads read", began);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn a_thousand_runs_that_end_at_once() {
    let (_folder, store) = ledger().await;
    let began = Instant::now();
    for n in 0..20 {
        store
            .commit(of_events(vec![event(&format!("alone {n}"), "alone")]))
            .await
            .unwrap();
    }
    took("20 commits one after the other", began);
    let began = Instant::now();
    let writers: Vec<_> = (0..1_000)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = format!("e{n}");
                let batch = Batch {
                    upsert: vec![tracked(&id)],
                    ..of_events(vec![event(&id, &id)])
                };
                store.commit(batch).await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    took("1,000 commits at once", began);
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_million_events_and_their_pruning() {
    let (folder, store) = ledger().await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000));
    let began = Instant::now();
    for part in 0..1_000 {
        let events = (0..1_000).map(|n| NewEvent {
            occurred_at: at(part * 1_000 + n),
            deliver: false,
            body: body.clone(),
            ..event(&format!("evt_{:032}", part * 1_000 + n), &format!("thread {n}"))
        });
        store.commit(of_events(events.collect())).await.unwrap();
    }
    took("1,000,000 events written", began);
    store.close().await;
    let began = Instant::now();
    let path = folder.path().join(LEDGER_FILE);
    println!("{} MiB", path.metadata().unwrap().len() >> 20);
    let store = Store::open(&path).await.unwrap();
    took("opened", began);
    let began = Instant::now();
    store
        .events_after(900_000, 1_000, &EventFilter::default())
        .await
        .unwrap();
    took("a page of 1,000", began);
    let began = Instant::now();
    let pruning = tokio::spawn({
        let store = store.clone();
        async move { store.prune(at(500_000), Duration::ZERO).await.unwrap() }
    });
    let mut slowest = Duration::ZERO;
    let mut n = 0;
    while !pruning.is_finished() {
        let began = Instant::now();
        store
            .commit(of_events(vec![event(&format!("meanwhile {n}"), "one")]))
            .await
            .unwrap();
        slowest = slowest.max(began.elapsed());
        n += 1;
    }
    println!("{} events pruned", pruning.await.unwrap().events);
    took("pruning", began);
    println!(
        "slowest of {n} commits meanwhile: {slowest:.0?}; {} MiB",
        path.metadata().unwrap().len() >> 20
    );
}
