//! What a command waits for before it is sent, where T3 would take it and lose it.

use std::time::Duration;

use tokio::time::Instant;

use crate::lifecycle::{RunState, observe};
use crate::machine::Machine;
use crate::machine::domain::Thread;
use crate::machine::error::MachineError;
use crate::protocol::{RunId, ThreadId};

/// How long an interrupt waits for its run to begin, and how often it looks.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long a session may take to start anew, and how many reads that show the same say that it has.
const RESTARTS_WITHIN: Duration = Duration::from_secs(5);
const SETTLED_READS: usize = 2;

impl Machine {
    /// Whether the thread is there, can run, and nothing was said in it.
    pub(super) async fn is_blank(&self, thread: &ThreadId) -> bool {
        let shown = self.read_thread_anew(thread).await;
        shown.is_ok_and(|shown| !shown.head.archived && !shown.facts.deleted && shown.messages.is_empty())
    }

    /// The thread once the run's turn has begun, or after a while: before that T3 takes an interrupt and may lose it.
    pub(super) async fn begun(&self, thread: &ThreadId, run: &RunId) -> Result<Thread, MachineError> {
        let deadline = Instant::now() + BEGINS_WITHIN;
        let mut changes = self.watch_thread(thread);
        loop {
            changes.mark_unchanged();
            let shown = self.read_thread_anew(thread).await?;
            let state = shown.facts.runs.iter().find(|fact| fact.id == *run);
            let state = state.map(|fact| RunState::INITIAL.on(observe(fact, &shown.facts)).to);
            match state {
                Some(RunState::Starting) if Instant::now() < deadline => {}
                Some(state) if state.is_ended() => {
                    return Err(MachineError::Rejected {
                        tag: String::new(),
                        message: format!("the run {run} is not interruptible any more: it is {}", state.as_str()),
                    });
                }
                Some(_) | None => return Ok(shown),
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
        }
    }

    /// Waits for the agent's session to be what it will be after another mode, where T3 starts it anew for that: the end of the old one is told
    /// late, and would be taken for that of a turn that had begun by then.
    pub(super) async fn session_settled(&self, thread: &ThreadId) {
        let Ok(link) = self.core.link() else { return };
        if !link.dialect.restarts_for_modes() {
            return;
        }
        let deadline = Instant::now() + RESTARTS_WITHIN;
        let (mut last, mut same) = (None, 0);
        while same < SETTLED_READS && Instant::now() < deadline {
            // What cannot be read is no reason not to send.
            let Ok(shown) = self.read_thread_anew(thread).await else {
                return;
            };
            if matches!(shown.session.as_deref(), None | Some("stopped" | "error")) && last.is_none() {
                return;
            }
            let seen = (shown.session.clone(), shown.updated_at);
            let starts = shown.session.as_deref() == Some("starting");
            same = if last.as_ref() == Some(&seen) && !starts {
                same + 1
            } else {
                0
            };
            last = Some(seen);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
