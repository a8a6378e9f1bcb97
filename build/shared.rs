//! What the build shares with the command `schema`: reading what stands in `schemas/`, and whether it fits together.
//!
//! Nothing here makes Rust, so that the program needs none of the packages that do.

pub mod check;
pub mod normalise;
pub mod schema;
pub mod tables;

/// What is wrong with a schema, for the person who changed it.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {at}: {what}\n  to mend it: {mend}")]
pub struct Error {
    /// The file, relative to the repository.
    pub file: String,
    /// Type and field (`Run.status`), or the key of a table.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub mend: String,
}

impl Error {
    /// An error at a place.
    pub fn new(file: &str, at: &str, what: impl Into<String>, mend: &str) -> Self {
        Self {
            file: file.into(),
            at: at.into(),
            what: what.into(),
            mend: mend.into(),
        }
    }

    /// The same on one line.
    pub fn line(&self) -> String {
        format!("{}: {}: {}: {}", self.file, self.at, self.what, self.mend)
    }
}
