//! Questions that are no reads of threads: the search, diffs, the scratch project.

use serde_json::value::RawValue;

use super::commands::call;
use super::{Call, read};
use crate::machine::domain::{SEARCH_MATCHES, SearchMatch, Turns};
use crate::machine::error::MachineError;
use crate::machine::session::empty_object;
use crate::protocol::{ProjectId, ThreadId, v2};

pub(super) fn search(query: &str) -> Result<Call, MachineError> {
    let input = v2::SearchThreadsInput {
        query: query.to_owned(),
        limit: SEARCH_MATCHES,
    };
    call("orchestration.searchThreads", &input)
}

pub(super) fn read_search(value: &RawValue) -> Result<Vec<SearchMatch>, MachineError> {
    let result: v2::SearchThreadsResult = read("the answer to a search", value.get().as_bytes())?;
    let matches = result.matches.into_iter().map(|found| SearchMatch {
        thread: found.thread_id,
        source: found.source,
        snippet: found.snippet,
    });
    Ok(matches.collect())
}

/// With white space: a diff that hides a change of Python's indentation would be no diff.
pub(super) fn diff(thread: &ThreadId, turns: Turns) -> Result<Call, MachineError> {
    match turns {
        Turns::Between(from_turn_count, to_turn_count) => call(
            "orchestration.getTurnDiff",
            &v2::TurnDiffInput {
                thread_id: thread.clone(),
                from_turn_count,
                to_turn_count,
                ignore_whitespace: false,
            },
        ),
        Turns::UpTo(to_turn_count) => call(
            "orchestration.getFullThreadDiff",
            &v2::FullThreadDiffInput {
                thread_id: thread.clone(),
                to_turn_count,
                ignore_whitespace: false,
            },
        ),
    }
}

pub(super) fn read_diff(value: &RawValue) -> Result<String, MachineError> {
    read::<v2::TurnDiffResult>("a diff", value.get().as_bytes()).map(|result| result.diff)
}

pub(super) fn scratch() -> Call {
    Call {
        tag: "projects.ensureScratch",
        payload: empty_object(),
    }
}

pub(super) fn read_scratch(value: &RawValue) -> Result<ProjectId, MachineError> {
    read::<v2::EnsureScratchResult>("the answer about the scratch project", value.get().as_bytes())
        .map(|result| result.project_id)
}
