//! `t3_add_project`.

use std::sync::Arc;

use crate::gateway::{AddProjectAnswer, AddProjectArgs, Gateway, ToolError};
use crate::mcp::tool::{Again, Call, Effect, Tool};

/// Adds a project.
#[derive(Debug)]
pub struct AddProject;

impl Tool for AddProject {
    const NAME: &'static str = "t3_add_project";
    const TITLE: &'static str = "Add a T3 project";
    const DESCRIPTION: &'static str = "Makes a folder of a machine a T3 project, so that t3_dispatch can work in it, or returns the project that it \
        is (`existing`). The folder must exist there, and its path must match a pattern that the operator allows: t3_machines shows them as \
        `projects`.";
    const EFFECT: Effect = Effect::Changes;
    // A second call finds what the first one made.
    const AGAIN: Again = Again::Freely;
    type Args = AddProjectArgs;
    type Answer = AddProjectAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: AddProjectArgs) -> Result<AddProjectAnswer, ToolError> {
        gateway.add_project(&call.caller, args).await
    }

    fn summary(answer: &AddProjectAnswer) -> String {
        let what = if answer.existing {
            "was a project already"
        } else {
            "is a project now"
        };
        format!("The folder on {} {what}.", answer.machine)
    }
}
