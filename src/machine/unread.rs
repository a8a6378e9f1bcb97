//! What of a machine's shell cannot be read at the moment, as one error for its status.
//!
//! One bad row must neither take the machine away nor go unnoticed. Fed by the connection with every item, in the order of the
//! streams; what becomes readable again is forgotten.

use std::collections::BTreeMap;

use super::error::MachineError;
use super::mirror::{ArchiveItem, ShellItem, UnreadRow};
use super::state::StreamItem;
use crate::protocol::ThreadId;

/// What cannot be read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    shell: Stream,
    archive: Stream,
}

/// The same of one stream.
#[derive(Debug, Default)]
struct Stream {
    threads: BTreeMap<ThreadId, String>,
    /// Rows of the last snapshot of which not even the thread is known.
    rows: Vec<String>,
    /// The last item that could not be read at all.
    item: Option<String>,
}

impl Unread {
    /// The error to show; none where all can be read.
    pub(super) fn error(&self) -> Option<MachineError> {
        let problems: Vec<_> = self.shell.problems().chain(self.archive.problems()).collect();
        let first = problems.first()?;
        Some(MachineError::Decode(match problems.len() {
            1 => format!("one thread or project of the shell is left out, since it cannot be read: {first}"),
            count => format!(
                "{count} threads or projects of the shell are left out, since they cannot be read, the first: {first}"
            ),
        }))
    }

    /// An item came; what is newly unreadable, for the log.
    pub(super) fn handle_item(&mut self, item: &StreamItem) -> Option<String> {
        match item {
            StreamItem::Shell(ShellItem::Snapshot(snapshot)) => self.shell.rebase(&snapshot.unread),
            StreamItem::Shell(ShellItem::ThreadUpdated(row)) => self.shell.readable(&row.id),
            StreamItem::Shell(ShellItem::ThreadRemoved { thread, .. }) => self.shell.readable(thread),
            StreamItem::Shell(ShellItem::ThreadUnreadable { thread, problem, .. }) => {
                self.shell.unreadable(thread, problem)
            }
            StreamItem::Archive(ArchiveItem::Snapshot { unread, .. }) => self.archive.rebase(unread),
            StreamItem::Archive(ArchiveItem::Updated(row)) => self.archive.readable(&row.id),
            StreamItem::Archive(ArchiveItem::Removed { thread, .. }) => self.archive.readable(thread),
            StreamItem::Archive(ArchiveItem::Unreadable { thread, problem, .. }) => {
                self.archive.unreadable(thread, problem)
            }
            StreamItem::Shell(
                ShellItem::Metadata
                | ShellItem::ProjectUpdated { .. }
                | ShellItem::ProjectRemoved { .. }
                | ShellItem::Synchronized
                | ShellItem::Unknown { .. },
            )
            | StreamItem::Archive(ArchiveItem::Unknown { .. }) => None,
        }
    }

    /// An item of the shell or of the archive could not be read at all; true if the one before could.
    pub(super) fn handle_unreadable(&mut self, archive: bool, problem: &str) -> bool {
        let stream = if archive { &mut self.archive } else { &mut self.shell };
        stream.item.replace(problem.to_owned()).is_none()
    }
}

impl Stream {
    fn problems(&self) -> impl Iterator<Item = &String> {
        self.threads.values().chain(&self.rows).chain(&self.item)
    }

    fn rebase(&mut self, unread: &[UnreadRow]) -> Option<String> {
        *self = Self::default();
        for row in unread {
            match &row.thread {
                Some(thread) => drop(self.threads.insert(thread.clone(), row.problem.clone())),
                None => self.rows.push(row.problem.clone()),
            }
        }
        let first = unread.first()?;
        Some(format!("{} of its rows, the first: {}", unread.len(), first.problem))
    }

    /// Something readable came of a thread.
    fn readable(&mut self, thread: &ThreadId) -> Option<String> {
        self.threads.remove(thread);
        self.item = None;
        None
    }

    /// Once a thread: the same trouble comes with each change of it.
    fn unreadable(&mut self, thread: &ThreadId, problem: &str) -> Option<String> {
        let known = self.threads.insert(thread.clone(), problem.to_owned());
        known.is_none().then(|| problem.to_owned())
    }
}

#[cfg(test)]
mod tests;
