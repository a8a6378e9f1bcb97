//! What a T3 machine holds, in the product's own words: the only shapes that leave `machine/`.
//!
//! A dialect makes these of its protocol's types. Nothing above `machine/` sees a generated type of one protocol version.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::lifecycle::ThreadFacts;
use crate::protocol::{MessageId, ProjectId, ProviderInstanceId, RunId, RuntimeRequestId, ThreadId};
mod commands;
mod queries;

pub use crate::protocol::{InteractionMode, OptionValue, RuntimeMode};
pub use commands::*;
pub use queries::*;

/// T3's model selection: which provider instance, which model, which options.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModelSelection {
    /// The provider instance that runs it.
    pub instance: ProviderInstanceId,
    /// The model's slug.
    pub model: String,
    /// Option id to value, in T3's order.
    pub options: Vec<(String, OptionValue)>,
}

impl fmt::Display for ModelSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.instance.0, self.model)
    }
}

/// A project as the shell shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// T3's id.
    pub id: ProjectId,
    /// Its title.
    pub title: String,
    /// Absolute path of its workspace on the machine.
    pub workspace_root: String,
    /// The model that T3 would take for a new thread.
    pub default_model: Option<ModelSelection>,
}

/// A thread as the shell shows it: a hint, never proof of an end.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadRow {
    /// T3's id.
    pub id: ThreadId,
    /// The project that it belongs to.
    pub project: ProjectId,
    /// Its title.
    pub title: String,
    /// The model that its next run takes.
    pub model: ModelSelection,
    /// T3's word, since a newer T3 may know more modes than we do.
    pub runtime_mode: String,
    /// T3's word.
    pub interaction_mode: String,
    /// The branch it works on.
    pub branch: Option<String>,
    /// The worktree it works in.
    pub worktree: Option<String>,
    /// It lies in the archive.
    pub archived: bool,
    /// T3 shows it as deleted.
    pub deleted: bool,
    /// It was started by another thread's agent.
    pub subagent: bool,
    /// T3's status word: that of the run with the highest ordinal, or `idle`. Not what the thread is doing.
    pub status: String,
    /// The run that works now.
    pub active_run: Option<RunId>,
    /// T3's word for what the active run does, also while it finishes.
    pub activity: Option<String>,
    /// The run with the highest ordinal.
    pub latest_run: Option<RunId>,
    /// When that run was asked for.
    pub latest_run_requested_at: Option<Timestamp>,
    /// When that run ended.
    pub latest_run_completed_at: Option<Timestamp>,
    /// The newest pending request; there may be more, which only a read shows.
    pub pending: Option<PendingRow>,
    /// The newest visible message, cut to [`ThreadRow::MESSAGE_CHARS`].
    pub last_message: Option<LastMessage>,
    /// Work that goes on outside of a run.
    pub background: Vec<BackgroundTask>,
    /// When T3 last changed it.
    pub updated_at: Timestamp,
    /// The sequence of the shell item that this row came from.
    pub sequence: u64,
    /// Words of T3's that this version does not know, each with what it is a word for. Taken out where they are counted.
    pub unknown_words: Vec<String>,
}

impl ThreadRow {
    /// How much of the last message a row keeps: T3 sends it whole (200 kB were seen), and ten thousand rows stay in memory.
    pub const MESSAGE_CHARS: usize = 280;
}

/// The pending request that a shell row shows.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRow {
    /// T3's id.
    pub id: RuntimeRequestId,
    /// T3's word for its kind.
    pub kind: String,
    /// When it was asked.
    pub created_at: Timestamp,
}

/// The last message that a shell row shows.
#[derive(Clone, Debug, PartialEq)]
pub struct LastMessage {
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// Its text, cut.
    pub text: String,
    /// When it was written.
    pub at: Timestamp,
}

/// Work that goes on outside of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundTask {
    /// T3's word: `command`, `monitor`, `subagent`, …
    pub kind: String,
    /// What it is.
    pub title: Option<String>,
}

/// A whole thread, as a read shows it.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The database's sequence that the read is of.
    pub sequence: u64,
    /// The head: the same facts as a row's, from the read.
    pub head: ThreadHead,
    /// What its state is folded from.
    pub facts: ThreadFacts,
    /// Its messages, oldest first.
    pub messages: Vec<Message>,
    /// What its agent did and asked, in T3's order.
    pub items: Vec<Item>,
    /// The newest todo list or plan.
    pub plan: Vec<PlanStep>,
    /// Files that checkpoints say were changed, by run.
    pub files: Vec<FileChange>,
    /// What was captured of the workspace, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Work that goes on outside of a run.
    pub background: Vec<BackgroundTask>,
    /// The provider's token counts, as T3 shows them.
    pub usage: Option<Value>,
    /// The model of each run, by run id.
    pub models: Vec<(RunId, ModelSelection)>,
    /// The turn that works and its run, where T3 stops turns and not runs.
    pub active_turn: Option<(RunId, String)>,
    /// Answers that T3 took and its agent did not get, oldest first, where T3 tells of them.
    pub undelivered: Vec<Undelivered>,
    /// The provider session's status, T3's word.
    pub session: Option<String>,
    /// When a usage limit that stopped the thread ends by itself.
    pub resumes_at: Option<Timestamp>,
    /// Words of T3's that this version does not know, each with what it is a word for: "run status `paused`".
    pub unknown_words: Vec<String>,
    /// When T3 last changed it.
    pub updated_at: Timestamp,
    /// The read left older history out.
    pub partial: bool,
}

