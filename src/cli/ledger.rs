//! The ledger of a process that serves: opened before the first call is answered, closed after the last one ended.
//!
//! Its owner starts the watch over what the ledger has, sends its events to the hook, and gives the gateway its way to both.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::role::Rank;
use crate::config::Config;
use crate::config::state::{StateDir, StateError};
use crate::delivery::{self, Delivery, HookSettings};
use crate::fleet::Fleet;
use crate::gateway::Ledger;
use crate::gateway::tracking::Tracking;
use crate::lifecycle::Limits;
use crate::store::{LEDGER_FILE, OWNER_FILE, Ownership, Store};
use crate::watch::{self, WatchSettings};

/// How long the watch may take to keep what happened last, and an attempt at a delivery to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How often old events are taken away.
const PRUNE_EVERY: Duration = Duration::from_hours(24);

/// An open ledger, and the watch over its threads.
pub(super) struct OpenLedger {
    ledger: Ledger,
    watching: JoinHandle<()>,
    delivery: Option<Delivery>,
    stop: CancellationToken,
    /// To the last: who comes after us opens what we have closed.
    _ownership: Ownership,
}

/// What a ledger is opened for.
pub(super) struct Purpose<'a> {
    pub(super) watch: WatchSettings,
    pub(super) keep_events: Duration,
    pub(super) hook: Option<&'a HookSettings>,
}

/// The right to keep the ledger of a state directory; none where another process has it.
pub(super) fn own(state: &StateDir) -> Result<Option<Ownership>, Failure> {
    let taken = Ownership::take(state.path());
    taken.map_err(|error| {
        let file = state.path().join(OWNER_FILE);
        Failure::said(StateError::not_written(&file, &error))
    })
}

/// Opens the ledger of the state directory as the config wants it.
pub(super) async fn open(
    config: &Config,
    state: &StateDir,
    ownership: Ownership,
    fleet: &Arc<Fleet>,
    rank: Rank,
    stop: &CancellationToken,
) -> Result<OpenLedger, Failure> {
    let watch = WatchSettings {
        limits: Limits {
            finish_timeout: SignedDuration::try_from(config.watch.finish_timeout).map_err(Failure::said)?,
            stall_after: signed(config.watch.stall_after)?,
        },
        unreachable_after: signed(config.watch.unreachable_after)?,
        deliver: config.hook.is_some(),
        final_word: rank == Rank::Serves,
    };
    let hook = config.hook.as_ref().map(HookSettings::from_config);
    let purpose = Purpose {
        watch,
        keep_events: config.watch.keep_events,
        hook: hook.as_ref(),
    };
    open_at(state, ownership, fleet, purpose, stop).await
}

/// Opens the ledger in a state directory, starts to watch and to deliver. No delivery begins any more when `told_to_stop` is cancelled; the
/// watch goes on until the ledger is closed.
pub(super) async fn open_at(
    state: &StateDir,
    ownership: Ownership,
    fleet: &Arc<Fleet>,
    mut purpose: Purpose<'_>,
    told_to_stop: &CancellationToken,
) -> Result<OpenLedger, Failure> {
    let store = Store::open(&state.ledger(LEDGER_FILE)).await.map_err(Failure::said)?;
    if let Some(damaged) = store.set_aside() {
        tracing::error!("{damaged}");
    }
    // What an operator wants of the hook, a client's own process does not know: it leaves events for one that does.
    if !purpose.watch.final_word && store.has_deliveries().await.map_err(Failure::said)? {
        purpose.watch.deliver = true;
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
    // Nobody else delivers: what the process before this one had begun need not wait for its lease.
    store.release_claims().await.map_err(Failure::said)?;
    if let Some(file) = state.named_by() {
        let members = fleet.members();
        let machines: Vec<&str> = members.iter().map(|member| member.name()).collect();
        watch::import(&store, file, &machines).await;
    }
    let (tracking, wishes) = Tracking::new();
    let stop = CancellationToken::new();
    let watching = watch::start(Arc::clone(fleet), store.clone(), purpose.watch, wishes, stop.clone())
        .await
        .map_err(Failure::said)?;
    tokio::spawn(prune(store.clone(), purpose.keep_events, stop.clone()));
    let hook = purpose.hook;
    let delivery = hook.map(|hook| delivery::start(store.clone(), hook, told_to_stop.child_token()));
    Ok(OpenLedger {
        ledger: Ledger { store, tracking },
        watching,
        delivery: delivery.transpose().map_err(Failure::said)?,
        stop,
        _ownership: ownership,
    })
}

/// Keeps the ledger from growing for ever.
async fn prune(store: Store, keep: Duration, stop: CancellationToken) {
    let mut again = tokio::time::interval(PRUNE_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = again.tick() => {}
        }
        match store.prune(Timestamp::now(), keep).await {
            Ok(pruned) => tracing::debug!(events = pruned.events, "old events were taken away"),
            Err(error) => tracing::warn!(%error, "old events could not be taken away"),
        }
    }
}

fn signed(duration: Option<Duration>) -> Result<Option<SignedDuration>, Failure> {
    duration
        .map(SignedDuration::try_from)
        .transpose()
        .map_err(Failure::said)
}

impl OpenLedger {
    /// The gateway's way to it.
    pub(super) fn handle(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Keeps what happened last and closes it. Call it when no call is open any more.
    pub(super) async fn close(self) {
        self.stop.cancel();
        let delivered = async {
            if let Some(delivery) = self.delivery {
                delivery.stopped().await;
            }
        };
        let (watched, delivered) = tokio::join!(timeout(END_WITHIN, self.watching), timeout(END_WITHIN, delivered));
        if watched.is_err() {
            tracing::warn!("the watch did not end in time; T3 still knows what happened");
        }
        if delivered.is_err() {
            tracing::warn!("the hook did not answer in time; what it did not take is sent again after the next start");
        }
        self.ledger.store.close().await;
    }
}
