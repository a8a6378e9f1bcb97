//! `t3_machines`: every configured machine, from memory; delayed by none of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Member;
use crate::gateway::{Caller, Gateway, ToolError};
use crate::machine::{MachineError, MachineStatus};
use crate::protocol::Contract;

/// No arguments.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachinesArgs {}

/// The machines.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct MachinesAnswer {
    /// Every machine that this client may use.
    pub machines: Vec<MachineView>,
}

/// One machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct MachineView {
    /// The name to pass as `machine`.
    pub name: String,
    /// Where its T3 server listens.
    pub url: String,
    /// Patterns of the projects that may be used there.
    pub projects: Vec<String>,
    /// A dispatch that names no project works in a scratch folder of T3's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scratch: Option<bool>,
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
    /// Where its T3 is newer: the version that the gateway was built for. It may do what the gateway does not know yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer_than: Option<String>,
    /// Its operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The credential that the gateway uses there.
    pub credential: CredentialView,
    /// Words of a T3 that is newer than the gateway knows, and how often they were met; nothing is lost by them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub unknown_words: BTreeMap<String, u64>,
    /// Why it is not online, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of a credential.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct CredentialView {
    /// ok, `expiring_soon`, expired, `needs_pairing` or unknown (not asked yet).
    pub state: String,
    /// Whole days until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
}

/// A credential that ends sooner is worth a word.
pub const EXPIRING_SOON_DAYS: i64 = 14;

/// The whole days until a credential ends; negative once it has.
pub fn days_left(ends: Timestamp, now: Timestamp) -> i64 {
    ends.duration_since(now).as_hours().div_euclid(24)
}

impl Gateway {
    /// Every configured machine that the caller may use, from memory.
    #[allow(
        clippy::needless_pass_by_value,
        clippy::unnecessary_wraps,
        reason = "every tool is called alike"
    )]
    pub fn machines(&self, caller: &Caller, _args: MachinesArgs) -> Result<MachinesAnswer, ToolError> {
        let now = Timestamp::now();
        let machines = self
            .fleet
            .visible(&caller.limits)
            .iter()
            .map(|member| view(member, caller, now))
            .collect();
        Ok(MachinesAnswer { machines })
    }
}

fn view(member: &Member, caller: &Caller, now: Timestamp) -> MachineView {
    let status = member.machine.status();
    let patterns = caller.limits.shown(member.name(), &member.rules.projects);
    let error = status.error.as_ref().filter(|_| !status.online);
    MachineView {
        name: member.name().to_owned(),
        url: member.machine.url().to_string(),
        projects: patterns.as_written().to_vec(),
        scratch: member.scratch(&caller.limits).map(|_| true),
        online: status.online,
        credential: credential(&status, now),
        newer_than: newer_than(&status),
        label: status.label,
        version: status.version,
        protocol: status.protocol,
        os: status.os,
        unknown_words: match caller.limits.projects {
            // They may be of projects that this client may not see.
            Some(_) => BTreeMap::new(),
            None => status.unknown_words,
        },
        error: error.map(|error| {
            let said = ToolError::from_machine(member.name(), error);
            format!("{}: {}", said.code, said.message)
        }),
    }
}

/// The version that the gateway was built for, if the machine's is newer.
fn newer_than(status: &MachineStatus) -> Option<String> {
    let contract = Contract::of(status.protocol?)?;
    let order = contract.compare(status.version.as_deref()?)?;
    contract.version.filter(|_| order.is_gt()).map(str::to_owned)
}

pub(super) fn credential(status: &MachineStatus, now: Timestamp) -> CredentialView {
    let days = status.expires_at.map(|ends| days_left(ends, now));
    let state = match (&status.error, days) {
        (Some(MachineError::NeedsPairing { .. }), _) => "needs_pairing",
        (_, Some(days)) if days < 0 => "expired",
        (_, Some(days)) if days < EXPIRING_SOON_DAYS => "expiring_soon",
        (_, Some(_)) => "ok",
        (_, None) if status.online => "ok",
        (_, None) => "unknown",
    };
    CredentialView {
        state: state.to_owned(),
        days_left: days,
    }
}
