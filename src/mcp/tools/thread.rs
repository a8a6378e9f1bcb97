//! `t3_thread`.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::gateway::{Gateway, ThreadArgs, ThreadView, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Reads a thread.
#[derive(Debug)]
pub struct Thread;

impl Tool for Thread {
    const NAME: &'static str = "t3_thread";
    const TITLE: &'static str = "Read a T3 thread";
    const DESCRIPTION: &'static str = "What a thread is doing and what came of it, now, without waiting: state, latest run, the newest messages \
        (the last one is the report), tools, changed files, plan, queue, what it asks (`pending`) and why it failed. `turns` shows more runs. To wait \
        for the end use t3_wait; do not call this in a loop.";
    const EFFECT: Effect = Effect::Reads;
    type Args = ThreadArgs;
    type Answer = ThreadView;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: ThreadArgs) -> Result<ThreadView, ToolError> {
        gateway.thread(&call.caller, args).await
    }

    fn summary(view: &ThreadView) -> String {
        state(view)
    }
}

/// A thread's state in one line, with what the caller should do about it.
pub(super) fn state(view: &ThreadView) -> String {
    let mut line = format!("{} on {}", view.state, view.machine);
    if view.held == Some(true) {
        line.push_str(", its queue is held (t3_queue resumes it)");
    }
    if !view.background.is_empty() {
        line.push_str(", background work goes on");
    }
    if let Some(since) = &view.unreachable_since {
        let _ = write!(
            line,
            ", the machine is unreachable since {since}: this is what was last known"
        );
    }
    line.push('.');
    match view.pending.len() {
        0 => {}
        1 => line.push_str(" It waits for an answer (t3_answer)."),
        several => {
            let _ = write!(
                line,
                " {several} requests wait for an answer (t3_answer with request_id)."
            );
        }
    }
    line
}
