//! Compiles `schemas/lifecycle.toml` to Rust: parse → check → generate, each testable alone.
//!
//! [`compile`] is pure: the table and the exported schemas go in as text and values, Rust text or the refusals come out. A table
//! that leaves anything open never becomes code, so what is generated is total by construction.

#[path = "lifecycle/diagram.rs"]
mod diagram;
#[path = "lifecycle/generate.rs"]
mod generate;
#[path = "lifecycle/machines.rs"]
mod machines;
#[path = "lifecycle/spoken.rs"]
mod spoken;
// The command uses more of it than the build.
#[allow(dead_code)]
#[path = "tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

pub(crate) use tables::Refused;
use tables::{TABLE, model};

/// Writes `lifecycle.rs` into `out`.
pub(crate) fn build(root: &Path, out: &Path) -> Result<(), Refused> {
    let text = read(&root.join(TABLE))?;
    let model = model::parse(&text)?;
    let mut schemas = BTreeMap::new();
    for protocol in model.mapping.keys() {
        let path = root.join("schemas/t3").join(protocol.get_ref()).join("contract.json");
        let schema = serde_json::from_str(&read(&path)?)
            .map_err(|error| Refused(vec![format!("{}: {error}", path.display())]))?;
        schemas.insert(protocol.get_ref().clone(), schema);
    }
    let rust = compile(&text, &schemas)?;
    let path = out.join("lifecycle.rs");
    std::fs::write(&path, rust).map_err(|error| Refused(vec![format!("{}: {error}", path.display())]))
}

/// The Rust text of a table, checked against the schema of each protocol that it maps.
pub(crate) fn compile(table: &str, schemas: &BTreeMap<String, Value>) -> Result<String, Refused> {
    generate::generate(&tables::checked(table, schemas)?)
}

fn read(path: &Path) -> Result<String, Refused> {
    std::fs::read_to_string(path).map_err(|error| Refused(vec![format!("{}: {error}", path.display())]))
}
