//! What pairing got: one file a machine in the state directory, which only its owner may read. It holds the token, and what shows whose it is.
//!
//! As with the bearer, no symbolic link is followed, and a file that others can read is refused: its token is known to them already. A file
//! appears whole or not at all, so whoever reads while another process pairs sees the old one or the new one.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::state::{ROOM, StateDir, StateError, open_own};
use super::values;
use crate::protocol::EnvironmentId;

/// The folder of the state directory that holds them.
const FOLDER: &str = "credentials";
/// What a file's name ends with.
const ENDING: &str = ".json";
/// A file is no longer.
const LONGEST: u64 = 64 * 1024;
/// A draft of a process that is still there is younger: it lies only while a code is exchanged.
const DRAFT_IS_LEFT: Duration = Duration::from_hours(1);
/// What is to be done about a file that cannot be used.
const PAIR_AGAIN: &str = "Remove it, and pair the machine again";

/// A machine's credential.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The machine's name.
    pub machine: String,
    /// Where it was paired: scheme, host and port.
    pub url: Url,
    /// The bearer.
    pub token: SecretString,
    /// The database that the token is of: no other is shown it.
    pub environment: EnvironmentId,
    /// What T3 calls itself.
    pub label: String,
    /// What the token may do.
    pub scopes: Vec<String>,
    /// When it ends, as T3 said.
    pub expires_at: Option<Timestamp>,
    /// When it was got.
    pub paired_at: Timestamp,
    /// The allowlist of a machine that no config describes; none: the config has it.
    pub projects: Option<Vec<String>>,
    /// By which code: the hash of what is worth nothing any more.
    pub spent: String,
}

/// How it lies on disk. A newer version may have written more.
#[derive(Deserialize, Serialize)]
struct Written {
    url: String,
    token: String,
    environment: EnvironmentId,
    #[serde(default)]
    label: String,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    paired_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    projects: Option<Vec<String>>,
    #[serde(default)]
    spent: String,
}

impl Kept {
    /// What is kept of a code that was used.
    pub fn hash(code: &SecretString) -> String {
        let digest = Sha256::digest(code.expose_secret().as_bytes());
        digest.iter().fold(String::new(), |mut hex, byte| {
            use std::fmt::Write as _;
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// The credentials of a state directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Credentials {
    folder: PathBuf,
}

/// What shows that a file was changed: its number, size and time.
pub type Stamp = BTreeMap<String, (u64, u64, i64, i64)>;

/// A place for a credential that is not there yet. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    written_at: PathBuf,
    path: PathBuf,
    file: File,
    machine: String,
}

impl Credentials {
    /// Those of the state directory.
    pub fn of(state: &StateDir) -> Self {
        Self {
            folder: state.path().join(FOLDER),
        }
    }

    /// All of them, by machine; what cannot be used says why. An error: nobody knows which there are.
    pub fn all(&self) -> Result<BTreeMap<String, Result<Kept, StateError>>, StateError> {
        let names = self.names()?.into_iter();
        Ok(names
            .filter_map(|name| Some((name.clone(), self.get(&name).transpose()?)))
            .collect())
    }

    /// The machine's credential; none where there is none.
    pub fn get(&self, machine: &str) -> Result<Option<Kept>, StateError> {
        let path = self.path(machine);
        let broken = |problem: String| StateError::new(&path, problem);
        if !self.is_ours()? {
            return Ok(None);
        }
        let Some(file) = open_own(&path, PAIR_AGAIN)? else {
            return Ok(None);
        };
        let mut text = String::new();
        file.take(LONGEST)
            .read_to_string(&mut text)
            .map_err(|error| broken(format!("cannot be read ({error}). {PAIR_AGAIN}")))?;
        // The parser's own words could repeat the token.
        let written: Written =
            serde_json::from_str(&text).map_err(|_| broken(format!("holds no credential. {PAIR_AGAIN}")))?;
        if written.token.is_empty() || !written.token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(broken(format!("holds no token. {PAIR_AGAIN}")));
        }
        let url =
            values::url(&written.url).map_err(|_| broken(format!("holds an address that is none. {PAIR_AGAIN}")))?;
        let projects = written.projects.map(values::patterns).transpose();
        Ok(Some(Kept {
            machine: machine.to_owned(),
            url,
            token: written.token.into(),
            environment: written.environment,
            label: written.label,
            scopes: written.scopes,
            expires_at: written.expires_at,
            paired_at: written.paired_at,
            projects: projects.map_err(|_| broken(format!("holds no projects. {PAIR_AGAIN}")))?,
            spent: written.spent,
        }))
    }

    /// Makes sure that a credential can be written, before a code is spent for it.
    pub fn prepare(&self, machine: &str) -> Result<Draft, StateError> {
        let made = DirBuilder::new().mode(0o700).create(&self.folder);
        if let Err(error) = made
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(StateError::not_written(&self.folder, &error));
        }
        self.is_ours()?;
        self.sweep(|_, age| age.is_some_and(|age| age > DRAFT_IS_LEFT));
        // What is there and no file of ours is not replaced unseen.
        open_own(&self.path(machine), PAIR_AGAIN)?;
        let draft = self
            .folder
            .join(format!(".{machine}.{}", uuid::Uuid::new_v4().simple()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .map_err(|error| StateError::not_written(&draft, &error))?;
        let mut draft = Draft {
            written_at: draft,
            path: self.path(machine),
            file,
            machine: machine.to_owned(),
        };
        // A full disk gives out files, and nothing to put into them.
        let room = draft.file.write_all(&[b' '; ROOM]).and_then(|()| draft.file.sync_all());
        room.map_err(|error| StateError::not_written(&draft.path, &error))?;
        Ok(draft)
    }

    /// Takes the machine's credential away, whatever it holds, and what a process that ended by force left of one; false where there is none.
    pub fn forget(&self, machine: &str) -> Result<bool, StateError> {
        let path = self.path(machine);
        if !self.is_ours()? {
            return Ok(false);
        }
        self.sweep(|of, _| of == machine);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StateError::new(
                &path,
                format!("cannot be removed ({error}). Remove it by hand"),
            )),
        }
    }

