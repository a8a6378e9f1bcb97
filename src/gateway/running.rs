//! After a write: waits until T3 shows what came of it, bounded, woken by the stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::fleet::{Found, Member};
use crate::gateway::Gateway;
use crate::gateway::standing::Standing;
use crate::lifecycle::RunState;
use crate::machine::{MachineError, Thread};
use crate::protocol::{MessageId, ProjectId, RunId, ThreadId};

/// How long a call waits for T3 to show what it did. Longer than any coalescing of its stream, shorter than a client's patience.
pub(super) const SHOWN_WITHIN: Duration = Duration::from_secs(5);

/// The stream may miss a change that only a read shows; then the thread is read again.
const LOOK_AGAIN: Duration = Duration::from_millis(400);

impl Gateway {
    /// Reads the thread until `seen` says that it shows what is waited for, at most for [`SHOWN_WITHIN`]; the last read, if one came back.
    pub(super) async fn read_until(
        &self,
        member: &Member,
        thread: &ThreadId,
        seen: impl Fn(&Standing<'_>) -> bool,
    ) -> Result<(Arc<Thread>, bool), MachineError> {
        let deadline = Instant::now() + SHOWN_WITHIN;
        let mut changes = member.machine.watch_thread(thread);
        let mut last: Result<Arc<Thread>, MachineError> = Err(MachineError::Timeout(SHOWN_WITHIN));
        loop {
            changes.mark_unchanged();
            match timeout_at(deadline, self.read_and_show(member, thread)).await {
                Ok(Ok(read)) => {
                    if seen(&self.standing(member, &read)) {
                        return Ok((read, true));
                    }
                    last = Ok(read);
                }
                // Right after a launch T3 may not show the thread yet.
                Ok(Err(error)) => last = last.or(Err(error)),
                Err(_) => return last.map(|read| (read, false)),
            }
            let again = Instant::now() + LOOK_AGAIN;
            if deadline <= again {
                return last.map(|read| (read, false));
            }
            let _ = timeout_at(again, changes.changed()).await;
        }
    }

    /// The thread once the message's run is there and has come out of its first moment, and that run.
    pub(super) async fn run_of(
        &self,
        found: &Found,
        message: &MessageId,
    ) -> Result<(Arc<Thread>, Option<RunId>), MachineError> {
        let there = |standing: &Standing<'_>| {
            // What a bounded read leaves out ended long ago; it will not come.
            if standing.thread.partial
                && standing.text_of(message).is_none()
                && standing.run_of_message(message).is_none()
            {
                return true;
            }
            standing.run_of_message(message).is_some_and(|run| {
                // Queued behind nothing is the moment before its start.
                standing.run_state(run) != RunState::Queued || waits_behind(standing, &run.id)
            })
        };
        let (thread, _) = self.read_until(&found.member, &found.id, there).await?;
        let run = self
            .standing(&found.member, &thread)
            .run_of_message(message)
            .map(|run| run.id.clone());
        Ok((thread, run))
    }
}

/// Waits until the mirror shows a project that T3 has, at most for [`SHOWN_WITHIN`]; whether it does.
pub(super) async fn project_shown(member: &Member, id: &ProjectId) -> bool {
    let deadline = Instant::now() + SHOWN_WITHIN;
    let mut changes = member.machine.watch_shell();
    loop {
        changes.mark_unchanged();
        if member.machine.project(id).is_some() {
            return true;
        }
        if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
            return false;
        }
    }
}

/// Whether the queued run has something before it: a run at work, another queued one, or a queue that T3 holds.
pub(super) fn waits_behind(standing: &Standing<'_>, run: &RunId) -> bool {
    let held = standing.run(run).is_some_and(|run| run.queue_held);
    let first = standing.status.queue.first() == Some(run);
    held || !first || standing.status.active.is_some()
}
