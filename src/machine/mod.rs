//! One T3 server: descriptor, credential, HTTP reads, the socket session, the mirror of its shell, the dialects.
//!
//! [`Machine`] is the handle that `fleet` and `gateway` hold. It keeps itself connected from [`Machine::start`] until its token is
//! cancelled, answers questions about the shell from memory, and is the only thing in the program that talks to T3.

mod access;
mod backoff;
mod changes;
mod connection;
pub mod decoded;
pub mod descriptor;
mod dialect;
pub mod domain;
pub mod error;
pub mod expiry;
pub mod http;
mod link;
pub mod mirror;
pub mod pairing;
mod parts;
mod queries;
mod reads;
#[cfg(test)]
#[path = "../../tests/recordings/mod.rs"]
mod recordings;
mod refusal;
mod sending;
pub mod session;
pub mod socket;
mod state;
mod unread;
mod watchers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use url::Url;

use self::dialect::Memory;
use self::expiry::Notice;
use self::link::Link;
use self::reads::Reads;
use self::state::State;
use crate::lifecycle::RunFacts;
use crate::protocol::{EnvironmentId, ProjectId, ThreadId};
pub use access::{Access, TokenFrom};
pub use changes::{Changed, Changes};
pub use domain::*;
pub use error::MachineError;

/// How long a read waits for the mirror to show our last write; then it goes on, since a read over HTTP has the write.
const CATCH_UP: Duration = Duration::from_secs(5);

/// How long a list waits for it. T3 shows in a tenth of a second what it has done.
const LISTED_WITHIN: Duration = Duration::from_secs(2);

/// What a machine is told at its start.
#[derive(Clone, Debug)]
pub struct MachineSettings {
    /// The name that the operator gave it.
    pub name: String,
    /// Where its T3 server listens; no userinfo, no path.
    pub url: Url,
    /// The bearer; none while it is not paired.
    pub token: Option<SecretString>,
    /// A PEM file of further certificate authorities.
    pub ca_file: Option<std::path::PathBuf>,
    /// The largest frame taken from T3, in bytes.
    pub frame_limit: usize,
}

/// What is known of a machine, from memory.
#[derive(Clone, Debug, Default)]
pub struct MachineStatus {
    /// The stream is up and the mirror current.
    pub online: bool,
    /// T3's label of the environment.
    pub label: Option<String>,
    /// T3's id of the environment.
    pub environment: Option<EnvironmentId>,
    /// T3's version.
    pub version: Option<String>,
    /// The orchestration protocol that is spoken.
    pub protocol: Option<u32>,
    /// T3's word for the operating system.
    pub os: Option<String>,
    /// Why it is not online; also the last error while it reconnects. While it is online: what of its shell cannot be read.
    pub error: Option<MachineError>,
    /// Since when it is away.
    pub unreachable_since: Option<jiff::Timestamp>,
    /// When the credential ends, as the session check said.
    pub expires_at: Option<jiff::Timestamp>,
    /// The scopes that the session check showed.
    pub scopes: Vec<String>,
    /// Words of T3 that this version does not know, such as "run status `paused`", and how often they were met: T3 is newer, perhaps.
    pub unknown_words: BTreeMap<String, u64>,
}

/// How a machine's connection does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pulse {
    /// Connections that stood since the program began.
    pub connections: u64,
    /// How long ago the last bytes came; none while there is no connection.
    pub silent_for: Option<Duration>,
}

/// A handle on one T3 server.
pub struct Machine {
    core: Arc<Core>,
}

/// What the handle and its connection share.
#[derive(Debug)]
struct Core {
    settings: MachineSettings,
    /// Where it is now, and by which token.
    access: watch::Sender<Access>,
    /// What was last said of the end of its credential.
    notice: watch::Sender<Option<Notice>>,
    /// The server is to have a scratch project.
    scratch: bool,
    state: State,
    /// The connection, while one stands.
    link: watch::Sender<Option<Arc<Link>>>,
    /// Connections that stood.
    connections: AtomicU64,
    reads: Arc<Reads>,
    /// What a server of the older protocol showed and does not show for good.
    memory: Arc<Memory>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("name", &self.core.settings.name)
            .finish_non_exhaustive()
    }
}

// Life and memory. Commands are in `sending`.
impl Machine {
    /// Starts to connect, and stays connected until `stop` is cancelled. Returns at once. Must be called within a tokio runtime.
    pub fn start(settings: MachineSettings, stop: CancellationToken) -> Arc<Self> {
        let access = Access::of(&settings);
        Self::start_by(settings, access, false, stop)
    }

