//! `t3_pair`.

use std::sync::Arc;

use crate::gateway::{Gateway, PairAnswer, PairArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Renews a machine's credential.
#[derive(Debug)]
pub struct Pair;

impl Tool for Pair {
    const NAME: &'static str = "t3_pair";
    const TITLE: &'static str = "Pair a T3 machine";
    const DESCRIPTION: &'static str = "Renews the gateway's credential on a `machine` by a pairing `code`, which a person makes with `t3 pair` on the \
        T3 host. Only where the operator set agent_pairing = true. The code is good once, for minutes, and goes to the configured address only. Use \
        it when a call says needs_pairing, or t3_status says expiring_soon, and a person gave you a code.";
    const EFFECT: Effect = Effect::Changes;
    type Args = PairArgs;
    type Answer = PairAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: PairArgs) -> Result<PairAnswer, ToolError> {
        gateway.pair(&call.caller, args).await
    }

    fn summary(answer: &PairAnswer) -> String {
        match answer.days_left {
            Some(days) => format!("{} is paired, for {}.", answer.machine, super::count_days(days)),
            None => format!("{} is paired.", answer.machine),
        }
    }
}
