//! `t3_answer`: answers a question, decides an approval, or closes a question.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fleet::Found;
use crate::gateway::faults::one_of;
use crate::gateway::reading::{archived, deleted, may_change};
use crate::gateway::standing::Standing;
use crate::gateway::waiting::key;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, answers, compose, ids, modes, text};
use crate::lifecycle::{Capability, Pending, RequestClass, ThreadState};
use crate::machine::{Answer, MachineError, Message, Respond, RuntimeMode, Thread, Undelivered};
use crate::protocol::{MessageId, RunId};

/// The answer: exactly one of answers, decision and dismiss.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerArgs {
    /// The thread that asks.
    pub thread_id: String,
    /// For a question: question id to an option's label or value, free text, or a list of them where several may be chosen. Every
    /// required question must be answered.
    #[serde(default)]
    pub answers: Option<Map<String, Value>>,
    /// For an approval: one of the `decisions` that it shows, such as accept, acceptForSession, decline or cancel.
    #[serde(default)]
    pub decision: Option<String>,
    /// Close a question without an answer.
    #[serde(default)]
    pub dismiss: Option<bool>,
    /// The pending request that is meant. Needed only when several are pending.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct AnswerAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// The requests that were answered.
    pub answered: Vec<String>,
    /// What the thread does now.
    pub state: String,
    /// The run that goes on, or that the answer started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

impl Gateway {
    /// Answers a pending request. The work goes on in its own task when the returned future is dropped.
    pub async fn answer(self: &Arc<Self>, caller: &Caller, args: AnswerArgs) -> Result<AnswerAnswer, ToolError> {
        may_change(caller, "the answer")?;
        one_of_three(&args)?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.answer_here(&caller, &args).await })
            .await
    }

    async fn answer_here(&self, caller: &Caller, args: &AnswerArgs) -> Result<AnswerAnswer, ToolError> {
        let found = self.find_thread(caller, &args.thread_id).await?;
        let thread = self.read(&found).await?;
        let standing = self.standing(&found.member, &thread);
        if standing.state() == ThreadState::Gone {
            return Err(deleted(&found));
        }
        let request = choose(&standing, &found, args)?;
        answerable(request, &found)?;
        let ceiling = found.member.ceiling(&caller.limits);
        let answer = checked(&standing, request, args, ceiling)?;
        // Its run has ended: to answer it is to go on in the thread.
        let starts_a_run = request.capability == Capability::Message && matches!(answer, Answer::Answers(_));
        if starts_a_run {
            if thread.head.archived {
                return Err(archived(&found));
            }
            modes::for_continuing(&thread.head.runtime_mode, None, ceiling)?;
        }
        let before: Vec<RunId> = thread.facts.runs.iter().map(|run| run.id.clone()).collect();
        let respond = Respond {
            command: ids::fresh_command(),
            thread: found.id.clone(),
            request: request.id.clone(),
            answer,
        };
        let member = &found.member;
        self.told_what_is_asked(member, &found.id, &thread).await;
        member.machine.respond(&respond).await.map_err(|error| {
            let refused = ToolError::refused_as(member.name(), &error, ErrorCode::RequestNotFound, &NO_LONGER_PENDING)
                .with("request_id", request.id.to_string());
            // A second answer does not find the first one: the request is only gone.
            if matches!(error, MachineError::AnswerLost { .. }) {
                refused.hint("T3 may have taken it. Look with t3_thread, and answer again only what is still pending.")
            } else {
                refused
            }
        })?;
        let failed_before = undelivered(&thread, request).count();
        let shown = self
            .read_until(member, &found.id, |standing| {
                let open = standing.status.pending.iter().any(|pending| pending.id == request.id);
                let failed = undelivered(standing.thread, request).nth(failed_before).is_some();
                failed || !open && (!starts_a_run || new_run(standing, &before).is_some())
            })
            .await;
        let mut answered = AnswerAnswer {
            thread_id: found.id.to_string(),
            machine: member.name().to_owned(),
            answered: vec![request.id.to_string()],
            state: ThreadState::Running.as_str().to_owned(),
            run_id: request.run.as_ref().map(ToString::to_string),
        };
        let mut message = None;
        // T3 has the answer; where it does not show what came of it, nothing is claimed beyond that.
        if let Ok((thread, _)) = shown {
            let standing = self.standing(member, &thread);
            if let Some(failed) = undelivered(&thread, request).nth(failed_before) {
                return Err(not_delivered(&standing, &found, failed));
            }
            standing.state().as_str().clone_into(&mut answered.state);
            if starts_a_run {
                let run = new_run(&standing, &before);
                message = run.as_ref().and_then(|run| message_of(&thread, run));
                answered.run_id = run.map(|run| run.to_string());
            }
        }
        if starts_a_run {
            // The next wait is for that run, not for the one that asked.
            self.memory.went_on(&caller.client, &key(&found), message);
        }
        Ok(answered)
    }
}

/// T3's words for a request that is not open any more.
const NO_LONGER_PENDING: [&str; 4] = ["is resolved", "is cancelled", "is expired", "was not found"];

/// The answers to a request that T3 could not hand to the agent.
fn undelivered<'a>(thread: &'a Thread, request: &'a Pending) -> impl Iterator<Item = &'a Undelivered> {
    let all = thread.undelivered.iter();
    all.filter(|failed| failed.request == request.id)
}

