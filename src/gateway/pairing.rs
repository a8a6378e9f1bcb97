//! Pairing: from a code that T3 printed to a credential in the state directory. The command line and the tool `t3_pair` go this one way.
//!
//! A code is spent by the exchange, so whatever can fail before does: who answers is compared with who is remembered, and there is a file to
//! write into.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use crate::config::credentials::{Credentials, Kept};
use crate::config::link::{self, PairingLink};
use crate::config::state::StateError;
use crate::fleet::Origin;
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::machines::days_left;
use crate::gateway::reading::may_change;
use crate::gateway::renewal::missing_scopes;
use crate::gateway::{Caller, Gateway};
use crate::machine::descriptor::Descriptor;
use crate::machine::pairing::{ExchangeError, NEEDED_SCOPES, meet};
use crate::machine::{Access, MachineError, MachineSettings, TokenFrom};

/// What is to be paired.
#[derive(Clone, Debug)]
pub struct PairRequest {
    /// The machine: its name, where the code is sent, how it is trusted.
    pub machine: MachineSettings,
    /// The code.
    pub code: SecretString,
    /// The allowlist of a machine that no config describes.
    pub projects: Option<Vec<String>>,
    /// Another T3 than the one that is remembered is meant.
    pub replace: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Paired {
    /// The credential.
    pub kept: Kept,
    /// Where it lies.
    pub path: PathBuf,
    /// What the gateway needs and was not granted.
    pub missing_scopes: Vec<String>,
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The code made the credential that is there.
    #[error(
        "this code was used for {machine} before, at {at:.0}, and each is good once. Make a new one with `t3 pair` on the T3 host"
    )]
    Used {
        /// The machine.
        machine: String,
        /// When it was used.
        at: Timestamp,
    },
    /// T3 does not take it.
    #[error(
        "T3 at {url} does not take this code: it was used already, or has expired (they last for minutes), or another T3 made it. Make a new one \
         with `t3 pair` on the T3 host"
    )]
    Refused {
        /// Who was asked.
        url: String,
    },
    /// It grants too little.
    #[error(
        "the code grants less than {}, and is spent now. Make one that grants both: `t3 pair` on the T3 host",
        NEEDED_SCOPES.join(" and ")
    )]
    Grants,
    /// Another T3 answers than the one that was paired before.
    #[error(
        "another T3 ({label}, {environment}) answers at {url} than the one that {machine} was paired with ({known}); the code was not sent. If that \
         is meant, add --replace"
    )]
    OtherEnvironment {
        /// The machine.
        machine: String,
        /// Who was asked.
        url: String,
        /// What it calls itself.
        label: String,
        /// Its environment.
        environment: String,
        /// The environment that is remembered.
        known: String,
    },
    /// The credential cannot be kept.
    #[error(transparent)]
    State(#[from] StateError),
    /// The machine does not answer as it should; the code was not spent.
    #[error("{} The code was not used", ended(.0))]
    Before(MachineError),
    /// It went wrong in the middle.
    #[error("{} The code may be spent: make a new one with `t3 pair` on the T3 host", ended(.0))]
    During(MachineError),
}

/// The error as a whole sentence.
fn ended(error: &MachineError) -> String {
    let said = error.to_string();
    if said.ends_with(['.', '?', '!']) {
        said
    } else {
        format!("{said}.")
    }
}

/// Pairs a machine. `met` is told who answers before the code goes out.
pub async fn pair(
    credentials: &Credentials,
    request: &PairRequest,
    met: impl FnOnce(&Descriptor),
) -> Result<Paired, PairError> {
    let machine = &request.machine.name;
    let url = request.machine.url.to_string();
    let known = match credentials.get(machine) {
        // What cannot be read is replaced only where that is meant.
        Err(_) if request.replace => None,
        known => known?,
    };
    let spent = Kept::hash(&request.code);
    if let Some(known) = &known
        && known.spent == spent
    {
        return Err(PairError::Used {
            machine: machine.clone(),
            at: known.paired_at,
        });
    }
    let answering = meet(&request.machine).await.map_err(PairError::Before)?;
    let descriptor = &answering.descriptor;
    if let Some(known) = &known
        && known.environment != descriptor.environment_id
        && !request.replace
    {
        return Err(PairError::OtherEnvironment {
            machine: machine.clone(),
            url,
            label: descriptor.label.clone(),
            environment: descriptor.environment_id.to_string(),
            known: known.environment.to_string(),
        });
    }
    met(descriptor);
    let draft = credentials.prepare(machine)?;
    let issued = answering.exchange(&request.code).await.map_err(|error| match error {
        ExchangeError::Code => PairError::Refused { url },
        ExchangeError::Grants => PairError::Grants,
        ExchangeError::Machine(error) => PairError::During(error),
    })?;
    let mut kept = Kept {
        machine: machine.clone(),
        url: request.machine.url.clone(),
        token: issued.token,
        environment: descriptor.environment_id.clone(),
        label: descriptor.label.clone(),
        scopes: issued.scopes,
        expires_at: issued.expires_at,
        paired_at: Timestamp::now(),
        projects: request.projects.clone(),
        spent,
    };
    // The code is spent: what it brought is kept before anything else can fail.
    let path = draft.keep(&kept)?;
    if let Some(session) = answering.session(&kept.token).await {
        let expires_at = session.expires_at.or(kept.expires_at);
        if (&session.scopes, expires_at) != (&kept.scopes, kept.expires_at) {
            (kept.scopes, kept.expires_at) = (session.scopes, expires_at);
            keep_again(credentials, &kept);
        }
    }
    Ok(Paired {
        missing_scopes: missing_scopes(&kept.scopes),
        kept,
        path,
    })
}

