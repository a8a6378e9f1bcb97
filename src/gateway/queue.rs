//! `t3_queue`: the runs that wait behind a thread's active one: listed, taken out, put into the active run, let go on.
//!
//! A run is named by its id and acted on by its state, so that a call that is repeated after a lost answer finds what the first one did.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Found;
use crate::gateway::reading::{archived, deleted, may_change};
use crate::gateway::standing::Standing;
use crate::gateway::view::QueueView;
use crate::gateway::words::QueueAction;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, budget, compose, ids, modes, text};
use crate::lifecycle::{RunFacts, RunState, ThreadState};
use crate::machine::{MachineError, Thread};
use crate::protocol::RunId;

/// What to do with a queue.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueArgs {
    /// The thread.
    pub thread_id: String,
    /// list (what waits), cancel (take `run_id` out), steer (put the message of `run_id` into the active run now), resume (let a queue
    /// that T3 holds go on).
    pub action: QueueAction,
    /// The queued run, for cancel and steer: list names them.
    #[serde(default)]
    pub run_id: Option<String>,
}

/// The queue, after what was done.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct QueueAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// What the thread does now.
    pub state: String,
    /// T3 holds the queue: nothing in it moves until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// The run at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_run: Option<String>,
    /// The runs that wait, next one first.
    pub queue: Vec<QueueView>,
    /// How many more wait, for want of room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// What came of the action: cancelled, steered, resumed; started where the run had begun by itself before it could be steered;
    /// `not_held` where there was nothing to resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The run in which the message of `run_id` is now, where it was steered or has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// How often a command that T3 refuses is decided anew: runs start and end by themselves meanwhile.
const TRIES: usize = 3;

/// What the answer's own facts take.
const ENVELOPE_CHARS: usize = 1_200;

/// What a run's state means for an action on it.
enum Means {
    /// It waits: there is something to do.
    Waits,
    /// It came to that already.
    Done(Outcome),
}

/// What came of an action.
#[derive(Clone, Debug)]
enum Outcome {
    Cancelled,
    /// Into this run.
    Steered(RunId),
    /// By itself.
    Started(RunId),
    Resumed,
    NotHeld,
}

impl Outcome {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Steered(_) => "steered",
            Self::Started(_) => "started",
            Self::Resumed => "resumed",
            Self::NotHeld => "not_held",
        }
    }

    fn run(&self) -> Option<&RunId> {
        match self {
            Self::Steered(run) | Self::Started(run) => Some(run),
            Self::Cancelled | Self::Resumed | Self::NotHeld => None,
        }
    }
}

