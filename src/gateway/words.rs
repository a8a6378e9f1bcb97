//! The closed sets of words that arguments take.
//!
//! Their variants carry plain comments: a doc comment on a variant turns the JSON Schema from `enum` into `oneOf`, which some clients
//! refuse.
#![allow(missing_docs)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::{InteractionMode, RuntimeMode};

/// What to do with a prompt for a busy thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    // Refuse it.
    #[default]
    Reject,
    // Run it after the active run.
    Queue,
    // Put it into the active run.
    Steer,
    // Run it in place of what the active run does.
    Restart,
}

/// Where a new thread works.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    // In the project's own folder.
    #[default]
    Project,
    // In a worktree that T3 makes.
    Worktree,
    // In a worktree that is there.
    ExistingWorktree,
}

/// What an agent may do without asking, least first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    ApprovalRequired,
    AutoAcceptEdits,
    Auto,
    FullAccess,
}

impl From<Mode> for RuntimeMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::ApprovalRequired => Self::ApprovalRequired,
            Mode::AutoAcceptEdits => Self::AutoAcceptEdits,
            Mode::Auto => Self::Auto,
            Mode::FullAccess => Self::FullAccess,
        }
    }
}

/// Whether the agent works or only plans.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interaction {
    Default,
    Plan,
}

impl From<Interaction> for InteractionMode {
    fn from(mode: Interaction) -> Self {
        match mode {
            Interaction::Default => Self::Default,
            Interaction::Plan => Self::Plan,
        }
    }
}

/// When a wait for several threads ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    // As soon as one is done.
    #[default]
    Any,
    // When all are.
    All,
}

/// Which threads a list tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadFilter {
    // No run has ever started.
    Idle,
    Queued,
    Starting,
    Running,
    Finishing,
    Approval,
    Question,
    Completed,
    Interrupted,
    Failed,
    Cancelled,
    RolledBack,
    // At work, or waiting for something.
    Busy,
    // A request waits for somebody, or T3 holds the queue.
    Attention,
    // In the archive, whatever it does.
    Archived,
}

/// What becomes of the runs that wait behind an interrupted one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueAfter {
    // T3 starts the next.
    #[default]
    Continue,
    // T3 holds them.
    Hold,
}

/// What to do with a thread's queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueAction {
    // Show it.
    List,
    // Take a run out.
    Cancel,
    // Put a run's message into the active run.
    Steer,
    // Let a queue that is held go on.
    Resume,
}

impl QueueAction {
    /// The word that callers use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Cancel => "cancel",
            Self::Steer => "steer",
            Self::Resume => "resume",
        }
    }
}
