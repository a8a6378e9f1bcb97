//! `t3_events`.

use std::sync::Arc;

use crate::gateway::{EventsAnswer, EventsArgs, Gateway, ProgressSink, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Reads events.
#[derive(Debug)]
pub struct Events;

impl Tool for Events {
    const NAME: &'static str = "t3_events";
    const TITLE: &'static str = "Read T3 events";
    const DESCRIPTION: &'static str = "What happened to watched runs (completed, interrupted, failed, question, approval), oldest first, with the final \
        message: for hosts to which no hook delivers events. Without `cursor`: the newest events, and the `cursor` to go on from. With it: what came \
        after. `wait` holds the call until something comes. Events of 30 days are kept; `truncated` says that some before these are gone. For one \
        thread whose end you need now, t3_wait is simpler.";
    const EFFECT: Effect = Effect::Reads;
    type Args = EventsArgs;
    type Answer = EventsAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: EventsArgs) -> Result<EventsAnswer, ToolError> {
        let progress = call.progress.as_ref().map(|progress| progress as &dyn ProgressSink);
        gateway.events(&call.caller, args, progress).await
    }

    fn summary(answer: &EventsAnswer) -> String {
        let events = super::count(answer.events.len(), "event");
        if answer.truncated == Some(true) {
            format!("{events}; earlier ones are not kept any more.")
        } else {
            format!("{events}.")
        }
    }
}
