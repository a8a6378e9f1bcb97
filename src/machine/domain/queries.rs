//! What is asked of a machine besides its threads: searches, diffs, and what they are of.

use crate::protocol::{RunId, ThreadId};

/// The most matches that a search tells, which is what T3 takes. Where it tells so many there may be more.
pub const SEARCH_MATCHES: u32 = 50;

/// A thread that T3's own search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchMatch {
    /// The thread.
    pub thread: ThreadId,
    /// T3's word for where it was found.
    pub source: Option<String>,
    /// The text around it.
    pub snippet: Option<String>,
}

/// What T3 captured of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The run after which it was; none for the state before.
    pub run: Option<RunId>,
    /// The number of the turn that it ends, which diffs name.
    pub turn: Option<u64>,
    /// T3's word: `ready`, `missing`, `error`, `stale`.
    pub status: String,
}

/// Which turns a diff is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turns {
    /// Those behind the first up to the second; 0 is the state before any.
    Between(u64, u64),
    /// All up to this one.
    UpTo(u64),
}