impl Gateway {
    /// Lists or changes the queue. A change goes on in its own task when the returned future is dropped.
    pub async fn queue(self: &Arc<Self>, caller: &Caller, args: QueueArgs) -> Result<QueueAnswer, ToolError> {
        if args.action == QueueAction::List {
            only_for_one_run(&args)?;
            let found = self.find_thread(caller, &args.thread_id).await?;
            let thread = self.read_queue(&found).await?;
            return Ok(answer(&self.standing(&found.member, &thread), &found, None));
        }
        may_change(caller, "the change of the queue")?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.change_queue(&caller, &args).await })
            .await
    }

    async fn change_queue(&self, caller: &Caller, args: &QueueArgs) -> Result<QueueAnswer, ToolError> {
        let found = self.find_thread(caller, &args.thread_id).await?;
        let queues = found.member.machine.check_queues();
        queues.map_err(|error| ToolError::from_machine(found.member.name(), &error))?;
        if matches!(args.action, QueueAction::Steer | QueueAction::Resume) {
            // What waits would run on: the same is asked as of a prompt that goes there.
            let head = &self.read_queue(&found).await?.head;
            if head.archived {
                return Err(archived(&found));
            }
            let ceiling = found.member.ceiling(&caller.limits);
            modes::for_continuing(&head.runtime_mode, None, ceiling)?;
        }
        let (outcome, shown) = match args.action {
            QueueAction::List => (None, self.read_queue(&found).await?),
            QueueAction::Resume => {
                only_for_one_run(args)?;
                let outcome = self.resume(&found).await?;
                let moves = |standing: &Standing<'_>| !is_held(standing);
                (Some(outcome), self.shown(&found, moves).await?)
            }
            QueueAction::Cancel | QueueAction::Steer => {
                let run = self.named(&found, args).await?;
                let outcome = match args.action {
                    QueueAction::Steer => self.steer_queued(&found, &run).await?,
                    QueueAction::Cancel | QueueAction::List | QueueAction::Resume => {
                        self.cancel_queued(&found, &run).await?
                    }
                };
                let left = |standing: &Standing<'_>| !standing.status.queue.contains(&run);
                (Some(outcome), self.shown(&found, left).await?)
            }
        };
        Ok(answer(&self.standing(&found.member, &shown), &found, outcome.as_ref()))
    }

    /// The run that the caller named. It must name one: another one may be the only one by the time that a call is repeated.
    async fn named(&self, found: &Found, args: &QueueArgs) -> Result<RunId, ToolError> {
        if let Some(run) = &args.run_id {
            return Ok(RunId(run.clone()));
        }
        let thread = self.read_queue(found).await?;
        let standing = self.standing(&found.member, &thread);
        Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("{} needs a run_id.", args.action.as_str()),
        )
        .listing("Queued runs", &queued(&standing)))
    }

    async fn cancel_queued(&self, found: &Found, run: &RunId) -> Result<Outcome, ToolError> {
        let mut refused = None;
        for _ in 0..TRIES {
            match self.look_at_run(found, run, refused.as_ref()).await? {
                Means::Done(Outcome::Cancelled) => return Ok(Outcome::Cancelled),
                Means::Done(Outcome::Steered(into)) => {
                    return Err(no_more(
                        found,
                        run,
                        &format!("is part of the run {into}: it was steered into it"),
                    ));
                }
                Means::Done(Outcome::Started(_) | Outcome::Resumed | Outcome::NotHeld) => {
                    return Err(no_more(found, run, "has left the queue and runs, or has run")
                        .hint("Stop it with t3_interrupt if it runs; t3_thread shows what it does."));
                }
                Means::Waits => {}
            }
            let command = ids::fresh_command();
            match found.member.machine.cancel_queued(&command, &found.id, run).await {
                Ok(_) => return Ok(Outcome::Cancelled),
                Err(error) => refused = Some(self.refused(found, run, None, &error).await?),
            }
        }
        Err(given_up(found, refused))
    }

    async fn steer_queued(&self, found: &Found, run: &RunId) -> Result<Outcome, ToolError> {
        let mut refused = None;
        for _ in 0..TRIES {
            match self.look_at_run(found, run, refused.as_ref()).await? {
                Means::Done(Outcome::Cancelled) => {
                    return Err(no_more(found, run, "was taken out of the queue")
                        .hint("Send its prompt again with t3_dispatch (thread_id, when_busy: steer)."));
                }
                Means::Done(done) => return Ok(done),
                Means::Waits => {}
            }
            let thread = self.read_queue(found).await?;
            let target = target(&self.standing(&found.member, &thread), found)?;
            let command = ids::fresh_command();
            let machine = &found.member.machine;
            match machine.promote_queued(&command, &found.id, run, &target).await {
                Ok(_) => return Ok(Outcome::Steered(target)),
                Err(error) => refused = Some(self.refused(found, run, Some(&target), &error).await?),
            }
        }
        Err(given_up(found, refused))
    }

    async fn resume(&self, found: &Found) -> Result<Outcome, ToolError> {
        let thread = self.read_queue(found).await?;
        if !is_held(&self.standing(&found.member, &thread)) {
            return Ok(Outcome::NotHeld);
        }
        let command = ids::fresh_command();
        match found.member.machine.resume_queue(&command, &found.id).await {
            Ok(_) => Ok(Outcome::Resumed),
            Err(error) => {
                let refused = refusal(found, &error)?;
                // Somebody else was first, perhaps.
                let thread = self.read_queue(found).await?;
                if is_held(&self.standing(&found.member, &thread)) {
                    Err(refused)
                } else {
                    Ok(Outcome::NotHeld)
                }
            }
        }
    }

    /// T3's refusal, once the thread shows why, or after a while: somebody else was first, perhaps, and what T3 refused by is known to it a
    /// moment before its stream shows it.
    async fn refused(
        &self,
        found: &Found,
        run: &RunId,
        target: Option<&RunId>,
        error: &MachineError,
    ) -> Result<ToolError, ToolError> {
        let refused = refusal(found, error)?;
        let is_named = |id: &RunId| refused.message.contains(id.0.as_str());
        let (of_run, of_target) = (is_named(run), target.filter(|target| is_named(target)));
        if of_run || of_target.is_some() {
            let explains = |standing: &Standing<'_>| {
                let waits = standing
                    .run(run)
                    .is_some_and(|run| matches!(means(standing, run), Means::Waits));
                !waits || of_target.is_some_and(|target| standing.status.active.as_ref() != Some(target))
            };
            // Whatever came of it: what the thread shows then is read again.
            let _ = self.read_until(&found.member, &found.id, explains).await;
        }
        Ok(refused)
    }

    /// What the run's state means. After a refusal that it does not explain, the refusal is the answer.
    async fn look_at_run(&self, found: &Found, run: &RunId, refused: Option<&ToolError>) -> Result<Means, ToolError> {
        let mut thread = self.read_queue(found).await?;
        let shows = |thread: &Thread| thread.facts.runs.iter().any(|known| known.id == *run);
        if thread.partial && !shows(&thread) {
            let whole = found.member.machine.read_whole_thread(&found.id).await;
            thread = whole.map_err(|error| ToolError::from_machine(found.member.name(), &error))?;
        }
        let standing = self.standing(&found.member, &thread);
        let Some(facts) = standing.run(run) else {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("The thread {} has no run `{}`.", found.id, text::quoted(&run.0)),
            )
            .listing("Queued runs", &queued(&standing)));
        };
        match (means(&standing, facts), refused) {
            (Means::Waits, Some(refused)) if !is_race(&standing, refused) => Err(refused.clone()),
            (means, _) => Ok(means),
        }
    }

    /// The thread, unless it was deleted.
    async fn read_queue(&self, found: &Found) -> Result<Arc<Thread>, ToolError> {
        let thread = self.read(found).await?;
        if self.standing(&found.member, &thread).state() == ThreadState::Gone {
            return Err(deleted(found));
        }
        Ok(thread)
    }

    /// The thread once it shows what was done, or as it is after a while: T3 has recorded it.
    async fn shown(&self, found: &Found, seen: impl Fn(&Standing<'_>) -> bool) -> Result<Arc<Thread>, ToolError> {
        let shown = self.read_until(&found.member, &found.id, seen).await;
        shown.map(|(thread, _)| thread).map_err(|error| {
            let said = ToolError::from_machine(found.member.name(), &error);
            // Known, but not what the thread does now: a repetition says so.
            ToolError {
                message: format!(
                    "The queue was changed, but what the thread does now is not known. {}",
                    said.message
                ),
                ..said
            }
        })
    }
}

