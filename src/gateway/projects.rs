//! `t3_projects`: the projects that may be used, with how much goes on in each.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Shown;
use crate::gateway::{Caller, Gateway, ToolError};
use crate::lifecycle::{RunState, observe_run};
use crate::machine::ThreadRow;
use crate::protocol::ProjectId;

/// Which projects.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectsArgs {
    /// Only this machine's projects (a name from `t3_machines`). Left out: all machines.
    #[serde(default)]
    pub machine: Option<String>,
}

/// The projects.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ProjectsAnswer {
    /// Every project that this client may use.
    pub projects: Vec<ProjectView>,
    /// Machines that did not answer: their projects are missing here.
    pub unreachable: Vec<Unreachable>,
}

/// One project.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ProjectView {
    /// The machine that it is on.
    pub machine: String,
    /// T3's id; `project` takes it, the path or the title.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its folder on the machine.
    pub path: String,
    /// The model that a new thread takes when none is named (instance/model).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// How many threads it has, without archived ones.
    pub threads: usize,
    /// How many of them are busy.
    pub running: usize,
}

/// A machine that did not answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Unreachable {
    /// Its name.
    pub machine: String,
    /// Why.
    pub error: String,
}

impl Gateway {
    /// The projects that the caller may use, of the machines that answer; of one that went away what it last showed.
    pub async fn projects(&self, caller: &Caller, args: ProjectsArgs) -> Result<ProjectsAnswer, ToolError> {
        let shown = self.fleet.shown(&caller.limits, args.machine.as_deref()).await?;
        let projects = shown.iter().flat_map(projects_of).collect();
        let unreachable = shown.iter().filter_map(unreachable).collect();
        Ok(ProjectsAnswer { projects, unreachable })
    }
}

fn projects_of(shown: &Shown) -> Vec<ProjectView> {
    let mut counts: HashMap<ProjectId, (usize, usize)> = HashMap::new();
    for row in shown.member.machine.threads() {
        if row.archived || row.deleted {
            continue;
        }
        let (threads, running) = counts.entry(row.project.clone()).or_default();
        *threads += 1;
        *running += usize::from(is_busy(&row));
    }
    shown
        .projects
        .iter()
        .map(|project| {
            let (threads, running) = counts.get(&project.id).copied().unwrap_or_default();
            ProjectView {
                machine: shown.member.name().to_owned(),
                id: project.id.to_string(),
                title: project.title.clone(),
                path: project.workspace_root.clone(),
                default_model: shown
                    .member
                    .rules
                    .model
                    .clone()
                    .or_else(|| project.default_model.as_ref().map(ToString::to_string)),
                threads,
                running,
            }
        })
        .collect()
}

/// As far as a row shows it: something runs, waits or is asked. Nobody is told an end by this.
pub(super) fn is_busy(row: &ThreadRow) -> bool {
    let newest = RunState::INITIAL.on(observe_run(&row.status)).to;
    let ended = row.latest_run.is_none() || !newest.is_busy();
    row.active_run.is_some() || row.activity.is_some() || row.pending.is_some() || !ended
}

pub(super) fn unreachable(shown: &Shown) -> Option<Unreachable> {
    let error = ToolError::from_machine(shown.member.name(), shown.error.as_ref()?);
    Some(Unreachable {
        machine: shown.member.name().to_owned(),
        error: format!("{}: {}", error.code, error.message),
    })
}
