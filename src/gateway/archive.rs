//! `t3_archive`: puts a thread into the archive, or takes it out.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use crate::fleet::Found;
use crate::gateway::reading::{deleted, may_change};
use crate::gateway::running::SHOWN_WITHIN;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, ids};
use crate::lifecycle::ThreadState;
use crate::machine::MachineError;

/// What to archive or restore.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveArgs {
    /// The thread.
    pub thread_id: String,
    /// true (default) archives it, false restores it.
    #[serde(default)]
    pub archived: Option<bool>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ArchiveAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// Its project's title.
    pub project: String,
    /// Its title.
    pub title: String,
    /// It lies in the archive now.
    pub archived: bool,
    /// This call did it. false: it was so already.
    pub changed: bool,
}

/// T3's words where another was faster.
const ALREADY_SO: [&str; 2] = ["is already archived", "is not archived"];

impl Gateway {
    /// Archives or restores a thread. The work goes on in its own task when the returned future is dropped.
    pub async fn archive(self: &Arc<Self>, caller: &Caller, args: ArchiveArgs) -> Result<ArchiveAnswer, ToolError> {
        may_change(caller, "the archiving")?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.archive_here(&caller, &args).await })
            .await
    }

    async fn archive_here(&self, caller: &Caller, args: &ArchiveArgs) -> Result<ArchiveAnswer, ToolError> {
        let wanted = args.archived.unwrap_or(true);
        let found = self.find_thread(caller, &args.thread_id).await?;
        let (title, archived, state) = match self.read(&found).await {
            Ok(thread) => {
                let state = self.standing(&found.member, &thread).state();
                (thread.head.title.clone(), thread.head.archived, state)
            }
            // T3 of protocol 1 shows no archived thread; its row says enough to restore it.
            Err(error) => match found.member.machine.thread(&found.id) {
                Some(row) if row.archived && error.code == ErrorCode::OperationRejected => {
                    (row.title.clone(), true, ThreadState::Idle)
                }
                Some(_) | None => return Err(error),
            },
        };
        if state == ThreadState::Gone {
            return Err(deleted(&found));
        }
        let mut answer = ArchiveAnswer {
            thread_id: found.id.to_string(),
            machine: found.member.name().to_owned(),
            project: found.project.title.clone(),
            title,
            archived: wanted,
            changed: false,
        };
        if archived == wanted {
            return Ok(answer);
        }
        if wanted && state.is_busy() {
            return Err(busy(&found, state));
        }
        let machine = &found.member.machine;
        match machine.set_archived(&ids::fresh_command(), &found.id, wanted).await {
            Ok(_) => answer.changed = true,
            Err(MachineError::Rejected { message, .. }) if ALREADY_SO.iter().any(|so| message.contains(so)) => {}
            Err(error) => return Err(ToolError::from_machine(found.member.name(), &error)),
        }
        self.shown_as(&found, wanted).await;
        Ok(answer)
    }

    /// Waits until the mirror shows the thread where it lies now, so that a list after this call does: bounded, since it was done anyway.
    async fn shown_as(&self, found: &Found, archived: bool) {
        let machine = &found.member.machine;
        let deadline = Instant::now() + SHOWN_WITHIN;
        let mut changes = machine.watch_thread(&found.id);
        loop {
            changes.mark_unchanged();
            if machine.thread(&found.id).is_some_and(|row| row.archived == archived) {
                return;
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// T3 takes the command whatever the thread does, and what that does to a run depends on its provider.
fn busy(found: &Found, state: ThreadState) -> ToolError {
    let state = state.as_str();
    ToolError::new(
        ErrorCode::ThreadBusy,
        format!(
            "The thread {} is {state}; it was not archived. T3 would archive it all the same, and its run would fail, or go on where nobody \
             looks, as its provider has it.",
            found.id
        ),
    )
    .hint("Wait for its end (t3_wait), or stop it (t3_interrupt, also its queued runs), then archive it.")
    .with("state", state)
}
