//! Work that belongs to no project: T3's scratch project, where the operator allows it.

use std::sync::Arc;

use crate::fleet::Member;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::running::project_shown;
use crate::gateway::{Caller, Gateway};
use crate::machine::Project;

impl Gateway {
    /// The scratch project, for a dispatch that names no project; `without` is the answer where the caller has none.
    pub(super) async fn scratch_project(
        &self,
        member: &Member,
        caller: &Caller,
        without: impl Fn(&str) -> ToolError,
    ) -> Result<Arc<Project>, ToolError> {
        let name = member.name();
        let asked = member.machine.ensure_scratch().await;
        let Some(id) = asked.map_err(|error| ToolError::from_machine(name, &error))? else {
            return Err(without("this T3 has no scratch folder; it may be older than that"));
        };
        if !project_shown(member, &id).await {
            return Err(ToolError::new(
                ErrorCode::MachineUnreachable,
                format!("T3 on {name} has not shown its scratch project yet; nothing was started."),
            )
            .hint("Try again, or name a project."));
        }
        member
            .project(&caller.limits, &id)
            .ok_or_else(|| without("scratch work is not allowed to this client"))
    }
}
