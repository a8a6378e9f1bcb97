//! Who owns a state directory: one process at a time keeps the ledger, watches and delivers.
//!
//! The lock is the kernel's: it goes with its process, however that ends. Taking it opens nothing else; `cli` takes it before the ledger is
//! opened and keeps it until the ledger is closed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock's file in the state directory. It is never removed: who waits for it holds it open.
pub const OWNER_FILE: &str = "owner.lock";

/// The right to keep the ledger of a state directory, until it is dropped.
#[derive(Debug)]
pub struct Ownership {
    /// Holds the lock by being open.
    _file: File,
}

impl Ownership {
    /// Takes it; none where another process has it.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub fn take(state: &Path) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(state.join(OWNER_FILE))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // For the person who looks: nothing reads it.
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self { _file: file }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn one_has_it_at_a_time_and_it_goes_with_its_owner() {
        let state = tempfile::tempdir().unwrap();
        let first = Ownership::take(state.path()).unwrap();
        assert!(first.is_some());
        assert!(Ownership::take(state.path()).unwrap().is_none());
        drop(first);
        assert!(Ownership::take(state.path()).unwrap().is_some());
    }

    #[test]
    fn a_link_is_not_followed() {
        let state = tempfile::tempdir().unwrap();
        let elsewhere = state.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, state.path().join(OWNER_FILE)).unwrap();
        assert!(Ownership::take(state.path()).is_err());
        assert!(!elsewhere.exists());
    }
}
