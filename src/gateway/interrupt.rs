//! `t3_interrupt`: stops the active run, or takes a waiting one out of the queue.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Found;
use crate::gateway::reading::{deleted, may_change};
use crate::gateway::standing::Standing;
use crate::gateway::words::QueueAfter;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, ids, modes, text};
use crate::lifecycle::{RunFacts, RunState, ThreadState};
use crate::protocol::RunId;

/// What to stop.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptArgs {
    /// The thread.
    pub thread_id: String,
    /// The run; left out, the active one. A queued run is cancelled.
    #[serde(default)]
    pub run_id: Option<String>,
    /// The queued runs behind it: continue (default; T3 starts the next) or hold. They are held, too, where the thread may do more than this
    /// client could start.
    #[serde(default)]
    pub queue: Option<QueueAfter>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct InterruptAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// interrupted or cancelled, or whatever end the run came to by itself first; interrupting while T3 still works on it.
    pub state: String,
    /// The run that T3 starts next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<String>,
    /// What came out otherwise than it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The state of a run that T3 still works on ending.
const INTERRUPTING: &str = "interrupting";

/// Said where the queue was to be held and goes on.
const NOT_HELD: &str = "T3 did not hold the queue: its version cannot. Take what waits off with t3_queue (cancel), or stop the next run as well.";

/// Said where the queue was to go on and is held.
const HELD: &str = "The queued runs are held: the thread may do more than this client could start. Who may do so lets them go on by t3_queue (resume).";

/// The same where T3 started the next all the same.
const GOES_ON: &str = "T3 started the next queued run, which may do more than this client could start: its version cannot hold a queue. \
                       Stop that one as well, or take what waits off with t3_queue (cancel).";

/// T3's words for a run that has ended, or has not begun.
const NOT_INTERRUPTIBLE: [&str; 2] = ["not interruptible", "was not found"];

impl Gateway {
    /// Interrupts a run. The work goes on in its own task when the returned future is dropped.
    pub async fn interrupt(
        self: &Arc<Self>,
        caller: &Caller,
        args: InterruptArgs,
    ) -> Result<InterruptAnswer, ToolError> {
        may_change(caller, "the interrupt")?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.interrupt_here(&caller, &args).await })
            .await
    }

    async fn interrupt_here(&self, caller: &Caller, args: &InterruptArgs) -> Result<InterruptAnswer, ToolError> {
        let found = self.find_thread(caller, &args.thread_id).await?;
        let thread = self.read(&found).await?;
        let standing = self.standing(&found.member, &thread);
        if standing.state() == ThreadState::Gone {
            return Err(deleted(&found));
        }
        let run = choose(&standing, &found, args.run_id.as_deref())?;
        let active = standing.status.active.clone();
        let machine = &found.member.machine;
        let asked_to_hold = args.queue.unwrap_or_default() == QueueAfter::Hold;
        // To stop a run is always allowed; that others start by it only to who could start them.
        let ceiling = found.member.ceiling(&caller.limits);
        let too_high = modes::for_continuing(&thread.head.runtime_mode, None, ceiling).is_err();
        let hold = asked_to_hold || too_high && !standing.status.queue.is_empty();
        self.told_what_is_asked(&found.member, &found.id, &thread).await;
        let command = ids::fresh_command();
        let sent = match standing.run_state(run) {
            RunState::Queued => machine.cancel_queued(&command, &found.id, &run.id).await,
            RunState::Starting | RunState::Running => machine.interrupt(&command, &found.id, &run.id, hold).await,
            RunState::Unseen
            | RunState::Finishing
            | RunState::Completed
            | RunState::Unconfirmed
            | RunState::Interrupted
            | RunState::Failed
            | RunState::Cancelled
            | RunState::RolledBack
            | RunState::NeverStarted
            | RunState::HandedOver
            | RunState::Gone
            | RunState::NotVisible => return Err(not_interruptible(&standing, &found, run)),
        };
        sent.map_err(|error| {
            let name = found.member.name();
            ToolError::refused_as(name, &error, ErrorCode::ThreadNotInterruptible, &NOT_INTERRUPTIBLE)
                .with("run_id", run.id.to_string())
        })?;
        let ended = |standing: &Standing<'_>| {
            standing
                .run(&run.id)
                .is_some_and(|run| standing.run_state(run).is_ended())
        };
        let shown = self.read_until(&found.member, &found.id, ended).await;
        let mut answer = InterruptAnswer {
            thread_id: found.id.to_string(),
            machine: found.member.name().to_owned(),
            state: INTERRUPTING.to_owned(),
            next_run: None,
            note: None,
        };
        if let Ok((thread, true)) = shown {
            let standing = self.standing(&found.member, &thread);
            if let Some(run) = standing.run(&run.id) {
                standing.run_state(run).as_str().clone_into(&mut answer.state);
            }
            // Of a run that was taken out of the queue nothing follows: what was at work goes on.
            let next = next_run(&standing, &run.id).filter(|next| active.as_ref() != Some(*next));
            answer.next_run = next.map(ToString::to_string);
            let waits = !standing.status.queue.is_empty();
            let note = match next {
                Some(_) if asked_to_hold => Some(NOT_HELD),
                Some(_) if hold => Some(GOES_ON),
                None if hold && !asked_to_hold && waits => Some(HELD),
                Some(_) | None => None,
            };
            answer.note = note.map(str::to_owned);
        }
        Ok(answer)
    }
}

/// The run that is meant: the named one, wherever its work went, else the one at work, else the first that waits.
fn choose<'a>(standing: &Standing<'a>, found: &Found, named: Option<&str>) -> Result<&'a RunFacts, ToolError> {
    if let Some(named) = named {
        let run = standing.run(&RunId(named.to_owned())).ok_or_else(|| {
            ToolError::new(
                ErrorCode::InvalidRequest,
                format!("The thread {} has no run `{}`.", found.id, text::quoted(named)),
            )
            .hint("Leave run_id out to stop the active run; t3_thread shows the runs that wait.")
        })?;
        return Ok(standing.last_successor(run));
    }
    let status = &standing.status;
    status
        .active
        .as_ref()
        .or(status.queue.first())
        .and_then(|id| standing.run(id))
        .ok_or_else(|| {
            let state = standing.state().as_str();
            ToolError::new(
                ErrorCode::ThreadNotInterruptible,
                format!(
                    "The thread {} is {state}: nothing runs that could be stopped.",
                    found.id
                ),
            )
            .hint("Read its result with t3_thread; to give it more work, use t3_dispatch with thread_id.")
            .with("state", state)
        })
}

fn not_interruptible(standing: &Standing<'_>, found: &Found, run: &RunFacts) -> ToolError {
    let state = standing.run_state(run);
    let message = if state == RunState::Finishing {
        format!("The run {} of {} is over and only finishes.", run.id, found.id)
    } else {
        format!("The run {} of {} is {} already.", run.id, found.id, state.as_str())
    };
    ToolError::new(ErrorCode::ThreadNotInterruptible, message)
        .hint("Read its result with t3_thread.")
        .with("state", state.as_str())
        .with("run_id", run.id.to_string())
}

/// The run that goes on instead: what works now, else what T3 starts next. Nothing, where it holds the queue.
fn next_run<'a>(standing: &'a Standing<'_>, ended: &RunId) -> Option<&'a RunId> {
    let waits = standing
        .status
        .queue
        .iter()
        .find(|id| standing.run(id).is_some_and(|run| !run.queue_held));
    standing.status.active.as_ref().filter(|id| *id != ended).or(waits)
}
