//! `t3_dispatch`.

use std::sync::Arc;

use crate::gateway::{DispatchAnswer, DispatchArgs, Gateway, ToolError};
use crate::mcp::tool::{Again, Call, Effect, Tool};

/// Starts work.
#[derive(Debug)]
pub struct Dispatch;

impl Tool for Dispatch {
    const NAME: &'static str = "t3_dispatch";
    const TITLE: &'static str = "Start work on a T3 machine";
    const DESCRIPTION: &'static str = "Starts a coding agent: a new thread in `project`, or another run in `thread_id`. Returns at once with the \
        thread_id; the work goes on by itself. Then call t3_wait, or, where `watch` is true and your host delivers T3 events to you, end your turn.\n\
        The agent works unattended and knows nothing of this conversation, so the prompt must be complete: what to change and where, what to check \
        (commands, tests), what not to touch, and that it ends with a report.\n\
        Never call it again because a wait ran out or an answer is slow: the work is still running. After a lost answer repeat the call with the same \
        request_id: it finds the first one (`existing: true`) and starts nothing twice.\n\
        A busy thread_id is refused (thread_busy) unless when_busy says queue, steer or restart. Left out, model, options and modes are the thread's \
        own or the machine's defaults.";
    const EFFECT: Effect = Effect::Changes;
    // A dispatch whose answer was lost is found by an equal one.
    const AGAIN: Again = Again::Freely;
    type Args = DispatchArgs;
    type Answer = DispatchAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: DispatchArgs) -> Result<DispatchAnswer, ToolError> {
        gateway.dispatch(&call.caller, args).await
    }

    fn summary(answer: &DispatchAnswer) -> String {
        let (machine, state) = (&answer.machine, &answer.state);
        let what = if answer.existing == Some(true) {
            format!("An earlier call started this on {machine}, nothing new was started: {state}.")
        } else {
            format!("Dispatched on {machine}: {state}.")
        };
        let next = if answer.watch {
            "An event reports the end, and every question: end your turn if your host delivers T3 events; else call t3_wait (or t3_events)."
        } else {
            "No event will report the end: call t3_wait."
        };
        format!("{what} {next}")
    }
}
