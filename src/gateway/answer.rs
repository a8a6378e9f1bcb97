//! `t3_answer`: answers a question, decides an approval, or closes a question.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::gateway::{Caller, Gateway, ToolError};

/// The answer: exactly one of answers, decision and dismiss.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerArgs {
    /// The thread that asks.
    pub thread_id: String,
    /// For a question: question id to an option's label or value, free text, or a list of them where several may be chosen. Every
    /// required question must be answered.
    #[serde(default)]
    pub answers: Option<Map<String, Value>>,
    /// For an approval: one of the `decisions` that it shows, such as accept, acceptForSession, decline or cancel.
    #[serde(default)]
    pub decision: Option<String>,
    /// Close a question without an answer.
    #[serde(default)]
    pub dismiss: Option<bool>,
    /// The pending request that is meant. Needed only when several are pending.
    #[serde(default)]
    pub request_id: Option<String>,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AnswerAnswer {
    /// The thread.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// The requests that were answered.
    pub answered: Vec<String>,
    /// What the thread does now.
    pub state: String,
    /// The run that goes on, or that the answer started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// Answers a pending request. The work goes on in its own task when the returned future is dropped.
    pub async fn answer(self: &Arc<Self>, caller: &Caller, args: AnswerArgs) -> Result<AnswerAnswer, ToolError> {
        todo!()
    }
}
