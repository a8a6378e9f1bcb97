//! What differs between protocol versions: how items, threads and providers are read, and how commands are written.
//!
//! One trait, one implementation a version. Pure: bytes in, domain words out, and the other way round. Nothing outside this module
//! names a type of one protocol version; the connection picks a dialect, `Machine` speaks through it.

use std::fmt;

use serde_json::value::RawValue;

use super::domain::{
    InteractionMode, Launch, Launched, NewProject, Project, Provider, Respond, RuntimeMode, SearchMatch, SendMessage,
    Thread, Turns,
};
use super::error::MachineError;
use super::mirror::{ArchiveItem, ShellItem};
use super::session::Subscription;
use crate::lifecycle::RunFacts;
use crate::protocol::{CommandId, MessageId, ProjectId, RunId, ThreadId};

mod rows;
mod v1;
mod v2;

pub(super) use v1::{Memory, Protocol1, is_shell, is_snapshot_of, unreadable as archived_is_unreadable};
pub(super) use v2::{Protocol2, unknown_capabilities};

/// A call over the socket.
#[derive(Debug)]
pub(super) struct Call {
    /// The procedure.
    pub(super) tag: &'static str,
    /// Its argument.
    pub(super) payload: Box<RawValue>,
}

/// What the stream of a server's config says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConfigItem {
    /// The providers, all of them.
    Providers(Vec<Provider>),
    /// Settings were changed: providers may have been.
    Settings,
    /// Something that nobody here needs.
    Other,
}

/// One protocol version. Reading is tolerant of what a newer T3 adds, and an error names the place; writing is exact.
pub(super) trait Dialect: fmt::Debug + Send + Sync {
    /// The version.
    fn protocol(&self) -> u32;

    /// The stream of the shell, from its beginning.
    fn shell_subscription(&self) -> Subscription;
    /// The stream of archived threads; servers may not have it, and where the version has none, [`Dialect::archived`] is asked.
    fn archive_subscription(&self) -> Option<Subscription>;
    /// The call for the archived threads, where no stream tells of them.
    fn archived(&self) -> Option<Call> {
        None
    }
    /// Its answer.
    fn read_archived(&self, value: &RawValue) -> Result<ArchiveItem, MachineError> {
        self.read_archive_item(value)
    }
    /// What is known of an archived thread by that answer, where T3 does not let it be read; none where it is not in the archive. `known` are the runs
    /// that the caller knows of from before.
    fn read_archived_thread(
        &self,
        _value: &RawValue,
        _thread: &ThreadId,
        _known: &[RunFacts],
    ) -> Result<Option<Thread>, MachineError> {
        Ok(None)
    }
    /// The thread's last read showed an end of which T3 may show more in a moment: how it came about, and what was changed.
    fn is_settling(&self, _thread: &ThreadId) -> bool {
        false
    }
    /// The stream that says when the server process began, where that has to be known to tell what died with an earlier one, and is not yet.
    fn start_subscription(&self) -> Option<Subscription> {
        None
    }
    /// An item of it came; true if it said so.
    fn handle_start_item(&self, _value: &RawValue) -> bool {
        true
    }
    /// The stream of a thread, whose first item is the whole thread, for servers that may have no route for it.
    fn thread_subscription(&self, _thread: &ThreadId) -> Option<Subscription> {
        None
    }
    /// The stream of the server's config; servers may not have it.
    fn config_subscription(&self) -> Subscription;
    /// The call for the providers and their models.
    fn providers(&self) -> Result<Call, MachineError>;
    /// A call that asks for nothing but an answer.
    fn probe(&self) -> Result<Call, MachineError>;

    /// An item of the shell stream.
    fn read_shell_item(&self, value: &RawValue) -> Result<ShellItem, MachineError>;
    /// An item of the stream of archived threads.
    fn read_archive_item(&self, value: &RawValue) -> Result<ArchiveItem, MachineError>;
    /// The answer to a read of a thread, whole or bounded.
    fn read_thread(&self, body: &[u8]) -> Result<Thread, MachineError>;
    /// The answer to [`Dialect::providers`].
    fn read_providers(&self, value: &RawValue) -> Result<Vec<Provider>, MachineError>;
    /// An item of the stream of the server's config.
    fn read_config_item(&self, value: &RawValue) -> Result<ConfigItem, MachineError>;
    /// The answer to [`Dialect::launch`].
    fn read_launched(&self, value: &RawValue, message: &MessageId) -> Result<Launched, MachineError>;
    /// The sequence that T3 recorded a command at.
    fn read_sequence(&self, value: &RawValue) -> Result<u64, MachineError>;

