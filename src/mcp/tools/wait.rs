//! `t3_wait`.

use std::sync::Arc;

use crate::gateway::{Gateway, ProgressSink, ToolError, WaitAnswer, WaitArgs};
use crate::mcp::tool::{Call, Effect, Tool};

/// Waits for threads.
#[derive(Debug)]
pub struct Wait;

impl Tool for Wait {
    const NAME: &'static str = "t3_wait";
    const TITLE: &'static str = "Wait for T3 threads";
    const DESCRIPTION: &'static str = "Waits until a thread's work has ended or it asks something (question, approval), and returns its view: the \
        last message is the report. Returns at once when there is nothing to wait for.\n\
        `still_running: true` is no failure: the time ran out and the work goes on. Do not start it again; call t3_wait again with the same thread_id, or \
        end your turn if an event will wake you.\n\
        If your client limits how long a call may take, give a `timeout` (seconds) below that limit. For several threads pass thread_ids: `until` \
        any (default) returns with the first, all with the last. `quiet` also waits for background work.";
    const EFFECT: Effect = Effect::Reads;
    type Args = WaitArgs;
    type Answer = WaitAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: WaitArgs) -> Result<WaitAnswer, ToolError> {
        let progress = call.progress.as_ref().map(|progress| progress as &dyn ProgressSink);
        gateway.wait(&call.caller, args, progress).await
    }

    fn summary(answer: &WaitAnswer) -> String {
        let told = match (&answer.thread, &answer.threads, &answer.done) {
            (Some(view), _, _) => super::thread::state(view),
            (None, Some(threads), Some(done)) => {
                format!("{} of {} done.", done.len(), super::count(threads.len(), "thread"))
            }
            (None, _, _) => String::new(),
        };
        let waited = format!("Waited {:.0} s", answer.waited);
        if answer.still_running {
            format!("{told} {waited}; the work goes on. Do not start it again.")
        } else {
            format!("{told} {waited}.")
        }
        .trim_start()
        .to_owned()
    }
}
