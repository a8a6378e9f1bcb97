//! The state directory, which only its owner may enter, and the bearer that is kept in it.
//!
//! Whoever can read the bearer can run agents on every machine, so nothing here follows a symbolic link in the directory, and a file
//! that others can read is refused instead of mended: its secret is known to them already.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;

/// The file that holds the generated bearer.
const BEARER_FILE: &str = "bearer";
/// A bearer's file is no longer.
const LONGEST_BEARER: u64 = 4096;
/// What is to be done about a bearer's file that cannot be used.
const NEW_BEARER: &str = "Remove it; a new bearer is made";
/// What a file of ours takes at least.
pub(super) const ROOM: usize = 16 * 1024;
/// Endings by which a path that is not there yet is a file's.
const FILE_ENDINGS: &[&str] = &["db", "json", "sqlite", "sqlite3", "toml"];

/// What is wrong with the state directory or a file in it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct StateError {
    /// The directory or file.
    pub path: PathBuf,
    /// What is wrong, and how to mend it.
    pub problem: String,
}

impl StateError {
    pub(super) fn new(path: &Path, problem: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    /// It could not be written.
    pub fn not_written(path: &Path, error: &std::io::Error) -> Self {
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "Make room",
            _ => "See that you can write there",
        };
        Self::new(
            path,
            format!("cannot be written ({error}). {remedy}, or name another directory with --state-dir"),
        )
    }
}

/// The state directory: there, ours, and closed to others.
#[derive(Clone, Debug)]
pub struct StateDir {
    directory: PathBuf,
    /// The file by which it was named.
    named_by: Option<PathBuf>,
}

/// The endpoint's default bearer.
#[derive(Debug)]
pub struct Bearer {
    /// The token.
    pub token: SecretString,
    /// Where it lies.
    pub path: PathBuf,
    /// It was made just now.
    pub created: bool,
}

impl StateDir {
    /// Makes the directory, or checks the one that is there. A path to a file means the file's directory.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let (directory, named_by) = match directory_of(path) {
            Some(directory) => (directory, Some(path.to_owned())),
            None => (path.to_owned(), None),
        };
        let broken = |problem: String| StateError::new(&directory, problem);
        if !directory.exists() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .map_err(|error| {
                    broken(format!(
                        "cannot be made ({error}). Name a directory of your own with --state-dir"
                    ))
                })?;
        }
        let metadata = directory.metadata().map_err(|error| {
            broken(format!(
                "cannot be read ({error}). Name a directory of your own with --state-dir"
            ))
        })?;
        if !metadata.is_dir() {
            return Err(broken("is no directory. Name one with --state-dir".to_owned()));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(broken(
                "belongs to another user. Name a directory of your own with --state-dir".to_owned(),
            ));
        }
        if metadata.mode() & 0o077 != 0 {
            close(&directory).map_err(broken)?;
        }
        Ok(Self { directory, named_by })
    }

    /// The directory if it is there; looking makes nothing.
    pub fn existing(path: &Path) -> Result<Option<Self>, StateError> {
        let directory = directory_of(path).unwrap_or_else(|| path.to_owned());
        if directory.exists() {
            Self::open(path).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether a file can be made in it and hold something; nothing stays behind.
    pub fn check_writable(&self) -> Result<(), StateError> {
        let draft = self
            .directory
            .join(format!(".writable.{}", uuid::Uuid::new_v4().simple()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| {
                file.write_all(&[0; ROOM])?;
                file.sync_all()
            });
        let _ = std::fs::remove_file(&draft);
        written.map_err(|error| StateError::not_written(&self.directory, &error))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where the ledger lies: in the directory under its usual name, or beside the file that named the directory, as `<name>.db`.
    pub fn ledger(&self, usual: &str) -> PathBuf {
        match &self.named_by {
            Some(file) => file.with_extension("db"),
            None => self.directory.join(usual),
        }
    }

    /// The file that named the directory, where it is not the ledger itself. It need not be there.
    pub fn named_by(&self) -> Option<&Path> {
        let file = self.named_by.as_deref()?;
        (file.with_extension("db") != file).then_some(file)
    }

    /// The bearer that is kept here; made at the first call.
    pub fn bearer(&self) -> Result<Bearer, StateError> {
        let path = self.directory.join(BEARER_FILE);
        if let Some(token) = read_bearer(&path)? {
            return Ok(Bearer {
                token,
                path,
                created: false,
            });
        }
        let created = self.create_bearer(&path)?;
        let token =
            read_bearer(&path)?.ok_or_else(|| StateError::new(&path, "vanished while it was read. Start again"))?;
        Ok(Bearer { token, path, created })
    }

    /// Writes a new bearer, unless another process was quicker: the file appears whole or not at all.
    fn create_bearer(&self, path: &Path) -> Result<bool, StateError> {
        let broken = |error: std::io::Error| StateError::not_written(path, &error);
        // 244 random bits from the system, in visible ASCII.
        let token = format!(
            "t3mcp_{}{}",
            uuid::Uuid::new_v4().simple(),
            uuid::Uuid::new_v4().simple()
        );
        let draft = self
            .directory
            .join(format!(".{BEARER_FILE}.{}", uuid::Uuid::new_v4().simple()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut file| {
                file.write_all(token.as_bytes())?;
                file.write_all(b"\n")?;
                file.sync_all()
            })
            .and_then(|()| std::fs::hard_link(&draft, path));
        let _ = std::fs::remove_file(&draft);
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(broken(error)),
        }
    }
}

/// The directory of the file that a path names; none where it names a directory.
fn directory_of(path: &Path) -> Option<PathBuf> {
    let ends_like_a_file = path
        .extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| FILE_ENDINGS.contains(&ending));
    if path.is_file() || (ends_like_a_file && !path.exists()) {
        return Some(path.parent().unwrap_or(path).to_owned());
    }
    None
}

/// Closes a directory to others if nothing is in it yet; one in use is the operator's to close.
fn close(directory: &Path) -> Result<(), String> {
    let empty = std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    if !empty {
        return Err(format!(
            "others can enter it, and it is to hold secrets. Name a directory of its own with --state-dir, or: chmod 700 {}",
            directory.display()
        ));
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .map_err(|error| format!("cannot be closed to others ({error})"))
}

/// The bearer in a file; none where there is no file.
fn read_bearer(path: &Path) -> Result<Option<SecretString>, StateError> {
    let broken = |problem: String| StateError::new(path, problem);
    let Some(file) = open_own(path, NEW_BEARER)? else {
        return Ok(None);
    };
    let mut text = String::new();
    file.take(LONGEST_BEARER)
        .read_to_string(&mut text)
        .map_err(|error| broken(format!("cannot be read ({error}). {NEW_BEARER}")))?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(broken(format!("holds no token. {NEW_BEARER}")));
    }
    Ok(Some(SecretString::from(token)))
}

/// Opens a file that holds a secret, without following links; none where there is none. One that is not ours, or not closed to others, is
/// refused, with what to do about it.
pub(super) fn open_own(path: &Path, remedy: &str) -> Result<Option<File>, StateError> {
    let broken = |problem: String| StateError::new(path, format!("{problem}. {remedy}"));
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK)
                .bits()
                .cast_signed(),
        )
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if path.is_symlink() => {
            return Err(broken(format!("is a symbolic link, which is not followed ({error})")));
        }
        Err(error) => return Err(broken(format!("cannot be read ({error})"))),
    };
    own_and_closed(&file).map_err(broken)?;
    Ok(Some(file))
}

