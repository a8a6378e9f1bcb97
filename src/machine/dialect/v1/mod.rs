//! Protocol 1, the older T3 servers.
//!
//! Its unit of work is the turn, of which only the newest is shown with a state, and a turn has no word of the message that made it. Here a
//! run is the turn that a user message began, and has that message's id: it is known from the moment the message is stored, and an upgraded
//! server still has the message. What became of it is weighed in `turns`. What protocol 1 does not have is refused before it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Call, ConfigItem, Dialect, v2};
use crate::lifecycle::RunFacts;
use crate::machine::domain::{
    Answer, InteractionMode, Launch, Launched, NewProject, Project, Provider, Respond, RuntimeMode, SearchMatch,
    SendMessage, Thread, Turns,
};
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, ShellItem};
use crate::machine::session::{Subscription, empty_object};
use crate::protocol::{CommandId, MessageId, ProjectId, RunId, ThreadId, v1};

mod archive;
mod commands;
mod memory;
mod requests;
mod session;
mod settling;
mod shell;
mod thread;
mod turns;
mod unknown;

pub(in crate::machine) use archive::unreadable;
pub(in crate::machine) use memory::Memory;

/// The answer that ends a run.
const CANCEL: &str = "cancel";

/// Protocol 1's dialect, with what was seen of the machine before.
#[derive(Debug)]
pub(in crate::machine) struct Protocol1 {
    memory: Arc<Memory>,
    /// The server has said when it began.
    knows_start: AtomicBool,
}

impl Protocol1 {
    pub(in crate::machine) fn new(memory: Arc<Memory>) -> Self {
        Self {
            memory,
            knows_start: AtomicBool::new(false),
        }
    }
}

impl Dialect for Protocol1 {
    fn protocol(&self) -> u32 {
        1
    }

    fn shell_subscription(&self) -> Subscription {
        Subscription::new("orchestration.subscribeShell")
    }

    fn archive_subscription(&self) -> Option<Subscription> {
        None
    }

    fn config_subscription(&self) -> Subscription {
        Subscription::plain("subscribeServerConfig")
    }

    fn start_subscription(&self) -> Option<Subscription> {
        let known = self.knows_start.load(Ordering::Relaxed);
        (!known).then(|| Subscription::plain("subscribeServerLifecycle"))
    }

    fn handle_start_item(&self, value: &RawValue) -> bool {
        let Some(at) = shell::read_start(value) else {
            return false;
        };
        self.memory.handle_started(at);
        self.knows_start.store(true, Ordering::Relaxed);
        true
    }

    // Its first item alone: the whole thread, its texts whole. The events after it bring chunks to append and leave out what the shell shows
    // (new turns, stops, answers), so a thread is read whole at each change of its row, and no chunk is ever put together.
    fn thread_subscription(&self, thread: &ThreadId) -> Option<Subscription> {
        Some(Subscription::of_thread("orchestration.subscribeThread", thread))
    }

    fn archived(&self) -> Option<Call> {
        Some(Call {
            tag: "orchestration.getArchivedShellSnapshot",
            payload: empty_object(),
        })
    }

    fn read_archived(&self, value: &RawValue) -> Result<ArchiveItem, MachineError> {
        shell::read_archived(value, &self.memory)
    }

    fn read_archived_thread(
        &self,
        value: &RawValue,
        thread: &ThreadId,
        known: &[RunFacts],
    ) -> Result<Option<Thread>, MachineError> {
        archive::read_archived_thread(value, thread, known, &self.memory)
    }

    fn is_settling(&self, thread: &ThreadId) -> bool {
        self.memory.is_settling(thread)
    }

    fn providers(&self) -> Result<Call, MachineError> {
        v2::Protocol2.providers()
    }

    fn probe(&self) -> Result<Call, MachineError> {
        v2::Protocol2.probe()
    }

    fn read_shell_item(&self, value: &RawValue) -> Result<ShellItem, MachineError> {
        shell::read_item(value, &self.memory)
    }

