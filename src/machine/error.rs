//! What can go wrong with one machine: T3 said no, T3 was not reached, or nobody knows.

/// An error of one machine. Application errors, transport loss and timeouts never turn into each other.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// T3 refused, in its own words. Nothing happened.
    #[error("{message}")]
    Rejected {
        /// T3's error tag, such as `OrchestrationV2DispatchCommandError`.
        tag: String,
        /// T3's words.
        message: String,
    },
    /// T3 could not read what was sent (`Die`): a schema error or an unknown request. Not remembered by T3. Nothing happened.
    #[error("{defect}")]
    Defect {
        /// T3's words.
        defect: String,
    },
    /// No thread of that id was ever there (HTTP 404).
    #[error("the thread was not found")]
    ThreadNotFound,
    /// Nothing was sent: the machine could not be reached, or the socket is down.
    #[error("{reason}")]
    Unreachable {
        /// What was tried and what happened.
        reason: String,
    },
    /// A read did not come back in time.
    #[error("no answer within {} s", .0.as_secs_f64().ceil())]
    Timeout(std::time::Duration),
    /// The command was sent and its answer lost: it may have happened. Ask again with the same command id.
    #[error("{reason}")]
    AnswerLost {
        /// What happened.
        reason: String,
    },
    /// T3 does not accept the credential (401), or there is none.
    #[error("{reason}")]
    NeedsPairing {
        /// What T3 said.
        reason: String,
    },
    /// The credential lacks a scope.
    #[error("the token lacks the scope {scope}")]
    InsufficientScope {
        /// The scope that T3 named.
        scope: String,
    },
    /// Another protocol than we speak.
    #[error("{message}")]
    ProtocolUnsupported {
        /// Both versions, and which side to update.
        message: String,
    },
    /// It answers, but not as T3 does (a redirect, HTML, a wrong shape).
    #[error("{reason}")]
    NotT3 {
        /// What came instead.
        reason: String,
    },
    /// What T3 sent could not be decoded, with the path.
    #[error("{0}")]
    Decode(String),
    /// T3 speaks a protocol that does not have it. Nothing was sent.
    #[error("{0}")]
    NeedsNewer(String),
    /// Refused here before sending, since T3 would have accepted it and hung.
    #[error("{0}")]
    Unsafe(String),
}
