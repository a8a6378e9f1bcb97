//! Words of T3 that this version does not know: a newer T3's, which are taken along, and named so that somebody can be told.
//!
//! The domain keeps T3's own words, so what is known is asked of the generated types here. An unknown run status counts as running.

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

/// The unknown words of a thread.
pub(super) fn of_thread(thread: &Thread) -> Vec<String> {
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
    }
    words
}