/// An answer to a request that T3 took and could not hand on.
#[derive(Clone, Debug, PartialEq)]
pub struct Undelivered {
    /// The request.
    pub request: RuntimeRequestId,
    /// T3's words for why.
    pub why: String,
}

/// The class of a failure that is none to T3: the run ended by itself, and there is no answer.
pub const NO_ANSWER: &str = "no_answer";

/// The head of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadHead {
    /// T3's id.
    pub id: ThreadId,
    /// The project that it belongs to.
    pub project: ProjectId,
    /// Its title.
    pub title: String,
    /// The model that its next run takes.
    pub model: ModelSelection,
    /// T3's word.
    pub runtime_mode: String,
    /// T3's word.
    pub interaction_mode: String,
    /// The branch it works on.
    pub branch: Option<String>,
    /// The worktree it works in.
    pub worktree: Option<String>,
    /// It lies in the archive.
    pub archived: bool,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// T3's id; the sender of a user message picked it.
    pub id: MessageId,
    /// The run that it belongs to: the one way to find the run that a message made.
    pub run: Option<RunId>,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// Its text.
    pub text: String,
    /// It is still being written.
    pub streaming: bool,
    /// When it was written.
    pub at: Timestamp,
}

/// One turn item that views and decisions need; kinds that they do not need are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The run that it belongs to.
    pub run: Option<RunId>,
    /// T3's order.
    pub ordinal: u64,
    /// T3's word for its status.
    pub status: String,
    /// T3's title.
    pub title: Option<String>,
    /// When T3 last changed it.
    pub at: Timestamp,
    /// What it is.
    pub kind: ItemKind,
}

/// What a turn item is.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// A tool call: commands, searches, file changes, subagents, dynamic tools.
    Tool {
        /// T3's word for the kind of item.
        kind: String,
        /// The command, the file or the tool's name.
        detail: String,
        /// A command's exit code.
        exit_code: Option<i64>,
    },
    /// The text of an approval.
    Approval {
        /// The request that it is the text of.
        request: RuntimeRequestId,
        /// What is asked for, T3's words.
        prompt: Option<String>,
        /// The application that asks.
        app: Option<String>,
        /// The decisions that T3 offers; empty where it names none.
        options: Vec<DecisionOption>,
    },
    /// The text of a question.
    Question {
        /// The request that it is the text of.
        request: RuntimeRequestId,
        /// The questions.
        questions: Vec<Question>,
    },
    /// A secret is asked for, which only T3's own window can take.
    Secret {
        /// What it is called.
        label: String,
        /// It still waits.
        pending: bool,
    },
    /// Why a run failed.
    Failure {
        /// T3's word for the class.
        class: String,
        /// T3's words.
        message: String,
        /// When a usage limit ends.
        resets_at: Option<String>,
    },
}

/// A decision that T3 offers on an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionOption {
    /// T3's word to send.
    pub decision: String,
    /// What T3 shows for it.
    pub label: String,
}

/// One question of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The key of its answer.
    pub id: String,
    /// A few words.
    pub header: String,
    /// The question.
    pub question: String,
    /// What may be chosen.
    pub options: Vec<QuestionOption>,
    /// Several may be chosen; absent on older servers, which permits it.
    pub multi_select: Option<bool>,
    /// Text that is no option may be answered; absent permits it.
    pub allow_custom: Option<bool>,
    /// It must be answered; absent demands it.
    pub required: Option<bool>,
}

/// A choice of a question.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionOption {
    /// What is shown.
    pub label: String,
    /// What it means.
    pub description: String,
    /// What is sent for it; the label where absent.
    pub value: Option<String>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanStep {
    /// What is to be done.
    pub text: String,
    /// T3's word: `pending`, `running`, `completed`.
    pub status: String,
}

/// A file that a run changed.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChange {
    /// The run, where the checkpoint names it.
    pub run: Option<RunId>,
    /// The path, as T3 shows it.
    pub path: String,
    /// T3's word for the change.
    pub change: String,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
}

/// A provider instance and what it can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// The id that a model selection names.
    pub instance: ProviderInstanceId,
    /// The operator enabled it.
    pub enabled: bool,
    /// Its program is there.
    pub installed: bool,
    /// T3's word: `ready`, `warning`, `error`, `disabled`.
    pub status: String,
    /// T3's word: `authenticated`, `unauthenticated`, `unknown`.
    pub auth: String,
    /// T3 says that it is not available, and why.
    pub unavailable: Option<String>,
    /// T3's words about its state.
    pub message: Option<String>,
    /// What it can run.
    pub models: Vec<Model>,
    /// How much of the account's limits is used, where its kind tells.
    pub limits: Vec<UsageWindow>,
}

/// A limit of a provider's account, and how much of it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageWindow {
    /// T3's words for it.
    pub label: String,
    /// How much of it is used.
    pub used_percent: f64,
    /// When it begins anew, T3's words.
    pub resets_at: Option<String>,
}

/// A model of a provider instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What a model selection names.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// T3 takes it where none is named.
    pub default: bool,
    /// What can be set.
    pub options: Vec<ModelOption>,
}

/// An option of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOption {
    /// The key in a model selection.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// The choices; none for an on/off option.
    pub values: Option<Vec<String>>,
}
