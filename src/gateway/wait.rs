//! `t3_wait`: waits for what the caller has to act on (an end, a question, an approval, a held queue), woken by T3's stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::progress::ProgressSink;
use crate::gateway::view::ThreadView;
use crate::gateway::words::Until;
use crate::gateway::{Caller, Gateway, ToolError};

/// What to wait for, and how long.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitArgs {
    /// The thread. Either this or thread_ids.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// A run of thread_id: wait for that one's end.
    #[serde(default)]
    pub run_id: Option<String>,
    /// Up to 50 threads to wait for together.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub thread_ids: Option<Vec<String>>,
    /// Seconds, 5-3600. Default 50, or 900 for a client that shows progress. When it runs out the work goes on: call again.
    #[serde(default)]
    #[schemars(range(min = 5, max = 3600))]
    pub timeout: Option<u64>,
    /// Of several threads: any (default) returns with the first that is done, all with the last.
    #[serde(default)]
    pub until: Option<Until>,
    /// Also wait for background work that a finished run left behind.
    #[serde(default)]
    pub quiet: Option<bool>,
}

/// The view of the thread, or of each of several, and how the wait ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitAnswer {
    /// The view of `thread_id`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadView>,
    /// The views of `thread_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadView>>,
    /// Which of `thread_ids` are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<String>>,
    /// Seconds that this call waited.
    pub waited: f64,
    /// The time ran out. Not an error.
    pub timed_out: bool,
    /// The work goes on: do not start it again, call t3_wait again or end your turn.
    pub still_running: bool,
    /// What this means and what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// Waits. With `progress` heartbeats go there and the default timeout is the long one. Dropping the future leaves nothing behind.
    pub async fn wait(
        &self,
        caller: &Caller,
        args: WaitArgs,
        progress: Option<&dyn ProgressSink>,
    ) -> Result<WaitAnswer, ToolError> {
        todo!()
    }
}
