//! `t3_archive`.

use std::sync::Arc;

use crate::gateway::{ArchiveAnswer, ArchiveArgs, Gateway, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Archives or restores a thread.
#[derive(Debug)]
pub struct Archive;

impl Tool for Archive {
    const NAME: &'static str = "t3_archive";
    const TITLE: &'static str = "Archive or restore a T3 thread";
    const DESCRIPTION: &'static str = "Puts a thread into T3's archive, or with `archived: false` takes it out again. Nothing of it is lost, and \
        t3_thread still reads it; t3_threads shows it only with `state: archived`, and it takes no prompts until it is restored. A thread that \
        works answers thread_busy: T3 would let its run fail, or go on unseen.";
    const EFFECT: Effect = Effect::Changes;
    type Args = ArchiveArgs;
    type Answer = ArchiveAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: ArchiveArgs) -> Result<ArchiveAnswer, ToolError> {
        gateway.archive(&call.caller, args).await
    }

    fn summary(answer: &ArchiveAnswer) -> String {
        let so = if answer.archived { "archived" } else { "not archived" };
        let now = if answer.changed { "now" } else { "already" };
        format!("The thread on {} is {now} {so}.", answer.machine)
    }
}