fn own_and_closed(file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(|error| format!("cannot be read ({error})"))?;
    if !metadata.is_file() {
        return Err("is no file".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("belongs to another user".to_owned());
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others can read it (mode {mode:04o}), so its token is not secret any more"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use secrecy::ExposeSecret as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn the_bearer_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("a/b")).unwrap();
        let first = state.bearer().unwrap();
        let second = state.bearer().unwrap();
        assert!(first.created && !second.created);
        assert_eq!(first.token.expose_secret(), second.token.expose_secret());
        assert_eq!((mode(state.path()), mode(&first.path)), (0o700, 0o600));
        assert_eq!(
            std::fs::read_dir(state.path()).unwrap().count(),
            1,
            "no draft stays behind"
        );
    }

    #[test]
    fn two_processes_that_start_at_once_agree_on_one_bearer() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| state.bearer().unwrap().token.expose_secret().to_owned()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }

    #[test]
    fn a_link_in_place_of_the_bearer_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::write(&elsewhere, "stolen").unwrap();
        symlink(&elsewhere, state.path().join(BEARER_FILE)).unwrap();
        assert!(state.bearer().unwrap_err().to_string().contains("symbolic link"));
        std::fs::remove_file(&elsewhere).unwrap();
        assert!(state.bearer().is_err(), "nor is one that points nowhere");
        assert!(!elsewhere.exists());
    }

    #[test]
    fn a_bearer_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        let bearer = state.bearer().unwrap();
        std::fs::set_permissions(&bearer.path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let message = state.bearer().unwrap_err().to_string();
        assert!(message.contains("others can read it"), "{message}");
        assert!(!message.contains(bearer.token.expose_secret()));
    }

    #[test]
    fn what_cannot_be_written_is_told_with_what_helps() {
        let told = |kind: ErrorKind| StateError::not_written(Path::new("/s"), &kind.into()).to_string();
        assert!(told(ErrorKind::StorageFull).contains("Make room, or name another directory"));
        assert!(told(ErrorKind::ReadOnlyFilesystem).contains("See that you can write there, or name"));
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("s")).unwrap();
        state.check_writable().unwrap();
        assert_eq!(
            std::fs::read_dir(state.path()).unwrap().count(),
            0,
            "nothing stays behind"
        );
        std::fs::remove_dir(state.path()).unwrap();
        assert!(state.check_writable().unwrap_err().to_string().contains("--state-dir"));
    }

    #[test]
    fn a_file_means_its_directory_and_an_open_directory_is_closed_only_while_empty() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let state = StateDir::open(&open.join("state.json")).unwrap();
        assert_eq!((state.path(), mode(&open)), (open.as_path(), 0o700));
        assert_eq!(state.ledger("usual.db"), open.join("state.db"));
        assert_eq!(state.named_by(), Some(open.join("state.json").as_path()));
        let itself = StateDir::open(&open.join("other.db")).unwrap();
        assert_eq!(
            (itself.ledger("usual.db"), itself.named_by()),
            (open.join("other.db"), None)
        );
        let usual = StateDir::open(&open).unwrap();
        assert_eq!(
            (usual.ledger("usual.db"), usual.named_by()),
            (open.join("usual.db"), None)
        );
        std::fs::write(open.join("state.json"), "").unwrap();
        assert_eq!(StateDir::open(&open.join("state.json")).unwrap().path(), open);
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(StateDir::open(&open).unwrap_err().to_string().contains("chmod 700"));
        assert_eq!(mode(&open), 0o755);
    }
}
