//! Who owns a state directory: one process at a time keeps the ledger, watches and delivers.
//!
//! The locks are the kernel's: they go with their process, however that ends. The directory itself is locked, since a file in it may be removed,
//! and such a file besides, since earlier versions look at that one alone. Taking them opens nothing else; `cli` takes them before the ledger
//! is opened and keeps them until the ledger is closed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;

use tokio::sync::oneshot;

/// The lock's file in the state directory. It is never removed: who waits for it holds it open.
pub const OWNER_FILE: &str = "owner.lock";

/// Locked by each process that serves over HTTP.
const SERVING_FILE: &str = "serving.lock";

/// The right to keep the ledger of a state directory, until it is dropped.
#[derive(Debug)]
pub struct Ownership {
    /// These hold the locks by being open.
    _directory: File,
    _file: File,
}

impl Ownership {
    /// Takes it; none where another process has it.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub fn take(state: &Path) -> io::Result<Option<Self>> {
        let directory = File::open(state)?;
        let file = open(state, OWNER_FILE)?;
        for lock in [directory.try_lock(), file.try_lock()] {
            match lock {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(Some(Self::taken(directory, file)))
    }

    /// Waits until nobody else has it. Dropping the future gives up; then the thread that waits for the kernel gives it back when it comes.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub async fn wait(state: &Path) -> io::Result<Self> {
        let directory = File::open(state)?;
        let file = open(state, OWNER_FILE)?;
        let (sender, receiver) = oneshot::channel();
        // The runtime's own threads are few, and it would wait for one that blocks when the process ends.
        thread::Builder::new().name("owner".to_owned()).spawn(move || {
            let locked = lock(&directory).and_then(|()| lock(&file));
            // Nobody waits any more: the files are closed, and the locks with them.
            let _ = sender.send(locked.map(|()| Self::taken(directory, file)));
        })?;
        receiver.await.map_err(io::Error::other)?
    }

    fn taken(directory: File, mut file: File) -> Self {
        // For the person who looks: nothing reads it, and a full disk is no reason to own nothing.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::debug!(%error, "the owner's process id could not be written down");
        }
        Self {
            _directory: directory,
            _file: file,
        }
    }
}

/// Says that this process serves over HTTP, as long as it is kept: others leave the ledger to it.
#[derive(Debug)]
pub struct Serving {
    /// Holds a shared lock by being open: several may serve.
    _file: File,
}

impl Serving {
    /// Says so.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub fn announce(state: &Path) -> io::Result<Self> {
        let file = open(state, SERVING_FILE)?;
        // Nobody holds it alone for longer than it takes to look.
        file.lock_shared()?;
        Ok(Self { _file: file })
    }

    /// Whether a process serves.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub fn by_another(state: &Path) -> io::Result<bool> {
        match open(state, SERVING_FILE)?.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Waits until nobody else has the lock.
fn lock(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn open(state: &Path, name: &str) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(state.join(name))
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
        // Whoever cleans up does not make room for a second one.
        std::fs::remove_file(state.path().join(OWNER_FILE)).unwrap();
        assert!(Ownership::take(state.path()).unwrap().is_none());
        drop(first);
        assert!(Ownership::take(state.path()).unwrap().is_some());
    }

    #[tokio::test]
    async fn who_waits_has_it_when_the_one_before_ends_and_who_gave_up_does_not_keep_it() {
        let state = tempfile::tempdir().unwrap();
        let first = Ownership::take(state.path()).unwrap();
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(20), Ownership::wait(state.path())).await;
        assert!(given_up.is_err());
        let waiting = Ownership::wait(state.path());
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(first);
        let second = waiting.await.unwrap();
        assert!(Ownership::take(state.path()).unwrap().is_none());
        drop(second);
        Ownership::wait(state.path()).await.unwrap();
    }

    #[test]
    fn it_is_known_that_somebody_serves_as_long_as_somebody_does() {
        let state = tempfile::tempdir().unwrap();
        assert!(!Serving::by_another(state.path()).unwrap());
        let (one, two) = (
            Serving::announce(state.path()).unwrap(),
            Serving::announce(state.path()).unwrap(),
        );
        drop(one);
        assert!(Serving::by_another(state.path()).unwrap());
        drop(two);
        assert!(!Serving::by_another(state.path()).unwrap());
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
