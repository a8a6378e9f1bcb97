//! All machines together: which there are, what of them exists for whom, and how a thread or project is found.
//!
//! A machine that is down, slow or wrong never delays or fails what concerns others. The allowlist is applied here and nowhere else:
//! above this module a hidden project and an unknown one are the same.

mod find;
mod limits;
mod patterns;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::machine::{Machine, MachineSettings, OptionValue, RuntimeMode};

pub use find::{FIRST_SNAPSHOT, FleetError, Found, Shown};
pub use limits::Limits;
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
}

/// All machines.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Arc<Member>>,
}

impl Fleet {
    /// Starts every machine; returns at once.
    pub fn start(machines: Vec<(MachineSettings, Rules)>, stop: &CancellationToken) -> Arc<Self> {
        let members = machines
            .into_iter()
            .map(|(settings, rules)| {
                Arc::new(Member {
                    machine: Machine::start(settings, stop.clone()),
                    rules,
                })
            })
            .collect();
        Arc::new(Self { members })
    }

    /// Every machine, in the config's order.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }
}
