//! A process that is killed in the middle of its commits: what was answered is there, and nothing is there by half.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use t3code_mcp::store::{Batch, LEDGER_FILE, ReceiptUpdate, Store};

use crate::support::{event, event_ids, raw, receipt, tracked};

/// Names the ledger to the process that is to be killed, and which of them it is.
const CHILD: &str = "T3CODE_MCP_TEST_KILLED";

const WRITERS: usize = 6;

#[tokio::test]
async fn killed_at_any_point_nothing_answered_is_lost_and_nothing_is_there_by_half() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LEDGER_FILE);
    let rounds: u64 = std::env::var("T3CODE_MCP_TEST_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12);
    let mut answered = BTreeSet::new();
    for round in 0..rounds {
        // From the first answer to the middle of a long run.
        let after = usize::try_from(round * round * 7 % 151).unwrap();
        answered.extend(kill_after(&path, round, after));
        let store = Store::open(&path).await.unwrap();
        assert!(store.set_aside().is_none(), "a killed writer damages nothing");
        let events: BTreeSet<String> = event_ids(&store).await.into_iter().collect();
        let lost: Vec<_> = answered.difference(&events).collect();
        assert!(lost.is_empty(), "round {round}: answered and not there: {lost:?}");
        let threads: BTreeSet<String> = store
            .tracked()
            .await
            .unwrap()
            .into_iter()
            .map(|tracked| tracked.thread.thread.0)
            .collect();
        assert_eq!(threads, events, "round {round}: a thread and its event are one");
        let deliveries: Vec<String> = sqlx::query_scalar("SELECT id FROM deliveries JOIN events USING (seq)")
            .fetch_all(&mut raw(&path).await)
            .await
            .unwrap();
        assert_eq!(
            BTreeSet::from_iter(deliveries),
            events,
            "round {round}: an event and its delivery are one"
        );
        let open: BTreeSet<String> = store
            .open_receipts()
            .await
            .unwrap()
            .into_iter()
            .map(|open| open.intent.request)
            .collect();
        assert!(open.is_disjoint(&events), "round {round}: taken up and still open");
        store.close().await;
    }
    assert!(!answered.is_empty());
}

/// Starts a process that writes, kills it after some answers, and gives what was answered.
fn kill_after(path: &Path, round: u64, answers: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, format!("{round} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answered = Vec::new();
    let mut note = |line: String| answered.extend(line.strip_prefix("answered ").map(str::to_owned));
    let mut left = answers + 1;
    for line in lines.by_ref() {
        let line = line.unwrap();
        left -= usize::from(line.starts_with("answered "));
        note(line);
        if left == 0 {
            break;
        }
    }
    child.kill().unwrap();
    // What it said before the end counts, as long as the line is whole.
    for line in lines {
        let Ok(line) = line else { break };
        if line.ends_with('.') {
            note(line);
        }
    }
    child.wait().unwrap();
    answered
        .into_iter()
        .map(|id| id.trim_end_matches('.').to_owned())
        .collect()
}

/// Not a test by itself: what the killed process runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (round, path) = told.split_once(' ').unwrap();
    let store = Store::open(Path::new(path)).await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let (store, round) = (store.clone(), round.to_owned());
        tokio::spawn(async move {
            for n in 0.. {
                let id = format!("{round}-{writer}-{n}");
                store.claim_receipt(&receipt(&id)).await.unwrap();
                let batch = Batch {
                    upsert: vec![tracked(&id)],
                    events: vec![event(&id, &id)],
                    settled: vec![("dispatcher".to_owned(), id.clone(), ReceiptUpdate::default())],
                    ..Batch::default()
                };
                store.commit(batch).await.unwrap();
                println!("answered {id}.");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}
