//! What one client may see and do, beyond what the operator allows on each machine: data, made from the config's `[[server.client]]`.

use crate::config::ClientConfig;
use crate::fleet::{PatternError, Patterns};
use crate::machine::RuntimeMode;

/// The limits of a client; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Only these machines exist; none: all.
    pub machines: Option<Vec<String>>,
    /// Only projects that match exist; none: all that the machine allows.
    pub projects: Option<Patterns>,
    /// A lower ceiling than the machine's.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// Nothing may be changed.
    pub read_only: bool,
}

impl Limits {
    /// The limits that the config sets a client.
    pub fn from_config(client: &ClientConfig) -> Result<Self, PatternError> {
        Ok(Self {
            machines: client.machines.clone(),
            projects: client.projects.clone().map(Patterns::new).transpose()?,
            max_runtime_mode: client.max_runtime_mode,
            read_only: client.read_only,
        })
    }

    /// Whether a machine of that name exists for the client.
    pub fn machine(&self, name: &str) -> bool {
        self.machines
            .as_ref()
            .is_none_or(|names| names.iter().any(|allowed| allowed == name))
    }
}
