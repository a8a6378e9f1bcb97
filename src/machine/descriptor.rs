//! Who a machine says it is, which protocol it speaks, and what our credential may do there.
//!
//! Pure: the answers' bytes come in, a decision goes out. The descriptor's version decides; builds exist that speak protocol 2
//! without saying so, so where it is absent the shell's snapshot does: the stream's first one, or, where there is no stream, HTTP's.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::dialect::is_shell;
use super::{MachineError, TokenFrom};
use crate::protocol::EnvironmentId;

/// The newest orchestration protocol that we speak.
pub const SPOKEN: u32 = 2;
/// The oldest.
pub const OLDEST: u32 = 1;

/// What a machine says of itself (`GET /.well-known/t3/environment`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The database's id, stable over restarts.
    pub environment_id: EnvironmentId,
    /// Its name.
    pub label: String,
    /// T3's version.
    pub server_version: String,
    /// Where it runs.
    pub platform: Platform,
    /// The protocol that it says it speaks; some that speak 2 say nothing.
    #[serde(default)]
    pub orchestration_protocol_version: Option<i64>,
    /// What it can do, as it came.
    #[serde(default)]
    pub capabilities: serde_json::Value,
}

/// Where a machine runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Platform {
    /// T3's word for the operating system.
    pub os: String,
}

/// What the descriptor says of the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// It is the one that we speak.
    Spoken,
    /// It does not say: the shell's snapshot does ([`check_schema`], [`check_shell`]).
    AskShell,
}

impl Descriptor {
    /// Reads the answer.
    pub fn read(machine: &str, body: &[u8]) -> Result<Self, MachineError> {
        serde_json::from_slice(body).map_err(|error| not_t3(machine, "environment descriptor", &error))
    }

    /// Decides by the version that it names.
    pub fn version(&self, machine: &str) -> Result<Version, MachineError> {
        match self.orchestration_protocol_version {
            // No server of protocol 1 is known to say so.
            None => Ok(Version::AskShell),
            Some(version) if version == i64::from(OLDEST) => Ok(Version::AskShell),
            Some(version) if version == i64::from(SPOKEN) => Ok(Version::Spoken),
            Some(version) => Err(unsupported(machine, Some(version))),
        }
    }
}

/// Decides by the `schemaVersion` of a shell's snapshot that is not protocol 1's: 2 is protocol 2.
pub fn check_schema(machine: &str, schema: Option<i64>) -> Result<(), MachineError> {
    match schema {
        Some(version) if version == i64::from(SPOKEN) => Ok(()),
        version => Err(unsupported(machine, version)),
    }
}

/// The same by the whole snapshot, as HTTP answers it; that of protocol 1 is good too.
pub fn check_shell(machine: &str, body: &[u8]) -> Result<(), MachineError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shell {
        schema_version: Option<i64>,
        // What makes it a shell at all: any other JSON is not T3.
        #[serde(rename = "snapshotSequence")]
        _snapshot_sequence: u64,
        #[serde(rename = "threads")]
        _threads: Vec<IgnoredAny>,
    }
    let shell: Shell = serde_json::from_slice(body).map_err(|error| not_t3(machine, "shell snapshot", &error))?;
    if is_shell(body) {
        return Ok(());
    }
    check_schema(machine, shell.schema_version)
}

/// The error for a machine that speaks another protocol: both versions, and which side to update.
pub fn unsupported(machine: &str, theirs: Option<i64>) -> MachineError {
    let message = match theirs {
        Some(theirs) if theirs < i64::from(OLDEST) => {
            format!(
                "{machine} speaks orchestration protocol {theirs}, t3code-mcp speaks {OLDEST} and {SPOKEN}: update T3 Code on {machine}"
            )
        }
        Some(theirs) if theirs > i64::from(SPOKEN) => {
            format!(
                "{machine} speaks orchestration protocol {theirs}, t3code-mcp speaks {OLDEST} and {SPOKEN}: update t3code-mcp"
            )
        }
        Some(_) | None => format!(
            "{machine} does not accept orchestration protocol {SPOKEN}, which t3code-mcp speaks besides {OLDEST}, and names no other it would: update the older of T3 Code on {machine} and t3code-mcp"
        ),
    };
    MachineError::ProtocolUnsupported { message }
}

/// What our credential may do (`GET /api/auth/session`, which answers 200 for a bad one too).
#[derive(Clone, Debug, PartialEq)]
pub struct Credential {
    /// What it may do. Where T3 sends `permissions`, only they count; the older `scopes` then promise more than is granted.
    pub scopes: Vec<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
}

impl Credential {
    /// Reads the answer; a credential that T3 does not know, or no longer, is `NeedsPairing`.
    pub fn read(machine: &str, source: TokenFrom, body: &[u8]) -> Result<Self, MachineError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Session {
            authenticated: bool,
            #[serde(default)]
            scopes: Option<Vec<String>>,
            // A permission that a newer T3 does not know any more comes as null.
            #[serde(default)]
            permissions: Option<Vec<Option<String>>>,
            #[serde(default)]
            expires_at: Option<Timestamp>,
        }
        let session: Session =
            serde_json::from_slice(body).map_err(|error| not_t3(machine, "session check", &error))?;
        if !session.authenticated {
            return Err(MachineError::NeedsPairing {
                reason: format!(
                    "{machine} does not know the token, or no longer: {}",
                    source.refused(machine)
                ),
            });
        }
        let scopes = match session.permissions {
            Some(permissions) => permissions.into_iter().flatten().collect(),
            None => session.scopes.unwrap_or_default(),
        };
        Ok(Self {
            scopes,
            expires_at: session.expires_at,
        })
    }

    /// An error unless the credential has this scope.
    pub fn require(&self, scope: &str) -> Result<(), MachineError> {
        if self.scopes.iter().any(|held| held == scope) {
            Ok(())
        } else {
            Err(MachineError::InsufficientScope {
                scope: scope.to_owned(),
            })
        }
    }
}

fn not_t3(machine: &str, what: &str, error: &serde_json::Error) -> MachineError {
    MachineError::NotT3 {
        reason: format!("{machine} answered, but not with a T3 {what} ({error}): is its url that of a T3 server?"),
    }
}
