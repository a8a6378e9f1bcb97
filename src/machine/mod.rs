//! One T3 server: descriptor, credential, HTTP reads, the socket session, the mirror of its shell, the dialects.
//!
//! [`Machine`] is the handle that `fleet` and `gateway` hold. It keeps itself connected from [`Machine::start`] until its token is
//! cancelled, answers questions about the shell from memory, and is the only thing in the program that talks to T3.

pub mod descriptor;
pub mod domain;
pub mod error;
pub mod http;
mod refusal;
pub mod session;
pub mod socket;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::protocol::{CommandId, EnvironmentId, ProjectId, RunId, ThreadId};
pub use domain::*;
pub use error::MachineError;

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
#[derive(Clone, Debug)]
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
    /// Why it is not online; also the last error while it reconnects.
    pub error: Option<MachineError>,
    /// Since when it is away.
    pub unreachable_since: Option<jiff::Timestamp>,
    /// When the credential ends, as the session check said.
    pub expires_at: Option<jiff::Timestamp>,
    /// The scopes that the session check showed.
    pub scopes: Vec<String>,
}

/// A handle on one T3 server.
#[derive(Debug)]
pub struct Machine {
    settings: MachineSettings,
}

// STAND-IN bodies: `machine/` fills them; the signatures are what `fleet` and `gateway` are written against.
#[allow(clippy::todo, clippy::unused_async, unused_variables)]
impl Machine {
    /// Starts to connect, and stays connected until `stop` is cancelled. Returns at once.
    pub fn start(settings: MachineSettings, stop: CancellationToken) -> Arc<Self> {
        todo!()
    }

    /// The name that the operator gave it.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.settings.url
    }

    /// What is known of it, from memory.
    pub fn status(&self) -> MachineStatus {
        todo!()
    }

    /// Waits for the first whole snapshot, at most `within`; the error says why there is none.
    pub async fn ready(&self, within: Duration) -> Result<(), MachineError> {
        todo!()
    }

    /// The projects of the mirror.
    pub fn projects(&self) -> Vec<Arc<Project>> {
        todo!()
    }

    /// A project of the mirror.
    pub fn project(&self, id: &ProjectId) -> Option<Arc<Project>> {
        todo!()
    }

    /// The threads of the mirror, archived ones included.
    pub fn threads(&self) -> Vec<Arc<ThreadRow>> {
        todo!()
    }

    /// A thread of the mirror.
    pub fn thread(&self, id: &ThreadId) -> Option<Arc<ThreadRow>> {
        todo!()
    }

    /// A counter that moves whenever the thread's row changes, it is removed, or the machine goes away or comes back. Dropping the
    /// receiver leaves nothing behind.
    pub fn watch_thread(&self, id: &ThreadId) -> watch::Receiver<u64> {
        todo!()
    }

    /// A counter that moves whenever anything of the shell changes or the connection does.
    pub fn watch_shell(&self) -> watch::Receiver<u64> {
        todo!()
    }

    /// Waits until the mirror holds the write of `sequence`; false if it does not within `within`.
    pub async fn reached(&self, sequence: u64, within: Duration) -> bool {
        todo!()
    }

    /// The thread's content: one read serves all who ask while the shell shows nothing newer. Bounded where the server has it and it
    /// holds every open run, else whole. A deleted thread is `Ok` with `facts.deleted`; an unknown one is `ThreadNotFound`.
    pub async fn read_thread(&self, id: &ThreadId) -> Result<Arc<Thread>, MachineError> {
        todo!()
    }

    /// The providers and their models (`server.getConfig`), cached for a minute.
    pub async fn providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        todo!()
    }

    /// Makes a thread with its first message. Refuses before sending (`Unsafe`) what T3 would accept and hang on: an unknown project, a
    /// provider that is disabled or unknown. Asks T3 again with the same command id when the answer is lost; only if it stays silent is
    /// it `AnswerLost`.
    pub async fn launch(&self, launch: &Launch) -> Result<Launched, MachineError> {
        todo!()
    }

    /// Sends a message to a thread; the sequence of the write. Refuses a deleted thread before sending.
    pub async fn send_message(&self, message: &SendMessage) -> Result<u64, MachineError> {
        todo!()
    }

    /// Answers a request. Refuses before sending an answer of the wrong kind for the request's kind, since it would hang the run.
    pub async fn respond(&self, respond: &Respond) -> Result<u64, MachineError> {
        todo!()
    }

    /// Interrupts a run.
    pub async fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
    ) -> Result<u64, MachineError> {
        todo!()
    }

    /// Takes a run out of the queue.
    pub async fn cancel_queued(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<u64, MachineError> {
        todo!()
    }

    /// Changes what the thread's agent may do; only while it is idle.
    pub async fn set_runtime_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: RuntimeMode,
    ) -> Result<u64, MachineError> {
        todo!()
    }

    /// Changes whether the thread's agent works or plans; only while it is idle.
    pub async fn set_interaction_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: InteractionMode,
    ) -> Result<u64, MachineError> {
        todo!()
    }
}
