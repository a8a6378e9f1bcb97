//! `t3_dispatch`: a new thread with a run in it, or a run in a thread that exists. Returns as soon as T3 has it.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use crate::fleet::Found;
use crate::gateway::keeping::Step;
use crate::gateway::reading::may_change;
use crate::gateway::receipts::{Call, Matched, Outcome, PayloadHash, Progress, Receipt, Receipts, payload_hash};
use crate::gateway::running::waits_behind;
use crate::gateway::tracking::Fate;
use crate::gateway::waiting::key;
use crate::gateway::words::{Interaction, Mode, WhenBusy, WorkspaceKind};
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, text};
use crate::lifecycle::{RunState, ThreadState};
use crate::machine::Thread;
use crate::protocol::{MessageId, RunId};

/// What to run, and where.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchArgs {
    /// The whole task. It runs unattended: say what to change, what to check, what not to touch, and to end with a report.
    pub prompt: String,
    /// A name from `t3_machines`. May be left out when there is one machine, or with `thread_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Id, path or title of a project (`t3_projects`). A new thread needs it, unless the machine has only one, or `scratch` in `t3_machines`:
    /// then it works in a scratch folder of T3's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Title of a new thread; T3 then keeps it. Left out: made of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// instance/model, or a model that exactly one provider instance has. Left out: the machine's or the project's default; of a
    /// continued thread its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Continue this thread instead of starting one. Not together with title, workspace, `base_ref`, branch or `worktree_path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Whether the run's end, questions and approvals are reported by events. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<bool>,
    /// What to do when `thread_id` is busy: reject (default), queue (run after it), steer (into the active run), restart (in place of it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_busy: Option<WhenBusy>,
    /// What the agent may do without asking, up to the machine's ceiling. Default: the machine's setting; of a continued thread its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_mode: Option<Mode>,
    /// default works, plan only plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction_mode: Option<Interaction>,
    /// Options of the model: option id to a value that it offers, or true/false. One that the model lacks is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// project (default) works in the project's folder, worktree in a new one (needs `base_ref`), `existing_worktree` in `worktree_path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceKind>,
    /// The branch or commit that a new worktree starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// The branch to make in a new worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Absolute path of a worktree that T3 shows for the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// Any string of yours that makes the call safe to repeat: the same id gives the same thread and run, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The thread and its run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct DispatchAnswer {
    /// The thread; pass it to `t3_wait` or `t3_thread`.
    pub thread_id: String,
    /// The run that the prompt made. Absent while T3 has not shown it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The machine that it runs on.
    pub machine: String,
    /// The project's title.
    pub project: String,
    /// The folder that it works in.
    pub path: String,
    /// The thread's title.
    pub title: String,
    /// instance/model.
    pub model: String,
    /// What the agent may do without asking.
    pub runtime_mode: String,
    /// What the thread does now.
    pub state: String,
    /// Events will be delivered for this run: end your turn instead of polling. Otherwise call `t3_wait`.
    pub watch: bool,
    /// This call found what an earlier one had started; nothing new was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<bool>,
    /// The run waits behind what its thread is doing now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queued: Option<bool>,
    /// How it was found: `request_id`, or implicit (an equal call whose answer was lost).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The conversation that the thread's latest run belonged to, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_origin: Option<String>,
    /// What was done otherwise than asked, and why.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

