//! Which runtime mode a thread gets: what was asked for, what the operator prefers, and the ceiling above both. Pure.

use crate::gateway::error::{ErrorCode, ToolError};
use crate::machine::RuntimeMode;

/// The mode of a new thread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct LaunchMode {
    pub(super) mode: RuntimeMode,
    /// Why it is not the operator's default.
    pub(super) note: Option<String>,
}

/// The mode of a new thread: what was asked for if the ceiling allows it, else the default, lowered to the ceiling.
pub(super) fn for_launch(
    asked: Option<RuntimeMode>,
    default: Option<RuntimeMode>,
    ceiling: RuntimeMode,
) -> Result<LaunchMode, ToolError> {
    if let Some(mode) = asked {
        allowed(mode, ceiling)?;
        return Ok(LaunchMode { mode, note: None });
    }
    let default = default.unwrap_or(RuntimeMode::FullAccess);
    if default <= ceiling {
        return Ok(LaunchMode {
            mode: default,
            note: None,
        });
    }
    Ok(LaunchMode {
        mode: ceiling,
        note: Some(format!(
            "runtime_mode was lowered from {default} to {ceiling}, the most that is allowed here."
        )),
    })
}

/// The mode to set before a thread goes on; none where it keeps its own. A thread above the ceiling goes on only below it.
pub(super) fn for_continuing(
    own: &str,
    asked: Option<RuntimeMode>,
    ceiling: RuntimeMode,
) -> Result<Option<RuntimeMode>, ToolError> {
    if let Some(mode) = asked {
        allowed(mode, ceiling)?;
        return Ok((mode.as_str() != own).then_some(mode));
    }
    // A word of a newer T3 may stand for more than we know: only where everything is allowed does it pass.
    let within = RuntimeMode::parse(own).map_or(ceiling == RuntimeMode::FullAccess, |mode| mode <= ceiling);
    if within {
        return Ok(None);
    }
    Err(ToolError::new(
        ErrorCode::RuntimeModeEscalationDenied,
        format!("The thread runs in {own}, and at most {ceiling} is allowed here."),
    )
    .hint(format!(
        "Continue it with runtime_mode {ceiling} or lower, or start a new thread."
    ))
    .with("max_runtime_mode", ceiling.as_str()))
}

fn allowed(mode: RuntimeMode, ceiling: RuntimeMode) -> Result<(), ToolError> {
    if mode <= ceiling {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::RuntimeModeEscalationDenied,
        format!("runtime_mode {mode} was asked for, and at most {ceiling} is allowed here."),
    )
    .hint(format!("Ask for {ceiling} or lower, or leave runtime_mode out."))
    .with("max_runtime_mode", ceiling.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use RuntimeMode::{ApprovalRequired, Auto, AutoAcceptEdits, FullAccess};

    fn code<T>(result: Result<T, ToolError>) -> Option<ErrorCode> {
        result.err().map(|error| error.code)
    }

    #[test]
    fn without_any_word_a_new_thread_has_full_access() {
        let launch = for_launch(None, None, FullAccess);
        assert_eq!(launch.map(|l| (l.mode, l.note)), Ok((FullAccess, None)));
    }

    #[test]
    fn a_default_above_the_ceiling_is_lowered_and_said() {
        let launch = for_launch(None, Some(FullAccess), AutoAcceptEdits);
        assert!(
            launch.is_ok_and(|l| l.mode == AutoAcceptEdits && l.note.is_some_and(|note| note.contains("full-access")))
        );
    }

    #[test]
    fn a_mode_above_the_ceiling_is_denied_when_it_was_asked_for() {
        assert_eq!(
            code(for_launch(Some(Auto), None, AutoAcceptEdits)),
            Some(ErrorCode::RuntimeModeEscalationDenied)
        );
    }

    #[test]
    fn a_thread_above_the_ceiling_does_not_go_on() {
        assert_eq!(
            code(for_continuing("full-access", None, Auto)),
            Some(ErrorCode::RuntimeModeEscalationDenied)
        );
    }

    #[test]
    fn a_thread_above_the_ceiling_goes_on_once_its_mode_is_lowered() {
        assert_eq!(
            for_continuing("full-access", Some(ApprovalRequired), Auto),
            Ok(Some(ApprovalRequired))
        );
    }

    #[test]
    fn the_same_mode_again_is_no_change() {
        assert_eq!(for_continuing("auto", Some(Auto), FullAccess), Ok(None));
    }

    #[test]
    fn an_unknown_mode_passes_only_where_everything_is_allowed() {
        assert_eq!(for_continuing("beyond", None, FullAccess), Ok(None));
        assert_eq!(
            code(for_continuing("beyond", None, Auto)),
            Some(ErrorCode::RuntimeModeEscalationDenied)
        );
    }
}
