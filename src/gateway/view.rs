//! The view of a thread: what `t3_thread` and `t3_wait` answer. Absent facts are absent, never null or empty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A thread: what it does, what came of it, and what it asks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ThreadView {
    /// T3's id.
    pub thread_id: String,
    /// Its machine.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub machine: String,
    /// The project's title.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub project: String,
    /// The thread's title.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub title: String,
    /// approval, question, running, starting, finishing or queued while it is busy; else how its latest run ended (completed,
    /// interrupted, failed, cancelled, `rolled_back`), idle, gone, or unknown where it cannot be waited for (see error).
    pub state: String,
    /// T3 holds the queue: nothing moves until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// The run that the state speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunView>,
    /// The provider session's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// instance/model.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub model: String,
    /// What the agent may do without asking.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub runtime_mode: String,
    /// The branch that it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The worktree that it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// When T3 last changed it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub last_activity_at: String,
    /// Messages of the newest runs, oldest first; the last is the report.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub messages: Vec<MessageView>,
    /// What the agent did in the newest runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tools: Vec<ToolView>,
    /// Files that the newest runs changed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub files: Vec<FileView>,
    /// The agent's plan.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub plan: Vec<PlanView>,
    /// Runs that wait.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queue: Vec<QueueView>,
    /// Work that goes on outside of a run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub background: Vec<BackgroundView>,
    /// Questions and approvals that wait for an answer (`t3_answer`).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pending: Vec<PendingView>,
    /// The provider's token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<serde_json::Map<String, serde_json::Value>>,
    /// Why the run failed, or why this thread of several cannot be waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// T3 goes on by itself then (usage limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<String>,
    /// What was cut to stay within the answer's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<TruncatedView>,
    /// The machine does not answer since then: this is what was last known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<String>,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct RunView {
    /// T3's id.
    pub id: String,
    /// Its place in the thread, from 1.
    pub ordinal: u64,
    /// queued, starting, running, finishing, completed, interrupted, failed, cancelled or `rolled_back`.
    pub status: String,
    /// When it was asked for.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub requested_at: String,
    /// When it began to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How long it worked, or works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// T3 goes on with the work in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues_in: Option<String>,
    /// It counts as completed although T3 has not said so (it finished for longer than the limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<bool>,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct MessageView {
    /// user, assistant or system.
    pub role: String,
    /// Its text.
    pub text: String,
    /// When it was written.
    pub at: String,
    /// The run that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ToolView {
    /// T3's word for its kind.
    pub kind: String,
    /// The command, the file or the tool's name.
    pub title: String,
    /// T3's word for its status.
    pub status: String,
    /// A command's exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

/// A changed file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct FileView {
    /// Its path, as T3 shows it.
    pub path: String,
    /// T3's word for the change.
    pub change: String,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
}

/// A step of the plan.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct PlanView {
    /// What is to be done.
    pub step: String,
    /// T3's word for its status.
    pub status: String,
}

/// A run that waits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct QueueView {
    /// The run.
    pub run_id: String,
    /// Its place, from 1.
    pub position: u64,
    /// The beginning of its prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Work that goes on outside of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct BackgroundView {
    /// T3's word for its kind.
    pub kind: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A request that waits for an answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct PendingView {
    /// question or approval.
    pub kind: String,
    /// The id that `t3_answer` takes when several are pending.
    pub request_id: String,
    /// `t3_answer` can answer it; otherwise it must be answered in T3 itself.
    pub answerable: bool,
    /// message: the question outlives its run, and answering it starts a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What a question asks.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub questions: Vec<QuestionView>,
    /// What an approval asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
}

/// One question of a request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct QuestionView {
    /// The key of its answer.
    pub id: String,
    /// A few words.
    pub header: String,
    /// The question.
    pub question: String,
    /// What may be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub options: Vec<OptionView>,
    /// Several may be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_select: Option<bool>,
    /// Text that is none of the options may be answered; absent permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_text: Option<bool>,
    /// It must be answered; absent demands it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// A choice.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct OptionView {
    /// What to answer.
    pub label: String,
    /// What it means.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub description: String,
}

/// What an approval asks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ApprovalView {
    /// T3's word: command, file-change, …
    pub kind: String,
    /// What is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The command or file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What `decision` may be.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub decisions: Vec<String>,
}

/// Why a run failed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct FailureView {
    /// T3's word for the class.
    pub class: String,
    /// T3's words.
    pub message: String,
    /// When a usage limit ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<String>,
}

/// How much was cut, by part of the view: entries left out, or characters for texts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct TruncatedView {
    /// Characters cut from the final message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_message_chars: Option<usize>,
    /// Messages left out or shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
    /// Tool calls left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Files left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Plan steps left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<usize>,
    /// Queued runs left out or shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// Background tasks left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<usize>,
    /// Texts of pending requests that were shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<usize>,
    /// Other texts that were shortened (title, error, usage).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<usize>,
}
