//! Procedures that the exported contract does not have: the search, the diffs of a thread, and the scratch project.
//!
//! Written by hand after what servers take and send. What is read keeps only what somebody here needs, so that a server that says more, or
//! less of the rest, is understood all the same.

use serde::{Deserialize, Serialize};

use super::{ProjectId, ThreadId};

/// What `orchestration.searchThreads` takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchThreadsInput {
    /// What is looked for: 2 to 200 characters.
    pub query: String,
    /// How many matches at most, 1 to 50; older servers ignore it.
    pub limit: u32,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SearchThreadsResult {
    /// What was found, best first.
    pub matches: Vec<SearchThreadsMatch>,
}

/// A thread that was found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchThreadsMatch {
    /// The thread.
    pub thread_id: ThreadId,
    /// T3's word for where it was found: its title, a message.
    #[serde(default)]
    pub source: Option<String>,
    /// The text around it.
    #[serde(default)]
    pub snippet: Option<String>,
}

/// What `orchestration.getTurnDiff` takes. A turn's number is the ordinal of its run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffInput {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turn before the first; 0 is the state before any.
    pub from_turn_count: u64,
    /// The last turn.
    pub to_turn_count: u64,
    /// T3 leaves white space out unless it is told otherwise.
    pub ignore_whitespace: bool,
}

/// What `orchestration.getFullThreadDiff` takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FullThreadDiffInput {
    /// The thread.
    pub thread_id: ThreadId,
    /// The last turn.
    pub to_turn_count: u64,
    /// T3 leaves white space out unless it is told otherwise.
    pub ignore_whitespace: bool,
}

/// What both answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TurnDiffResult {
    /// A unified diff of git's.
    pub diff: String,
}

/// What `projects.ensureScratch` answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnsureScratchResult {
    /// The project.
    pub project_id: ProjectId,
}
