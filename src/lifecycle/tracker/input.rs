//! What goes into a tracker: a shell row (a hint), a read (the truth), and the limits of patience.

use jiff::{SignedDuration, Timestamp};

use crate::lifecycle::ThreadFacts;
use crate::protocol::{MessageId, RunId, RuntimeRequestId};

/// How long things may last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// How long a run may finish before it counts as completed.
    pub finish_timeout: SignedDuration,
    /// How long a run may work without any change before that is told; none switches it off.
    pub stall_after: Option<SignedDuration>,
}

/// What the shell shows of a thread: reason to read it, never proof of an end.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFacts {
    /// The sequence of the shell item that it came from.
    pub sequence: u64,
    /// T3's word: the status of the run with the highest ordinal, or `idle`.
    pub status: String,
    /// The run that works now.
    pub active_run: Option<RunId>,
    /// T3's word for what it does, also while it finishes.
    pub activity: Option<String>,
    /// The run with the highest ordinal.
    pub latest_run: Option<RunId>,
    /// When that run was asked for.
    pub latest_run_requested_at: Option<Timestamp>,
    /// When that run ended.
    pub latest_run_completed_at: Option<Timestamp>,
    /// The newest pending request.
    pub pending: Option<RuntimeRequestId>,
    /// T3 shows the thread as deleted, or took it out of the shell.
    pub deleted: bool,
    /// When T3 last changed it.
    pub updated_at: Timestamp,
}

/// What a read shows of a thread.
#[derive(Clone, Copy, Debug)]
pub struct ReadFacts<'a> {
    /// The database's sequence that it is of; 0 where nobody says.
    pub sequence: u64,
    /// When T3 last changed the thread.
    pub updated_at: Timestamp,
    /// It is the newest part of the thread only.
    pub partial: bool,
    /// Its runs and requests.
    pub facts: &'a ThreadFacts,
    /// Its user messages, each with the run that it belongs to now.
    pub messages: &'a [(MessageId, Option<RunId>)],
}

/// How much of a thread is to be read.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ReadNeed {
    /// Its newest part may do.
    Part,
    /// All of it.
    Whole,
}