    /// Another one than before where a credential came, went or was replaced.
    pub fn stamp(&self) -> Result<Stamp, StateError> {
        let names = self.names()?.into_iter();
        Ok(names
            .filter_map(|name| {
                let metadata = self.path(&name).symlink_metadata().ok()?;
                let stamp = (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
                Some((name, stamp))
            })
            .collect())
    }

    fn path(&self, machine: &str) -> PathBuf {
        self.folder.join(format!("{machine}{ENDING}"))
    }

    /// The machines that have a file. Drafts and what is no machine's name do not count. Only a folder that is not there has none: one that
    /// cannot be read says nothing of them.
    fn names(&self) -> Result<Vec<String>, StateError> {
        let broken = |error: std::io::Error| {
            StateError::new(
                &self.folder,
                format!("cannot be listed ({error}). Mend its permissions, or what else keeps it from being read"),
            )
        };
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(broken(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(broken)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
            names.extend(name.filter(|name| values::name(name).is_ok()).map(str::to_owned));
        }
        Ok(names)
    }

    /// Removes the drafts that are meant, by machine and age: one that was left may hold a token.
    fn sweep(&self, meant: impl Fn(&str, Option<Duration>) -> bool) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(machine) = name.to_str().and_then(drafted) else {
                continue;
            };
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let age = written.ok().and_then(|written| written.elapsed().ok());
            if meant(machine, age)
                && let Err(error) = std::fs::remove_file(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "what was left of a credential cannot be removed");
            }
        }
    }

    /// Whether the folder is there; an error where it is not ours alone.
    fn is_ours(&self) -> Result<bool, StateError> {
        let broken = |problem: &str| StateError::new(&self.folder, problem);
        match self.folder.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(broken(&format!("cannot be read ({error}). Mend its permissions"))),
            Ok(found) if !found.is_dir() => Err(broken("is no folder, and no link is followed. Remove it")),
            Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => Err(broken(
                "belongs to another user. Remove it, and pair the machines again",
            )),
            Ok(found) if found.mode() & 0o022 != 0 => Err(broken(&format!(
                "can be written by others. Remove it, and pair the machines again; or, if you trust what it holds: chmod 700 {}",
                self.folder.display()
            ))),
            Ok(_) => Ok(true),
        }
    }
}

/// The machine of which a file of this name is a draft.
fn drafted(name: &str) -> Option<&str> {
    let (machine, id) = name.strip_prefix('.')?.rsplit_once('.')?;
    let is_id = uuid::Uuid::try_parse(id).is_ok_and(|parsed| parsed.simple().to_string() == id);
    (is_id && values::name(machine).is_ok()).then_some(machine)
}

