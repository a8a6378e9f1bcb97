//! What becomes of wishes for machines whose keepers do not come to hear them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;

use super::*;
use crate::fleet::Rules;
use crate::gateway::tracking::{Fate, OFFERED, Tracking, WAITING};
use crate::machine::MachineSettings;
use crate::protocol::{MessageId, ThreadId};
use crate::store::LEDGER_FILE;

/// Longer than anything takes; only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

struct House {
    tracking: Tracking,
    wishes: mpsc::Receiver<Said>,
    keepers: Keepers,
    _folder: tempfile::TempDir,
}

impl House {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (tracking, wishes) = Tracking::new();
        let keepers = Keepers {
            to: BTreeMap::new(),
            ends: BTreeMap::new(),
            running: JoinSet::new(),
            store: Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap(),
            settings: WatchSettings {
                limits: crate::lifecycle::Limits {
                    finish_timeout: SignedDuration::from_mins(3),
                    stall_after: None,
                },
                unreachable_after: None,
                deliver: false,
                final_word: true,
            },
            stop: CancellationToken::new(),
        };
        Self {
            tracking,
            wishes,
            keepers,
            _folder: folder,
        }
    }

    /// A machine whose wishes come out here.
    fn machine(&mut self, name: &str) -> mpsc::UnboundedReceiver<Said> {
        let (line, wishes) = Line::new();
        self.keepers.to.insert(name.to_owned(), line);
        wishes
    }

    /// Hands out wishes from now on.
    fn begin(self) -> Tracking {
        let Self {
            tracking,
            wishes,
            mut keepers,
            _folder: folder,
        } = self;
        tokio::spawn(async move {
            keepers.hand_out(wishes).await;
            drop(folder);
        });
        tracking
    }
}

fn settle(machine: &str) -> Wish {
    Wish::Settle {
        machine: machine.to_owned(),
        thread: ThreadId("thread".to_owned()),
        message: MessageId("message".to_owned()),
        fate: Fate::Taken,
    }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes soon")
}

#[tokio::test]
async fn a_machine_that_is_stuck_delays_no_other_and_takes_no_more_than_its_room() {
    let mut house = House::new().await;
    let (mut stuck, mut other) = (house.machine("stuck"), house.machine("other"));
    let tracking = house.begin();
    let said = Arc::new(AtomicUsize::new(0));
    let (flood, count) = (tracking.clone(), Arc::clone(&said));
    tokio::spawn(async move {
        for _ in 0..3 * WAITING {
            flood.wish(settle("stuck")).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (asks, ask) = (tracking.clone(), tracking.clone());
    let at_rest = tokio::spawn(async move { asks.rest().await });
    let listed = tokio::spawn(async move {
        let (to, answer) = oneshot::channel();
        ask.wish(Wish::List { to }).await;
        answer.await
    });
    soon(async {
        while stuck.len() < WAITING {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Who offers what nothing hangs on is not kept either, and takes little.
    for _ in 0..3 * OFFERED {
        tracking.offer(settle("stuck"));
    }
    for _ in 0..3 * WAITING {
        soon(tracking.wish(settle("other"))).await;
        loop {
            let said = soon(other.recv()).await.unwrap();
            if matches!(said.wish, Wish::Settle { .. }) {
                break;
            }
        }
    }
    // Two ask all keepers.
    assert!(stuck.len() <= WAITING + OFFERED + 2, "{}", stuck.len());
    assert_eq!(said.load(Ordering::Relaxed), WAITING);
    assert!(!at_rest.is_finished() && !listed.is_finished());
    // What is heard makes room.
    for _ in 0..3 * WAITING + OFFERED {
        while !matches!(soon(stuck.recv()).await.unwrap().wish, Wish::Settle { .. }) {}
    }
    soon(at_rest).await.unwrap();
    assert_eq!(soon(listed).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn who_asks_all_keepers_again_and_again_takes_no_more_than_the_room_of_a_stuck_one() {
    let mut house = House::new().await;
    let stuck = house.machine("stuck");
    let tracking = house.begin();
    for _ in 0..10 * ASKING {
        let (to, answer) = oneshot::channel();
        tracking.wish(Wish::List { to }).await;
        // It gives up.
        drop(answer);
        tokio::task::yield_now().await;
    }
    assert!((1..=ASKING).contains(&stuck.len()), "{}", stuck.len());
}

#[tokio::test]
async fn a_machine_that_waits_for_its_last_keeper_delays_no_other() {
    let mut house = House::new().await;
    let mut other = house.machine("other");
    let settings = MachineSettings {
        name: "mac".to_owned(),
        url: "http://127.0.0.1:1".parse().unwrap(),
        token: Some("any".to_owned().into()),
        ca_file: None,
        frame_limit: 1 << 20,
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    let fleet = Fleet::start(vec![(settings, Rules::default())], &stop);
    let (ending, end) = oneshot::channel();
    house.keepers.ends.insert("mac".to_owned(), end);
    let tracking = house.begin();
    tracking.wish(Wish::Admit(Arc::clone(&fleet.members()[0]))).await;
    tracking.wish(settle("other")).await;
    soon(other.recv()).await.unwrap();
    // What is said meanwhile is heard once it has begun: then it lists, and is at rest.
    tracking.wish(settle("mac")).await;
    let at_rest = tokio::spawn(async move { tracking.rest().await });
    drop(soon(other.recv()).await.unwrap());
    assert!(!at_rest.is_finished());
    drop(ending);
    soon(at_rest).await.unwrap();
    stop.cancel();
}
