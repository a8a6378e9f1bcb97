//! A dispatch that goes on in a thread that exists.

use std::sync::Arc;

use crate::fleet::Found;
use crate::gateway::dispatch::{DispatchAnswer, DispatchArgs, Work};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::keeping::Step;
use crate::gateway::launch::choose_model;
use crate::gateway::model::{self, Choice};
use crate::gateway::reading::{archived, deleted};
use crate::gateway::receipts::Outcome;
use crate::gateway::running::waits_behind;
use crate::gateway::standing::Standing;
use crate::gateway::tracking::Fate;
use crate::gateway::words::WhenBusy;
use crate::gateway::{Caller, Gateway, ids, modes, text};
use crate::lifecycle::{RunState, ThreadState};
use crate::machine::{
    DispatchMode, InteractionMode, MachineError, ModelSelection, Provider, RuntimeMode, SendMessage, Thread,
};
use crate::protocol::RunId;

/// T3's words for a steer or restart whose run has ended meanwhile.
const TARGET_ENDED: [&str; 2] = ["cannot be steered", "was not found"];

/// How often a message is sent at most: once more after its target ended under it, and past what T3 remembers as refused.
const TRIES: u32 = 8;

/// How many attempts of before a restart are looked for in the thread.
const ATTEMPTS_LOOKED_FOR: u32 = 32;

/// What has to be changed before the message.
#[derive(Debug)]
struct Changes {
    model: Option<ModelSelection>,
    runtime: Option<RuntimeMode>,
    interaction: Option<InteractionMode>,
    notes: Vec<String>,
}

