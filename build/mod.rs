//! What `build.rs` calls: one function a product, each in files of its own.
//!
//! A plain library without Cargo's environment, so that tests compile it too (`#[path = "../build/mod.rs"] mod build;`) and
//! run it on small inputs. The types of a T3 protocol go through four steps, a file each:
//!
//! 1. `schema`: read the exported contract and `selection.toml`.
//! 2. `normalise`: pick what is selected and say it in forms that come out right (typify mistakes several that T3 uses).
//! 3. `types`: let typify make structs and ids.
//! 4. `open`: make the enums and tagged unions, tolerant or exact, and trim what typify wrote.

pub mod open;
#[path = "shared.rs"]
// The command uses more of it than the build.
#[allow(dead_code)]
pub mod shared;
pub mod types;

pub(crate) mod lifecycle;

use std::path::Path;

use normalise::Direction;
use schema::{Contract, Selection};
pub use shared::{Error, normalise, schema};

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
/// T3's contract of protocol 2, which the table is checked against word by word.
const PROTOCOL_2: &str = "schemas/t3/protocol-2/contract.json";
/// What is taken of it.
const SELECTION: &str = "schemas/selection.toml";
/// What its run statuses and request kinds mean.
const LIFECYCLE: &str = "schemas/lifecycle.toml";

/// Says whether what stands in `schemas/` fits together: everything that does not, one line each.
pub fn check(root: &Path) -> Result<(), String> {
    let contract = Contract::read(root, PROTOCOL_2).map_err(|error| error.line())?;
    let selection = Selection::read(root, SELECTION).map_err(|error| error.line())?;
    let table = std::fs::read_to_string(root.join(LIFECYCLE)).map_err(|error| format!("{LIFECYCLE}: {error}"))?;
    let problems = shared::check::problems(&contract, &selection, &table, "protocol-2");
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
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
    let read = normalise::normalise(contract, selection, Direction::Read)?;
    let sent = normalise::normalise(contract, selection, Direction::Sent)?;
    let file = open::module(contract, &read, &sent)?;
    Ok(prettyplease::unparse(&file))
}
