//! Words of T3 that this version does not know, each with what it is a word for. Whatever is not known of a turn counts as running.

use serde_json::Value;

use super::requests::{APPROVAL_ASKED, QUESTION_ASKED, REQUEST_KINDS};
use crate::protocol::v1;

/// How the kinds of activities end that ask for something.
const ASKS: &str = ".requested";

/// Notes a word that is none of an enum's.
macro_rules! note {
    ($words:ident, $what:literal, $word:expr, $enum:ident) => {
        $words.extend(match $word {
            v1::$enum::Unknown(word) => Some(format!(concat!($what, " `{}`"), word)),
            _ => None,
        })
    };
}

/// The unknown words of a row.
pub(super) fn of_row(row: &v1::ThreadShell) -> Vec<String> {
    let mut words = Vec::new();
    of_work(row.latest_turn.as_ref(), row.session.as_ref(), &mut words);
    of_modes(&row.runtime_mode, row.interaction_mode.as_ref(), &mut words);
    if let Some(liveness) = &row.background_liveness {
        note!(words, "background task", liveness, ThreadShellBackgroundLiveness);
    }
    words
}

/// The unknown words of a thread.
pub(super) fn of_thread(thread: &v1::Thread) -> Vec<String> {
    let mut words = Vec::new();
    of_work(thread.latest_turn.as_ref(), thread.session.as_ref(), &mut words);
    for activity in &thread.activities {
        words.extend(of_activity(activity));
    }
    for message in &thread.messages {
        note!(words, "message role", &message.role, MessageRole);
    }
    for checkpoint in &thread.checkpoints {
        note!(words, "checkpoint status", &checkpoint.status, CheckpointStatus);
    }
    of_modes(&thread.runtime_mode, thread.interaction_mode.as_ref(), &mut words);
    words
}

fn of_work(turn: Option<&v1::LatestTurn>, session: Option<&v1::Session>, words: &mut Vec<String>) {
    if let Some(turn) = turn {
        note!(words, "turn state", &turn.state, LatestTurnState);
    }
    if let Some(session) = session {
        note!(words, "session status", &session.status, SessionStatus);
    }
}

fn of_modes(runtime: &v1::RuntimeMode, interaction: Option<&v1::ProviderInteractionMode>, words: &mut Vec<String>) {
    note!(words, "runtime mode", runtime, RuntimeMode);
    if let Some(interaction) = interaction {
        note!(words, "interaction mode", interaction, ProviderInteractionMode);
    }
}

/// The contract leaves activities open. What counts is what asks for something: nobody could answer it.
fn of_activity(activity: &v1::ThreadActivity) -> Option<String> {
    match activity.kind.as_str() {
        APPROVAL_ASKED => {
            let kind = activity.payload.get("requestKind").and_then(Value::as_str)?;
            (!REQUEST_KINDS.contains(&kind)).then(|| format!("request kind `{kind}`"))
        }
        QUESTION_ASKED => None,
        kind => kind.ends_with(ASKS).then(|| format!("activity `{kind}`")),
    }
}
