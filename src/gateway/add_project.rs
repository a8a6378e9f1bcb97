//! `t3_add_project`: makes a folder of a machine a project, or finds the project that it is.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::fleet::Member;
use crate::gateway::faults::one_of;
use crate::gateway::reading::may_change;
use crate::gateway::running::project_shown;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, ids, places, text};
use crate::machine::{MachineError, NewProject, Project};
use crate::protocol::ProjectId;

/// How long after T3 refused a folder the project that somebody else made of it may need to show.
const APPEARS_WITHIN: Duration = Duration::from_secs(1);

/// What to add.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddProjectArgs {
    /// A name from `t3_machines`.
    pub machine: String,
    /// The folder on that machine, which must exist: an absolute path without `.` or `..`.
    pub path: String,
    /// What to call the project. Left out: the folder's name.
    #[serde(default)]
    pub title: Option<String>,
}

/// The project.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AddProjectAnswer {
    /// Its machine.
    pub machine: String,
    /// T3's id; `t3_dispatch` takes it, the path or the title.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its folder on the machine.
    pub path: String,
    /// It was there already; nothing was added.
    pub existing: bool,
}

/// How long a title may be.
const TITLE_CHARS: usize = 200;

/// Words of T3's and the system's about a folder that is not there.
const NO_FOLDER: [&str; 6] = [
    "does not exist",
    "no such file",
    "not a directory",
    "is no folder",
    "no folder",
    "enoent",
];

impl Gateway {
    /// Adds a project. The work goes on in its own task when the returned future is dropped.
    pub async fn add_project(
        self: &Arc<Self>,
        caller: &Caller,
        args: AddProjectArgs,
    ) -> Result<AddProjectAnswer, ToolError> {
        may_change(caller, "the adding of a project")?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.add_project_here(&caller, &args).await })
            .await
    }

    async fn add_project_here(&self, caller: &Caller, args: &AddProjectArgs) -> Result<AddProjectAnswer, ToolError> {
        let member = self.fleet.member(&caller.limits, &args.machine)?;
        let path = places::absolute("path", &args.path)?;
        let title = title_of(args.title.as_deref(), &path)?;
        self.fleet.ready(&member).await?;
        if let Some(known) = at_path(&member, caller, &path) {
            return Ok(answer(&member, &known, true));
        }
        // By its path alone: a title is whatever the caller calls it.
        if !member.shows_path(&caller.limits, &path) {
            return Err(not_allowed(&member, caller, &path));
        }
        let new = NewProject {
            command: ids::fresh_command(),
            id: ProjectId(Uuid::new_v4().to_string()),
            title,
            path,
        };
        match member.machine.create_project(&new).await {
            Ok(made) => {
                // So that a dispatch after this call finds it; it was made anyway.
                project_shown(&member, &made.id).await;
                Ok(answer(&member, &made, false))
            }
            // Somebody else was faster, perhaps, and the mirror may learn of it after T3's word.
            Err(MachineError::Rejected { message, .. }) => match appears(&member, caller, &new.path).await {
                Some(known) => Ok(answer(&member, &known, true)),
                None => Err(refused(&member, &new.path, &message)),
            },
            Err(error) => Err(ToolError::from_machine(member.name(), &error)),
        }
    }
}

/// The project of the folder, if it is shown within a moment.
async fn appears(member: &Member, caller: &Caller, path: &str) -> Option<Arc<Project>> {
    let deadline = Instant::now() + APPEARS_WITHIN;
    let mut changes = member.machine.watch_shell();
    loop {
        changes.mark_unchanged();
        let known = at_path(member, caller, path);
        if known.is_some() || !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
            return known;
        }
    }
}

/// The project of the folder, if it exists for the caller.
fn at_path(member: &Member, caller: &Caller, path: &str) -> Option<Arc<Project>> {
    let projects = member.projects(&caller.limits);
    projects.into_iter().find(|project| project.workspace_root == path)
}

fn answer(member: &Member, project: &Project, existing: bool) -> AddProjectAnswer {
    AddProjectAnswer {
        machine: member.name().to_owned(),
        id: project.id.to_string(),
        title: project.title.clone(),
        path: project.workspace_root.clone(),
        existing,
    }
}

/// The title that was given, else the folder's name.
fn title_of(given: Option<&str>, path: &str) -> Result<String, ToolError> {
    let invalid = |problem: String| ToolError::new(ErrorCode::InvalidRequest, problem);
    let Some(given) = given else {
        let name = path.rsplit(['/', '\\']).find(|part| !part.is_empty());
        return Ok(text::cut(name.unwrap_or(path), TITLE_CHARS));
    };
    let title = text::trimmed(given);
    if title.is_empty() {
        return Err(invalid("title is empty: leave it out, or name the project.".to_owned()));
    }
    if title.chars().any(char::is_control) {
        return Err(invalid("title must not contain control characters.".to_owned()));
    }
    let chars = title.chars().count();
    if chars > TITLE_CHARS {
        return Err(invalid(format!(
            "title has {chars} characters; it may have {TITLE_CHARS}."
        )));
    }
    Ok(title.to_owned())
}

/// Whether there is such a folder, or a project of it, is nobody's business.
fn not_allowed(member: &Member, caller: &Caller, path: &str) -> ToolError {
    let name = member.name();
    let patterns = caller.limits.shown(name, &member.rules.projects).as_written();
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!(
            "The path `{}` may not be used on {name}: it matches none of the allowed patterns.",
            text::quoted(path)
        ),
    )
    .hint(one_of("Allowed are", patterns))
}

fn refused(member: &Member, path: &str, words: &str) -> ToolError {
    let (name, path) = (member.name(), text::quoted(path));
    let lower = words.to_lowercase();
    let missing = NO_FOLDER.iter().any(|known| lower.contains(known));
    let message = if missing {
        format!("There is no folder `{path}` on {name}; no project was added. T3 says: {words}")
    } else {
        format!("T3 on {name} did not add `{path}`: {words}")
    };
    ToolError::new(ErrorCode::OperationRejected, message)
        .hint("The folder must exist on that machine: correct the path, or make it there first.")
        .with("machine", name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_project_is_called_as_its_folder_where_nobody_names_it() {
        for (path, title) in [("/srv/shop", "shop"), (r"C:\work\app", "app"), ("/", "/")] {
            assert_eq!(title_of(None, path).unwrap(), title);
        }
        assert_eq!(title_of(Some(" The shop "), "/x").unwrap(), "The shop");
        let long = "x".repeat(TITLE_CHARS + 1);
        for title in ["", " \u{feff}", "a\nb", &long] {
            assert!(title_of(Some(title), "/x").is_err(), "{title:?}");
        }
    }
}
