//! All machines together: which there are, what of them exists for whom, and how a thread or project is found.
//!
//! A machine that is down, slow or wrong never delays or fails what concerns others. The allowlist is applied here and nowhere else:
//! above this module a hidden project and an unknown one are the same.

mod find;
mod limits;
mod patterns;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::config::{Config, MachineConfig, TokenSource, Unusable};
use crate::machine::{Access, Machine, MachineSettings, OptionValue, RuntimeMode, TokenFrom};

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
    /// Ends the machine alone.
    stop: CancellationToken,
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
    /// Where its token comes from.
    pub token: Origin,
    /// T3's scratch project exists too, and takes what names no project.
    pub scratch: bool,
    /// The ceilings of named clients, for what is said to them without a call.
    pub client_ceilings: Ceilings,
}

/// Ceilings by the name of a client; who has none is left out.
pub type Ceilings = Arc<BTreeMap<String, RuntimeMode>>;

/// Where a machine's token comes from, and so how it is renewed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Origin {
    /// From whoever started the machine.
    #[default]
    Given,
    /// From the environment variable of that name.
    Variable(String),
    /// From pairing.
    Pairing {
        /// Agents may renew it.
        by_agents: bool,
        /// Pairing made the machine: no config describes it.
        in_state: bool,
    },
}

/// All machines. They are those of the config, and those that pairing made, which come and go.
#[derive(Debug)]
pub struct Fleet {
    members: RwLock<Arc<[Arc<Member>]>>,
    /// What may come back.
    unusable: Unusable,
    /// As every machine's rules have them.
    client_ceilings: Ceilings,
    started: Instant,
    stop: CancellationToken,
}

/// What became of a machine whose credential was looked at again.
#[derive(Clone, Debug)]
pub enum Admitted {
    /// It was there, under the same rules.
    Before,
    /// It was there, under other rules.
    Anew(Arc<Member>),
    /// It is new.
    Now(Arc<Member>),
}

impl Fleet {
    /// Starts every machine of the config; returns at once.
    pub fn from_config(config: &Config, stop: &CancellationToken) -> Result<Arc<Self>, PatternError> {
        let clients = config.server.clients.iter();
        let client_ceilings: Ceilings = Arc::new(
            clients
                .filter_map(|client| Some((client.name.clone(), client.max_runtime_mode?)))
                .collect(),
        );
        let machines = config
            .machines
            .iter()
            .map(|machine| {
                let rules = Rules::from_config(machine, &client_ceilings)?;
                Ok((settings(machine), access(machine), rules))
            })
            .collect::<Result<Vec<_>, PatternError>>()?;
        let members = machines
            .into_iter()
            .map(|(settings, access, rules)| Member::start(settings, access, rules, stop));
        Ok(Self::of(
            members.collect(),
            config.unusable.clone(),
            client_ceilings,
            stop,
        ))
    }

    /// Starts every machine; returns at once.
    pub fn start(machines: Vec<(MachineSettings, Rules)>, stop: &CancellationToken) -> Arc<Self> {
        let members = machines
            .into_iter()
            .map(|(settings, rules)| {
                let access = Access::of(&settings);
                Member::start(settings, access, rules, stop)
            })
            .collect();
        Self::of(members, Unusable::default(), Ceilings::default(), stop)
    }