fn means(standing: &Standing<'_>, run: &RunFacts) -> Means {
    match standing.run_state(run) {
        RunState::Unseen | RunState::Queued => Means::Waits,
        RunState::NeverStarted => Means::Done(Outcome::Cancelled),
        RunState::HandedOver => Means::Done(Outcome::Steered(standing.last_successor(run).id.clone())),
        RunState::Starting
        | RunState::Running
        | RunState::Finishing
        | RunState::Completed
        | RunState::Unconfirmed
        | RunState::Interrupted
        | RunState::Failed
        | RunState::Cancelled
        | RunState::RolledBack
        | RunState::Gone
        | RunState::NotVisible => Means::Done(Outcome::Started(run.id.clone())),
    }
}

/// The run that a message can be put into.
fn target(standing: &Standing<'_>, found: &Found) -> Result<RunId, ToolError> {
    let active = standing.status.active.as_ref().and_then(|id| standing.run(id));
    match active.map(|run| (run, standing.run_state(run))) {
        Some((run, RunState::Starting | RunState::Running)) => Ok(run.id.clone()),
        Some(_) => Err(ToolError::new(
            ErrorCode::ThreadBusy,
            format!("The active run of {} is over and only finishes.", found.id),
        )
        .hint("Nothing needs to be done: T3 starts the next queued run when it has finished. Wait with t3_wait.")),
        None => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!("Nothing runs in {} that the message could be put into.", found.id),
        )
        .hint(if is_held(standing) {
            "T3 holds the queue: action resume starts it."
        } else {
            "T3 starts the next queued run by itself."
        })),
    }
}

