//! What T3 sends, in the domain's words, for who has it from elsewhere than a connection: tests that keep the clock themselves.
//!
//! The same reading as a connection's, of protocol 2.

use serde_json::value::RawValue;

use super::dialect::{Dialect as _, Protocol2};
use super::domain::Thread;
use super::error::MachineError;
use super::mirror::{ArchiveItem, ShellItem};

/// An item of the shell stream.
pub fn shell_item(value: &RawValue) -> Result<ShellItem, MachineError> {
    Protocol2.read_shell_item(value)
}

/// An item of the stream of archived threads.
pub fn archive_item(value: &RawValue) -> Result<ArchiveItem, MachineError> {
    Protocol2.read_archive_item(value)
}

/// The answer to a read of a thread.
pub fn thread(body: &str) -> Result<Thread, MachineError> {
    Protocol2.read_thread(body.as_bytes())
}