impl Gateway {
    /// Starts or continues a thread. The work goes on in its own task when the returned future is dropped.
    pub async fn dispatch(self: &Arc<Self>, caller: &Caller, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
        may_change(caller, "the dispatch")?;
        check(&args)?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move {
            let (receipt, matched) = gateway.claim(&caller, &args).await?;
            gateway.dispatch_by(&caller, &args, &receipt, matched).await
        })
        .await
    }

    /// The receipt of the earlier call that this one repeats, else a new one. Without a request id a call repeats an equal one whose answer
    /// was lost, and whether it was may not be known yet: a client that hung up and calls again is here before its hang-up is noticed. So the
    /// call waits for the end of the equal ones before it. Their answers do not depend on it.
    async fn claim(&self, caller: &Caller, args: &DispatchArgs) -> Result<Claim, ToolError> {
        let _turn = self.turn(caller, args, 0).await;
        self.claim_in_turn(caller, args, 0).await
    }

    /// The turn of a call without a request id to look for its receipt.
    pub(super) async fn turn(&self, caller: &Caller, args: &DispatchArgs, twin: u32) -> Option<OwnedMutexGuard<()>> {
        if args.request_id.is_some() {
            return None;
        }
        caller.delivery.ask_to_be_sure();
        let turn = self.receipts().turn(&call_of(caller, args, twin));
        Some(turn.lock_owned().await)
    }

    /// Looks for the receipt while the turn is held. `twin` counts equal ones in the same call.
    pub(super) async fn claim_in_turn(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        twin: u32,
    ) -> Result<Claim, ToolError> {
        let call = call_of(caller, args, twin);
        let mut recalled = None;
        let mut asked = self.ledger.is_none();
        loop {
            let undecided = {
                let mut receipts = self.receipts();
                let undecided = receipts.undecided(&call, Instant::now());
                if undecided.is_none() && (asked || receipts.knows(&call, Instant::now())) {
                    return receipts
                        .claim(&call, Instant::now(), recalled, fresh_request)
                        .map_err(|_| other_arguments(args));
                }
                undecided
            };
            if let Some(delivery) = undecided {
                delivery.known().await;
            } else {
                recalled = self.recall(&call).await?;
                asked = true;
            }
        }
    }

    /// Does the work of a receipt.
    pub(super) async fn dispatch_by(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        receipt: &Arc<Receipt>,
        matched: Option<Matched>,
    ) -> Result<DispatchAnswer, ToolError> {
        // Held while an equal call works on it: what becomes of that one is the answer.
        let mut progress = receipt.progress.lock().await;
        let mut work = Work {
            receipt,
            progress: &mut progress,
            matched,
            ready: None,
        };
        let answer = match (self.same_database(caller, &work).await, &args.thread_id) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(thread)) => self.continue_thread(caller, args, thread, &mut work).await,
            (Ok(()), None) => self.launch(caller, args, &mut work).await,
        };
        let answer = answer.map_err(|error| match work.progress.outcome {
            Outcome::Unknown => still_unknown(error),
            Outcome::NotStarted | Outcome::Started { .. } => error,
        });
        let good = answer.is_ok();
        self.keep_outcome(receipt, &progress, good).await;
        receipt.handle_end(good, &progress.outcome, &caller.delivery, Instant::now());
        if progress.kept.is_some() && receipt.hangs_on(&caller.delivery) && !receipt.is_unsaid() {
            self.keep_fate(receipt, &caller.delivery);
        }
        drop(progress);
        if answer.is_err() {
            self.receipts().forget_unsent(receipt);
        }
        answer
    }

    pub(super) fn receipts(&self) -> MutexGuard<'_, Receipts> {
        // Nothing is half done under this lock.
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer for a run that this call started. `origin` is the conversation that the thread belonged to before.
    pub(super) async fn started(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        work: &mut Work<'_>,
        origin: Option<String>,
        notes: &mut Vec<String>,
    ) -> Result<DispatchAnswer, ToolError> {
        let message = work.message(found);
        self.saw(found);
        self.memory
            .remember(&caller.client, &key(found), message.clone(), caller.origin.as_deref());
        let shown = self.run_of(found, &message).await;
        let (thread, run) = match shown {
            Ok((thread, run)) => {
                work.progress.outcome = Outcome::Started { run: run.clone() };
                (Some(thread), run)
            }
            Err(error) => {
                notes.push(format!(
                    "T3 has it, but has not shown the run yet: {error}. Call t3_wait."
                ));
                (None, None)
            }
        };
        if args.watch == Some(true) && !self.is_watched(args) {
            notes.push("Events are not delivered by this gateway: call t3_wait to learn how it ends.".to_owned());
        }
        Ok(DispatchAnswer {
            previous_origin: origin.filter(|origin| Some(origin) != caller.origin.as_ref()),
            watch: self.is_watched(args),
            notes: std::mem::take(notes),
            ..self.answer_of(found, thread.as_deref(), run.as_ref())
        })
    }

    /// The answer for a run that an earlier call started, once T3 has shown that it is the same work.
    pub(super) async fn existing(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        work: &mut Work<'_>,
    ) -> Result<DispatchAnswer, ToolError> {
        let message = work.message(found);
        let (thread, run) = self
            .run_of(found, &message)
            .await
            .map_err(|error| ToolError::from_machine(found.member.name(), &error))?;
        let run = match (run, &work.progress.outcome) {
            (Some(run), _) => Some(run),
            // Too long ago for what T3 shows of the thread at once.
            (None, Outcome::Started { run }) => run.clone(),
            (None, Outcome::NotStarted | Outcome::Unknown) => None,
        };
        let standing = self.standing(&found.member, &thread);
        let same_text = standing
            .text_of(&message)
            .is_none_or(|text| text::trimmed(text) == text::trimmed(&args.prompt));
        let same_project = found.project.id == thread.head.project
            && match &args.project {
                Some(name) => found.member.find_project(&caller.limits, name)?.id == thread.head.project,
                None => true,
            };
        if !same_text || !same_project {
            return Err(other_arguments(args));
        }
        if !matches!(work.progress.outcome, Outcome::Started { .. }) {
            // Nobody may be following it: the ledger is another one, or the call's process ended before it was told.
            self.keep(caller, args, found, work, &Step::found(args)).await?;
            self.settle(found, work, Fate::Taken).await;
        }
        work.progress.sent = true;
        work.progress.outcome = Outcome::Started { run: run.clone() };
        if self.memory.dispatched(&caller.client, &key(found)).is_none() {
            self.memory
                .remember(&caller.client, &key(found), message, caller.origin.as_deref());
        }
        let matched = work.matched.unwrap_or(Matched::RequestId);
        Ok(DispatchAnswer {
            existing: Some(true),
            matched: Some(matched.as_str().to_owned()),
            watch: self.is_watched(args),
            ..self.answer_of(found, Some(&thread), run.as_ref())
        })
    }

    fn is_queued(&self, found: &Found, thread: &Thread, run: &RunId) -> Option<bool> {
        let standing = self.standing(&found.member, thread);
        let state = standing.run_state(standing.run(run)?);
        Some(state == RunState::Queued && waits_behind(&standing, run))
    }

    fn answer_of(&self, found: &Found, thread: Option<&Thread>, run: Option<&RunId>) -> DispatchAnswer {
        let head = thread.map(|thread| &thread.head);
        let of_run = thread.and_then(|thread| {
            let id = run?;
            thread.models.iter().find(|(run, _)| run == id).map(|(_, model)| model)
        });
        let model = of_run.or(head.map(|head| &head.model));
        let worktree = head.and_then(|head| head.worktree.clone());
        DispatchAnswer {
            thread_id: found.id.to_string(),
            run_id: run.map(ToString::to_string),
            machine: found.member.name().to_owned(),
            project: found.project.title.clone(),
            path: worktree.unwrap_or_else(|| found.project.workspace_root.clone()),
            title: head.map(|head| head.title.clone()).unwrap_or_default(),
            model: model.map(ToString::to_string).unwrap_or_default(),
            runtime_mode: head.map(|head| head.runtime_mode.clone()).unwrap_or_default(),
            state: thread
                .map_or(ThreadState::Starting, |thread| {
                    self.standing(&found.member, thread).state()
                })
                .as_str()
                .to_owned(),
            watch: false,
            existing: None,
            queued: thread
                .and_then(|thread| self.is_queued(found, thread, run?))
                .filter(|queued| *queued),
            matched: None,
            previous_origin: None,
            notes: Vec::new(),
        }
    }
}

