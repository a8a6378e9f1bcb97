//! What is wrong with a configuration: where it stands, what is wrong, how to mend it. Values of secrets never stand in it.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// On a line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// A file as a whole.
    WholeFile(PathBuf),
    /// In an environment variable.
    Variable {
        /// Its name.
        name: String,
        /// The file and line that stood in for it, where it was not set.
        file: Option<(PathBuf, usize)>,
    },
    /// With a flag.
    Flag(&'static str),
    /// Nowhere.
    Nowhere,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::WholeFile(path) => write!(f, "{}", path.display()),
            Self::Variable { name, file: None } => write!(f, "environment variable {name}"),
            Self::Variable {
                name,
                file: Some((path, line)),
            } => {
                write!(f, "{}:{line}: {name}", path.display())
            }
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Nowhere => f.write_str("configuration"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// Where.
    pub place: Place,
    /// What, and how to mend it.
    pub problem: String,
}

impl ConfigError {
    /// An error at a place.
    pub(crate) fn new(place: Place, problem: impl Into<String>) -> Self {
        Self {
            place,
            problem: problem.into(),
        }
    }
}

/// Everything that is wrong, in the order in which it stands there; never empty.
#[derive(Clone, Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// The name among `known` that is meant most likely, for "did you mean".
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below it two names have little in common.
    const SIMILAR: f64 = 0.6;
    // The one sees a name that was cut short or goes on, the other swapped letters in a short one.
    let similarity =
        |candidate| strsim::jaro_winkler(name, candidate).max(strsim::normalized_damerau_levenshtein(name, candidate));
    known
        .into_iter()
        .map(|candidate| (similarity(candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
