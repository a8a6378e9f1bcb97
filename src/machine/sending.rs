//! Commands to a machine, and what T3 would take and then hang on.
//!
//! Everything that T3 accepts without a check and that ends in a run that never moves is refused here before it is sent. An answer
//! that was lost is asked for again with the same command id over the next connection: T3 answers a repeated id with the first result.
//! Nothing is ever sent a second time under another id. Called by `gateway`, through [`Machine`].

#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::dialect::{Call, Dialect};
use super::domain::{
    Answer, InteractionMode, Launch, Launched, NewProject, Project, Respond, RuntimeMode, SendMessage,
};
use super::error::MachineError;
use super::link::Link;
use super::session::CallError;
use super::{Core, Machine};
use crate::lifecycle::{RequestClass, RequestFacts, classify_request, fold};
use crate::protocol::{CommandId, ProviderInstanceId, RunId, ThreadId};

/// T3's words for a thread that is there.
const ALREADY_THERE: &str = "already exists";

/// How often a command is sent at most, with one id, when its answer is lost.
const TRIES: usize = 3;
/// How long the tries may take together, the waiting for a new connection included.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one try waits for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

impl Machine {
    /// Makes a thread with its first message. Refuses before sending (`Unsafe`) what T3 would accept and hang on: an unknown project, a
    /// provider that is disabled or unknown. Asks T3 again with the same command id when the answer is lost; only if it stays silent is
    /// it `AnswerLost`.
    pub async fn launch(&self, launch: &Launch) -> Result<Launched, MachineError> {
        let link = self.core.link()?;
        if self.project(&launch.project).is_none() {
            return Err(MachineError::Unsafe(format!(
                "{} has no project {}: T3 would make a thread that can never run",
                self.name(),
                launch.project
            )));
        }
        link.check_provider(&launch.model.instance).await?;
        if !link.dialect.launches_at_once() {
            return self.launch_in_steps(launch).await;
        }

        let sent = self.core.send(|dialect| dialect.launch(launch)).await;
        match sent {
            Ok(answer) => {
                self.core.state.handle_launched(&launch.thread);
                let launched = link.dialect.read_launched(&answer, &launch.message);
                launched.map_err(|error| unread(&error))
            }
            Err(Failed::UnknownProcedure) => self.launch_in_steps(launch).await,
            Err(Failed::Error(error)) => Err(error),
        }
    }

