//! `t3_thread`: the view of a thread, without waiting for its run.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::gateway::view::ThreadView;
use crate::gateway::{Caller, Gateway, ToolError};

/// Which thread, and how much of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadArgs {
    /// The thread.
    pub thread_id: String,
    /// How many of the newest runs to show messages, tools and files of: 1-20, default 2.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub turns: Option<u32>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// What the thread is doing and what came of it, now.
    pub async fn thread(&self, caller: &Caller, args: ThreadArgs) -> Result<ThreadView, ToolError> {
        todo!()
    }
}
