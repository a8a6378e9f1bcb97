//! What a caller may do, in the domain's words: one function a tool. `mcp` and `cli` only translate.
//!
//! Reads come from the mirrors in `fleet`; only a thread's content is fetched. Mutations run in their own task, so that a client that
//! hangs up does not stop one half way. Nothing here sees a protocol version's types, or prints.

mod add_project;
mod answer;
mod answers;
mod archive;
mod bounded;
mod budget;
mod caller;
mod compose;
mod continue_;
mod delivery;
mod diff;
mod dispatch;
mod dispatch_many;
mod error;
mod event;
mod events;
mod faults;
mod ids;
mod interrupt;
mod keeping;
mod launch;
mod machines;
mod memory;
mod model;
mod models;
mod modes;
mod origin;
mod outbox;
mod paging;
mod pairing;
mod patch;
mod places;
mod progress;
mod projects;
mod queue;
mod reading;
mod readings;
mod receipts;
mod renewal;
mod running;
#[cfg(test)]
pub(crate) mod samples;
mod scratch;
mod searching;
mod showing;
mod sighting;
mod standing;
mod status;
mod text;
mod thread;
mod thread_list;
mod threads;
pub mod tracking;
mod verdict;
mod view;
mod wait;
mod waiting;
mod watches;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::credentials::Credentials;
use crate::fleet::Fleet;
use crate::gateway::memory::Memory;
use crate::gateway::receipts::Receipts;

pub use add_project::{AddProjectAnswer, AddProjectArgs};
pub use answer::{AnswerAnswer, AnswerArgs};
pub use archive::{ArchiveAnswer, ArchiveArgs};
pub use budget::ANSWER_CHARS;
pub use caller::Caller;
pub use delivery::{Delivered, Delivery};
pub use diff::{DiffAnswer, DiffArgs, DiffFile};
pub use dispatch::{DispatchAnswer, DispatchArgs};
pub use dispatch_many::{DispatchManyAnswer, DispatchManyArgs, ItemResult};
pub use error::{ErrorCode, ToolError};
pub use event::{AskedView, EventBody, EventScene, event_body};
pub use events::{EventsAnswer, EventsArgs};
pub use interrupt::{InterruptAnswer, InterruptArgs};
pub use keeping::Ledger;
pub use machines::{CredentialView, EXPIRING_SOON_DAYS, MachineView, MachinesAnswer, MachinesArgs, days_left};
pub use models::{LimitView, ModelOptionView, ModelView, ModelsAnswer, ModelsArgs, ProviderView};
pub use origin::{ORIGIN_BYTES, is_origin};
pub use outbox::{DeliveryEntry, EventEntry, EventList, event_entry, list_events};
pub use pairing::{PairAnswer, PairArgs, PairError, PairRequest, Paired, pair};
pub use progress::{ProgressSink, Tick};
pub use projects::{ProjectView, ProjectsAnswer, ProjectsArgs, Unreachable};
pub use queue::{QueueAnswer, QueueArgs};
pub use readings::{MachineReading, Readings, may_read};
pub use renewal::{ISSUE, renewal};
pub use status::{CredentialHealth, DeliveryHealth, MachineHealth, StatusAnswer, StatusArgs, StreamHealth};
pub use thread::ThreadArgs;
pub use thread_list::{AskedRow, FoundBy, LastMessageView, ListedThread, MatchView, ThreadsAnswer, ThreadsArgs};
pub use view::*;
pub use wait::{WaitAnswer, WaitArgs};
pub use watches::{WatchAnswer, WatchArgs, WatchView};
pub use words::*;

/// What the operator may set.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// How long a wait without a progress token lasts where the caller names no timeout.
    pub wait_without_progress: Duration,
    /// How long a run may stay in `finishing` before it counts as completed.
    pub finish_timeout: Duration,
    /// Where credentials are kept; none: nothing can be paired.
    pub credentials: Option<Credentials>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            wait_without_progress: Duration::from_secs(50),
            finish_timeout: Duration::from_mins(3),
            credentials: None,
        }
    }
}

/// The gateway: one for the process.
#[derive(Debug)]
pub struct Gateway {
    fleet: Arc<Fleet>,
    settings: GatewaySettings,
    stop: CancellationToken,
    tasks: TaskTracker,
    receipts: Mutex<Receipts>,
    memory: Memory,
    /// What calls that start several things share, by machine.
    lanes: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Pairings of a machine come one after the other.
    pairings: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// None: nothing outlives the process, and no events are made.
    ledger: Option<Ledger>,
}

impl Gateway {
    /// A gateway over the machines. When `stop` is cancelled, open waits answer `still_running`. Without a `ledger` receipts live in memory,
    /// and there are no events.
    pub fn new(
        fleet: Arc<Fleet>,
        settings: GatewaySettings,
        ledger: Option<Ledger>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            fleet,
            settings,
            stop,
            tasks: TaskTracker::new(),
            receipts: Mutex::new(Receipts::new()),
            memory: Memory::new(),
            lanes: Mutex::default(),
            pairings: Mutex::default(),
            ledger,
        })
    }

    /// The machines behind it.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Waits until it is told to stop.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until what the machines showed until now is in the ledger, at most `within`: the answer of a call may come before its event.
    pub async fn caught_up(&self, within: Duration) {
        if let Some(ledger) = &self.ledger
            && tokio::time::timeout(within, ledger.tracking.rest()).await.is_err()
        {
            tracing::info!("what the machines showed last is not yet in the ledger: the next owner tells it");
        }
    }

    /// Waits until the mutations that run have ended; call it after `stop` was cancelled and no call comes in any more.
    pub async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
