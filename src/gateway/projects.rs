//! `t3_projects`: the projects that may be used, with how much goes on in each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::{Caller, Gateway, ToolError};

/// Which projects.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectsArgs {
    /// Only this machine's projects (a name from t3_machines). Left out: all machines.
    #[serde(default)]
    pub machine: Option<String>,
}

/// The projects.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProjectsAnswer {
    /// Every project that this client may use.
    pub projects: Vec<ProjectView>,
    /// Machines that did not answer: their projects are missing here.
    pub unreachable: Vec<Unreachable>,
}

/// One project.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unreachable {
    /// Its name.
    pub machine: String,
    /// Why.
    pub error: String,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// The projects that the caller may use, of the machines that answer.
    pub async fn projects(&self, caller: &Caller, args: ProjectsArgs) -> Result<ProjectsAnswer, ToolError> {
        todo!()
    }
}