    fn of(
        members: Vec<Arc<Member>>,
        unusable: Unusable,
        client_ceilings: Ceilings,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            members: RwLock::new(members.into()),
            unusable,
            client_ceilings,
            started: Instant::now(),
            stop: stop.clone(),
        })
    }

    /// Every machine, in the config's order, and behind them those that pairing made.
    pub fn members(&self) -> Arc<[Arc<Member>]> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Words of T3 that this version does not know, by machine, and how often each was met since the start; machines without any are left out.
    pub fn unknown_words(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let members = self.members();
        let met = members
            .iter()
            .map(|member| (member.name().to_owned(), member.machine.status().unknown_words));
        met.filter(|(_, words)| !words.is_empty()).collect()
    }

    /// Whether a machine that is not there may only be missing because what pairing left of it could not be used at the start.
    pub fn may_return(&self, name: &str) -> bool {
        self.unusable.covers(name)
    }

    /// Takes over what pairing left for a machine: its access, and of one that no config describes its rules. One that was not there is
    /// started.
    pub fn admit(&self, machine: &MachineConfig) -> Result<Admitted, PatternError> {
        let rules = Rules::from_config(machine, &self.client_ceilings)?;
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let at = members.iter().position(|member| member.name() == machine.name);
        let before = at.and_then(|at| members.get(at)).cloned();
        let member = match &before {
            Some(member) => {
                member.machine.set_access(access(machine));
                if member.rules.projects.as_written() == rules.projects.as_written() {
                    return Ok(Admitted::Before);
                }
                Arc::new(Member {
                    machine: Arc::clone(&member.machine),
                    rules,
                    stop: member.stop.clone(),
                })
            }
            None => Member::start(settings(machine), access(machine), rules, &self.stop),
        };
        let mut changed = members.to_vec();
        match at.and_then(|at| changed.get_mut(at)) {
            Some(place) => place.clone_from(&member),
            None => changed.push(Arc::clone(&member)),
        }
        *members = changed.into();
        Ok(match before {
            Some(_) => Admitted::Anew(member),
            None => Admitted::Now(member),
        })
    }

    /// A machine that pairing made is gone: it does not exist for anybody any more.
    pub fn dismiss(&self, name: &str) -> bool {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let (gone, left): (Vec<_>, Vec<_>) = members.iter().cloned().partition(|member| member.name() == name);
        for member in &gone {
            member.stop.cancel();
        }
        *members = left.into();
        !gone.is_empty()
    }
}

impl Member {
    /// Waits until the machine is there no more: it was unpaired, or everything stops. Other rules are no end of it.
    pub async fn gone(&self) {
        self.stop.cancelled().await;
    }

    fn start(settings: MachineSettings, access: Access, rules: Rules, stop: &CancellationToken) -> Arc<Self> {
        let stop = stop.child_token();
        Arc::new(Self {
            machine: Machine::start_by(settings, access, rules.scratch, stop.clone()),
            rules,
            stop,
        })
    }
}

/// How the config, or what pairing left, says that a machine is reached.
pub fn access(machine: &MachineConfig) -> Access {
    let (source, kept) = match &machine.token {
        TokenSource::Variable { .. } => (TokenFrom::Variable, None),
        TokenSource::Pairing(kept) => (TokenFrom::Pairing, kept.as_ref()),
    };
    Access {
        url: machine.url.clone(),
        token: machine.token.token().cloned(),
        environment: kept.map(|kept| kept.environment.clone()),
        expires_at: kept.and_then(|kept| kept.expires_at),
        source,
    }
}

/// What the config says of a machine's connection.
pub fn settings(machine: &MachineConfig) -> MachineSettings {
    MachineSettings {
        name: machine.name.clone(),
        url: machine.url.clone(),
        token: machine.token.token().cloned(),
        ca_file: machine.ca_file.clone(),
        frame_limit: machine.frame_limit,
    }
}

impl Rules {
    /// What the config says about a machine, and the ceilings of its clients.
    pub fn from_config(machine: &MachineConfig, client_ceilings: &Ceilings) -> Result<Self, PatternError> {
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
            token: match &machine.token {
                TokenSource::Variable { variable, .. } => Origin::Variable(variable.clone()),
                TokenSource::Pairing(_) => Origin::Pairing {
                    by_agents: machine.agent_pairing,
                    in_state: machine.in_state,
                },
            },
            scratch: machine.scratch,
            client_ceilings: Arc::clone(client_ceilings),
        })
    }
}
