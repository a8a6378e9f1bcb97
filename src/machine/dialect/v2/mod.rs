//! Protocol 2.
//!
//! Collections are walked with structs of our own that skip what nobody here needs; each entity in them is the generated type. So a
//! thread of thousands of nodes costs what its messages, runs and items cost.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Call, ConfigItem, Dialect};
use crate::machine::domain::{
    InteractionMode, Launch, Launched, ModelSelection, NewProject, OptionValue, Project, Provider, Respond,
    RuntimeMode, SearchMatch, SendMessage, Thread, Turns,
};
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, ShellItem};
use crate::machine::session::{Subscription, empty_object};
use crate::protocol::{CommandId, Fault, MessageId, ProjectId, RunId, ThreadId, v2};

mod commands;
mod items;
mod providers;
mod queries;
mod shell;
mod thread;
mod unknown;

pub(super) use commands::call;
pub(in crate::machine) use unknown::of_capabilities as unknown_capabilities;

/// Protocol 2's dialect.
#[derive(Debug)]
pub(in crate::machine) struct Protocol2;

impl Dialect for Protocol2 {
    fn protocol(&self) -> u32 {
        2
    }

    fn shell_subscription(&self) -> Subscription {
        Subscription::new("orchestration.subscribeShell")
    }

    fn archive_subscription(&self) -> Option<Subscription> {
        Some(Subscription::new("orchestration.subscribeArchivedShell"))
    }

    fn providers(&self) -> Result<Call, MachineError> {
        Ok(Call {
            tag: "server.getConfig",
            payload: empty_object(),
        })
    }

    fn probe(&self) -> Result<Call, MachineError> {
        Ok(Call {
            tag: "server.probe",
            payload: empty_object(),
        })
    }

    fn config_subscription(&self) -> Subscription {
        Subscription::plain("subscribeServerConfig")
    }

    fn read_shell_item(&self, value: &RawValue) -> Result<ShellItem, MachineError> {
        shell::read_item(value)
    }

    fn read_archive_item(&self, value: &RawValue) -> Result<ArchiveItem, MachineError> {
        shell::read_archive_item(value)
    }

    fn read_thread(&self, body: &[u8]) -> Result<Thread, MachineError> {
        thread::read_body(body)
    }

    fn read_providers(&self, value: &RawValue) -> Result<Vec<Provider>, MachineError> {
        providers::read_config(value)
    }

    fn read_config_item(&self, value: &RawValue) -> Result<ConfigItem, MachineError> {
        providers::read_config_item(value)
    }

    fn read_launched(&self, value: &RawValue, message: &MessageId) -> Result<Launched, MachineError> {
        commands::read_launched(value, message)
    }

    fn read_sequence(&self, value: &RawValue) -> Result<u64, MachineError> {
        read::<v2::DispatchCommandResult>("the answer to a command", value.get().as_bytes())
            .map(|result| result.sequence)
    }

    fn search(&self, query: &str) -> Result<Call, MachineError> {
        queries::search(query)
    }

    fn read_search(&self, value: &RawValue) -> Result<Vec<SearchMatch>, MachineError> {
        queries::read_search(value)
    }

    fn diff(&self, thread: &ThreadId, turns: Turns) -> Result<Call, MachineError> {
        queries::diff(thread, turns)
    }

    fn read_diff(&self, value: &RawValue) -> Result<String, MachineError> {
        queries::read_diff(value)
    }

    fn scratch(&self) -> Call {
        queries::scratch()
    }

    fn read_scratch(&self, value: &RawValue) -> Result<ProjectId, MachineError> {
        queries::read_scratch(value)
    }

    fn launch(&self, launch: &Launch) -> Result<Call, MachineError> {
        commands::launch(launch)
    }

    fn launch_in_steps(&self, launch: &Launch) -> Result<[Call; 2], MachineError> {
        commands::launch_in_steps(launch)
    }

    fn send_message(&self, message: &SendMessage) -> Result<Call, MachineError> {
        commands::send_message(message)
    }

    fn respond(&self, respond: &Respond) -> Result<Call, MachineError> {
        commands::respond(respond)
    }

    fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
        _shown: Option<&Thread>,
    ) -> Result<Call, MachineError> {
        commands::interrupt(command, thread, run, hold_queue)
    }

    fn cancel_queued(&self, command: &CommandId, thread: &ThreadId, run: &RunId) -> Result<Call, MachineError> {
        commands::cancel_queued(command, thread, run)
    }

    fn promote_queued(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        queued: &RunId,
        target: &RunId,
    ) -> Result<Call, MachineError> {
        commands::promote_queued(command, thread, queued, target)
    }

    fn resume_queue(&self, command: &CommandId, thread: &ThreadId) -> Result<Call, MachineError> {
        commands::resume_queue(command, thread)
    }

    fn set_archived(&self, command: &CommandId, thread: &ThreadId, archived: bool) -> Result<Call, MachineError> {
        commands::set_archived(command, thread, archived)
    }

    fn create_project(&self, project: &NewProject) -> Result<Call, MachineError> {
        commands::create_project(project)
    }

    fn read_project(&self, value: &RawValue, _project: &NewProject) -> Result<Project, MachineError> {
        commands::read_project(value)
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

/// Reads JSON; the error says what was read and where in it.
pub(super) fn read<'a, T: Deserialize<'a>>(what: &str, text: &'a [u8]) -> Result<T, MachineError> {
    crate::protocol::read(text).map_err(|Fault { path, message }| {
        MachineError::Decode(format!("{what} cannot be read: at `{path}`: {message}"))
    })
}

/// A time of T3's; the error names the field.
fn time(field: &str, text: &v2::DateTimeUtc) -> Result<jiff::Timestamp, BadTime> {
    text.0.parse().map_err(|_| BadTime {
        field: field.to_owned(),
        text: text.0.clone(),
    })
}

/// A time of T3's that may be absent.
fn maybe_time(field: &str, text: Option<&v2::DateTimeUtc>) -> Result<Option<jiff::Timestamp>, BadTime> {
    text.map(|text| time(field, text)).transpose()
}

/// A text that is no time.
#[derive(Debug, thiserror::Error)]
#[error("`{field}` is no time: {text:?}")]
struct BadTime {
    field: String,
    text: String,
}

fn selection(selection: v2::ModelSelection) -> ModelSelection {
    ModelSelection {
        instance: selection.instance_id,
        model: selection.model,
        options: selection
            .options
            .unwrap_or_default()
            .into_iter()
            .map(|option| {
                let value = match option.value {
                    v2::ModelOptionValue::String(text) => OptionValue::Text(text),
                    v2::ModelOptionValue::Boolean(on) => OptionValue::Bool(on),
                };
                (option.id, value)
            })
            .collect(),
    }
}

/// The beginning of a text, at most so many characters, in no more memory than it needs.
pub(super) fn cut(text: &str, characters: usize) -> String {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
