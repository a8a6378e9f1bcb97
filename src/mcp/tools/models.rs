//! `t3_models`.

use std::sync::Arc;

use crate::gateway::{Gateway, ModelsAnswer, ModelsArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Lists models.
#[derive(Debug)]
pub struct Models;

impl Tool for Models {
    const NAME: &'static str = "t3_models";
    const TITLE: &'static str = "List the models of a T3 machine";
    const DESCRIPTION: &'static str = "What a machine can run now: each model with its options, and the state of every provider instance with what is \
        used of its limits. Needed only where the default model (`t3_projects`) will not do: give t3_dispatch `model` as instance/model, and `options` \
        as option id to one of its `values`. A provider that is not ready says why in `message`: the user mends it in T3 on that machine.";
    const EFFECT: Effect = Effect::Reads;
    type Args = ModelsArgs;
    type Answer = ModelsAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: ModelsArgs) -> Result<ModelsAnswer, ToolError> {
        gateway.models(&call.caller, args).await
    }

    fn summary(answer: &ModelsAnswer) -> String {
        let models = super::count(answer.models.len(), "model");
        match answer.left_out {
            Some(more) => format!("{models} on {}, and {more} more: name some with query.", answer.machine),
            None => format!("{models} on {}.", answer.machine),
        }
    }
}
