//! The ledger of a process that serves: opened before the first call is answered, closed after the last one ended.
//!
//! It starts the watch over what the ledger has, and gives the gateway its way to both.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::config::Config;
use crate::config::state::StateDir;
use crate::fleet::Fleet;
use crate::gateway::Ledger;
use crate::gateway::tracking::Tracking;
use crate::lifecycle::Limits;
use crate::store::{LEDGER_FILE, Store};
use crate::watch::{self, WatchSettings};

/// A watched run that does not move for so long is told as stalled.
const STALL_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// A machine with watched open runs that is away for so long is told as unreachable.
const UNREACHABLE_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// How long the watch may take to keep what happened last.
const END_WITHIN: Duration = Duration::from_secs(3);

/// An open ledger, and the watch over its threads.
pub(super) struct OpenLedger {
    ledger: Ledger,
    watching: JoinHandle<()>,
    stop: CancellationToken,
}

/// Opens the ledger in the state directory and starts to watch.
pub(super) async fn open(config: &Config, fleet: &Arc<Fleet>) -> Result<OpenLedger, Failure> {
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let store = Store::open(&state.path().join(LEDGER_FILE))
        .await
        .map_err(Failure::said)?;
    if let Some(damaged) = store.set_aside() {
        tracing::error!("{damaged}");
    }
    // Calls that were cut off with the process before this one have lost their answers.
    let lost = store
        .lose_pending_answers(Timestamp::now())
        .await
        .map_err(Failure::said)?;
    if lost > 0 {
        tracing::info!(
            calls = lost,
            "calls had no answer when the gateway ended last; equal ones find them"
        );
    }
    let (tracking, wishes) = Tracking::new();
    let settings = WatchSettings {
        limits: Limits {
            finish_timeout: SignedDuration::try_from(config.watch.finish_timeout).map_err(Failure::said)?,
            stall_after: Some(STALL_AFTER),
        },
        unreachable_after: Some(UNREACHABLE_AFTER),
        deliver: false,
    };
    let stop = CancellationToken::new();
    let watching = watch::start(Arc::clone(fleet), store.clone(), settings, wishes, stop.clone())
        .await
        .map_err(Failure::said)?;
    // delivery starts here
    Ok(OpenLedger {
        ledger: Ledger { store, tracking },
        watching,
        stop,
    })
}

impl OpenLedger {
    /// The gateway's way to it.
    pub(super) fn handle(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Keeps what happened last and closes it. Call it when no call is open any more.
    pub(super) async fn close(self) {
        self.stop.cancel();
        if tokio::time::timeout(END_WITHIN, self.watching).await.is_err() {
            tracing::warn!("the watch did not end in time; T3 still knows what happened");
        }
        self.ledger.store.close().await;
    }
}