    /// The same by another access than the settings'; with `scratch` the server is asked for its scratch project before anything of its shell is
    /// shown, so that nobody takes that project for one that is hidden.
    pub fn start_by(settings: MachineSettings, access: Access, scratch: bool, stop: CancellationToken) -> Arc<Self> {
        let runtime = tokio::runtime::Handle::current();
        let span = tracing::info_span!("machine", machine = %settings.name);
        let core = Arc::new(Core {
            settings,
            access: watch::Sender::new(access),
            notice: watch::Sender::new(None),
            scratch,
            state: State::new(runtime.clone()),
            link: watch::Sender::new(None),
            connections: AtomicU64::new(0),
            reads: Arc::default(),
            memory: Arc::default(),
        });
        runtime.spawn(connection::run(core.clone(), stop).instrument(span));
        Arc::new(Self { core })
    }

    /// The name that the operator gave it.
    pub fn name(&self) -> &str {
        &self.core.settings.name
    }

    /// Where it is.
    pub fn url(&self) -> Url {
        self.core.access.borrow().url.clone()
    }

    /// What it was told at its start, where it is now, without its token.
    pub fn settings(&self) -> MachineSettings {
        MachineSettings {
            url: self.url(),
            token: None,
            ..self.core.settings.clone()
        }
    }

    /// From now on it is reached so. The connection moves over: the one that stands is kept until the new one does, unless there is no token any
    /// more. Calls that wait go on.
    pub fn set_access(&self, access: Access) {
        self.core.access.send_if_modified(|before| {
            let differs = !before.is(&access);
            if differs {
                *before = access;
            }
            differs
        });
    }

    /// What was last said of the end of its credential; moves with each word.
    pub fn watch_credential(&self) -> watch::Receiver<Option<Notice>> {
        self.core.notice.subscribe()
    }

    /// How long T3 takes to answer over the socket that its stream comes by; none where it does not within this time, or is away.
    pub async fn probe(&self, within: Duration) -> Option<Duration> {
        let link = self.core.link().ok()?;
        let asked = tokio::time::Instant::now();
        let answered = tokio::time::timeout(within, link.probe()).await;
        answered.ok()?.ok()?;
        Some(asked.elapsed())
    }

    /// How its connection does, from memory.
    pub fn pulse(&self) -> Pulse {
        let link = self.core.link.borrow();
        Pulse {
            connections: self.core.connections.load(Ordering::Relaxed),
            silent_for: link.as_ref().map(|link| link.session.silent_for()),
        }
    }

    /// The sequence that the mirror has reached.
    pub fn sequence(&self) -> u64 {
        self.core.state.mirror().applied()
    }

    /// What is known of it, from memory.
    pub fn status(&self) -> MachineStatus {
        self.core.state.status()
    }

    /// Waits for the first whole snapshot, at most `within`; the error says why there is none. A machine whose first attempt failed is
    /// not waited for: it would delay the answers of the others.
    pub async fn ready(&self, within: Duration) -> Result<(), MachineError> {
        let mut shell = self.watch_shell();
        let first = async {
            loop {
                shell.mark_unchanged();
                let status = self.status();
                // The first snapshot comes a moment before the connection can be asked anything.
                let usable = self.core.link.borrow().is_some() || status.unreachable_since.is_some();
                if usable && self.core.state.mirror().has_base() {
                    return Ok(());
                }
                if let Some(error) = status.error
                    && !status.online
                {
                    return Err(error);
                }
                if shell.changed().await.is_err() {
                    return Err(self.core.unreachable());
                }
            }
        };
        tokio::time::timeout(within, first)
            .await
            .unwrap_or(Err(MachineError::Timeout(within)))
    }

    /// Waits until the mirror shows what we wrote last, or for 2 s; for one that is away, not at all.
    pub async fn caught_up(&self) {
        if self.core.state.is_online() {
            self.core.state.caught_up_with_all(LISTED_WITHIN).await;
        }
    }

    /// Whether it is none that the gateway has ever reached, for want of a credential: nothing that is known here came from there.
    pub fn is_unpaired(&self) -> bool {
        self.core.access.borrow().token.is_none() && !self.core.state.mirror().has_base()
    }

    /// The projects of the mirror.
    pub fn projects(&self) -> Vec<Arc<Project>> {
        self.core.state.mirror().projects()
    }