    async fn launch_in_steps(&self, launch: &Launch) -> Result<Launched, MachineError> {
        for step in 0..2 {
            let write = |dialect: &dyn Dialect| {
                let [create, send] = dialect.launch_in_steps(launch)?;
                Ok(if step == 0 { create } else { send })
            };
            match self.record(&launch.thread, write).await {
                Ok(_) => {}
                // The id follows from the call: an earlier attempt made the thread, and T3 refused its message.
                Err(MachineError::Rejected { message, .. })
                    if step == 0 && message.contains(ALREADY_THERE) && self.is_blank(&launch.thread).await => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Launched {
            thread: launch.thread.clone(),
            run: None,
            resumed: false,
        })
    }

    /// Sends a message to a thread; the sequence of the write. Refuses a deleted thread before sending, and a provider on which the run
    /// would never start.
    pub async fn send_message(&self, message: &SendMessage) -> Result<u64, MachineError> {
        let link = self.core.link()?;
        // What the protocol does not have is said before anything is asked.
        link.dialect.send_message(message)?;
        let instance = self.instance_of(message).await?;
        link.check_provider(&instance).await?;
        if link.dialect.merges_messages() {
            self.make_way(message, &*link.dialect).await?;
        }
        self.record(&message.thread, |dialect| dialect.send_message(message))
            .await
    }

    /// Sees that the message will begin a turn of its own: T3 would take it into the one at work, or store it and run nothing.
    async fn make_way(&self, message: &SendMessage, dialect: &dyn Dialect) -> Result<(), MachineError> {
        let thread = self.read_thread_anew(&message.thread).await?;
        if thread.messages.iter().any(|known| known.id == message.message) {
            // It is there: asked again, T3 answers from memory.
            return Ok(());
        }
        if thread.head.archived || thread.facts.deleted {
            return Err(MachineError::Unsafe(format!(
                "the thread {} is archived or deleted: T3 would store the message and run nothing",
                message.thread
            )));
        }
        if fold(&thread.facts).state.is_busy() {
            return Err(MachineError::NeedsNewer(format!(
                "it speaks orchestration protocol 1, in which the thread {}, which is busy, would take the message into its turn; a T3 Code \
                 that speaks protocol 2 (its releases after 0.0.33) can queue it",
                message.thread
            )));
        }
        if dialect.before_message(message)?.is_some() {
            let write = |dialect: &dyn Dialect| dialect.before_message(message)?.ok_or_else(|| self.core.unreachable());
            self.record(&message.thread, write).await?;
        }
        Ok(())
    }

    /// The provider that the message's run would go to. A thread without a row is read: T3 takes messages to deleted ones, and runs them.
    async fn instance_of(&self, message: &SendMessage) -> Result<ProviderInstanceId, MachineError> {
        let named = message.model.as_ref().map(|model| model.instance.clone());
        let (deleted, own) = if let Some(row) = self.thread(&message.thread) {
            (row.deleted, row.model.instance.clone())
        } else {
            let thread = self.read_thread_anew(&message.thread).await?;
            (thread.facts.deleted, thread.head.model.instance)
        };
        if deleted {
            return Err(MachineError::Unsafe(format!(
                "the thread {} is deleted: T3 would run the message where nobody sees it",
                message.thread
            )));
        }
        Ok(named.unwrap_or(own))
    }

    /// Answers a request. Refuses before sending an answer of the wrong kind for the request's kind, since it would hang the run.
    pub async fn respond(&self, respond: &Respond) -> Result<u64, MachineError> {
        let thread = self.read_thread_anew(&respond.thread).await?;
        let request = thread
            .facts
            .requests
            .iter()
            .find(|request| request.id == respond.request);
        let Some(request) = request else {
            return Err(MachineError::Unsafe(format!(
                "the thread {} has no request {}",
                respond.thread, respond.request
            )));
        };
        check_answer(request, &respond.answer)?;
        // Once T3 took it, a connection that has gone meanwhile must not say that nothing was sent.
        let dialect = self.core.link()?.dialect.clone();
        let sequence = self.record(&respond.thread, |dialect| dialect.respond(respond)).await?;
        dialect.handle_answered(respond, request.run.as_ref());
        Ok(sequence)
    }

    /// Interrupts a run.
    pub async fn interrupt(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
        hold_queue: bool,
    ) -> Result<u64, MachineError> {
        let dialect = self.core.link()?.dialect.clone();
        let shown = if dialect.reads_before_interrupt() {
            Some(self.begun(thread, run).await?)
        } else {
            None
        };
        let write = |dialect: &dyn Dialect| dialect.interrupt(command, thread, run, hold_queue, shown.as_ref());
        let sequence = self.record(thread, write).await?;
        dialect.handle_interrupted(thread, run);
        Ok(sequence)
    }

    /// Says so where T3 has no queues: there is nothing to change then, and never will be.
    pub fn check_queues(&self) -> Result<(), MachineError> {
        self.core.link()?.dialect.check_queues()
    }

    /// Takes a run out of the queue.
    pub async fn cancel_queued(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        run: &RunId,
    ) -> Result<u64, MachineError> {
        self.record(thread, |dialect| dialect.cancel_queued(command, thread, run))
            .await
    }

    /// Puts a queued run's message into the run at work; the queued run ends.
    pub async fn promote_queued(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        queued: &RunId,
        target: &RunId,
    ) -> Result<u64, MachineError> {
        self.record(thread, |dialect| {
            dialect.promote_queued(command, thread, queued, target)
        })
        .await
    }

    /// Lets a queue that T3 holds move on.
    pub async fn resume_queue(&self, command: &CommandId, thread: &ThreadId) -> Result<u64, MachineError> {
        self.record(thread, |dialect| dialect.resume_queue(command, thread))
            .await
    }

    /// Changes what the thread's agent may do; only while it is idle: some providers lose the run over it.
    pub async fn set_runtime_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: RuntimeMode,
    ) -> Result<u64, MachineError> {
        let sequence = self
            .record(thread, |dialect| dialect.set_runtime_mode(command, thread, mode))
            .await?;
        self.session_settled(thread).await;
        Ok(sequence)
    }

