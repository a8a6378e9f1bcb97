//! Why a command failed, as a person reads it.

use std::process::ExitCode;

use crate::config::ConfigErrors;
use crate::protocol::Untrusted;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Something went wrong; the sentence says what to do.
    #[error("{0}")]
    Said(String),
    /// The command printed what is wrong.
    #[error("see above")]
    Shown,
}

impl Failure {
    pub(super) fn said(sentence: impl std::fmt::Display) -> Self {
        Self::Said(sentence.to_string())
    }

    /// Tells it on stderr.
    pub(super) fn report(&self) -> ExitCode {
        match self {
            // The sentence may quote a machine.
            Self::Said(sentence) => super::output::complain(format_args!("error: {}", Untrusted(sentence).lines())),
            Self::Shown => {}
        }
        ExitCode::FAILURE
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::said(errors)
    }
}
