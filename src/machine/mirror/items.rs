//! What goes into the mirror and what comes out of it, in no protocol's words.

use crate::machine::domain::{Project, ThreadRow};
use crate::protocol::{ProjectId, ThreadId};

/// An item of the shell stream, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellItem {
    /// A full state: a new base. Rows carry the snapshot's sequence.
    Snapshot(ShellSnapshot),
    /// A snapshot that only brings metadata of repositories; newer servers leave the threads out of it. Never a state.
    Metadata,
    /// A thread as it is at the row's sequence, also when it moved into or out of the archive.
    ThreadUpdated(Box<ThreadRow>),
    /// A thread changed, and its row cannot be read: only a read of the thread tells what it is.
    ThreadUnreadable {
        /// Of the change.
        sequence: u64,
        /// The thread.
        thread: ThreadId,
        /// What cannot be read, with the path.
        problem: String,
    },
    /// A thread is gone from the shell.
    ThreadRemoved {
        /// Of the change.
        sequence: u64,
        /// The thread.
        thread: ThreadId,
    },
    /// A project as it is at the sequence.
    ProjectUpdated {
        /// Of the change.
        sequence: u64,
        /// The project.
        project: Project,
    },
    /// A project is gone.
    ProjectRemoved {
        /// Of the change.
        sequence: u64,
        /// The project.
        project: ProjectId,
    },
    /// What was missed has been sent; what follows is live.
    Synchronized,
    /// An item of a kind that this version does not know.
    Unknown {
        /// T3's word.
        kind: String,
    },
}

/// A full state of the shell.
#[derive(Clone, Debug, PartialEq)]
pub struct ShellSnapshot {
    /// What it is a state of.
    pub sequence: u64,
    /// The version of the shell's schema; protocol 1 has none.
    pub schema: Option<i64>,
    /// Its threads, archived ones included where the server sends them.
    pub threads: Vec<ThreadRow>,
    /// Its projects.
    pub projects: Vec<Project>,
    /// What of it could not be read and is left out.
    pub unread: Vec<UnreadRow>,
}

/// A thread or project of a snapshot that could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadRow {
    /// The thread; none for a project, and where not even the id can be read.
    pub thread: Option<ThreadId>,
    /// What cannot be read, with the path.
    pub problem: String,
}

/// An item of the stream of archived threads, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum ArchiveItem {
    /// All archived threads: a new base of this stream.
    Snapshot {
        /// What it is a state of.
        sequence: u64,
        /// The archived threads.
        threads: Vec<ThreadRow>,
        /// What of it could not be read and is left out.
        unread: Vec<UnreadRow>,
    },
    /// An archived thread changed, and its row cannot be read.
    Unreadable {
        /// Of the change.
        sequence: u64,
        /// The thread.
        thread: ThreadId,
        /// What cannot be read, with the path.
        problem: String,
    },
    /// An archived thread as it is at the row's sequence.
    Updated(Box<ThreadRow>),
    /// A thread left the archive: restored or deleted, which the shell stream tells.
    Removed {
        /// Of the change.
        sequence: u64,
        /// The thread.
        thread: ThreadId,
    },
    /// An item of a kind that this version does not know.
    Unknown {
        /// T3's word.
        kind: String,
    },
}

/// What an item changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect {
    /// A thread is new or its row changed.
    ThreadChanged(ThreadId),
    /// A thread's row is gone. No proof that the thread is: a read tells.
    ThreadRemoved(ThreadId),
    /// Some project is new, changed or gone.
    ProjectsChanged,
    /// The machine serves another database than before: nothing that was known of it holds.
    Reset,
}