    /// The search of T3's own over titles and messages; servers may not have it.
    fn search(&self, query: &str) -> Result<Call, MachineError>;
    /// Its answer.
    fn read_search(&self, value: &RawValue) -> Result<Vec<SearchMatch>, MachineError>;
    /// The diff of a thread's turns; servers may not have it.
    fn diff(&self, thread: &ThreadId, turns: Turns) -> Result<Call, MachineError>;
    /// Its answer.
    fn read_diff(&self, value: &RawValue) -> Result<String, MachineError>;
    /// The project for what belongs to none, made where it is not there; servers may not have it.
    fn scratch(&self) -> Call;
    /// Its answer.
    fn read_scratch(&self, value: &RawValue) -> Result<ProjectId, MachineError>;

    /// A thread and its first message can be sent in one call.
    fn launches_at_once(&self) -> bool {
        true
    }
    /// A thread with its first message, in one call.
    fn launch(&self, launch: &Launch) -> Result<Call, MachineError>;
    /// The same for servers without that call: make the thread, then send the message, with command ids of their own.
    fn launch_in_steps(&self, launch: &Launch) -> Result<[Call; 2], MachineError>;
    /// A busy thread takes a message into what it does, and an archived one stores it: only an idle one may be sent one.
    fn merges_messages(&self) -> bool {
        false
    }
    /// T3 starts a thread's agent anew for another mode, in its own time.
    fn restarts_for_modes(&self) -> bool {
        false
    }
    /// What has to be sent before a message, by what the thread's last read showed.
    fn before_message(&self, _message: &SendMessage) -> Result<Option<Call>, MachineError> {
        Ok(None)
    }
    /// A message to a thread.
    fn send_message(&self, message: &SendMessage) -> Result<Call, MachineError>;
    /// An answer to a request, whose kind was checked before.
    fn respond(&self, respond: &Respond) -> Result<Call, MachineError>;
    /// T3 took an answer to a request of this run.
    fn handle_answered(&self, _respond: &Respond, _run: Option<&RunId>) {}
    /// How a run is to be stopped depends on what its thread shows.
    fn reads_before_interrupt(&self) -> bool {
        false
    }
    /// An interrupt; `shown` is the thread where [`Dialect::reads_before_interrupt`] asks for it.
    fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
        shown: Option<&Thread>,
    ) -> Result<Call, MachineError>;
    /// T3 took an interrupt of this run.
    fn handle_interrupted(&self, _thread: &ThreadId, _run: &RunId) {}
    /// An error where the version has no queues.
    fn check_queues(&self) -> Result<(), MachineError> {
        Ok(())
    }
    /// A run taken out of the queue.
    fn cancel_queued(&self, command: &CommandId, thread: &ThreadId, run: &RunId) -> Result<Call, MachineError>;
    /// A queued run's message into the run at work.
    fn promote_queued(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        queued: &RunId,
        target: &RunId,
    ) -> Result<Call, MachineError>;
    /// A queue that is held moves on.
    fn resume_queue(&self, command: &CommandId, thread: &ThreadId) -> Result<Call, MachineError>;
    /// A thread into the archive, or out of it.
    fn set_archived(&self, command: &CommandId, thread: &ThreadId, archived: bool) -> Result<Call, MachineError>;
    /// A new project.
    fn create_project(&self, project: &NewProject) -> Result<Call, MachineError>;
    /// The answer to [`Dialect::create_project`].
    fn read_project(&self, value: &RawValue, project: &NewProject) -> Result<Project, MachineError>;
    /// Another runtime mode.
    fn set_runtime_mode(&self, command: &CommandId, thread: &ThreadId, mode: RuntimeMode)
    -> Result<Call, MachineError>;
    /// Another interaction mode.
    fn set_interaction_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: InteractionMode,
    ) -> Result<Call, MachineError>;
}
