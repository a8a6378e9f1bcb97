//! `t3_interrupt`.

use std::sync::Arc;

use crate::gateway::{Gateway, InterruptAnswer, InterruptArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Stops a run.
#[derive(Debug)]
pub struct Interrupt;

impl Tool for Interrupt {
    const NAME: &'static str = "t3_interrupt";
    const TITLE: &'static str = "Interrupt a T3 run";
    const DESCRIPTION: &'static str = "Stops the active run of a thread, or takes a queued `run_id` out of the queue. Returns when the run has \
        ended; `interrupting` after 5 s means that T3 still works on it: call t3_wait before you send anything else. What the run did so far stays. \
        `queue`: continue (default) lets T3 start the next queued run, which the answer names; hold keeps them waiting. A thread that does \
        nothing answers thread_not_interruptible.";
    const EFFECT: Effect = Effect::Changes;
    type Args = InterruptArgs;
    type Answer = InterruptAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: InterruptArgs) -> Result<InterruptAnswer, ToolError> {
        gateway.interrupt(&call.caller, args).await
    }

    fn summary(answer: &InterruptAnswer) -> String {
        let next = match &answer.next_run {
            Some(run) => format!(" T3 goes on with the queued run {run}."),
            None => String::new(),
        };
        let note = answer.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
        format!("The run on {} is {}.{next}{note}", answer.machine, answer.state)
    }
}
