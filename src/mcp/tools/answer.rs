//! `t3_answer`.

use std::sync::Arc;

use crate::gateway::{AnswerAnswer, AnswerArgs, Gateway, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Answers what a thread asks.
#[derive(Debug)]
pub struct Answer;

impl Tool for Answer {
    const NAME: &'static str = "t3_answer";
    const TITLE: &'static str = "Answer a T3 thread";
    const DESCRIPTION: &'static str = "Answers what a thread asks (`pending` in its view): exactly one of `answers` (a question: question id to an \
        option's label, or free text where it is allowed, or a list where several may be chosen; all required questions at once), `decision` (an \
        approval: one of the `decisions` that it shows) or `dismiss` (closes a question). With several pending requests give request_id. The run then \
        goes on: call t3_wait. What is not `answerable` must be answered in T3 itself: tell the user.";
    const EFFECT: Effect = Effect::Changes;
    type Args = AnswerArgs;
    type Answer = AnswerAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: AnswerArgs) -> Result<AnswerAnswer, ToolError> {
        gateway.answer(&call.caller, args).await
    }

    fn summary(answer: &AnswerAnswer) -> String {
        let answered = super::count(answer.answered.len(), "request");
        format!(
            "Answered {answered} on {}; the thread is {}. Call t3_wait.",
            answer.machine, answer.state
        )
    }
}