/// A receipt, and how it was found if it is that of an earlier call.
pub(super) type Claim = (Arc<Receipt>, Option<Matched>);

/// A dispatch at work on its receipt.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) receipt: &'a Receipt,
    pub(super) progress: &'a mut Progress,
    /// How the receipt of an earlier call was found; none for a new one.
    pub(super) matched: Option<Matched>,
    /// The attempt that this call has made ready to be sent.
    pub(super) ready: Option<u32>,
}

impl Work<'_> {
    /// The message of the present attempt.
    pub(super) fn message(&self, found: &Found) -> MessageId {
        self.receipt.intent(found.member.name()).message(self.progress.attempt)
    }

    /// T3 may know of this work from before this call: it is asked before anything else is decided.
    pub(super) fn may_be_there(&self) -> bool {
        self.receipt.explicit || self.progress.sent
    }
}

/// The call, as the receipts know it.
fn call_of<'a>(caller: &'a Caller, args: &'a DispatchArgs, twin: u32) -> Call<'a> {
    Call {
        client: &caller.client,
        request_id: args.request_id.as_deref(),
        hash: dispatch_hash(args, twin),
        delivery: &caller.delivery,
    }
}

/// The hash of what is asked for. Equal things in one call are told apart by how many of them came before, so that each of a repetition
/// finds its own.
pub(super) fn dispatch_hash(args: &DispatchArgs, twin: u32) -> PayloadHash {
    let hash = payload_hash(args);
    if twin == 0 {
        return hash;
    }
    let mut hasher = Sha256::new();
    hasher.update(hash);
    hasher.update(twin.to_be_bytes());
    hasher.finalize().into()
}

/// The request of a call that names none.
fn fresh_request() -> String {
    Uuid::new_v4().to_string()
}

/// The request id was used for something else.
pub(super) fn other_arguments(args: &DispatchArgs) -> ToolError {
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!(
            "The request_id `{}` was used before with other arguments; nothing was started.",
            text::quoted(args.request_id.as_deref().unwrap_or_default())
        ),
    )
    .hint("Repeat the first call exactly, or use another request_id for other work.")
}

/// This call came to nothing, and an earlier equal one may have started the work all the same.
fn still_unknown(error: ToolError) -> ToolError {
    if error.code != ErrorCode::MachineUnreachable {
        return error;
    }
    ToolError {
        code: ErrorCode::OutcomeUnknown,
        message: format!(
            "An equal call was sent before, and nobody knows yet whether it happened. {}",
            error.message
        ),
        ..error
    }
    .hint("Repeat the same call later: it finds what was started and starts nothing twice.")
}

/// What can be said of the arguments alone.
pub(super) fn check(args: &DispatchArgs) -> Result<(), ToolError> {
    let invalid = |message: &str| Err(ToolError::new(ErrorCode::InvalidRequest, message));
    if args.prompt.trim().is_empty() {
        return invalid("prompt is empty: T3 would start a run that fails.");
    }
    if args
        .title
        .as_deref()
        .is_some_and(|title| text::trimmed(title).is_empty())
    {
        return invalid("title is empty: leave it out, and it is made of the prompt.");
    }
    if args.request_id.as_deref().is_some_and(str::is_empty) {
        return invalid("request_id is empty: leave it out, or pass a string of your own.");
    }
    Ok(())
}
