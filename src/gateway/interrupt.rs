//! `t3_interrupt`: stops the active run, or takes a waiting one out of the queue.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::words::QueueAfter;
use crate::gateway::{Caller, Gateway, ToolError};

/// What to stop.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterruptArgs {
    /// The thread.
    pub thread_id: String,
    /// The run; left out, the active one. A queued run is cancelled.
    #[serde(default)]
    pub run_id: Option<String>,
    /// The queued runs behind it: continue (default; T3 starts the next) or hold.
    #[serde(default)]
    pub queue: Option<QueueAfter>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InterruptAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// interrupted or cancelled, or whatever end the run came to by itself first; interrupting while T3 still works on it.
    pub state: String,
    /// The run that T3 starts next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<String>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// Interrupts a run. The work goes on in its own task when the returned future is dropped.
    pub async fn interrupt(
        self: &Arc<Self>,
        caller: &Caller,
        args: InterruptArgs,
    ) -> Result<InterruptAnswer, ToolError> {
        todo!()
    }
}