    /// Changes whether the thread's agent works or plans; only while it is idle.
    pub async fn set_interaction_mode(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        mode: InteractionMode,
    ) -> Result<u64, MachineError> {
        let sequence = self
            .record(thread, |dialect| dialect.set_interaction_mode(command, thread, mode))
            .await?;
        self.session_settled(thread).await;
        Ok(sequence)
    }

    /// Puts the thread into the archive, or takes it out. T3 does so whatever the thread does: some providers lose the run over it.
    pub async fn set_archived(
        &self,
        command: &CommandId,
        thread: &ThreadId,
        archived: bool,
    ) -> Result<u64, MachineError> {
        self.record(thread, |dialect| dialect.set_archived(command, thread, archived))
            .await
    }

    /// Makes a project of a folder that is there.
    pub async fn create_project(&self, project: &NewProject) -> Result<Project, MachineError> {
        let dialect = self.core.link()?.dialect.clone();
        let sent = self.core.send(|dialect| dialect.create_project(project)).await;
        let answer = sent.map_err(Failed::into_error)?;
        dialect.read_project(&answer, project).map_err(|error| unread(&error))
    }

    /// Sends a command about a thread, and remembers at which sequence T3 recorded it.
    async fn record(
        &self,
        thread: &ThreadId,
        write: impl Fn(&dyn Dialect) -> Result<Call, MachineError>,
    ) -> Result<u64, MachineError> {
        let dialect = self.core.link()?.dialect.clone();
        let answer = self.core.send(write).await.map_err(Failed::into_error)?;
        let sequence = dialect.read_sequence(&answer).map_err(|error| unread(&error))?;
        self.core.state.handle_written(thread, sequence);
        Ok(sequence)
    }
}

/// Why a command has no answer.
enum Failed {
    /// The server does not have this procedure. Nothing happened.
    UnknownProcedure,
    /// Anything else.
    Error(MachineError),
}

impl Failed {
    fn into_error(self) -> MachineError {
        match self {
            Self::UnknownProcedure => MachineError::Defect {
                defect: "T3 does not know this request: update T3 Code".to_owned(),
            },
            Self::Error(error) => error,
        }
    }
}

impl Core {
    /// Sends a command until T3 answers it, with one command id throughout.
    async fn send(&self, write: impl Fn(&dyn Dialect) -> Result<Call, MachineError>) -> Result<Box<RawValue>, Failed> {
        let deadline = Instant::now() + PATIENCE;
        let mut link = self.link().map_err(Failed::Error)?;
        let mut lost = None;
        for attempt in 1..=TRIES {
            let call = write(&*link.dialect).map_err(Failed::Error)?;
            let within = ANSWER_WITHIN.min(deadline.saturating_duration_since(Instant::now()));
            let error = match link.session.command(call.tag, call.payload, within).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // Only T3's own word is an end; of a loss nobody knows whether it was before or after the command took effect.
            let after_loss = matches!(lost, Some(MachineError::AnswerLost { .. }));
            if error.is_unknown_request() && !after_loss {
                return Err(Failed::UnknownProcedure);
            }
            match settle(error, after_loss) {
                Settled::Said(error) => return Err(Failed::Error(error)),
                Settled::Lost(error) => lost = Some(error),
                Settled::NotSent(error) if !after_loss => lost = Some(error),
                Settled::NotSent(_) => {}
            }
            if attempt == TRIES {
                break;
            }
            match tokio::time::timeout_at(deadline, self.another_link(&link)).await {
                Ok(Some(next)) if next.environment == link.environment => link = next,
                // Another database knows nothing of the command, and would do it a second time.
                Ok(Some(_)) => {
                    lost = lost.map(elsewhere);
                    break;
                }
                Ok(None) | Err(_) => break,
            }
            tracing::info!(machine = %self.settings.name, attempt, "the answer to a command was lost: asking again");
        }
        Err(Failed::Error(lost.unwrap_or_else(|| self.unreachable())))
    }

