//! What a command means by the ids in it.

use serde_json::Value;

use super::commands::Refusal;
use super::entities::{Message, Run};
use super::{Model, text};

impl Model {
    /// The run that a field of a command names, if it is as the command needs it; else the command is refused with "Run X" and `lack`.
    pub(crate) fn named_run(
        &self,
        ix: usize,
        command: &Value,
        field: &str,
        fits: impl FnOnce(&Run) -> bool,
        lack: &str,
    ) -> Result<Run, Refusal> {
        let id = text(command, field);
        let run = self.threads.get(ix).and_then(|thread| thread.run(id));
        run.filter(|run| fits(run))
            .cloned()
            .ok_or_else(|| Refusal::dispatch(command, format!("Run {id} {lack}")))
    }

    /// The message that a run was asked with.
    pub(crate) fn message_of(&self, ix: usize, run: &Run) -> Option<&Message> {
        let messages = &self.threads.get(ix)?.messages;
        messages.iter().find(|message| message.id == run.user_message_id)
    }
}
