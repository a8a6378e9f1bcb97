//! One read serves all, and never one that is too old.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;
use crate::machine::dialect::{Dialect, Protocol2};
use crate::machine::recordings;

fn id() -> ThreadId {
    ThreadId("t".to_owned())
}

/// Some thread; the reads do not look into it.
fn thread(sequence: u64) -> Thread {
    let body = recordings::reads("05a-respond-without-decision-wedges-run").remove(0);
    let thread = Protocol2.read_thread(body.to_string().as_bytes()).unwrap();
    Thread { sequence, ..thread }
}

/// A read that counts itself and ends when it is told to.
#[derive(Clone, Default)]
struct Source {
    reads: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    go: Arc<Notify>,
}

impl Source {
    async fn fetch(self) -> Result<Thread, MachineError> {
        let number = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.go.notified().await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(thread(number as u64))
    }

    async fn started(&self, count: usize) {
        while self.reads.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_thousand_who_wait_for_one_thread_share_one_read() {
    let (reads, source) = (Arc::new(Reads::default()), Source::default());
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let (reads, source) = (reads.clone(), source.clone());
            tokio::spawn(async move { reads.read(&id(), Seen::Row(7), source.fetch()).await })
        })
        .collect();
    source.started(1).await;
    source.go.notify_one();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().unwrap().sequence, 1);
    }
    // Who was woken by the same change and comes a little later is served as well.
    assert_eq!(
        reads
            .read(&id(), Seen::Row(7), source.clone().fetch())
            .await
            .unwrap()
            .sequence,
        1
    );
    assert_eq!(source.reads.load(Ordering::SeqCst), 1);

    while reads.remembered() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_read_that_began_before_the_change_does_not_serve_who_saw_it() {
    let (reads, source) = (Arc::new(Reads::default()), Source::default());
    let begin = |seen| {
        let (reads, source) = (reads.clone(), source.clone());
        tokio::spawn(async move { reads.read(&id(), seen, source.fetch()).await.unwrap().sequence })
    };
    let first = begin(Seen::Row(7));
    source.started(1).await;
    let second = begin(Seen::Row(8));
    source.started(2).await;
    for _ in 0..2 {
        source.go.notify_one();
        tokio::task::yield_now().await;
    }
    source.go.notify_waiters();
    let mut sequences = [first.await.unwrap(), second.await.unwrap()];
    sequences.sort_unstable();
    assert_eq!(sequences, [1, 2]);
}

#[tokio::test]
async fn of_a_thread_without_a_row_only_a_read_that_runs_is_shared() {
    let (reads, source) = (Arc::new(Reads::default()), Source::default());
    let begin = || {
        let (reads, source) = (reads.clone(), source.clone());
        tokio::spawn(async move {
            reads
                .read(&id(), Seen::Nothing(7), source.fetch())
                .await
                .unwrap()
                .sequence
        })
    };
    let first = begin();
    source.started(1).await;
    let others: Vec<_> = (0..100).map(|_| begin()).collect();
    tokio::task::yield_now().await;
    source.go.notify_one();
    assert_eq!(first.await.unwrap(), 1);
    for other in others {
        assert_eq!(other.await.unwrap(), 1);
    }
    // A change of it may have gone unseen since.
    source.go.notify_one();
    assert_eq!(begin().await.unwrap(), 2);
    assert_eq!(reads.remembered(), 0);
}

#[tokio::test]
async fn a_read_that_panics_is_told_and_stands_in_nobodys_way() {
    let reads = Arc::new(Reads::default());
    let broken = reads
        .read(&id(), Seen::Row(1), async {
            panic!("on purpose: what a decoder must never do")
        })
        .await;
    assert!(matches!(broken, Err(MachineError::Unreachable { .. })), "{broken:?}");
    let read = reads.read(&id(), Seen::Row(1), async { Ok(thread(5)) }).await;
    assert_eq!(read.unwrap().sequence, 5);
}

#[tokio::test]
async fn another_database_is_read_anew() {
    let reads = Arc::new(Reads::default());
    let read = |sequence| {
        let reads = reads.clone();
        async move {
            reads
                .read(&id(), Seen::Row(1), async move { Ok(thread(sequence)) })
                .await
        }
    };
    assert_eq!(read(5).await.unwrap().sequence, 5);
    assert_eq!(read(6).await.unwrap().sequence, 5, "kept");
    reads.forget_all();
    assert_eq!(read(7).await.unwrap().sequence, 7);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_takes_nothing_of_a_reads_time() {
    let reads = Arc::new(Reads::default());
    // Rounds of reads that each take most of their time: all of them end well.
    let waiting: Vec<_> = (0..AT_ONCE * 3)
        .map(|number| {
            let reads = reads.clone();
            let id = ThreadId(number.to_string());
            tokio::spawn(async move {
                let fetch = async {
                    tokio::time::sleep(READ_TIMEOUT.mul_f64(0.9)).await;
                    Ok(thread(1))
                };
                reads.read(&id, Seen::Row(1), fetch).await.map(drop)
            })
        })
        .collect();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    let slow = reads.read(&id(), Seen::Row(1), std::future::pending()).await;
    assert!(matches!(slow, Err(MachineError::Timeout(_))), "{slow:?}");
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_end_the_read_of_the_others() {
    let (reads, source) = (Arc::new(Reads::default()), Source::default());
    let first = tokio::spawn({
        let (reads, source) = (reads.clone(), source.clone());
        async move { reads.read(&id(), Seen::Row(1), source.fetch()).await }
    });
    source.started(1).await;
    let second = tokio::spawn({
        let (reads, source) = (reads.clone(), source.clone());
        async move { reads.read(&id(), Seen::Row(1), source.fetch()).await }
    });
    tokio::task::yield_now().await;
    first.abort();
    source.go.notify_one();
    assert_eq!(second.await.unwrap().unwrap().sequence, 1);
}

#[tokio::test]
async fn a_failed_read_is_told_and_not_kept() {
    let reads = Arc::new(Reads::default());
    let failed = reads
        .read(&id(), Seen::Row(1), async { Err(MachineError::ThreadNotFound) })
        .await;
    assert!(matches!(failed, Err(MachineError::ThreadNotFound)));
    let read = reads.read(&id(), Seen::Row(1), async { Ok(thread(5)) }).await;
    assert_eq!(read.unwrap().sequence, 5);
}

#[tokio::test]
async fn only_so_many_reads_run_at_a_time() {
    let (reads, source) = (Arc::new(Reads::default()), Source::default());
    let waiting: Vec<_> = (0..AT_ONCE * 3)
        .map(|number| {
            let (reads, source) = (reads.clone(), source.clone());
            let id = ThreadId(number.to_string());
            tokio::spawn(async move { reads.read(&id, Seen::Row(1), source.fetch()).await.map(drop) })
        })
        .collect();
    source.started(AT_ONCE).await;
    while !waiting.iter().all(tokio::task::JoinHandle::is_finished) {
        source.go.notify_waiters();
        tokio::task::yield_now().await;
    }
    assert_eq!(source.most.load(Ordering::SeqCst), AT_ONCE);
}
