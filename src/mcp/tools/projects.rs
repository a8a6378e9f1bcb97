//! `t3_projects`.

use std::sync::Arc;

use crate::gateway::{Gateway, ProjectsAnswer, ProjectsArgs, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Lists the projects.
#[derive(Debug)]
pub struct Projects;

impl Tool for Projects {
    const NAME: &'static str = "t3_projects";
    const TITLE: &'static str = "List T3 projects";
    const DESCRIPTION: &'static str = "The projects that you may use, with their machine, folder, default model, and how many threads each has and \
        how many of them work. Give a project's id, title or path to t3_dispatch. Machines that do not answer are listed in `unreachable`: their \
        projects are missing here, not gone.";
    const EFFECT: Effect = Effect::Reads;
    type Args = ProjectsArgs;
    type Answer = ProjectsAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: ProjectsArgs) -> Result<ProjectsAnswer, ToolError> {
        gateway.projects(&call.caller, args).await
    }

    fn summary(answer: &ProjectsAnswer) -> String {
        let projects = super::count(answer.projects.len(), "project");
        match answer.unreachable.len() {
            0 => format!("{projects}."),
            away => format!("{projects}; {} did not answer.", super::count(away, "machine")),
        }
    }
}