    /// Waits for another connection than this one; a silent one that still stands is asked again.
    async fn another_link(&self, last: &Arc<Link>) -> Option<Arc<Link>> {
        let mut links = self.link.subscribe();
        if links.borrow().as_ref().is_some_and(|link| Arc::ptr_eq(link, last)) {
            let gone = links.wait_for(|link| !link.as_ref().is_some_and(|link| Arc::ptr_eq(link, last)));
            // The socket's end is noticed within moments where it was the cause.
            if tokio::time::timeout(LINK_SETTLES, gone).await.is_err() {
                return Some(last.clone());
            }
        }
        links.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// How long a lost answer's socket gets to be noticed as gone.
const LINK_SETTLES: Duration = Duration::from_millis(500);

/// What the end of a try means.
enum Settled {
    /// T3 said so: nothing to ask again.
    Said(MachineError),
    /// It went out, and no answer came.
    Lost(MachineError),
    /// It never went out.
    NotSent(MachineError),
}

/// What the end of a try means, `after_loss` of an earlier one's answer: then only a refusal of the command itself, which T3 repeats
/// for a repeated id, says what became of it. A defect or a missing scope speaks of this try alone.
fn settle(error: CallError, after_loss: bool) -> Settled {
    match error.for_command() {
        error @ MachineError::AnswerLost { .. } => Settled::Lost(error),
        error @ MachineError::Unreachable { .. } => Settled::NotSent(error),
        error @ MachineError::Rejected { .. } => Settled::Said(error),
        error if after_loss => Settled::Lost(MachineError::AnswerLost {
            reason: format!("the answer was lost, and asked again T3 says: {error}"),
        }),
        error => Settled::Said(error),
    }
}

/// Why a command is not asked for again: what became of it, if it went out, only the database that is gone could tell.
fn elsewhere(lost: MachineError) -> MachineError {
    match lost {
        MachineError::AnswerLost { reason } => MachineError::AnswerLost {
            reason: format!("{reason}, and another environment answers at the address since"),
        },
        not_sent => not_sent,
    }
}

/// T3 answered that it did it, in a way that we cannot read: it happened, as far as anyone knows.
fn unread(error: &MachineError) -> MachineError {
    MachineError::AnswerLost {
        reason: format!("T3 answered, but not in a way that can be read: {error}"),
    }
}

/// T3 marks a request as resolved whatever comes; the provider is told only what fits its kind, and waits for ever otherwise.
fn check_answer(request: &RequestFacts, answer: &Answer) -> Result<(), MachineError> {
    let wants = match classify_request(&request.kind) {
        RequestClass::Approval => "a decision",
        RequestClass::Question => "answers",
        RequestClass::None | RequestClass::Unanswerable => {
            return Err(MachineError::Unsafe(format!(
                "a request of the kind {} can only be answered in T3 itself",
                request.kind
            )));
        }
    };
    let given = match answer {
        Answer::Decision(_) => "a decision",
        Answer::Answers(_) | Answer::Dismiss => "answers",
    };
    if given == wants {
        return Ok(());
    }
    Err(MachineError::Unsafe(format!(
        "the request {} of the kind {} takes {wants}, not {given}: T3 would accept it and its run would hang",
        request.id, request.kind
    )))
}
