//! What `build.rs` calls: one function a product, each in files of its own.
//!
//! A plain library without Cargo's environment, so that tests compile it too (`#[path = "../build/mod.rs"] mod build;`) and
//! run it on small inputs. The types of a T3 protocol go through four steps, a file each:
//!
//! 1. `schema`: read the exported contract and `selection.toml`.
//! 2. `normalise`: pick what is selected and say it in forms that come out right (typify mistakes several that T3 uses).
//! 3. `types`: let typify make structs and ids.
//! 4. `open`: make the enums and tagged unions, tolerant or exact, and trim what typify wrote.

pub mod normalise;
pub mod open;
pub mod schema;
pub mod types;

pub(crate) mod lifecycle;

use std::path::Path;

use schema::{Contract, Selection};

/// T3's contracts, what is taken of each, and the file that it becomes.
const PROTOCOLS: [(&str, &str, &str); 2] = [
    (
        "schemas/t3/protocol-1/contract.json",
        "schemas/selection-protocol-1.toml",
        "protocol_v1.rs",
    ),
    (
        "schemas/t3/protocol-2/contract.json",
        "schemas/selection.toml",
        "protocol_v2.rs",
    ),
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
}

/// Writes the types of T3's protocols, from `schemas/t3` by the selections.
pub fn protocol(root: &Path, out: &Path) -> Result<(), Error> {
    for (contract, selection, file) in PROTOCOLS {
        let contract = Contract::read(root, contract)?;
        let selection = Selection::read(root, selection)?;
        let text = generate(&contract, &selection)?;
        let file = out.join(file);
        std::fs::write(&file, text).map_err(|error| {
            Error::new(
                &file.to_string_lossy(),
                "the file",
                error.to_string(),
                "see that cargo can write into its target directory, and that there is room",
            )
        })?;
    }
    Ok(())
}

/// The Rust text of what is selected of a contract.
pub fn generate(contract: &Contract, selection: &Selection) -> Result<String, Error> {
    selection.check(contract)?;
    let read = normalise::normalise(contract, selection, &selection.read.roots)?;
    let sent = normalise::normalise(contract, selection, &selection.sent.roots)?;
    let file = open::module(contract, &read, &sent)?;
    Ok(prettyplease::unparse(&file))
}
