//! What the streams bring, on its way into the mirror: what cannot be read is reported and left out, what nobody knows is counted.

use std::mem;

use serde_json::value::RawValue;
use tracing::warn;

use super::LOGGED_CHARS;
use crate::machine::Core;
use crate::machine::dialect::Dialect;
use crate::machine::domain::ThreadRow;
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, ShellItem};
use crate::machine::socket::StreamEnd;
use crate::machine::state::StreamItem;
use crate::machine::unread::Unread;
use crate::protocol::Untrusted;

#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Shell,
    Archive,
}

/// Applies a chunk; true if a thread left the shell. An item that cannot be read is reported and left out: one thread must not take the
/// machine away.
pub(super) fn apply(
    core: &Core,
    dialect: &dyn Dialect,
    stream: Stream,
    values: &[Box<RawValue>],
    unread: &mut Unread,
) -> bool {
    let before = unread.error().is_some();
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        let item = match stream {
            Stream::Shell => dialect.read_shell_item(value).map(StreamItem::Shell),
            Stream::Archive => dialect.read_archive_item(value).map(StreamItem::Archive),
        };
        match item {
            Ok(item) => items.push(item),
            Err(error) => {
                let problem = error.to_string();
                if unread.handle_unreadable(matches!(stream, Stream::Archive), &problem) {
                    unreadable(&problem);
                }
            }
        }
    }
    let is_removal = |item: &StreamItem| matches!(item, StreamItem::Shell(ShellItem::ThreadRemoved { .. }));
    let removed = items.iter().any(is_removal);
    handle(core, items, unread);
    let error = unread.error();
    if before || error.is_some() {
        core.state.handle_status(|status| status.error = error);
    }
    removed
}

/// Takes items in: what they leave unread, the words that nobody knows, and then the mirror.
pub(super) fn handle(core: &Core, mut items: Vec<StreamItem>, unread: &mut Unread) {
    for item in &mut items {
        if let Some(problem) = unread.handle_item(item) {
            unreadable(&problem);
        }
        core.state.handle_unknown_words(take_unknown_words(item));
    }
    if core.state.handle_items(items) {
        core.reads.forget_all();
    }
}

/// The mirror keeps a row for long, and has no use for these.
fn take_unknown_words(item: &mut StreamItem) -> Vec<String> {
    let of_rows = |rows: &mut [ThreadRow]| {
        let rows = rows.iter_mut();
        rows.flat_map(|row| mem::take(&mut row.unknown_words)).collect()
    };
    match item {
        StreamItem::Shell(ShellItem::Snapshot(snapshot)) => of_rows(&mut snapshot.threads),
        StreamItem::Shell(ShellItem::ThreadUpdated(row)) | StreamItem::Archive(ArchiveItem::Updated(row)) => {
            mem::take(&mut row.unknown_words)
        }
        StreamItem::Archive(ArchiveItem::Snapshot { threads, .. }) => of_rows(threads),
        // The shell's own marker, should a server send it here too: no word that we do not know.
        StreamItem::Archive(ArchiveItem::Unknown { kind }) if kind == "synchronized" => Vec::new(),
        StreamItem::Shell(ShellItem::Unknown { kind }) | StreamItem::Archive(ArchiveItem::Unknown { kind }) => {
            vec![format!("stream item `{kind}`")]
        }
        StreamItem::Shell(
            ShellItem::Metadata
            | ShellItem::ThreadUnreadable { .. }
            | ShellItem::ThreadRemoved { .. }
            | ShellItem::ProjectUpdated { .. }
            | ShellItem::ProjectRemoved { .. }
            | ShellItem::Synchronized,
        )
        | StreamItem::Archive(ArchiveItem::Unreadable { .. } | ArchiveItem::Removed { .. }) => Vec::new(),
    }
}

fn unreadable(problem: &str) {
    warn!(problem = %Untrusted(problem).at_most(LOGGED_CHARS), "something of the shell cannot be read and is left out");
}

pub(super) fn ended(end: StreamEnd) -> MachineError {
    match end.error {
        Some(error) => error.for_read(),
        None => MachineError::Unreachable {
            reason: "T3 ended the stream of its shell".to_owned(),
        },
    }
}
