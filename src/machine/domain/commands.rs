//! What is asked of a machine: new threads, messages, answers.

use serde_json::Value;

use super::{InteractionMode, ModelSelection, RuntimeMode};
use crate::protocol::{CommandId, MessageId, ProjectId, RunId, RuntimeRequestId, ThreadId};

/// Where a new thread works.
#[derive(Clone, Debug, PartialEq)]
pub enum Workspace {
    /// In the project's own folder.
    Root,
    /// In a worktree that T3 makes.
    Worktree {
        /// What it starts from.
        base_ref: String,
        /// The branch that it makes.
        branch: Option<String>,
    },
    /// In a worktree that is there.
    ExistingWorktree {
        /// Its absolute path.
        path: String,
    },
}

/// A new thread with its first message.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The idempotency key: T3 answers a repeated one with the first result.
    pub command: CommandId,
    /// The thread's id, made by the gateway.
    pub thread: ThreadId,
    /// The message's id, made by the gateway.
    pub message: MessageId,
    /// The project; checked before it is sent.
    pub project: ProjectId,
    /// The title.
    pub title: String,
    /// The caller left the title to T3: it may make a better one of the first message.
    pub generate_title: bool,
    /// The prompt.
    pub text: String,
    /// Instance, model, options; checked before it is sent.
    pub model: ModelSelection,
    /// What the agent may do.
    pub runtime_mode: RuntimeMode,
    /// Whether it works or plans.
    pub interaction_mode: InteractionMode,
    /// Where it works.
    pub workspace: Workspace,
}

/// What became of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launched {
    /// The thread.
    pub thread: ThreadId,
    /// The run that the message made, where the answer shows it.
    pub run: Option<RunId>,
    /// T3 had seen the command id before.
    pub resumed: bool,
}

/// A message to a thread that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct SendMessage {
    /// The idempotency key.
    pub command: CommandId,
    /// The thread.
    pub thread: ThreadId,
    /// The message's id, made by the gateway.
    pub message: MessageId,
    /// The prompt.
    pub text: String,
    /// Another model than the thread's.
    pub model: Option<ModelSelection>,
    /// What to do where a run is active.
    pub mode: DispatchMode,
}

/// What to do with a message where a run is active.
#[derive(Clone, Debug, PartialEq)]
pub enum DispatchMode {
    /// Start; a busy thread queues it (no T3 refuses).
    Start,
    /// Wait for the active run's end.
    Queue,
    /// Into the active run.
    Steer(RunId),
    /// In place of what the active run does.
    Restart(RunId),
}

/// An answer to a pending request. A wrong kind of answer hangs the run for ever, so the type allows only whole ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Respond {
    /// The idempotency key.
    pub command: CommandId,
    /// The thread.
    pub thread: ThreadId,
    /// The request.
    pub request: RuntimeRequestId,
    /// The answer.
    pub answer: Answer,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To an approval, T3's word.
    Decision(String),
    /// To a question: question id to a string or a list of strings.
    Answers(serde_json::Map<String, Value>),
    /// A question is closed without an answer.
    Dismiss,
}

/// A project to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewProject {
    /// The idempotency key.
    pub command: CommandId,
    /// The project's id, made by the gateway.
    pub id: ProjectId,
    /// What people call it.
    pub title: String,
    /// Its folder, which must be there.
    pub path: String,
}
