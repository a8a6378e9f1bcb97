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
mod provenance;
#[path = "shared.rs"]
// The command uses more of it than the build.
#[allow(dead_code)]
pub mod shared;
pub mod types;

pub(crate) mod lifecycle;

use std::path::Path;

use normalise::Direction;
use schema::{Contract, Selection};
use shared::PROTOCOLS;
pub use shared::{Error, normalise, schema};

/// What the words of T3's contracts mean.
const LIFECYCLE: &str = "schemas/lifecycle.toml";

/// Says whether what stands in `schemas/` fits together, protocol by protocol: everything that does not, one line each.
pub fn check(root: &Path) -> Result<(), String> {
    let table = std::fs::read_to_string(root.join(LIFECYCLE)).map_err(|error| format!("{LIFECYCLE}: {error}"))?;
    let mut problems = Vec::new();
    for protocol in PROTOCOLS {
        let contract = Contract::read(root, protocol.contract).map_err(|error| error.line())?;
        let selection = Selection::read(root, protocol.selection).map_err(|error| error.line())?;
        problems.extend(shared::check::problems(&contract, &selection, &table, protocol.name));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n"))
    }
}

/// Writes the types of T3's protocols, from `schemas/t3` by the selections.
pub fn protocol(root: &Path, out: &Path) -> Result<(), Error> {
    for protocol in PROTOCOLS {
        let contract = Contract::read(root, protocol.contract)?;
        let selection = Selection::read(root, protocol.selection)?;
        let mut text = generate(&contract, &selection)?;
        text.push_str(&provenance::constant(root, protocol.provenance)?);
        let file = out.join(format!("protocol_v{}.rs", protocol.number));
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