impl Gateway {
    /// Sends a prompt to a thread that exists.
    pub(super) async fn continue_thread(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        thread_id: &str,
        work: &mut Work<'_>,
    ) -> Result<DispatchAnswer, ToolError> {
        only_for_new_threads(args)?;
        let found = self.find_thread_on(caller, args.machine.as_deref(), thread_id).await?;
        if let Some(machine) = args.machine.as_deref().filter(|name| *name != found.member.name()) {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!(
                    "The thread {thread_id} is on {}, not on {}.",
                    found.member.name(),
                    text::quoted(machine)
                ),
            )
            .hint("Leave machine out when you pass thread_id."));
        }
        if let Some(name) = args.project.as_deref()
            && found.member.find_project(&caller.limits, name)?.id != found.project.id
        {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("The thread {thread_id} belongs to the project {}.", found.project.title),
            )
            .hint("Leave project out when you pass thread_id."));
        }
        let thread = self.read(&found).await?;
        if self.taken_before(args, &found, &thread, work) {
            return self.existing(caller, args, &found, work).await;
        }
        let mut changes = self.may_continue(caller, args, &found, &thread).await?;
        // Asked before the message is sent: then it is the thread's latest.
        let origin = self.origin_before(&found).await;
        self.send(caller, args, &found, &thread, &changes, work).await?;
        if args.when_busy.unwrap_or_default() == WhenBusy::Reject {
            self.take_off_the_queue(&found, work).await?;
        }
        self.started(caller, args, &found, work, origin, &mut changes.notes)
            .await
    }

    /// Whether T3 has the message of an earlier call: of this process, or of one with the same request id from before a restart. A message
    /// that was taken off the queue again ran never; the next attempt is another message.
    fn taken_before(&self, args: &DispatchArgs, found: &Found, thread: &Thread, work: &mut Work<'_>) -> bool {
        if !work.may_be_there() {
            return false;
        }
        let intent = work.receipt.intent(found.member.name());
        let standing = self.standing(&found.member, thread);
        let newest = (0..=work.progress.attempt.max(ATTEMPTS_LOOKED_FOR))
            .rev()
            .find(|attempt| standing.text_of(&intent.message(*attempt)).is_some());
        let Some(attempt) = newest else {
            // What a bounded read leaves out is remembered.
            return matches!(work.progress.outcome, Outcome::Started { .. });
        };
        let taken_off = args.when_busy.unwrap_or_default() == WhenBusy::Reject
            && standing
                .run_of_message(&intent.message(attempt))
                .is_some_and(|run| standing.run_state(run) == RunState::NeverStarted);
        if taken_off {
            work.progress.attempt = work.progress.attempt.max(attempt + 1);
            work.progress.outcome = Outcome::NotStarted;
        } else {
            work.progress.attempt = attempt;
        }
        !taken_off
    }

    /// Whether the thread may go on as asked, and what has to be changed before.
    async fn may_continue(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        thread: &Thread,
    ) -> Result<Changes, ToolError> {
        let standing = self.standing(&found.member, thread);
        if standing.state() == ThreadState::Gone {
            return Err(deleted(found));
        }
        if thread.head.archived {
            return Err(archived(found));
        }
        let ceiling = found.member.ceiling(&caller.limits);
        let runtime = modes::for_continuing(&thread.head.runtime_mode, args.runtime_mode.map(Into::into), ceiling)?;
        let interaction = args
            .interaction_mode
            .map(InteractionMode::from)
            .filter(|mode| mode.as_str() != thread.head.interaction_mode);
        if standing.is_busy() {
            if args.when_busy.unwrap_or_default() == WhenBusy::Reject {
                return Err(busy(&standing, found));
            }
            if runtime.is_some() || interaction.is_some() {
                return Err(ToolError::new(
                    ErrorCode::ThreadBusy,
                    format!(
                        "The thread {} is {}, and its modes change only while it is idle.",
                        found.id,
                        standing.state().as_str()
                    ),
                )
                .hint("Leave runtime_mode and interaction_mode out, or wait with t3_wait."));
            }
        }
        let choose = |providers: &[Provider]| {
            let choice = Choice {
                machine: found.member.name(),
                asked: args.model.as_deref(),
                options: args.options.as_ref(),
                preferred: None,
                preferred_options: &[],
                own: None,
                providers,
            };
            model::for_continuing(&choice, &thread.head.model)
        };
        let chosen = choose_model(&found.member, choose).await?;
        let (model, notes) = chosen.map_or((None, Vec::new()), |chosen| (Some(chosen.selection), chosen.notes));
        Ok(Changes {
            model,
            runtime,
            interaction,
            notes,
        })
    }

    async fn send(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        thread: &Arc<Thread>,
        changes: &Changes,
        work: &mut Work<'_>,
    ) -> Result<(), ToolError> {
        let member = &found.member;
        let intent = work.receipt.intent(member.name());
        let step = Step::send(thread);
        self.keep(caller, args, found, work, &step).await?;
        if let Err(error) = self.set_modes(found, changes).await {
            // Whatever became of the modes, no message was sent.
            self.not_sent(found, work).await;
            return Err(error);
        }
        let mut mode = mode_for(args.when_busy.unwrap_or_default(), &self.standing(member, thread));
        for _ in 0..TRIES {
            let message = SendMessage {
                command: intent.command("send", work.progress.attempt),
                thread: found.id.clone(),
                message: intent.message(work.progress.attempt),
                text: args.prompt.clone(),
                model: changes.model.clone(),
                mode: mode.clone(),
            };
            self.keep(caller, args, found, work, &step).await?;
            match member.machine.send_message(&message).await {
                Ok(_) => {
                    self.settle(found, work, Fate::Taken).await;
                    work.progress.outcome = Outcome::Started { run: None };
                    return Ok(());
                }
                Err(MachineError::Rejected { message, .. }) if message.contains("previously rejected") => {
                    self.came_to_nothing(found, work).await;
                }
                // The run that was to be steered ended under the message: look again, and start or steer what is there now.
                Err(MachineError::Rejected { message, .. })
                    if mode != DispatchMode::Start && TARGET_ENDED.iter().any(|mark| message.contains(mark)) =>
                {
                    self.came_to_nothing(found, work).await;
                    let thread = self.read(found).await?;
                    let next = mode_for(args.when_busy.unwrap_or_default(), &self.standing(member, &thread));
                    mode = if next == mode { DispatchMode::Start } else { next };
                }
                Err(error) => return Err(self.failed(found, work, &error).await),
            }
        }
        Err(ToolError::new(
            ErrorCode::OperationRejected,
            format!("T3 on {} refused the message several times.", member.name()),
        )
        .hint("Read the thread (t3_thread), then try again with another request_id."))
    }

    async fn set_modes(&self, found: &Found, changes: &Changes) -> Result<(), ToolError> {
        let machine = &found.member.machine;
        let failed = |error| ToolError::from_machine(found.member.name(), &error);
        if let Some(mode) = changes.runtime {
            let command = ids::fresh_command();
            machine
                .set_runtime_mode(&command, &found.id, mode)
                .await
                .map_err(failed)?;
        }
        if let Some(mode) = changes.interaction {
            let command = ids::fresh_command();
            machine
                .set_interaction_mode(&command, &found.id, mode)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    /// No T3 refuses a message for a busy thread: it queues it. Where it was to be rejected, it is taken off again.
    async fn take_off_the_queue(&self, found: &Found, work: &mut Work<'_>) -> Result<(), ToolError> {
        let message = work.message(found);
        let Ok((thread, Some(run))) = self.run_of(found, &message).await else {
            // It is there, as T3 said; what it does will show.
            return Ok(());
        };
        let standing = self.standing(&found.member, &thread);
        let queued = standing
            .run(&run)
            .is_some_and(|facts| standing.run_state(facts) == RunState::Queued);
        if !queued || !waits_behind(&standing, &run) {
            return Ok(());
        }
        let intent = work.receipt.intent(found.member.name());
        let command = intent.command("take-off", work.progress.attempt);
        match found.member.machine.cancel_queued(&command, &found.id, &run).await {
            Ok(_) => {
                work.progress.attempt += 1;
                work.progress.outcome = Outcome::NotStarted;
                Err(busy_with(&standing, found, Some(&run)))
            }
            // It has just begun to run: then the thread was free for it after all.
            Err(MachineError::Rejected { .. }) => Ok(()),
            Err(error) => Err(ToolError::from_machine(found.member.name(), &error).with("run_id", run.to_string())),
        }
    }
}

/// How T3 is to take the message. What cannot be steered any more is followed by a plain start, which T3 queues if it must.
fn mode_for(when_busy: WhenBusy, standing: &Standing<'_>) -> DispatchMode {
    let target = standing.status.active.as_ref().filter(|id| {
        standing
            .run(id)
            .is_some_and(|run| standing.run_state(run) != RunState::Finishing)
    });
    match (when_busy, target) {
        (WhenBusy::Steer, Some(run)) => DispatchMode::Steer(run.clone()),
        (WhenBusy::Restart, Some(run)) => DispatchMode::Restart(run.clone()),
        (WhenBusy::Queue, _) if standing.is_busy() => DispatchMode::Queue,
        (WhenBusy::Queue | WhenBusy::Steer | WhenBusy::Restart, None) | (WhenBusy::Reject | WhenBusy::Queue, _) => {
            DispatchMode::Start
        }
    }
}

fn only_for_new_threads(args: &DispatchArgs) -> Result<(), ToolError> {
    let given = [
        ("title", args.title.is_some()),
        ("workspace", args.workspace.is_some()),
        ("base_ref", args.base_ref.is_some()),
        ("branch", args.branch.is_some()),
        ("worktree_path", args.worktree_path.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((name, _)) => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("{name} is for new threads; thread_id names one that exists."),
        )
        .hint(format!(
            "Leave {name} out, or leave thread_id out to start a new thread."
        ))),
    }
}

