//! What the build shares with the command `schema`: reading what stands in `schemas/`, and whether it fits together.
//!
//! Nothing here makes Rust, so that the program needs none of the packages that do.

pub mod check;
pub mod normalise;
pub mod schema;
pub mod tables;

/// Where the files of one of T3's protocols are, from the root of the repository.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// Its number.
    pub number: u32,
    /// How the lifecycle's mapping names it.
    pub name: &'static str,
    /// What T3 says.
    pub contract: &'static str,
    /// Which T3 that is.
    pub provenance: &'static str,
    /// What is taken of it.
    pub selection: &'static str,
}

/// T3's protocols, the newest first.
pub const PROTOCOLS: [Protocol; 2] = [
    Protocol {
        number: 2,
        name: "protocol-2",
        contract: "schemas/t3/protocol-2/contract.json",
        provenance: "schemas/t3/protocol-2/provenance.toml",
        selection: "schemas/selection.toml",
    },
    Protocol {
        number: 1,
        name: "protocol-1",
        contract: "schemas/t3/protocol-1/contract.json",
        provenance: "schemas/t3/protocol-1/provenance.toml",
        selection: "schemas/selection-protocol-1.toml",
    },
];

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
