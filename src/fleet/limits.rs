//! What one client may see and do, beyond what the operator allows on each machine: data, made from the config's `[[server.client]]`, and
//! from the config of the process that speaks for the client where that is not this one.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// What the process that speaks for the client allows itself; none: it is this one.
    pub within: Option<Arc<BTreeMap<String, Within>>>,
}

/// What another process of the gateway allows on one machine.
#[derive(Clone, Debug)]
pub struct Within {
    /// Only projects that match exist.
    pub projects: Patterns,
    /// Its ceiling.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// The mode of a dispatch that names none.
    pub runtime_mode: Option<RuntimeMode>,
    /// Agents may renew the machine's credential.
    pub agent_pairing: bool,
    /// The scratch project exists too.
    pub scratch: bool,
}

impl Limits {
    /// The limits that the config sets a client.
    pub fn from_config(client: &ClientConfig) -> Result<Self, PatternError> {
        Ok(Self {
            machines: client.machines.clone(),
            projects: client.projects.clone().map(Patterns::new).transpose()?,
            max_runtime_mode: client.max_runtime_mode,
            read_only: client.read_only,
            within: None,
        })
    }

    /// Whether a machine of that name exists for the client.
    pub fn machine(&self, name: &str) -> bool {
        let listed = self
            .machines
            .as_ref()
            .is_none_or(|names| names.iter().any(|allowed| allowed == name));
        listed && self.within.as_ref().is_none_or(|within| within.contains_key(name))
    }

    /// Whether what `matches` looks at passes all patterns that the limits set on a machine. The scratch project needs no pattern of the
    /// process that speaks for the client, if that allows it too; a client's own patterns it needs.
    pub fn pass(&self, machine: &str, scratch: bool, matches: impl Fn(&Patterns) -> bool) -> bool {
        let within = self.on(machine);
        self.projects.as_ref().is_none_or(&matches)
            && within.is_none_or(|within| (scratch && within.scratch) || matches(&within.projects))
    }

    /// The patterns that the client is shown of a machine whose own are `machine`: the narrowest that it was given.
    pub fn shown<'a>(&'a self, name: &str, machine: &'a Patterns) -> &'a Patterns {
        let within = self.on(name).map(|within| &within.projects);
        self.projects.as_ref().or(within).unwrap_or(machine)
    }

    /// The ceiling that the limits set on a machine.
    pub fn ceiling(&self, machine: &str) -> RuntimeMode {
        let within = self.on(machine).and_then(|within| within.max_runtime_mode);
        let ceilings = self.max_runtime_mode.into_iter().chain(within);
        ceilings.min().unwrap_or(RuntimeMode::FullAccess)
    }

    /// The mode of a dispatch that names none, where the limits say.
    pub fn runtime_mode(&self, machine: &str) -> Option<RuntimeMode> {
        self.on(machine).and_then(|within| within.runtime_mode)
    }

    /// Whether the limits let agents renew a machine's credential.
    pub fn agent_pairing(&self, machine: &str) -> bool {
        self.on(machine).is_none_or(|within| within.agent_pairing)
    }

    fn on(&self, machine: &str) -> Option<&Within> {
        self.within.as_ref().and_then(|within| within.get(machine))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn within(machine: &str, projects: &str, max_runtime_mode: Option<RuntimeMode>) -> Limits {
        let within = Within {
            projects: Patterns::new([projects]).unwrap(),
            max_runtime_mode,
            runtime_mode: None,
            agent_pairing: true,
            scratch: false,
        };
        Limits {
            within: Some(Arc::new(BTreeMap::from([(machine.to_owned(), within)]))),
            ..Limits::default()
        }
    }

    #[test]
    fn who_speaks_for_a_client_gives_it_no_more_than_it_has_itself() {
        let limits = Limits {
            projects: Some(Patterns::new(["a*"]).unwrap()),
            max_runtime_mode: Some(RuntimeMode::Auto),
            ..within("mac", "*z", Some(RuntimeMode::ApprovalRequired))
        };
        assert!(limits.machine("mac"));
        assert!(!limits.machine("pc"));
        let passes = |title: &str| limits.pass("mac", false, |patterns| patterns.matches(title));
        assert!(passes("a-z"));
        assert!(!passes("a"));
        assert!(!passes("z"));
        assert_eq!(limits.ceiling("mac"), RuntimeMode::ApprovalRequired);
    }

    #[test]
    fn the_patterns_of_another_process_are_not_shown_to_a_narrower_one() {
        let machines = Patterns::new(["secret-*"]).unwrap();
        let shown = within("mac", "a*", None).shown("mac", &machines).as_written().to_vec();
        assert_eq!(shown, ["a*"]);
        assert_eq!(Limits::default().shown("mac", &machines).as_written(), ["secret-*"]);
    }

    #[test]
    fn a_client_keeps_its_own_limits_where_the_process_has_none() {
        let limits = Limits {
            machines: Some(vec!["pc".to_owned()]),
            max_runtime_mode: Some(RuntimeMode::AutoAcceptEdits),
            ..within("mac", "*", None)
        };
        assert!(!limits.machine("mac"));
        assert_eq!(limits.ceiling("mac"), RuntimeMode::AutoAcceptEdits);
        assert_eq!(Limits::default().ceiling("mac"), RuntimeMode::FullAccess);
    }
}
