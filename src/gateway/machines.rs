//! `t3_machines`: every configured machine, from memory; delayed by none of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::{Caller, Gateway, ToolError};

/// No arguments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinesArgs {}

/// The machines.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MachinesAnswer {
    /// Every machine that this client may use.
    pub machines: Vec<MachineView>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MachineView {
    /// The name to pass as `machine`.
    pub name: String,
    /// Where its T3 server listens.
    pub url: String,
    /// Patterns of the projects that may be used there.
    pub projects: Vec<String>,
    /// Connected and current.
    pub online: bool,
    /// T3's own label of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// T3's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The orchestration protocol that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// Its operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The credential that the gateway uses there.
    pub credential: CredentialView,
    /// Why it is not online, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of a credential.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CredentialView {
    /// ok, expiring_soon, expired, needs_pairing or unknown (not asked yet).
    pub state: String,
    /// Whole days until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
}

#[allow(clippy::todo, clippy::unused_async, unused_variables, reason = "stand-in bodies")]
impl Gateway {
    /// Every configured machine that the caller may use, from memory.
    pub fn machines(&self, caller: &Caller, _args: MachinesArgs) -> Result<MachinesAnswer, ToolError> {
        todo!()
    }
}
