//! What the gateway wants of whoever keeps an eye on threads (`watch`), and how it says so.
//!
//! What must not be lost stands in the ledger before it is said here: a wish that is lost with the process is found again there.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::fleet::Member;
use crate::lifecycle::Watch;
use crate::machine::Thread;
use crate::protocol::{EnvironmentId, MessageId, ThreadId};
use crate::store::{NewReceipt, StoreError};

/// How many wishes may wait for one machine's turn. Who has another one for it waits; who has one for another machine does not.
pub const WAITING: usize = 1_024;
/// How many of those that nothing hangs on may: each holds a whole thread.
pub const OFFERED: usize = 16;

/// What is wanted.
#[derive(Debug)]
pub enum Wish {
    /// A message is about to be sent: follow what it becomes.
    TakeUp(Box<NewReceipt>),
    /// What became of a message.
    Settle {
        /// The machine.
        machine: String,
        /// The thread.
        thread: ThreadId,
        /// The message.
        message: MessageId,
        /// What became of it.
        fate: Fate,
    },
    /// Switch a thread's events.
    Switch {
        /// The machine.
        machine: String,
        /// The thread.
        thread: ThreadId,
        /// On or off.
        enabled: bool,
        /// What its runs are reported as from now on.
        watch: Watch,
        /// Told when it is on disk.
        done: oneshot::Sender<Result<(), StoreError>>,
    },
    /// A thread was read that asks something.
    Sight(Sight),
    /// A machine is there that was not, or its rules are others: follow it.
    Admit(Arc<Member>),
    /// A machine is gone.
    Dismiss {
        /// The machine.
        machine: String,
    },
    /// Is everything told that was seen until now?
    Rest {
        /// Dropped by each machine's where that is so.
        done: mpsc::Sender<()>,
    },
    /// What is watched?
    List {
        /// Where the answer goes.
        to: oneshot::Sender<Vec<WatchedThread>>,
    },
}

impl Wish {
    /// The machine whose room it takes. What goes to all, or comes from the operator, takes none.
    fn machine(&self) -> Option<&str> {
        match self {
            Self::TakeUp(receipt) => Some(&receipt.machine),
            Self::Settle { machine, .. } | Self::Switch { machine, .. } => Some(machine),
            Self::Sight(sight) => Some(&sight.machine),
            Self::Admit(_) | Self::Dismiss { .. } | Self::Rest { .. } | Self::List { .. } => None,
        }
    }
}

/// A wish on its way, with the room that it takes until it is heard.
#[derive(Debug)]
pub struct Said {
    /// What is wanted.
    pub wish: Wish,
    /// Its room.
    pub room: Option<OwnedSemaphorePermit>,
}

/// What a call read of a thread: whoever keeps an eye on it may read it too late to see what it asks.
#[derive(Debug)]
pub struct Sight {
    /// The machine.
    pub machine: String,
    /// The environment that it was read in.
    pub environment: Option<EnvironmentId>,
    /// The thread's id.
    pub id: ThreadId,
    /// The thread.
    pub thread: Arc<Thread>,
    /// Dropped when what follows from it is on disk. Without it nobody waits for that.
    pub kept: Option<oneshot::Sender<()>>,
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// T3 took it.
    Taken,
    /// It came to nothing, and never will.
    Nothing,
    /// Nobody knows: only T3 can show it.
    Unknown,
}

/// A thread whose events somebody wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchedThread {
    /// The machine.
    pub machine: String,
    /// The thread.
    pub thread: ThreadId,
    /// The project's id.
    pub project: Option<crate::protocol::ProjectId>,
    /// Its title, as last known.
    pub title: Option<String>,
    /// Every run of it is watched, whoever starts it.
    pub every: bool,
    /// How many watched runs are open.
    pub open: usize,
    /// The clients that asked for it.
    pub clients: BTreeSet<String>,
}

/// Where wishes go. Clones speak to the same.
#[derive(Clone, Debug)]
pub struct Tracking {
    to: mpsc::Sender<Said>,
    rooms: Arc<Mutex<HashMap<String, Room>>>,
}

/// The room for one machine's wishes.
#[derive(Clone, Debug)]
struct Room {
    wished: Arc<Semaphore>,
    offered: Arc<Semaphore>,
}

impl Tracking {
    /// A place for wishes, and where they come out.
    pub fn new() -> (Self, mpsc::Receiver<Said>) {
        let (to, receiver) = mpsc::channel(WAITING);
        let rooms = Arc::default();
        (Self { to, rooms }, receiver)
    }

    /// Says what is wanted. Nobody listens any more only when the program stops; then the ledger keeps what matters.
    pub async fn wish(&self, wish: Wish) {
        let room = match wish.machine() {
            // It is never closed.
            Some(machine) => self.room(machine).wished.acquire_owned().await.ok(),
            None => None,
        };
        if self.to.send(Said { wish, room }).await.is_err() {
            tracing::debug!("nobody takes wishes any more");
        }
    }

    /// Says what is wanted if there is room for it; nothing hangs on it.
    pub fn offer(&self, wish: Wish) {
        let room = wish
            .machine()
            .map(|machine| self.room(machine).offered.try_acquire_owned());
        let said = room.transpose().ok().map(|room| Said { wish, room });
        if said.is_none_or(|said| self.to.try_send(said).is_err()) {
            tracing::debug!("there is no room for a wish that nothing hangs on");
        }
    }

    fn room(&self, machine: &str) -> Room {
        // Nothing is half done under this lock.
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(machine) {
            return room.clone();
        }
        let room = Room {
            wished: Arc::new(Semaphore::new(WAITING)),
            offered: Arc::new(Semaphore::new(OFFERED)),
        };
        rooms.insert(machine.to_owned(), room.clone());
        room
    }

    /// Waits until what the machines showed until now is in the ledger.
    pub async fn rest(&self) {
        let (done, mut at_rest) = mpsc::channel(1);
        self.wish(Wish::Rest { done }).await;
        // Nothing is sent: it ends when the last has dropped its own.
        let _ = at_rest.recv().await;
    }
}
