//! `t3_queue`.

use std::sync::Arc;

use crate::gateway::{Gateway, QueueAnswer, QueueArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Shows and changes a thread's queue.
#[derive(Debug)]
pub struct Queue;

impl Tool for Queue {
    const NAME: &'static str = "t3_queue";
    const TITLE: &'static str = "Show or change a T3 thread's queue";
    const DESCRIPTION: &'static str = "The runs that wait behind a thread's active one (t3_dispatch with when_busy: queue). `action`: list shows them; \
        cancel takes `run_id` out, it then never runs; steer puts its message into the active run now, which the answer names as run_id; resume \
        lets a queue go on that T3 holds (`held`: after t3_interrupt with queue: hold, or a restart of T3), and only then does anything in it move. \
        A repeated cancel or steer of the same run finds what the first one did. To stop the run at work use t3_interrupt.";
    const EFFECT: Effect = Effect::Changes;
    type Args = QueueArgs;
    type Answer = QueueAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: QueueArgs) -> Result<QueueAnswer, ToolError> {
        gateway.queue(&call.caller, args).await
    }

    fn summary(answer: &QueueAnswer) -> String {
        let waiting = super::count(answer.queue.len() + answer.left_out.unwrap_or(0), "run");
        let held = if answer.held == Some(true) {
            ", held until action resume"
        } else {
            ""
        };
        let done = match (answer.outcome.as_deref(), &answer.run_id) {
            (None, _) => String::new(),
            (Some("steered"), Some(run)) => format!("Steered into {run}. "),
            (Some("started"), Some(run)) => format!("{run} had started by itself. "),
            (Some("not_held"), _) => "The queue was not held. ".to_owned(),
            (Some("resumed"), _) => "Resumed. ".to_owned(),
            (Some(_), _) => "Cancelled. ".to_owned(),
        };
        format!(
            "{done}{waiting} waiting on {}{held}; the thread is {}.",
            answer.machine, answer.state
        )
    }
}