    /// A project of the mirror.
    pub fn project(&self, id: &ProjectId) -> Option<Arc<Project>> {
        self.core.state.mirror().project(id)
    }

    /// The threads of the mirror, archived ones included.
    pub fn threads(&self) -> Vec<Arc<ThreadRow>> {
        self.core.state.mirror().threads()
    }

    /// A thread of the mirror.
    pub fn thread(&self, id: &ThreadId) -> Option<Arc<ThreadRow>> {
        self.core.state.mirror().thread(id)
    }

    /// A counter that moves whenever the thread's row changes, it is removed, or the machine goes away or comes back. Dropping the
    /// receiver leaves nothing behind.
    pub fn watch_thread(&self, id: &ThreadId) -> watch::Receiver<u64> {
        self.core.state.watchers().thread(id)
    }

    /// A counter that moves whenever anything of the shell changes or the connection does.
    pub fn watch_shell(&self) -> watch::Receiver<u64> {
        self.core.state.watchers().shell()
    }

    /// What changes from now on, everything at first. There is one at a time: a second takes the first one's changes away.
    pub fn changes(&self) -> Changes {
        self.core.state.watchers().changes()
    }

    /// The thread's content: one read serves all who ask while the shell shows nothing newer. Bounded where the server has it and it
    /// holds every open run, else whole. A deleted thread is `Ok` with `facts.deleted`; an unknown one is `ThreadNotFound`. After a
    /// write of ours it waits until the mirror shows the write, or for 5 s.
    pub async fn read_thread(&self, id: &ThreadId) -> Result<Arc<Thread>, MachineError> {
        self.core.state.caught_up(id, CATCH_UP).await;
        let link = self.core.link()?;
        let seen = self.core.state.seen(id);
        let (core, thread) = (self.core.clone(), id.clone());
        let fetch = async move {
            let row = core.state.mirror().thread(&thread);
            let thread = link.read_thread(&thread, row.as_deref()).await?;
            core.state.handle_unknown_words(thread.unknown_words.iter().cloned());
            Ok(thread)
        };
        self.core.reads.read(id, seen, fetch).await
    }

    /// The same, always the whole: for who misses in a partial read a run that it knows of. Shared with nobody.
    pub async fn read_whole_thread(&self, id: &ThreadId) -> Result<Arc<Thread>, MachineError> {
        self.core.state.caught_up(id, CATCH_UP).await;
        let link = self.core.link()?;
        self.core
            .reads
            .take_turn(link.read_whole_thread(id))
            .await
            .map(Arc::new)
    }

    /// What is known of a thread whose read said that T3 does not show archived ones: no messages, and of its runs the newest; as all that
    /// there is of it (`whole`), or as a part. `known` are the runs that the caller knows of from before.
    pub async fn archived_thread(
        &self,
        id: &ThreadId,
        whole: bool,
        known: &[RunFacts],
    ) -> Result<Thread, MachineError> {
        let known = self.core.link()?.archived_thread(id, known).await?;
        let left = || MachineError::Unreachable {
            reason: "the thread left the archive meanwhile".to_owned(),
        };
        Ok(Thread {
            partial: !whole,
            ..known.ok_or_else(left)?
        })
    }

    /// A read that no earlier one serves: for decisions that must not rest on what was.
    async fn read_thread_anew(&self, id: &ThreadId) -> Result<Thread, MachineError> {
        let link = self.core.link()?;
        let row = self.thread(id);
        tokio::time::timeout(reads::READ_TIMEOUT, link.read_thread(id, row.as_deref()))
            .await
            .unwrap_or(Err(MachineError::Timeout(reads::READ_TIMEOUT)))
    }

    /// The providers and their models (`server.getConfig`): as T3 last told them, at most a minute old.
    pub async fn providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        self.core.link()?.providers().await
    }

    /// The providers and their models as they are now, whatever was cached: for a refusal that must not rest on what was.
    pub async fn providers_anew(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        self.core.link()?.providers_anew().await
    }
}

impl Core {
    /// The connection that stands, or why there is none.
    fn link(&self) -> Result<Arc<Link>, MachineError> {
        self.link.borrow().clone().ok_or_else(|| self.unreachable())
    }

    /// Why there is no connection.
    fn unreachable(&self) -> MachineError {
        self.state.status().error.unwrap_or_else(|| MachineError::Unreachable {
            reason: format!("{} is not connected yet", self.settings.name),
        })
    }
}
