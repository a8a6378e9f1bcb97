//! What the tasks of a simulated server share: the model behind its lock, credentials, the clock, and the faults that are on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::auth::Auth;
use super::describe;
use super::model::{Model, Stamp};
use super::older::Older;

/// How many raw items may wait for a slow stream.
const RAW_BACKLOG: usize = 256;

/// What the lock guards. It is never held across an await.
#[derive(Debug)]
pub(crate) struct State {
    pub model: Model,
    /// The database while the server speaks protocol 1: then nothing is asked of `model`.
    pub older: Option<Older>,
    pub auth: Auth,
    /// Every command that was received, for tests that count.
    pub received: Vec<Value>,
    /// How often each thread was asked for, for tests that count.
    pub reads: HashMap<String, ThreadReads>,
}

impl State {
    fn head(&self) -> u64 {
        self.older.as_ref().map_or_else(|| self.model.head(), Older::head)
    }

    fn poll_timeout(&self) -> Option<Stamp> {
        match &self.older {
            Some(older) => older.poll_timeout(),
            None => self.model.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Stamp) {
        match &mut self.older {
            Some(older) => older.handle_timeout(now),
            None => self.model.handle_timeout(now),
        }
    }
}

/// How often a thread was asked for over HTTP, whatever the answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadReads {
    /// The whole of it.
    pub whole: u64,
    /// Its newest part.
    pub bounded: u64,
}

/// The faults that are on.
#[derive(Debug)]
pub(crate) struct Switches {
    /// Nothing is answered while it is on; sockets stay open.
    pub hang: watch::Sender<bool>,
    /// Commands are applied, and their answers wait until it is off.
    pub hold_answers: watch::Sender<bool>,
    /// The shell's streams show nothing of what happens while it is on, and then all of it at once.
    pub hold_shell: watch::Sender<bool>,
    /// Every answer waits so many milliseconds.
    pub delay_ms: AtomicU64,
    /// The answers of so many next commands are lost.
    pub lose_answers: AtomicU64,
    /// With the lost answer the socket goes.
    pub lose_socket: AtomicBool,
    /// There are no bounded reads, as on a server that is older than they are.
    pub no_bounded_reads: AtomicBool,
    /// Procedures that it does not have, as on a server that is older than they are.
    pub absent: Mutex<HashSet<String>>,
}

/// A simulated server's shared part.
#[derive(Debug)]
pub(crate) struct Host {
    state: Mutex<State>,
    /// The newest sequence.
    head: watch::Sender<u64>,
    /// A timer may have come nearer.
    wake: Notify,
    /// Counts the changes of the server's configuration.
    pub config: watch::Sender<u64>,
    /// Items to push into every shell stream as they are.
    pub raw: broadcast::Sender<Value>,
    pub switches: Switches,
    /// Ends every open socket at once, without a close frame.
    sockets: Mutex<CancellationToken>,
    fibers: AtomicU64,
    /// The version gate is on.
    pub gate: bool,
    /// Bounded reads show so many runs; all of them without it.
    pub bounded_runs: Option<usize>,
    /// What people call the machine.
    pub label: String,
}

impl Host {
    pub(crate) fn new(
        model: Model,
        older: Option<Older>,
        auth: Auth,
        gate: bool,
        bounded_runs: Option<usize>,
        label: String,
    ) -> Self {
        let head = watch::Sender::new(older.as_ref().map_or(model.head(), Older::head));
        Self {
            state: Mutex::new(State {
                model,
                older,
                auth,
                received: Vec::new(),
                reads: HashMap::new(),
            }),
            head,
            wake: Notify::new(),
            config: watch::Sender::new(0),
            raw: broadcast::Sender::new(RAW_BACKLOG),
            switches: Switches {
                hang: watch::Sender::new(false),
                hold_answers: watch::Sender::new(false),
                hold_shell: watch::Sender::new(false),
                delay_ms: AtomicU64::new(0),
                lose_answers: AtomicU64::new(0),
                lose_socket: AtomicBool::new(false),
                no_bounded_reads: AtomicBool::new(false),
                absent: Mutex::default(),
            },
            sockets: Mutex::new(CancellationToken::new()),
            fibers: AtomicU64::new(1000),
            gate,
            bounded_runs,
            label,
        }
    }

    pub(crate) fn now() -> Stamp {
        Stamp::new(Timestamp::now())
    }

    /// Reads.
    pub(crate) fn read(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and tells those who watch.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, Stamp) -> T) -> T {
        let now = Self::now();
        let mut state = self.read();
        // What was due before comes before.
        state.handle_timeout(now);
        let result = change(&mut state, now);
        let head = state.head();
        drop(state);
        self.head.send_replace(head);
        self.wake.notify_one();
        result
    }

    /// The whole configuration, as it is told.
    pub(crate) fn config(&self) -> Value {
        let state = self.read();
        let cwd = state.model.roots().into_iter().next().unwrap_or_default();
        let older = state.older.is_some();
        describe::config(state.model.options(), (&self.label, older), &cwd, Self::now())
    }

    /// All provider instances, as they are told.
    pub(crate) fn providers(&self) -> Vec<Value> {
        describe::providers(self.read().model.options(), Self::now())
    }

    pub(crate) fn watch_head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Lets time pass, until the task is dropped.
    pub(crate) async fn drive(&self) {
        loop {
            let due = self.read().poll_timeout();
            match due {
                None => self.wake.notified().await,
                Some(at) => {
                    let wait = at.wait_from(Self::now());
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = self.wake.notified() => {}
                    }
                }
            }
            let mut state = self.read();
            state.handle_timeout(Self::now());
            let head = state.head();
            drop(state);
            self.head
                .send_if_modified(|known| std::mem::replace(known, head) != head);
        }
    }

    /// Whether it has the procedure.
    pub(crate) fn has(&self, tag: &str) -> bool {
        let absent = &self.switches.absent;
        !absent.lock().unwrap_or_else(PoisonError::into_inner).contains(tag)
    }

    /// The token that ends a socket opened now.
    pub(crate) fn socket_token(&self) -> CancellationToken {
        self.sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .child_token()
    }

    /// Cuts every socket, as a killed server does.
    pub(crate) fn cut_sockets(&self) {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *sockets, CancellationToken::new()).cancel();
    }

    /// The number of the next fiber, as interrupts name them.
    pub(crate) fn fiber(&self) -> u64 {
        self.fibers.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits as the faults demand before anything is answered.
    pub(crate) async fn hold(&self) {
        // The sender lives as long as we do.
        let _ = self.switches.hang.subscribe().wait_for(|on| !on).await;
        let delay = self.switches.delay_ms.load(Ordering::Relaxed);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
    }

    /// Waits while the shell's streams are held back.
    pub(crate) async fn shell_shows(&self) {
        // The sender lives as long as we do.
        let _ = self.switches.hold_shell.subscribe().wait_for(|on| !on).await;
    }

    /// Whether the answer of this command is lost, and whether its socket goes with it.
    pub(crate) fn loses_answer(&self) -> Option<bool> {
        let left = &self.switches.lose_answers;
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .ok()
            .map(|_| self.switches.lose_socket.load(Ordering::Relaxed))
    }
}
