//! `t3_status`.

use std::sync::Arc;

use crate::gateway::{Gateway, StatusAnswer, StatusArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// How machines and credentials do.
#[derive(Debug)]
pub struct Status;

impl Tool for Status {
    const NAME: &'static str = "t3_status";
    const TITLE: &'static str = "Health of T3 machines";
    const DESCRIPTION: &'static str = "How each T3 machine, or one `machine`, does: whether it is online and how far its stream lags, what the \
        gateway's credential may do there and when it ends (`expiring_soon`: in under 14 days), deliveries that wait or were given up. Where a \
        credential is to be renewed, `renew` says how: tell it to a person. To find a machine to work on, t3_machines is quicker.";
    const EFFECT: Effect = Effect::Reads;
    type Args = StatusArgs;
    type Answer = StatusAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: StatusArgs) -> Result<StatusAnswer, ToolError> {
        gateway.status(&call.caller, args).await
    }

    fn summary(answer: &StatusAnswer) -> String {
        let online = answer.machines.iter().filter(|machine| machine.online).count();
        let due: Vec<&str> = answer
            .machines
            .iter()
            .filter(|machine| machine.credential.renew.is_some())
            .map(|machine| machine.name.as_str())
            .collect();
        let machines = super::count(answer.machines.len(), "machine");
        if due.is_empty() {
            format!("{machines}, {online} online; no credential is to be renewed.")
        } else {
            format!("{machines}, {online} online; to be renewed: {}.", due.join(", "))
        }
    }
}
