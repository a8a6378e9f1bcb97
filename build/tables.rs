//! The lifecycle's table as it is read and checked, without what makes Rust of it.

#[path = "lifecycle/check.rs"]
mod check;
#[path = "lifecycle/folding.rs"]
mod folding;
#[path = "lifecycle/graph.rs"]
mod graph;
#[path = "lifecycle/mapping.rs"]
mod mapping;
#[path = "lifecycle/model.rs"]
pub(crate) mod model;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Where the table is, from the root of the repository.
pub(crate) const TABLE: &str = "schemas/lifecycle.toml";

/// Why the table was not compiled: every refusal found, each with its place and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Refused(pub Vec<String>);

/// Reads a table and checks it against the schema of each protocol that it maps.
pub(crate) fn checked(table: &str, schemas: &BTreeMap<String, Value>) -> Result<model::Model, Refused> {
    let model = model::parse(table)?;
    check::check(&model, schemas)?;
    Ok(model)
}

/// Every refusal of a table against the schema of one protocol; none where the table does not map that protocol.
pub fn refusals(table: &str, protocol: &str, schema: Value) -> Vec<String> {
    let found = model::parse(table).and_then(|mut model| {
        model.mapping.retain(|name, _| name.get_ref() == protocol);
        check::check(&model, &BTreeMap::from([(protocol.to_owned(), schema)]))
    });
    found.err().map_or_else(Vec::new, |refused| refused.0)
}

/// The places whose words a table maps for one protocol.
pub fn places(table: &str, protocol: &str) -> Result<BTreeSet<String>, Refused> {
    let model = model::parse(table)?;
    let mapped = model.mapping.iter().filter(|(name, _)| name.get_ref() == protocol);
    let words = mapped.flat_map(|(_, mapping)| {
        let of_requests = [&mapping.request_kind, &mapping.request_status, &mapping.capability];
        std::iter::once(&mapping.run_status).chain(of_requests.into_iter().flatten())
    });
    Ok(words
        .flat_map(|words| &words.at)
        .map(|at| at.get_ref().clone())
        .collect())
}

/// All string values that a schema allows at `place` (`Type.field.field`); none if it has no such place, or no words there.
pub fn words_at(schema: &Value, place: &str) -> Option<BTreeSet<String>> {
    mapping::words_at(schema, place)
}
