//! Who calls, as one process of the gateway tells it the one that owns the state directory: beside the call, under a key of its `_meta`.
//!
//! It is believed only where the call came over the socket in the state directory. It carries what the sending process allows itself, so
//! that nobody gets more by the detour than the process that was asked would have given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::MachineConfig;
use crate::fleet::{Fleet, Limits, Member, Origin, PatternError, Patterns, Within};
use crate::gateway::{Caller, Delivery, ErrorCode, ToolError};
use crate::machine::RuntimeMode;

/// Where it lies in a call's `_meta`.
pub(crate) const META_KEY: &str = "t3code-mcp/caller";

/// What the sending process allows on each of its machines.
pub(super) type Grants = BTreeMap<String, Grant>;

/// What a process allows on one machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grant {
    /// Where the machine is: the same name elsewhere is another machine.
    url: String,
    projects: Vec<String>,
    max_runtime_mode: Option<RuntimeMode>,
    runtime_mode: Option<RuntimeMode>,
    agent_pairing: bool,
    scratch: bool,
}

impl Grant {
    pub(super) fn of(machine: &MachineConfig) -> Self {
        Self {
            url: machine.url.to_string(),
            projects: machine.projects.clone(),
            max_runtime_mode: machine.max_runtime_mode,
            runtime_mode: machine.runtime_mode,
            agent_pairing: machine.agent_pairing,
            scratch: machine.scratch,
        }
    }

    /// It allows what this process allows.
    fn is_ours(&self, member: &Member) -> bool {
        let rules = &member.rules;
        rules.projects.as_written() == self.projects
            && rules.max_runtime_mode == self.max_runtime_mode
            && rules.runtime_mode == self.runtime_mode
            && matches!(rules.token, Origin::Pairing { by_agents: true, .. }) == self.agent_pairing
            && rules.scratch == self.scratch
    }
}

/// Who calls. Unknown fields are refused: a limit that is not understood must not be left out.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Passport {
    client: String,
    origin: Option<String>,
    machines: Option<Vec<String>>,
    projects: Option<Vec<String>>,
    max_runtime_mode: Option<RuntimeMode>,
    read_only: bool,
    within: Arc<Grants>,
    under_way_ms: u64,
}

impl Passport {
    pub(super) fn of(caller: &Caller, within: &Arc<Grants>, under_way: Duration) -> Self {
        let limits = &caller.limits;
        Self {
            client: caller.client.clone(),
            origin: caller.origin.clone(),
            machines: limits.machines.clone(),
            projects: limits.projects.as_ref().map(|patterns| patterns.as_written().to_vec()),
            max_runtime_mode: limits.max_runtime_mode,
            read_only: limits.read_only,
            within: Arc::clone(within),
            under_way_ms: u64::try_from(under_way.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Whoever passes it on has no time left: it is to be answered at once, as things stand.
    pub(crate) fn is_in_haste(&self) -> bool {
        self.under_way_ms == u64::MAX
    }

    /// The caller that it names, before the machines of this process.
    pub(crate) fn caller(self, fleet: &Fleet, delivery: Delivery) -> Result<Caller, PatternError> {
        let mut within = BTreeMap::new();
        let members = fleet.members();
        let mut differs = self.within.len() != members.len();
        for (name, grant) in self.within.iter() {
            let ours = members.iter().find(|member| member.name() == name);
            let Some(member) = ours.filter(|member| member.machine.url().as_str() == grant.url) else {
                tracing::debug!(machine = %name, "a process of the same state directory has another machine of that name");
                differs = true;
                continue;
            };
            differs |= !grant.is_ours(member);
            let grant = Within {
                projects: Patterns::new(grant.projects.iter().cloned())?,
                max_runtime_mode: grant.max_runtime_mode,
                runtime_mode: grant.runtime_mode,
                agent_pairing: grant.agent_pairing,
                scratch: grant.scratch,
            };
            within.insert(name.clone(), grant);
        }
        Ok(Caller {
            client: self.client,
            origin: self.origin,
            limits: Limits {
                machines: self.machines,
                projects: self.projects.map(Patterns::new).transpose()?,
                max_runtime_mode: self.max_runtime_mode,
                read_only: self.read_only,
                // Of a process with the same config, nothing is to be narrowed.
                within: differs.then(|| Arc::new(within)),
            },
            delivery,
            under_way: Duration::from_millis(self.under_way_ms),
        })
    }
}

/// The passport cannot be read: whoever wrote it is another version of the program.
pub(crate) fn unreadable(error: &serde_json::Error) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("Another process of the gateway passed this call on in words that are not understood here ({error}). Nothing was done."),
    )
    .hint("Tell the operator: all processes on one state directory must be of one version; restart them.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn it_arrives_as_it_was_written_and_a_limit_from_another_version_is_refused() {
        let caller = Caller {
            client: "dispatcher".to_owned(),
            origin: Some("chat:1".to_owned()),
            limits: Limits {
                machines: Some(vec!["mac".to_owned()]),
                projects: Some(Patterns::new(["a*"]).unwrap()),
                max_runtime_mode: Some(RuntimeMode::Auto),
                read_only: true,
                within: None,
            },
            ..Caller::default()
        };
        let elsewhere = Grant {
            url: "http://127.0.0.1:1/".to_owned(),
            projects: vec!["*".to_owned()],
            max_runtime_mode: None,
            runtime_mode: None,
            agent_pairing: false,
            scratch: false,
        };
        let grants = Arc::new(BTreeMap::from([("mac".to_owned(), elsewhere)]));
        let mut written = serde_json::to_value(Passport::of(&caller, &grants, Duration::MAX)).unwrap();
        let read: Passport = serde_json::from_value(written.clone()).unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let read = read
            .caller(&Fleet::start(Vec::new(), &stop), Delivery::default())
            .unwrap();
        assert_eq!(
            (read.client.as_str(), read.origin.as_deref()),
            ("dispatcher", Some("chat:1"))
        );
        assert!(read.limits.read_only);
        assert!(
            !read.limits.machine("mac"),
            "the machine of that name is another one here"
        );
        assert_eq!(read.limits.ceiling("mac"), RuntimeMode::Auto);
        assert_eq!(read.under_way, Duration::from_millis(u64::MAX));

        written["no_network"] = json!(true);
        assert!(serde_json::from_value::<Passport>(written).is_err());
    }
}
