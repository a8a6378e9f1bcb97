//! How a call over the socket ends, and what that means to whoever made it.
//!
//! T3's refusal, a loss of the line and a deadline stay apart here and in [`MachineError`]: a lost answer to a command is never
//! taken for a refusal, since the command may have happened.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::machine::MachineError;
use crate::protocol::rpc::{Cause, defect_text};

/// What a `Die` says of a procedure that the server does not have.
const UNKNOWN_REQUEST: &str = "Unknown request tag";
/// The tag of the error for a scope that the token lacks.
const AUTHORIZATION_ERROR: &str = "EnvironmentAuthorizationError";

/// Why a call ended without a value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// T3 refused with an error that the procedure declares. Nothing happened.
    #[error("{message}")]
    Rejected {
        /// The error's tag.
        tag: String,
        /// T3's words.
        message: String,
        /// The whole error, for those who know its type.
        error: Box<RawValue>,
    },
    /// T3 could not read the payload, does not know the procedure, or broke on it.
    #[error("{defect}")]
    Defect {
        /// T3's words.
        defect: String,
    },
    /// T3 interrupted the call, or a defect of the whole socket took it along: it may have happened in part.
    #[error("T3 broke the call off: {reason}")]
    BrokenOff {
        /// What T3 said.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer within {} s", .within.as_secs_f64().ceil())]
    TimedOut {
        /// The request had gone out.
        sent: bool,
        /// How long was waited.
        within: Duration,
    },
    /// The socket is gone.
    #[error("{reason}")]
    Lost {
        /// The request may have gone out.
        sent: bool,
        /// Why the socket is gone.
        reason: String,
    },
    /// The answer could not be read.
    #[error("an answer that cannot be read: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// A stream sent chunk after chunk without waiting for an `Ack`.
    #[error("the server sent more than it was asked for")]
    Overrun,
    /// We took it back.
    #[error("the call was taken back")]
    Cancelled,
    /// As many calls as one socket may have are in flight. Nothing was sent.
    #[error("{open} requests are in flight already")]
    Busy {
        /// How many.
        open: usize,
    },
}

impl CallError {
    /// What the causes of a failed exit say: a declared error before a defect before an interruption.
    pub fn from_causes(causes: &[Cause]) -> Self {
        let of = |pick: fn(&Cause) -> Option<CallError>| causes.iter().find_map(pick);
        of(|cause| match cause {
            Cause::Fail(error) => Some(Self::rejected(error)),
            Cause::Die(_) | Cause::Interrupt { .. } | Cause::Unknown { .. } => None,
        })
        .or_else(|| {
            of(|cause| match cause {
                Cause::Die(defect) => Some(Self::Defect {
                    defect: defect_text(defect),
                }),
                Cause::Fail(_) | Cause::Interrupt { .. } | Cause::Unknown { .. } => None,
            })
        })
        .or_else(|| {
            of(|cause| match cause {
                Cause::Interrupt { .. } => Some(Self::BrokenOff {
                    reason: "it was interrupted".into(),
                }),
                Cause::Fail(_) | Cause::Die(_) | Cause::Unknown { .. } => None,
            })
        })
        .unwrap_or_else(|| Self::Malformed {
            problem: "a failure without a known cause".into(),
        })
    }

    fn rejected(error: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Declared {
            #[serde(rename = "_tag")]
            tag: Option<String>,
            message: Option<String>,
            detail: Option<String>,
        }
        let declared = serde_json::from_str::<Declared>(error.get());
        let (tag, message) = declared.map_or((None, None), |it| (it.tag, it.message.or(it.detail)));
        let tag = tag.unwrap_or_else(|| "Error".into());
        Self::Rejected {
            message: message.unwrap_or_else(|| format!("{tag}: {}", defect_text(error))),
            tag,
            error: error.to_owned(),
        }
    }

    /// The server does not have this procedure: an older T3, for which another way must be taken.
    pub fn is_unknown_request(&self) -> bool {
        matches!(self, Self::Defect { defect } if defect.starts_with(UNKNOWN_REQUEST))
    }

    /// What the end means where nothing was to change: a loss is a machine that was not reached.
    pub fn for_read(self) -> MachineError {
        match self {
            Self::Rejected { tag, message, error } => refusal(tag, message, &error),
            Self::Defect { defect } => MachineError::Defect { defect },
            Self::TimedOut { within, .. } => MachineError::Timeout(within),
            Self::Malformed { .. } | Self::Overrun => MachineError::Decode(self.to_string()),
            Self::Lost { .. } | Self::BrokenOff { .. } | Self::Cancelled | Self::Busy { .. } => {
                MachineError::Unreachable {
                    reason: self.to_string(),
                }
            }
        }
    }

    /// What the end means where something was to change: once it was sent, only T3's own word tells what became of it.
    pub fn for_command(self) -> MachineError {
        match self {
            Self::Rejected { tag, message, error } => refusal(tag, message, &error),
            Self::Defect { defect } => MachineError::Defect { defect },
            Self::TimedOut { sent: false, .. } | Self::Lost { sent: false, .. } | Self::Busy { .. } => {
                MachineError::Unreachable {
                    reason: self.to_string(),
                }
            }
            Self::TimedOut { sent: true, .. }
            | Self::Lost { sent: true, .. }
            | Self::BrokenOff { .. }
            | Self::Malformed { .. }
            | Self::Overrun
            | Self::Cancelled => MachineError::AnswerLost {
                reason: self.to_string(),
            },
        }
    }
}

/// A declared error, with the one that the domain has a word of its own for told apart.
fn refusal(tag: String, message: String, error: &RawValue) -> MachineError {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Required {
        required_permission: Option<String>,
        required_scope: Option<String>,
    }
    if tag == AUTHORIZATION_ERROR {
        let required = serde_json::from_str::<Required>(error.get());
        if let Some(scope) = required
            .ok()
            .and_then(|it| it.required_permission.or(it.required_scope))
        {
            return MachineError::InsufficientScope { scope };
        }
    }
    MachineError::Rejected { tag, message }
}
