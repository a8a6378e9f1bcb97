//! Why a call failed, in the words that clients read: one stable code and one sentence (what happened, to what, what to do next).

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// The stable codes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The arguments cannot be right.
    InvalidRequest,
    /// No machine of that name.
    UnknownMachine,
    /// No such project, or not for this caller.
    ProjectNotFound,
    /// No such thread, or not for this caller.
    ThreadNotFound,
    /// A run is active and the caller wanted none to be.
    ThreadBusy,
    /// There is nothing that could be interrupted.
    ThreadNotInterruptible,
    /// No such pending request.
    RequestNotFound,
    /// Only T3's own window can answer it.
    RequestNotAnswerable,
    /// No such model or option.
    ModelUnavailable,
    /// The provider cannot run now.
    ProviderUnavailable,
    /// More than the ceiling allows.
    RuntimeModeEscalationDenied,
    /// T3 does not accept the credential.
    NeedsPairing,
    /// The credential, or the client's limits, do not allow it.
    InsufficientScope,
    /// The machine speaks another protocol.
    ProtocolUnsupported,
    /// The machine did not answer; nothing happened.
    MachineUnreachable,
    /// T3 refused, in its own words.
    OperationRejected,
    /// It may have happened; nobody knows.
    OutcomeUnknown,
    /// Too much at once.
    RateLimited,
    /// A fault of the gateway.
    Internal,
}

impl ErrorCode {
    /// All codes, in the contract's order.
    pub const ALL: [Self; 19] = [
        Self::InvalidRequest,
        Self::UnknownMachine,
        Self::ProjectNotFound,
        Self::ThreadNotFound,
        Self::ThreadBusy,
        Self::ThreadNotInterruptible,
        Self::RequestNotFound,
        Self::RequestNotAnswerable,
        Self::ModelUnavailable,
        Self::ProviderUnavailable,
        Self::RuntimeModeEscalationDenied,
        Self::NeedsPairing,
        Self::InsufficientScope,
        Self::ProtocolUnsupported,
        Self::MachineUnreachable,
        Self::OperationRejected,
        Self::OutcomeUnknown,
        Self::RateLimited,
        Self::Internal,
    ];

    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::UnknownMachine => "unknown_machine",
            Self::ProjectNotFound => "project_not_found",
            Self::ThreadNotFound => "thread_not_found",
            Self::ThreadBusy => "thread_busy",
            Self::ThreadNotInterruptible => "thread_not_interruptible",
            Self::RequestNotFound => "request_not_found",
            Self::RequestNotAnswerable => "request_not_answerable",
            Self::ModelUnavailable => "model_unavailable",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::RuntimeModeEscalationDenied => "runtime_mode_escalation_denied",
            Self::NeedsPairing => "needs_pairing",
            Self::InsufficientScope => "insufficient_scope",
            Self::ProtocolUnsupported => "protocol_unsupported",
            Self::MachineUnreachable => "machine_unreachable",
            Self::OperationRejected => "operation_rejected",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::RateLimited => "rate_limited",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed call. Serialised, it is the one JSON object that a client reads: `{"code", "message", "hint"?, …}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolError {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Further facts for programs: valid names, pending requests, the machine.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ToolError {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            extra: Map::new(),
        }
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a fact for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ToolError {}