fn busy(standing: &Standing<'_>, found: &Found) -> ToolError {
    busy_with(standing, found, None)
}

/// The thread is busy; `taken_off` is the run that was queued for this message and taken off again.
fn busy_with(standing: &Standing<'_>, found: &Found, taken_off: Option<&RunId>) -> ToolError {
    let state = standing.state().as_str();
    let held = standing
        .status
        .queue
        .iter()
        .any(|id| Some(id) != taken_off && standing.run(id).is_some_and(|run| run.queue_held))
        || taken_off.is_some_and(|id| standing.run(id).is_some_and(|run| run.queue_held));
    let queues = !matches!(found.member.machine.check_queues(), Err(MachineError::NeedsNewer(_)));
    let hint = match standing.state() {
        _ if held => {
            "T3 holds its queue: nothing moves until t3_queue resumes it (action resume) or takes its runs out (cancel)."
        }
        ThreadState::Question | ThreadState::Approval if queues => {
            "It waits for an answer: see `pending` in t3_thread, then t3_answer. Or pass when_busy: steer, restart or queue."
        }
        ThreadState::Question | ThreadState::Approval => {
            "It waits for an answer: see `pending` in t3_thread, then t3_answer."
        }
        ThreadState::Gone
        | ThreadState::Running
        | ThreadState::Starting
        | ThreadState::Finishing
        | ThreadState::Queued
        | ThreadState::Completed
        | ThreadState::Interrupted
        | ThreadState::Failed
        | ThreadState::Cancelled
        | ThreadState::RolledBack
        | ThreadState::Idle => {
            if queues {
                "Wait with t3_wait, or pass when_busy: queue (after it), steer (into it) or restart (in place of it)."
            } else {
                "Wait with t3_wait, or stop it with t3_interrupt: this T3 has no queue."
            }
        }
    };
    let mut error = ToolError::new(
        ErrorCode::ThreadBusy,
        format!("The thread {} is {state}; the prompt was not taken.", found.id),
    )
    .hint(hint)
    .with("state", state);
    if held {
        error = error.with("held", true);
    }
    match standing.status.active.as_ref().or(standing.status.run.as_ref()) {
        Some(run) if Some(run) != taken_off => error.with("run_id", run.to_string()),
        Some(_) | None => error,
    }
}