/// T3 took the answer, and its agent did not get it.
fn not_delivered(standing: &Standing<'_>, found: &Found, failed: &Undelivered) -> ToolError {
    let (id, state) = (&failed.request, standing.state().as_str());
    let mut pending = standing.status.pending.iter();
    let (code, hint) = if pending.any(|pending| pending.id == *id) {
        let hint = "It is still pending: look with t3_thread, and answer again.";
        (ErrorCode::OperationRejected, hint)
    } else {
        let hint = "Nothing waits for it any more: to tell the agent something, use t3_dispatch with thread_id once the thread is not busy.";
        (ErrorCode::RequestNotFound, hint)
    };
    ToolError::new(
        code,
        format!(
            "T3 took the answer to {id}, but the agent of {} did not get it: {}. The thread is {state}.",
            found.id,
            text::quoted(failed.why.trim_end_matches('.'))
        ),
    )
    .hint(hint)
    .with("request_id", id.to_string())
    .with("state", state)
}

fn one_of_three(args: &AnswerArgs) -> Result<(), ToolError> {
    let given = [
        args.answers.is_some(),
        args.decision.is_some(),
        args.dismiss == Some(true),
    ];
    match given.into_iter().filter(|given| *given).count() {
        1 => Ok(()),
        _ => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            "Pass exactly one of answers (for a question), decision (for an approval) and dismiss (to close a question).",
        )),
    }
}

/// The request that is meant: the named one, or the only one that waits.
fn choose<'a>(standing: &'a Standing<'_>, found: &Found, args: &AnswerArgs) -> Result<&'a Pending, ToolError> {
    let pending = &standing.status.pending;
    let listed: Vec<String> = pending
        .iter()
        .map(|request| format!("{} ({})", request.id, request.kind))
        .collect();
    let ids: Vec<String> = pending.iter().map(|request| request.id.to_string()).collect();
    if let Some(id) = &args.request_id {
        return pending.iter().find(|request| request.id.0 == *id).ok_or_else(|| {
            ToolError::new(
                ErrorCode::RequestNotFound,
                format!("The thread {} has no pending request `{}`.", found.id, text::quoted(id)),
            )
            .hint(one_of("Pending", &listed))
            .with("valid", ids)
        });
    }
    // What holds nothing and can reach nobody is no candidate while there is another.
    let mut candidates: Vec<&Pending> = pending
        .iter()
        .filter(|request| request.answerable || request.holds)
        .collect();
    if candidates.is_empty() {
        candidates = pending.iter().collect();
    }
    match candidates.as_slice() {
        [only] => Ok(only),
        [] => Err(ToolError::new(
            ErrorCode::RequestNotFound,
            format!(
                "The thread {} waits for no answer; it is {}.",
                found.id,
                standing.state().as_str()
            ),
        )
        .hint("To tell its agent something, use t3_dispatch with thread_id.")),
        _ => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!(
                "The thread {} has several pending requests: name one as request_id.",
                found.id
            ),
        )
        .hint(one_of("Pending", &listed))
        .with("valid", ids)),
    }
}

fn answerable(request: &Pending, found: &Found) -> Result<(), ToolError> {
    if request.answerable {
        return Ok(());
    }
    let machine = found.member.name();
    let error = ToolError::new(
        ErrorCode::RequestNotAnswerable,
        format!(
            "The request {} ({}) cannot be answered from here.",
            request.id, request.kind
        ),
    )
    .with("request_id", request.id.to_string());
    Err(if request.capability == Capability::NotResumable {
        error.hint("Its agent's session is gone. Send a new message with t3_dispatch and thread_id instead.")
    } else {
        error.hint(format!("Answer it in T3 on {machine}."))
    })
}

fn checked(
    standing: &Standing<'_>,
    request: &Pending,
    args: &AnswerArgs,
    ceiling: RuntimeMode,
) -> Result<Answer, ToolError> {
    let question = request.class == RequestClass::Question;
    let invalid = |message: String| ToolError::new(ErrorCode::InvalidRequest, message);
    if let Some(given) = &args.answers {
        if !question {
            return Err(
                invalid(format!("The request {} is an approval: pass decision.", request.id))
                    .hint(one_of("Decisions", &compose::decisions_of(standing, request, ceiling))),
            );
        }
        let questions = compose::questions_of(standing, request);
        if questions.is_empty() {
            return Err(ToolError::new(
                ErrorCode::RequestNotAnswerable,
                format!("T3 does not show what the request {} asks.", request.id),
            )
            .hint("Answer it in T3 itself."));
        }
        return answers::check(questions, given).map(Answer::Answers);
    }
    if let Some(decision) = &args.decision {
        if question {
            return Err(invalid(format!(
                "The request {} is a question: pass answers, or dismiss.",
                request.id
            )));
        }
        let offered = compose::decisions_of(standing, request, ceiling);
        if !offered.contains(decision) {
            return Err(invalid(format!(
                "`{}` is no decision that may be taken here.",
                text::quoted(decision)
            ))
            .hint(one_of("Decisions", &offered))
            .with("valid", offered));
        }
        return Ok(Answer::Decision(decision.clone()));
    }
    if question {
        Ok(Answer::Dismiss)
    } else {
        Err(invalid(format!(
            "The request {} is an approval: it cannot be dismissed, only decided.",
            request.id
        ))
        .hint(one_of("Decisions", &compose::decisions_of(standing, request, ceiling))))
    }
}

/// The newest run that was not there before.
fn new_run(standing: &Standing<'_>, before: &[RunId]) -> Option<RunId> {
    standing
        .thread
        .facts
        .runs
        .iter()
        .filter(|run| !before.contains(&run.id))
        .max_by_key(|run| run.ordinal)
        .map(|run| run.id.clone())
}

/// The message that made the run.
fn message_of(thread: &Thread, run: &RunId) -> Option<MessageId> {
    let of_run = |message: &&Message| message.role == "user" && message.run.as_ref() == Some(run);
    thread.messages.iter().find(of_run).map(|message| message.id.clone())
}
