//! All machines together: which there are, what of them exists for whom, and how a thread or project is found.
//!
//! A machine that is down, slow or wrong never delays or fails what concerns others. The allowlist is applied here and nowhere else:
//! above this module a hidden project and an unknown one are the same.

mod find;
mod limits;
mod patterns;

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::config::{Config, MachineConfig};
use crate::machine::{Machine, MachineSettings, OptionValue, RuntimeMode};

pub use find::{FIRST_SNAPSHOT, FleetError, Found, Shown};
pub use limits::{Limits, Within};
pub use patterns::{PatternError, Patterns};

/// A machine and what the operator allows on it.
#[derive(Debug)]
pub struct Member {
    /// The handle.
    pub machine: Arc<Machine>,
    /// What the operator allows.
    pub rules: Rules,
}

/// What the operator allows on a machine, and prefers.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which projects exist.
    pub projects: Patterns,
    /// The model of new threads (`instance/model` or a bare model).
    pub model: Option<String>,
    /// Options of that model.
    pub options: Vec<(String, OptionValue)>,
    /// The mode where the caller names none.
    pub runtime_mode: Option<RuntimeMode>,
    /// The ceiling.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// T3's scratch project exists too, and takes what names no project.
    pub scratch: bool,
}

/// All machines.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Arc<Member>>,
    started: Instant,
}

impl Fleet {
    /// Starts every machine of the config; returns at once.
    pub fn from_config(config: &Config, stop: &CancellationToken) -> Result<Arc<Self>, PatternError> {
        let machines = config
            .machines
            .iter()
            .map(|machine| Ok((settings(machine), Rules::from_config(machine)?)))
            .collect::<Result<_, _>>()?;
        Ok(Self::start(machines, stop))
    }

    /// Starts every machine; returns at once.
    pub fn start(machines: Vec<(MachineSettings, Rules)>, stop: &CancellationToken) -> Arc<Self> {
        let members = machines
            .into_iter()
            .map(|(settings, rules)| {
                Arc::new(Member {
                    machine: Machine::start_with_scratch(settings, rules.scratch, stop.clone()),
                    rules,
                })
            })
            .collect();
        Arc::new(Self {
            members,
            started: Instant::now(),
        })
    }

    /// Every machine, in the config's order.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }
}

fn settings(machine: &MachineConfig) -> MachineSettings {
    MachineSettings {
        name: machine.name.clone(),
        url: machine.url.clone(),
        token: machine.token.token.clone(),
        ca_file: machine.ca_file.clone(),
        frame_limit: machine.frame_limit,
    }
}

impl Rules {
    /// What the config says about a machine.
    pub fn from_config(machine: &MachineConfig) -> Result<Self, PatternError> {
        Ok(Self {
            projects: Patterns::new(machine.projects.iter().cloned())?,
            model: machine.model.clone(),
            options: machine
                .options
                .iter()
                .map(|(id, value)| (id.clone(), value.clone()))
                .collect(),
            runtime_mode: machine.runtime_mode,
            max_runtime_mode: machine.max_runtime_mode,
            scratch: machine.scratch,
        })
    }
}
