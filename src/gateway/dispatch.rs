//! `t3_dispatch`: a new thread with a run in it, or a run in a thread that exists. Returns as soon as T3 has it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::gateway::words::{Interaction, Mode, WhenBusy, WorkspaceKind};
use crate::gateway::{Caller, Gateway, ToolError};

/// What to run, and where.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchArgs {
    /// The whole task. It runs unattended: say what to change, what to check, what not to touch, and to end with a report.
    pub prompt: String,
    /// A name from t3_machines. May be left out when there is one machine, or with thread_id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Id, path or title of a project (t3_projects). Needed for a new thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Title of a new thread; T3 then keeps it. Left out: made of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// instance/model, or a model that exactly one provider instance has. Left out: the machine's or the project's default; of a
    /// continued thread its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Continue this thread instead of starting one. Not together with title, workspace, base_ref, branch or worktree_path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Whether the run's end, questions and approvals are reported by events. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<bool>,
    /// What to do when thread_id is busy: reject (default), queue (run after it), steer (into the active run), restart (in place of it).
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
    /// project (default) works in the project's folder, worktree in a new one (needs base_ref), existing_worktree in worktree_path.
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DispatchAnswer {
    /// The thread; pass it to t3_wait or t3_thread.
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
    /// Events will be delivered for this run: end your turn instead of polling. Otherwise call t3_wait.
    pub watch: bool,
    /// This call found what an earlier one had started; nothing new was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<bool>,
    /// How it was found: request_id, or implicit (an equal call whose answer was lost).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The conversation that the thread's latest run belonged to, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_origin: Option<String>,
    /// What was done otherwise than asked, and why.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// Starts or continues a thread. The work goes on in its own task when the returned future is dropped.
    pub async fn dispatch(self: &Arc<Self>, caller: &Caller, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
        todo!()
    }
}
