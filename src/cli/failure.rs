//! Why a command failed, as a person reads it.

use std::process::ExitCode;

use serde::Deserialize;

use super::words;
use crate::config::ConfigErrors;
use crate::protocol::Untrusted;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Something went wrong; the sentence says what to do.
    #[error("{0}")]
    Said(String),
    /// A tool refused, in the words that its clients read.
    #[error("{code}: {message}")]
    Refused {
        code: String,
        message: String,
        hint: Option<String>,
    },
    /// What a thread asks, escaped already, and how to answer.
    #[error("{0}")]
    Asked(String),
    /// The command printed what is wrong.
    #[error("see above")]
    Shown,
    /// The command printed how it ended; its exit code tells scripts.
    #[error("see above")]
    Ended(u8),
    /// It was told to stop.
    #[error("stopped; what was started goes on")]
    Stopped,
}

/// A tool's error, as it is written.
#[derive(Deserialize)]
struct Written {
    code: String,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(super) fn said(sentence: impl std::fmt::Display) -> Self {
        Self::Said(sentence.to_string())
    }

    /// What a failed call says.
    pub(super) fn refused(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(Written { code, message, hint }) => Self::Refused { code, message, hint },
            Err(_) => Self::said(text),
        }
    }

    /// Tells it on stderr.
    pub(super) fn report(&self) -> ExitCode {
        if let Some(told) = self.told() {
            super::output::complain(format_args!("{told}"));
        }
        match self {
            Self::Ended(code) => ExitCode::from(*code),
            Self::Said(_) | Self::Asked(_) | Self::Refused { .. } | Self::Shown | Self::Stopped => ExitCode::FAILURE,
        }
    }

    /// What stands on stderr. Each part may quote a machine.
    pub(super) fn told(&self) -> Option<String> {
        match self {
            Self::Said(sentence) => Some(format!("error: {}", Untrusted(sentence).lines())),
            Self::Asked(text) => Some(format!("error: {text}")),
            Self::Refused { code, message, hint } => {
                let hint = hint.as_deref().map(words::in_commands);
                let hint = hint.map(|hint| format!("\n  → {}", Untrusted(&hint)));
                Some(format!(
                    "error: {}: {}{}",
                    Untrusted(code),
                    Untrusted(message),
                    hint.unwrap_or_default()
                ))
            }
            Self::Stopped => Some(format!("error: {self}")),
            Self::Shown | Self::Ended(_) => None,
        }
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::said(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_refused_is_told_on_lines_of_its_own_whatever_it_quotes() {
        let text = serde_json::json!({"code": "thread_busy", "message": "The thread \u{1b}[2Jx\nerror: forged works.",
            "hint": "Wait\u{202e}.", "further": 1});
        assert_eq!(
            Failure::refused(&text.to_string()).told().unwrap_or_default(),
            "error: thread_busy: The thread \\u{1b}[2Jx\\nerror: forged works.\n  → Wait\\u{202e}."
        );
        let text = serde_json::json!({"code": "thread_busy", "message": "It works.", "hint": "Wait with t3_wait, or pass when_busy: queue."});
        assert_eq!(
            Failure::refused(&text.to_string()).told().unwrap_or_default(),
            "error: thread_busy: It works.\n  → Wait with `t3code-mcp wait`, or pass `--when-busy queue`."
        );
        assert_eq!(Failure::refused("no JSON").told().unwrap_or_default(), "error: no JSON");
    }
}
