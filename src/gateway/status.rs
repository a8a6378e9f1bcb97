//! `t3_status`: how the gateway and its credentials do, machine by machine, and what to do before one of them ends.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Member, Origin};
use crate::gateway::machines::{EXPIRING_SOON_DAYS, credential, days_left};
use crate::gateway::renewal::{missing_scopes, renewal};
use crate::gateway::{Caller, Gateway, ToolError};
use crate::machine::MachineStatus;
use crate::store::MachineDeliveries;

/// How long T3 may take to answer the look at its stream.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// Which machines.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusArgs {
    /// The machine. Left out: all.
    #[serde(default)]
    pub machine: Option<String>,
}

/// How everything does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct StatusAnswer {
    /// The gateway's own version.
    pub version: String,
    /// The machines.
    pub machines: Vec<MachineHealth>,
}

/// How one machine does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct MachineHealth {
    /// Its name.
    pub name: String,
    /// Where its T3 server listens.
    pub url: String,
    /// Connected and current.
    pub online: bool,
    /// Why it is not online, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when it is away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<String>,
    /// T3's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The orchestration protocol that it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u32>,
    /// The credential that the gateway uses there.
    pub credential: CredentialHealth,
    /// The stream of what happens there, while it is online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamHealth>,
    /// Events of it that are to be delivered to the hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliveryHealth>,
}

/// How a credential does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct CredentialHealth {
    /// ok, `expiring_soon`, expired, `needs_pairing` or unknown (not asked yet).
    pub state: String,
    /// Where it comes from: pairing, or the name of an environment variable.
    pub from: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// What the gateway needs and it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whole days until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
    /// That is in under 14 days.
    pub expiring_soon: bool,
    /// How it is renewed, where that is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew: Option<String>,
}

/// How a stream does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct StreamHealth {
    /// T3's sequence that the gateway has reached.
    pub sequence: u64,
    /// How far behind it may be: how long T3 just now took to answer over it. Absent where it did not answer within 2 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<u64>,
}

/// How deliveries do.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct DeliveryHealth {
    /// To be sent, for the first time or again.
    pub waiting: u64,
    /// Given up.
    pub dead: u64,
}

impl Gateway {
    /// How the machines that the caller may use do, and what the gateway needs there.
    pub async fn status(&self, caller: &Caller, args: StatusArgs) -> Result<StatusAnswer, ToolError> {
        let members = match &args.machine {
            Some(name) => vec![self.fleet.member(&caller.limits, name)?],
            None => self.fleet.visible(&caller.limits),
        };
        let deliveries = self.deliveries(caller).await;
        let now = Timestamp::now();
        let machines = members.iter().map(|member| async {
            let lag = member.machine.probe(PROBE_WITHIN).await;
            MachineHealth {
                deliveries: deliveries
                    .as_ref()
                    .map(|all| all.get(member.name()).copied().unwrap_or_default()),
                ..health(member, lag, now)
            }
        });
        Ok(StatusAnswer {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machines: join_all(machines).await,
        })
    }

    /// The deliveries of each machine. A client that may see some projects only is not told how much happens in the others.
    async fn deliveries(&self, caller: &Caller) -> Option<HashMap<String, DeliveryHealth>> {
        let limits = &caller.limits;
        if limits.projects.is_some() || limits.within.is_some() {
            return None;
        }
        self.deliveries_by_machine().await
    }

    /// The deliveries of each machine that are not done.
    pub(super) async fn deliveries_by_machine(&self) -> Option<HashMap<String, DeliveryHealth>> {
        let ledger = self.ledger.as_ref()?;
        let counted = match ledger.store.deliveries_by_machine().await {
            Ok(counted) => counted,
            Err(error) => {
                tracing::warn!(%error, "the deliveries could not be counted");
                return None;
            }
        };
        let of = |MachineDeliveries { machine, waiting, dead }| (machine, DeliveryHealth { waiting, dead });
        Some(counted.into_iter().map(of).collect())
    }
}

fn health(member: &Member, lag: Option<Duration>, now: Timestamp) -> MachineHealth {
    let status = member.machine.status();
    let error = status.error.as_ref().filter(|_| !status.online);
    let error = error.map(|error| {
        let said = ToolError::from_machine(member.name(), error);
        format!("{}: {}", said.code, said.message)
    });
    MachineHealth {
        name: member.name().to_owned(),
        url: member.machine.url().to_string(),
        online: status.online,
        error,
        unreachable_since: status.unreachable_since.map(|since| since.to_string()),
        version: status.version.clone(),
        protocol: status.protocol,
        credential: credential_health(member, &status, now),
        stream: status.online.then(|| StreamHealth {
            sequence: member.machine.sequence(),
            lag_ms: lag.map(|lag| u64::try_from(lag.as_millis()).unwrap_or(u64::MAX)),
        }),
        deliveries: None,
    }
}

fn credential_health(member: &Member, status: &MachineStatus, now: Timestamp) -> CredentialHealth {
    let view = credential(status, now);
    let days_left = status.expires_at.map(|ends| days_left(ends, now));
    // Where nothing was asked yet, nothing is known to lack.
    let missing = if status.scopes.is_empty() {
        Vec::new()
    } else {
        missing_scopes(&status.scopes)
    };
    let due = !missing.is_empty() || !matches!(view.state.as_str(), "ok" | "unknown");
    CredentialHealth {
        state: view.state,
        from: match &member.rules.token {
            Origin::Given => "given".to_owned(),
            Origin::Variable(variable) => variable.clone(),
            Origin::Pairing { .. } => "pairing".to_owned(),
        },
        scopes: status.scopes.clone(),
        missing_scopes: missing,
        expires_at: status.expires_at.map(|ends| ends.to_string()),
        days_left,
        expiring_soon: days_left.is_some_and(|days| days < EXPIRING_SOON_DAYS),
        renew: due.then(|| renewal(member)),
    }
}
