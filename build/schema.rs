//! Reads what stands in `schemas/`: the exported contract and the selection of it, and checks that they fit together.
//!
//! Knows nothing of Rust. Never mends a file: what does not fit is an error that says where and how.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Error;

/// Where `$ref`s of a contract point to.
const DEFS: &str = "#/$defs/";

/// One exported document: every type of T3's contract by its name.
#[derive(Debug)]
pub struct Contract {
    /// The file, as errors name it.
    pub file: String,
    /// JSON Schemas by type name.
    pub defs: BTreeMap<String, Value>,
}

/// Which part of a contract becomes Rust: `schemas/selection.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// The file, as errors name it.
    #[serde(skip)]
    pub file: String,
    /// What T3 sends: tolerant types.
    pub read: Roots,
    /// What we send: exact types.
    pub sent: Roots,
    /// Members of a union by their tag words. A union that is not named here is taken whole.
    #[serde(default)]
    pub members: BTreeMap<String, Vec<String>>,
    /// The fields that we fill of a type that we send.
    #[serde(default)]
    pub sends: BTreeMap<String, Vec<String>>,
    /// The words of a place that the code was written for.
    #[serde(default)]
    pub decided: BTreeMap<String, Vec<String>>,
    /// Types that stay JSON as they came.
    #[serde(default)]
    pub opaque: Opaque,
    /// Names for types that the contract leaves without one, by where they stand (`Type.field`).
    #[serde(default)]
    pub names: BTreeMap<String, String>,
}

/// The types that one direction starts from; what they refer to comes along.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roots {
    /// Names of the contract.
    pub roots: Vec<String>,
}

/// Types that nobody looks into.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opaque {
    /// Names of the contract.
    pub types: Vec<String>,
}

impl Contract {
    /// Reads a contract from its file.
    pub fn read(root: &Path, file: &str) -> Result<Self, Error> {
        Self::parse(file, &text(root, file)?)
    }

    /// Reads a contract from its text.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let broken = |what: String| {
            Error::new(
                file,
                "$defs",
                what,
                "export the contract again; it is not edited by hand",
            )
        };
        let mut document: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        let defs = document
            .remove("$defs")
            .ok_or_else(|| broken("the document has no `$defs`".into()))?;
        let defs = serde_json::from_value(defs).map_err(|error| broken(error.to_string()))?;
        Ok(Self {
            file: file.into(),
            defs,
        })
    }

    /// The schema of a name.
    pub fn get(&self, name: &str, at: &str) -> Result<&Value, Error> {
        self.defs.get(name).ok_or_else(|| {
            let mend = "export the contract again with that type, or take the reference out";
            Error::new(
                &self.file,
                at,
                format!("refers to `{name}`, which the contract does not have"),
                mend,
            )
        })
    }
}

impl Selection {
    /// Reads a selection from its file.
    pub fn read(root: &Path, file: &str) -> Result<Self, Error> {
        Self::parse(file, &text(root, file)?)
    }

    /// Reads a selection from its text.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut selection: Self = toml::from_str(text).map_err(|error| {
            Error::new(
                file,
                "the file",
                error.to_string(),
                "see the comments at its top for its form",
            )
        })?;
        selection.file = file.into();
        Ok(selection)
    }

    /// Refuses names that the contract does not have.
    pub fn check(&self, contract: &Contract) -> Result<(), Error> {
        self.missing(contract).into_iter().next().map_or(Ok(()), Err)
    }

    /// Every name that the contract does not have.
    pub fn missing(&self, contract: &Contract) -> Vec<Error> {
        let lists = [
            ("read.roots", &self.read.roots),
            ("sent.roots", &self.sent.roots),
            ("opaque.types", &self.opaque.types),
        ];
        let listed = lists
            .into_iter()
            .flat_map(|(at, names)| names.iter().map(move |name| (at, name)));
        let unions = self.members.keys().map(|name| ("members", name));
        let missing = listed
            .chain(unions)
            .filter(|(_, name)| !contract.defs.contains_key(*name));
        missing
            .map(|(at, name)| {
                let mend = format!("take it out, or give it the name that {} has for it now", contract.file);
                Error::new(
                    &self.file,
                    at,
                    format!("names `{name}`, which the contract does not have"),
                    &mend,
                )
            })
            .collect()
    }

    /// The type stays JSON.
    pub fn is_opaque(&self, name: &str) -> bool {
        self.opaque.types.iter().any(|opaque| opaque == name)
    }
}

/// The name that a schema refers to, if it is a reference.
pub fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(DEFS)
}

/// A reference to a name.
pub fn refer(name: &str) -> Value {
    serde_json::json!({ "$ref": format!("{DEFS}{name}") })
}

/// Every name that a schema refers to, at any depth.
pub fn references(schema: &Value, into: &mut BTreeSet<String>) {
    if let Some(name) = reference(schema) {
        into.insert(name.to_owned());
    }
    match schema {
        Value::Object(map) => map.values().for_each(|inner| references(inner, into)),
        Value::Array(list) => list.iter().for_each(|inner| references(inner, into)),
        _ => {}
    }
}

fn text(root: &Path, file: &str) -> Result<String, Error> {
    std::fs::read_to_string(root.join(file)).map_err(|error| {
        Error::new(
            file,
            "the file",
            error.to_string(),
            "check it out again: the build needs it",
        )
    })
}
