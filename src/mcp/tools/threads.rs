//! `t3_threads`.

use std::sync::Arc;

use crate::gateway::{Gateway, ThreadsAnswer, ThreadsArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Lists threads.
#[derive(Debug)]
pub struct Threads;

impl Tool for Threads {
    const NAME: &'static str = "t3_threads";
    const TITLE: &'static str = "List T3 threads";
    const DESCRIPTION: &'static str = "The threads that you may see, newest first, with state, model, last message and what each asks. Narrow \
        them by machine, project, `state` (also busy, attention, archived) or `query` (their titles and messages). `next_cursor`: there may be \
        more; pass it as `cursor` with the same other arguments. Pages stay right while threads change: none comes twice, none is skipped because \
        others moved, and `newer` counts those that changed since the first page. Threads that other threads' agents started come with \
        `subagents`. The content of one is in t3_thread.";
    const EFFECT: Effect = Effect::Reads;
    type Args = ThreadsArgs;
    type Answer = ThreadsAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: ThreadsArgs) -> Result<ThreadsAnswer, ToolError> {
        gateway.threads(&call.caller, args).await
    }

    fn summary(answer: &ThreadsAnswer) -> String {
        let mut line = super::count(answer.threads.len(), "thread");
        if answer.next_cursor.is_some() {
            line.push_str("; there may be more (cursor)");
        }
        if !answer.unreachable.is_empty() {
            line.push_str("; ");
            line.push_str(&super::count(answer.unreachable.len(), "machine"));
            line.push_str(" did not answer");
        }
        line.push('.');
        line
    }
}
