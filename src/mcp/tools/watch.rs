//! `t3_watch`.

use std::sync::Arc;

use crate::gateway::{Gateway, ToolError, WatchAnswer, WatchArgs};
use crate::mcp::tool::{Again, Call, Effect, Tool};

/// Switches a thread's events.
#[derive(Debug)]
pub struct Watch;

impl Tool for Watch {
    const NAME: &'static str = "t3_watch";
    const TITLE: &'static str = "Watch T3 threads";
    const DESCRIPTION: &'static str = "Which threads' events (end, question, approval) are reported. What t3_dispatch starts is watched already; \
        this is for other threads, such as one that a person started in T3. Without arguments: all that are `watched`, and those at work that are not. \
        With `thread_id` and `enabled`: switches the events of all its runs on, for this conversation, or off. Returns when that is on disk. It does \
        not wait for anything: t3_wait does.";
    const EFFECT: Effect = Effect::Changes;
    // Switching what is switched already changes nothing.
    const AGAIN: Again = Again::Freely;
    type Args = WatchArgs;
    type Answer = WatchAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: WatchArgs) -> Result<WatchAnswer, ToolError> {
        gateway.watch(&call.caller, args).await
    }

    fn summary(answer: &WatchAnswer) -> String {
        let watched = super::count(answer.watched.len(), "thread");
        match answer.unwatched.len() {
            0 => format!("{watched} watched."),
            others => format!("{watched} watched, {others} not."),
        }
    }
}
