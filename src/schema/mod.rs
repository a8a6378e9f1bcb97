//! T3's contracts as data: what the build has in it, what changed between two of them, and whether one fits the tables.
//!
//! It says of a contract what the build would say, with the build's own code, so that following a new T3 needs no compiler to find
//! out what has to be decided. Pure: files are read by [`crate::cli`].

// The build's own files; they compile as a part of the build script as well.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../build/shared.rs"]
mod build;
mod compare;
mod diff;
mod forms;
mod say;
mod used;

use serde_json::{Value, json};

pub use diff::{Change, Meaning, diff};
pub use say::{definition, kind};

use build::schema::{Contract, Selection};

/// The contract that the types were generated from.
const CONTRACT: &str = include_str!("../../schemas/t3/protocol-2/contract.json");
const SELECTION: &str = include_str!("../../schemas/selection.toml");
const LIFECYCLE: &str = include_str!("../../schemas/lifecycle.toml");

/// The tables that a contract is held against.
#[derive(Debug)]
pub struct Tables {
    selection: Selection,
    lifecycle: String,
}

/// A contract, by the name of its file.
#[derive(Debug)]
pub struct Schema(Contract);

impl Schema {
    /// The one that the program was built with.
    pub fn built_in() -> Result<Self, String> {
        Self::parse("schemas/t3/protocol-2/contract.json", CONTRACT)
    }

    /// One from its text.
    pub fn parse(file: &str, text: &str) -> Result<Self, String> {
        Contract::parse(file, text).map(Self).map_err(|error| error.line())
    }

    /// The names of all types, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.defs.keys().map(String::as_str)
    }

    /// One type as JSON Schema.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.defs.get(name)
    }

    fn whole(&self) -> Value {
        json!({ "$defs": self.0.defs })
    }
}

impl Tables {
    /// Those that the program was built with.
    pub fn built_in() -> Result<Self, String> {
        Self::parse("schemas/selection.toml", SELECTION, LIFECYCLE)
    }

    /// From the texts of `selection.toml` and `lifecycle.toml`.
    pub fn parse(file: &str, selection: &str, lifecycle: &str) -> Result<Self, String> {
        Ok(Self {
            selection: Selection::parse(file, selection).map_err(|error| error.line())?,
            lifecycle: lifecycle.to_owned(),
        })
    }

    /// Everything that keeps a contract from becoming code by these tables, one line each.
    pub fn problems(&self, schema: &Schema) -> Vec<String> {
        build::check::problems(&schema.0, &self.selection, &self.lifecycle, PROTOCOL)
    }
}

/// The protocol of the tables, as the lifecycle's mapping names it.
const PROTOCOL: &str = "protocol-2";
