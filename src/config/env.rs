//! The environment, and the files that stand in for it. It holds secrets: it has no `Debug`, and its errors show no value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Place};
use super::file::read_text;

/// Environment variables by name; a variable of the process wins over one of a file. An empty one counts as not set.
#[derive(Clone, Default)]
pub struct Environment {
    process: BTreeMap<String, String>,
    file: BTreeMap<String, (String, usize)>,
    path: PathBuf,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        // What is not Unicode can be no setting of ours.
        Self::from_pairs(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        )
    }

    /// An environment of these variables.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self {
            process: pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            ..Self::default()
        }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        let process = self
            .process
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty());
        process.or_else(|| {
            self.file
                .get(name)
                .map(|(value, _)| value.as_str())
                .filter(|value| !value.is_empty())
        })
    }

    /// Where a variable stands, for errors.
    pub fn place(&self, name: &str) -> Place {
        let in_process = self.process.get(name).is_some_and(|value| !value.is_empty());
        Place::Variable {
            name: name.to_owned(),
            file: self
                .file
                .get(name)
                .filter(|_| !in_process)
                .map(|(_, line)| (self.path.clone(), *line)),
        }
    }

    /// The names of all variables that are set.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.process.keys().chain(self.file.keys()).map(String::as_str)
    }

    /// Reads a file of `NAME=value` lines.
    pub(super) fn read(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = read_text(path)?;
        for (index, line) in text.lines().enumerate() {
            let parsed = assignment(line).map_err(|problem| {
                let place = Place::File {
                    path: path.to_owned(),
                    line: index + 1,
                };
                ConfigError::new(place, problem)
            })?;
            if let Some((name, value)) = parsed {
                self.file.insert(name.to_owned(), (value.to_owned(), index + 1));
            }
        }
        path.clone_into(&mut self.path);
        Ok(())
    }
}

/// One line: `NAME=value`, `export NAME=value`, a comment, or nothing. Quotes around the whole value are taken off; nothing is
/// substituted, so that a `$` in a token stays one. (The crates for this substitute, and put the line, a secret, into their errors.)
fn assignment(line: &str) -> Result<Option<(&str, &str)>, &'static str> {
    const SHAPE: &str = "is no line of the form NAME=value. Write one variable a line, comments with # in front";
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = line.split_once('=').ok_or(SHAPE)?;
    let name = name.trim_end();
    if !is_variable_name(name) {
        return Err(SHAPE);
    }
    let value = value.trim();
    for quote in ['"', '\''] {
        let Some(rest) = value.strip_prefix(quote) else {
            continue;
        };
        let Some((inner, after)) = rest.split_once(quote) else {
            return Err("opens a quote that it does not close. Close it, or leave the quotes out");
        };
        let after = after.trim_start();
        if !(after.is_empty() || after.starts_with('#')) {
            return Err("has more after the closing quote. Put the whole value between the quotes");
        }
        return Ok(Some((name, inner)));
    }
    // A comment behind a bare value begins after a blank; a `#` inside it belongs to it.
    let value = value.split_once(" #").map_or(value, |(value, _)| value.trim_end());
    Ok(Some((name, value)))
}

/// Whether a variable can have this name.
pub(super) fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.as_bytes().first().is_some_and(u8::is_ascii_digit)
}

/// Why a file in the working directory is not to be trusted: it must belong to the user, and nobody else may write it.
pub(super) fn distrust(path: &Path) -> std::io::Result<Option<String>> {
    use std::os::unix::fs::MetadataExt as _;
    let me = rustix::process::geteuid().as_raw();
    let named = path.display();
    // The link, too: a stranger's link would choose which of the user's files is read.
    for metadata in [std::fs::symlink_metadata(path)?, std::fs::metadata(path)?] {
        if metadata.uid() != me {
            return Ok(Some(format!(
                "it belongs to another user. To read it anyway: --env-file {named}"
            )));
        }
        if metadata.is_symlink() {
            continue;
        }
        if !metadata.is_file() {
            return Ok(Some("it is no file".to_owned()));
        }
        if metadata.mode() & 0o022 != 0 {
            return Ok(Some(format!(
                "others can write it. To have it read: chmod go-w {named}"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_a_shell_user_means_it() {
        for (line, meant) in [
            ("A=1", Some(("A", "1"))),
            ("  export A = x y ", Some(("A", "x y"))),
            ("A=\"a # b\" # c", Some(("A", "a # b"))),
            ("A='it $HOME'", Some(("A", "it $HOME"))),
            ("A=to#ken # why", Some(("A", "to#ken"))),
            ("A=", Some(("A", ""))),
            ("# A=1", None),
            ("", None),
        ] {
            assert_eq!(assignment(line).unwrap(), meant, "{line}");
        }
    }

    #[test]
    fn a_line_that_is_none_is_refused_without_being_shown() {
        for line in ["secret", "1A=secret", "A B=secret", "A='secret", "A=\"x\"secret"] {
            assert!(!assignment(line).unwrap_err().contains("secret"), "{line}");
        }
    }

    #[test]
    fn the_process_wins_over_the_file_and_an_empty_variable_is_none() {
        let mut environment = Environment::from_pairs([("A", "process"), ("B", "")]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        std::fs::write(&path, "A=file\nB=file\nC=\n").unwrap();
        environment.read(&path).unwrap();
        assert_eq!(environment.get("A"), Some("process"));
        assert_eq!(environment.get("B"), Some("file"));
        assert_eq!(environment.get("C"), None);
        assert_eq!(environment.place("B").to_string(), format!("{}:2: B", path.display()));
        assert_eq!(environment.place("A").to_string(), "environment variable A");
    }
}
