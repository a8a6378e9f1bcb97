//! `t3_machines`.

use std::sync::Arc;

use crate::gateway::{Gateway, MachinesAnswer, MachinesArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Lists the machines.
#[derive(Debug)]
pub struct Machines;

impl Tool for Machines {
    const NAME: &'static str = "t3_machines";
    const TITLE: &'static str = "List T3 machines";
    const DESCRIPTION: &'static str = "The T3 Code machines that you may use, and whether each is online. Answers at once, from memory. Start here \
        when you do not know a machine's name; then t3_projects. A machine that is not online says why in `error`.";
    const EFFECT: Effect = Effect::Reads;
    type Args = MachinesArgs;
    type Answer = MachinesAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: MachinesArgs) -> Result<MachinesAnswer, ToolError> {
        gateway.machines(&call.caller, args)
    }

    fn summary(answer: &MachinesAnswer) -> String {
        let online = answer.machines.iter().filter(|machine| machine.online).count();
        format!("{}, {online} online.", super::count(answer.machines.len(), "machine"))
    }
}