/// T3 refused because of the run that the message was to go into, and another one is at work now.
fn is_race(standing: &Standing<'_>, refused: &ToolError) -> bool {
    let named = |id: &RunId| refused.message.contains(id.0.as_str());
    standing.status.active.as_ref().is_none_or(|active| !named(active)) && !standing.status.queue.iter().any(named)
}

fn is_held(standing: &Standing<'_>) -> bool {
    let mut queue = standing.status.queue.iter().filter_map(|id| standing.run(id));
    queue.any(|run| run.queue_held)
}

/// A refusal of T3, which may only have come late; anything else is the answer.
fn refusal(found: &Found, error: &MachineError) -> Result<ToolError, ToolError> {
    let said = ToolError::from_machine(found.member.name(), error);
    match error {
        MachineError::Rejected { .. } => Ok(said),
        MachineError::Defect { .. }
        | MachineError::ThreadNotFound
        | MachineError::Unreachable { .. }
        | MachineError::Timeout(_)
        | MachineError::NeedsPairing { .. }
        | MachineError::InsufficientScope { .. }
        | MachineError::ProtocolUnsupported { .. }
        | MachineError::NotT3 { .. }
        | MachineError::Decode(_)
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => Err(said),
        MachineError::AnswerLost { .. } => {
            Err(said.hint("It may have happened. Repeat the same call: it finds what was done and does nothing twice."))
        }
    }
}

fn given_up(found: &Found, refused: Option<ToolError>) -> ToolError {
    refused.unwrap_or_else(|| {
        ToolError::new(
            ErrorCode::OperationRejected,
            format!("The queue of {} could not be changed.", found.id),
        )
        .hint("List it again: runs start and end by themselves meanwhile.")
    })
}

fn no_more(found: &Found, run: &RunId, what: &str) -> ToolError {
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!(
            "The run {} of {} is not in the queue: it {what}.",
            text::quoted(&run.0),
            found.id
        ),
    )
    .with("run_id", run.to_string())
}

fn only_for_one_run(args: &QueueArgs) -> Result<(), ToolError> {
    if args.run_id.is_none() {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::InvalidRequest,
        format!("{} is about the whole queue and takes no run_id.", args.action.as_str()),
    )
    .hint("Leave run_id out."))
}

fn queued(standing: &Standing<'_>) -> Vec<String> {
    standing.status.queue.iter().map(ToString::to_string).collect()
}

fn answer(standing: &Standing<'_>, found: &Found, outcome: Option<&Outcome>) -> QueueAnswer {
    let mut queue = compose::queue(standing);
    let mut room = budget::VIEWS_CHARS.saturating_sub(ENVELOPE_CHARS);
    let whole = queue.len();
    let fitting = queue.iter().take_while(|waits| {
        let size = budget::size_in_list(waits);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    let fitting = fitting.count();
    queue.truncate(fitting);
    QueueAnswer {
        thread_id: found.id.to_string(),
        machine: found.member.name().to_owned(),
        state: standing.state().as_str().to_owned(),
        held: is_held(standing).then_some(true),
        active_run: standing.status.active.as_ref().map(ToString::to_string),
        queue,
        left_out: (fitting < whole).then_some(whole - fitting),
        outcome: outcome.map(|outcome| outcome.as_str().to_owned()),
        run_id: outcome.and_then(Outcome::run).map(ToString::to_string),
    }
}
