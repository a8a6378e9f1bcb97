//! Words of T3 that this version does not know: a newer T3's, which are taken along, and named so that somebody can be told.
//!
//! The domain keeps T3's own words, so what is known is asked of the generated types here. An unknown run status counts as running.

use std::collections::BTreeSet;

use super::items::SECRET_REQUEST;
use crate::machine::domain::{Thread, ThreadRow};
use crate::protocol::v2;

/// Whether a word is none of an enum's.
macro_rules! unknown {
    ($enum:ident, $word:expr) => {
        matches!(v2::$enum::from($word), v2::$enum::Unknown(_))
    };
}

/// The unknown words of a row.
pub(super) fn of_row(row: &ThreadRow) -> Vec<String> {
    let mut words = Vec::new();
    if unknown!(ShellThreadStatus, row.status.as_str()) {
        words.push(format!("run status `{}`", row.status));
    }
    if let Some(activity) = &row.activity
        && unknown!(ThreadShellActivityRunStatus, activity.as_str())
    {
        words.push(format!("activity `{activity}`"));
    }
    if let Some(pending) = &row.pending
        && unknown!(RuntimeRequestKind, pending.kind.as_str())
    {
        words.push(format!("request kind `{}`", pending.kind));
    }
    words
}

/// The unknown words of a thread, whose items are of these unknown kinds besides known ones.
pub(super) fn of_thread(thread: &Thread, items: &BTreeSet<String>) -> Vec<String> {
    let mut words = Vec::new();
    for run in &thread.facts.runs {
        if unknown!(RunStatus, run.status.as_str()) {
            words.push(format!("run status `{}`", run.status));
        }
    }
    // A secret's request is an item of T3's, with words of its own.
    let requests = thread.facts.requests.iter();
    for request in requests.filter(|request| request.kind != SECRET_REQUEST) {
        if unknown!(RuntimeRequestKind, request.kind.as_str()) {
            words.push(format!("request kind `{}`", request.kind));
        }
        if unknown!(RuntimeRequestStatus, request.status.as_str()) {
            words.push(format!("request status `{}`", request.status));
        }
        if !CAPABILITIES.contains(&request.capability.as_str()) {
            words.push(format!("response capability `{}`", request.capability));
        }
    }
    words.extend(items.iter().map(|kind| format!("turn item `{kind}`")));
    if unknown!(RuntimeMode, thread.head.runtime_mode.as_str()) {
        words.push(format!("runtime mode `{}`", thread.head.runtime_mode));
    }
    let tasks = thread.background.iter().map(|task| task.kind.as_str());
    words.extend(
        tasks
            .filter(|kind| !TASKS.contains(kind))
            .map(|kind| format!("background task `{kind}`")),
    );
    words
}

/// The known ways that an answer goes.
const CAPABILITIES: [&str; 3] = ["live", "message", "not_resumable"];

/// The known kinds of background work.
const TASKS: [&str; 4] = ["subagent", "command", "monitor", "background_task"];

/// The capabilities of a descriptor that the contract does not have, as one word: each release adds some.
pub(in crate::machine) fn of_capabilities(said: &serde_json::Value) -> Option<String> {
    use serde::Deserialize as _;
    let known = v2::ExecutionEnvironmentCapabilities::deserialize(said).ok()?;
    let known = serde_json::to_value(known).ok()?;
    let new: Vec<&str> = said
        .as_object()?
        .iter()
        // What is null is no capability, and is not written again.
        .filter(|(name, value)| !value.is_null() && known.get(name).is_none())
        .map(|(name, _)| name.as_str())
        .take(MOST_CAPABILITIES)
        .collect();
    (!new.is_empty()).then(|| format!("capabilities `{}`", new.join("`, `")))
}

/// So many are named.
const MOST_CAPABILITIES: usize = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::of_capabilities;

    #[test]
    fn capabilities_of_a_newer_t3_are_named_together() {
        let known = json!({"connectionProbe": true, "threadPinning": false, "threadSnooze": null});
        assert_eq!(of_capabilities(&known), None);
        let newer = json!({"connectionProbe": true, "timeTravel": true, "aardvarks": {"most": 3}, "gone": null});
        assert_eq!(
            of_capabilities(&newer).as_deref(),
            Some("capabilities `aardvarks`, `timeTravel`")
        );
        assert_eq!(of_capabilities(&json!(null)), None);
        assert_eq!(of_capabilities(&json!("all")), None);
    }
}