impl Draft {
    /// Writes the credential; gives where it lies.
    pub fn keep(mut self, kept: &Kept) -> Result<PathBuf, StateError> {
        let written = Written {
            url: kept.url.to_string(),
            token: kept.token.expose_secret().to_owned(),
            environment: kept.environment.clone(),
            label: kept.label.clone(),
            scopes: kept.scopes.clone(),
            expires_at: kept.expires_at,
            paired_at: kept.paired_at,
            projects: kept.projects.clone(),
            spent: kept.spent.clone(),
        };
        let text = serde_json::to_string_pretty(&written)
            .map_err(|_| StateError::new(&self.path, "cannot be written: the credential makes no JSON"))?;
        let on_disk = self
            .file
            .seek(SeekFrom::Start(0))
            // Over what was kept free for it.
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.stream_position())
            .and_then(|end| self.file.set_len(end))
            .and_then(|()| self.file.sync_all())
            .and_then(|()| std::fs::rename(&self.written_at, &self.path))
            .and_then(|()| File::open(self.path.parent().unwrap_or(&self.path))?.sync_all());
        on_disk.map_err(|error| StateError::not_written(&self.path, &error))?;
        Ok(self.path.clone())
    }

    /// Whose it will be.
    pub fn machine(&self) -> &str {
        &self.machine
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Once it was kept there is none any more.
        let _ = std::fs::remove_file(&self.written_at);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;

    fn credentials(dir: &Path) -> Credentials {
        Credentials::of(&StateDir::open(&dir.join("s")).unwrap())
    }

    fn kept() -> Kept {
        Kept {
            machine: "mac".to_owned(),
            url: "http://127.0.0.1:3773".parse().unwrap(),
            token: "sesame.sesame".into(),
            environment: EnvironmentId("env".to_owned()),
            label: "vm".to_owned(),
            scopes: vec!["orchestration:read".to_owned()],
            expires_at: Some("2027-01-01T00:00:00Z".parse().unwrap()),
            paired_at: "2026-12-01T00:00:00Z".parse().unwrap(),
            projects: Some(vec!["*".to_owned()]),
            spent: Kept::hash(&"CODE".into()),
        }
    }

    #[test]
    fn a_credential_is_read_as_it_was_kept_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        assert!(credentials.get("mac").unwrap().is_none() && credentials.all().unwrap().is_empty());
        let before = credentials.stamp().unwrap();
        let path = credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        assert_ne!(credentials.stamp().unwrap(), before);
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let read = credentials.get("mac").unwrap().unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", kept()));
        assert_eq!(read.token.expose_secret(), "sesame.sesame");
        let between = credentials.stamp().unwrap();
        credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        assert_ne!(credentials.stamp().unwrap(), between, "the same again is another file");
        let draft = credentials.prepare("mac").unwrap();
        let room = draft.file.metadata().unwrap().len();
        assert_eq!(
            room,
            u64::try_from(ROOM).unwrap(),
            "a full disk shows before a code is spent"
        );
        drop(draft);
        assert!(
            std::fs::read_to_string(&path).unwrap().ends_with("}\n"),
            "the room is given back"
        );
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no draft stays behind"
        );
        assert!(credentials.forget("mac").unwrap() && !credentials.forget("mac").unwrap());
        assert_eq!(credentials.stamp().unwrap(), before);
    }

    #[test]
    fn what_a_killed_process_left_of_a_credential_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let path = credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        let left = |machine: &str, hours: u64| {
            let draft = path.with_file_name(format!(".{machine}.{}", uuid::Uuid::new_v4().simple()));
            std::fs::write(&draft, "sesame").unwrap();
            let written = std::time::SystemTime::now() - Duration::from_hours(hours);
            File::options()
                .write(true)
                .open(&draft)
                .unwrap()
                .set_modified(written)
                .unwrap();
            draft
        };
        let (old, young, other) = (left("box", 2), left("mac", 0), left("box.two", 0));
        let foreign = path.with_file_name(".mac.notes");
        std::fs::write(&foreign, "").unwrap();
        drop(credentials.prepare("mac").unwrap());
        assert!(!old.exists() && young.exists() && other.exists());
        assert!(credentials.forget("mac").unwrap());
        assert!(!young.exists() && other.exists() && foreign.exists());
    }

    #[test]
    fn links_open_files_and_nonsense_are_refused_without_a_word_of_the_token() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let path = credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        let refused = |wanted: &str| {
            let said = credentials.get("mac").unwrap_err().to_string();
            assert!(said.contains(wanted) && !said.contains("sesame"), "{said}");
            assert!(credentials.all().unwrap()["mac"].is_err());
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        refused("others can read it");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "{\"token\": \"sesame\"").unwrap();
        refused("no credential");
        let elsewhere = dir.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        refused("symbolic link");
        assert!(credentials.prepare("mac").is_err(), "nor is one written through");
        let folder = path.parent().unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_dir(folder).unwrap();
        symlink(dir.path(), folder).unwrap();
        assert!(credentials.prepare("mac").is_err() && credentials.get("mac").is_err());
    }

    #[test]
    fn a_file_of_another_name_is_no_machines() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let path = credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        for name in ["..json", ".draft.json", "a b.json", "mac.txt"] {
            std::fs::write(path.with_file_name(name), "{}").unwrap();
        }
        assert_eq!(credentials.all().unwrap().len(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let credentials = credentials(dir.path());
        let path = credentials.prepare("mac").unwrap().keep(&kept()).unwrap();
        let folder = path.parent().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert!(credentials.all().unwrap().is_empty());
        // Whoever runs the test: nobody can list this one.
        std::fs::write(folder, "").unwrap();
        let said = credentials.all().unwrap_err().to_string();
        assert!(said.contains("cannot be listed"), "{said}");
        assert!(credentials.stamp().is_err());
    }
}