    fn read_archive_item(&self, _value: &RawValue) -> Result<ArchiveItem, MachineError> {
        Err(MachineError::Decode(
            "protocol 1 has no stream of archived threads".to_owned(),
        ))
    }

    fn read_thread(&self, body: &[u8]) -> Result<Thread, MachineError> {
        thread::read_body(body, &self.memory, jiff::Timestamp::now())
    }

    // The server's configuration has the same shape in both protocols.
    fn read_providers(&self, value: &RawValue) -> Result<Vec<Provider>, MachineError> {
        v2::Protocol2.read_providers(value)
    }

    fn read_config_item(&self, value: &RawValue) -> Result<ConfigItem, MachineError> {
        v2::Protocol2.read_config_item(value)
    }

    fn read_launched(&self, _value: &RawValue, _message: &MessageId) -> Result<Launched, MachineError> {
        Err(commands::lacks(
            "a thread and its first message cannot be made in one call",
        ))
    }

    fn read_sequence(&self, value: &RawValue) -> Result<u64, MachineError> {
        v2::read::<v1::DispatchResult>("the answer to a command", value.get().as_bytes()).map(|result| result.sequence)
    }

    // Searches and diffs are asked and answered as in protocol 2.
    fn search(&self, query: &str) -> Result<Call, MachineError> {
        v2::Protocol2.search(query)
    }

    fn read_search(&self, value: &RawValue) -> Result<Vec<SearchMatch>, MachineError> {
        v2::Protocol2.read_search(value)
    }

    fn diff(&self, thread: &ThreadId, turns: Turns) -> Result<Call, MachineError> {
        v2::Protocol2.diff(thread, turns)
    }

    fn read_diff(&self, value: &RawValue) -> Result<String, MachineError> {
        v2::Protocol2.read_diff(value)
    }

    fn scratch(&self) -> Call {
        v2::Protocol2.scratch()
    }

    fn read_scratch(&self, value: &RawValue) -> Result<ProjectId, MachineError> {
        v2::Protocol2.read_scratch(value)
    }

    fn launches_at_once(&self) -> bool {
        false
    }

    fn launch(&self, _launch: &Launch) -> Result<Call, MachineError> {
        Err(commands::lacks(
            "a thread and its first message cannot be made in one call",
        ))
    }

    fn launch_in_steps(&self, launch: &Launch) -> Result<[Call; 2], MachineError> {
        self.memory.handle_sent(&launch.message, jiff::Timestamp::now());
        commands::launch_in_steps(launch)
    }

    fn merges_messages(&self) -> bool {
        true
    }

    fn restarts_for_modes(&self) -> bool {
        true
    }

    fn before_message(&self, message: &SendMessage) -> Result<Option<Call>, MachineError> {
        if !self.memory.is_orphaned(&message.thread) {
            return Ok(None);
        }
        let command = CommandId(format!("{}:stop", message.command));
        commands::stop_session(&command, &message.thread).map(Some)
    }

    fn send_message(&self, message: &SendMessage) -> Result<Call, MachineError> {
        self.memory.handle_sent(&message.message, jiff::Timestamp::now());
        commands::send_message(message)
    }

    fn respond(&self, respond: &Respond) -> Result<Call, MachineError> {
        commands::respond(respond)
    }

    fn handle_answered(&self, respond: &Respond, run: Option<&RunId>) {
        if let (Answer::Decision(word), Some(run)) = (&respond.answer, run)
            && word == CANCEL
        {
            self.memory.handle_stopped(&respond.thread, run);
        }
    }

    fn reads_before_interrupt(&self) -> bool {
        true
    }

    fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
        shown: Option<&Thread>,
    ) -> Result<Call, MachineError> {
        commands::interrupt(command, thread, run, hold_queue, shown)
    }

    fn handle_interrupted(&self, thread: &ThreadId, run: &RunId) {
        self.memory.handle_stopped(thread, run);
    }

    fn check_queues(&self) -> Result<(), MachineError> {
        Err(commands::lacks("there is no queue"))
    }

    fn cancel_queued(&self, _command: &CommandId, _thread: &ThreadId, _run: &RunId) -> Result<Call, MachineError> {
        Err(commands::lacks("there is no queue"))
    }

    fn promote_queued(
        &self,
        _command: &CommandId,
        _thread: &ThreadId,
        _queued: &RunId,
        _target: &RunId,
    ) -> Result<Call, MachineError> {
        Err(commands::lacks("there is no queue"))
    }

    fn resume_queue(&self, _command: &CommandId, _thread: &ThreadId) -> Result<Call, MachineError> {
        Err(commands::lacks("there is no queue"))
    }

    fn set_archived(&self, command: &CommandId, thread: &ThreadId, archived: bool) -> Result<Call, MachineError> {
        commands::set_archived(command, thread, archived)
    }

    fn create_project(&self, project: &NewProject) -> Result<Call, MachineError> {
        commands::create_project(project)
    }

    fn read_project(&self, value: &RawValue, project: &NewProject) -> Result<Project, MachineError> {
        // The answer is the sequence alone: the project is as it was asked for.
        self.read_sequence(value)?;
        Ok(Project {
            id: project.id.clone(),
            title: project.title.clone(),
            workspace_root: project.path.clone(),
            default_model: None,
        })
    }

    fn set_runtime_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: RuntimeMode,
    ) -> Result<Call, MachineError> {
        commands::set_runtime_mode(command, thread, mode)
    }

    fn set_interaction_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: InteractionMode,
    ) -> Result<Call, MachineError> {
        commands::set_interaction_mode(command, thread, mode)
    }
}

/// A time of T3's; the error names the field.
fn time(field: &'static str, text: &str) -> Result<jiff::Timestamp, BadTime> {
    text.parse().map_err(|_| BadTime {
        field,
        text: text.to_owned(),
    })
}

/// A time of T3's that may be absent.
fn maybe_time(field: &'static str, text: Option<&String>) -> Result<Option<jiff::Timestamp>, BadTime> {
    text.map(|text| time(field, text)).transpose()
}

/// A text that is no time.
#[derive(Debug, thiserror::Error)]
#[error("`{field}` is no time: {text:?}")]
struct BadTime {
    field: &'static str,
    text: String,
}

fn selection(selection: v1::ModelSelection) -> crate::machine::domain::ModelSelection {
    use crate::protocol::OptionValue;
    crate::machine::domain::ModelSelection {
        instance: crate::protocol::ProviderInstanceId(selection.instance_id.0),
        model: selection.model,
        options: selection
            .options
            .unwrap_or_default()
            .into_iter()
            .map(|option| {
                let value = match option.value {
                    v1::ModelSelectionOptionsItemValue::String(text) => OptionValue::Text(text),
                    v1::ModelSelectionOptionsItemValue::Boolean(on) => OptionValue::Bool(on),
                };
                (option.id, value)
            })
            .collect(),
    }
}

/// Whether a shell's snapshot, as the stream's item brings it, is protocol 1's: it says when it was made and no version of its schema.
pub(in crate::machine) fn is_snapshot_of(value: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow)]
        snapshot: Option<&'a RawValue>,
    }
    let item = serde_json::from_str::<Item<'_>>(value.get()).ok();
    item.and_then(|item| item.snapshot)
        .is_some_and(|snapshot| is_shell(snapshot.get().as_bytes()))
}

/// The same of the snapshot itself.
pub(in crate::machine) fn is_shell(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shell {
        schema_version: Option<serde::de::IgnoredAny>,
        updated_at: Option<String>,
        snapshot_sequence: Option<u64>,
    }
    serde_json::from_slice::<Shell>(body).is_ok_and(|shell| {
        shell.schema_version.is_none() && shell.updated_at.is_some() && shell.snapshot_sequence.is_some()
    })
}

#[cfg(test)]
mod tests;