/// Keeps what was learned of a credential that is kept already; without that it is as good.
fn keep_again(credentials: &Credentials, kept: &Kept) {
    // It may have been taken away or replaced meanwhile.
    let stands = credentials
        .get(&kept.machine)
        .is_ok_and(|now| now.is_some_and(|now| now.spent == kept.spent));
    if stands && let Err(error) = credentials.prepare(&kept.machine).and_then(|draft| draft.keep(kept)) {
        tracing::warn!(machine = %kept.machine, "what the new credential may do, and when it ends, could not be kept: {error}");
    }
}

/// Which machine, and the code.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairArgs {
    /// The machine, as `t3_machines` names it.
    pub machine: String,
    /// The code that `t3 pair` printed on the T3 host, or the whole link: of that only the code is used.
    pub code: String,
}

/// The renewed credential.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct PairAnswer {
    /// The machine.
    pub machine: String,
    /// Where the code was sent.
    pub url: String,
    /// T3's own label of it.
    pub label: String,
    /// What the credential may do.
    pub scopes: Vec<String>,
    /// What the gateway needs and it lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_scopes: Vec<String>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whole days until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
}

impl Gateway {
    /// Renews the credential of a machine where the operator lets agents do so. The code goes to the configured url. The work goes on in its
    /// own task when the returned future is dropped: a code that was spent must not be lost.
    pub async fn pair(self: &Arc<Self>, caller: &Caller, args: PairArgs) -> Result<PairAnswer, ToolError> {
        may_change(caller, "the pairing")?;
        let (gateway, caller) = (Arc::clone(self), caller.clone());
        self.in_own_task(async move { gateway.pair_here(&caller, &args).await })
            .await
    }

    async fn pair_here(&self, caller: &Caller, args: &PairArgs) -> Result<PairAnswer, ToolError> {
        let member = self.fleet.member(&caller.limits, &args.machine)?;
        let name = member.name();
        let allowed = matches!(member.rules.token, Origin::Pairing { by_agents: true, .. });
        let (true, Some(credentials)) = (allowed && caller.limits.agent_pairing(name), &self.settings.credentials)
        else {
            return Err(ToolError::new(
                ErrorCode::InsufficientScope,
                format!("Agents may not pair {name}; the code was not sent."),
            )
            .hint(format!(
                "The operator can pair it where the gateway runs: t3code-mcp pair {name} '<link>'. Or allow it with pairing = true and \
                 agent_pairing = true in the machine's config."
            ))
            .with("machine", name));
        };
        let code = read_code(&args.code)
            .map_err(|problem| ToolError::new(ErrorCode::InvalidRequest, format!("code: {problem}.")))?;
        let request = PairRequest {
            machine: member.machine.settings(),
            code,
            projects: None,
            replace: false,
        };
        let turn = {
            let mut pairings = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(pairings.entry(name.to_owned()).or_default())
        };
        let _turn = turn.lock().await;
        let paired = pair(credentials, &request, |_| {})
            .await
            .map_err(|error| told(name, &error))?;
        let kept = paired.kept;
        member.machine.set_access(Access {
            url: kept.url.clone(),
            token: Some(kept.token.clone()),
            environment: Some(kept.environment.clone()),
            expires_at: kept.expires_at,
            source: TokenFrom::Pairing,
        });
        tracing::info!(machine = %name, client = %caller.client, "paired by an agent");
        Ok(PairAnswer {
            machine: kept.machine,
            url: kept.url.to_string(),
            label: kept.label,
            missing_scopes: paired.missing_scopes,
            days_left: kept.expires_at.map(|ends| days_left(ends, Timestamp::now())),
            expires_at: kept.expires_at.map(|ends| ends.to_string()),
            scopes: kept.scopes,
        })
    }
}

/// The code alone; of a link only its code.
fn read_code(text: &str) -> Result<SecretString, String> {
    if text.contains("://") {
        PairingLink::parse(text).map(|link| link.code)
    } else {
        link::code(text)
    }
}

fn told(machine: &str, error: &PairError) -> ToolError {
    let code = match error {
        PairError::Before(error) => {
            let told = ToolError::from_machine(machine, error);
            return told.hint("The code was not used: call again with it once the machine answers.");
        }
        PairError::During(error) => {
            let told = ToolError::from_machine(machine, error);
            return told.hint("The code may be spent: ask for a new one, made with `t3 pair` on the T3 host.");
        }
        PairError::Used { .. } | PairError::Refused { .. } | PairError::Grants => ErrorCode::InvalidRequest,
        PairError::OtherEnvironment { .. } => ErrorCode::OperationRejected,
        PairError::State(_) => ErrorCode::Internal,
    };
    ToolError::new(code, format!("{error}.")).with("machine", machine)
}
