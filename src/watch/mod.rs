//! Carries what happens on the machines through the trackers into the ledger: state, events and deliveries in one transaction.
//!
//! One `keeper` a machine does the I/O (`keepers` starts them and hands out wishes); its `roster` decides (no I/O, no clock), thread by
//! thread with the lifecycle's trackers. It reads what was missed after a gap, and is the only one that writes tracked threads and events. It
//! talks to no receiver: `delivery` does. The roster can also be driven by who brings machine and clock himself: so a test goes through days
//! in no time.

mod beginning;
mod connector_file;
mod credentials;
mod entry;
mod facts;
mod ids;
mod import;
mod keeper;
mod keepers;
mod place;
mod roster;

pub use roster::{Outcome, Roster};

use std::sync::Arc;

use jiff::SignedDuration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::gateway::tracking::Said;
use crate::lifecycle::Limits;
use crate::store::{Store, StoreError};

pub use credentials::tell_credential;
pub use import::import;

/// What the operator may set.
#[derive(Clone, Copy, Debug)]
pub struct WatchSettings {
    /// How long runs may finish or stand still.
    pub limits: Limits,
    /// How long a machine with open runs may be away untold; none switches it off.
    pub unreachable_after: Option<SignedDuration>,
    /// A hook is configured: events are to be delivered.
    pub deliver: bool,
    /// What this process's config does not show is gone for good: told, and followed no more. Else it waits for a process that shows it.
    pub final_word: bool,
}

/// Starts to watch, until `stop` is cancelled. Wishes come from the gateway; returns when everything that is tracked is taken up.
///
/// # Errors
/// The ledger cannot be read.
pub async fn start(
    fleet: Arc<Fleet>,
    store: Store,
    settings: WatchSettings,
    wishes: mpsc::Receiver<Said>,
    stop: CancellationToken,
) -> Result<tokio::task::JoinHandle<()>, StoreError> {
    keepers::start(fleet, store, settings, wishes, stop).await
}
