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
use build::{PROTOCOLS, Protocol};

/// The texts that the program was built with, in the order of [`PROTOCOLS`].
const CONTRACTS: [&str; PROTOCOLS.len()] = [
    include_str!("../../schemas/t3/protocol-2/contract.json"),
    include_str!("../../schemas/t3/protocol-1/contract.json"),
];
const SELECTIONS: [&str; PROTOCOLS.len()] = [
    include_str!("../../schemas/selection.toml"),
    include_str!("../../schemas/selection-protocol-1.toml"),
];
const LIFECYCLE: &str = include_str!("../../schemas/lifecycle.toml");

/// The tables that contracts are held against.
#[derive(Debug)]
pub struct Tables {
    selections: Vec<(Protocol, Selection)>,
    lifecycle: String,
}

/// What one protocol's contracts are held against.
#[derive(Clone, Copy)]
struct Judge<'t> {
    protocol: Protocol,
    selection: &'t Selection,
    lifecycle: &'t str,
}

/// A contract, by the name of its file.
#[derive(Debug)]
pub struct Schema {
    contract: Contract,
    /// The number of its protocol, where that is written.
    protocol: Option<u32>,
}

impl Schema {
    /// Those that the program was built with, the newest protocol first.
    pub fn built_in() -> Result<Vec<Self>, String> {
        let texts = PROTOCOLS.iter().zip(CONTRACTS);
        texts
            .map(|(protocol, text)| Self::parse(protocol.contract, text, Some(protocol.number)))
            .collect()
    }

    /// One from its text, and the number of its protocol if that is known.
    pub fn parse(file: &str, text: &str, protocol: Option<u32>) -> Result<Self, String> {
        let contract = Contract::parse(file, text).map_err(|error| error.line())?;
        if let Some(number) = protocol.filter(|number| PROTOCOLS.iter().all(|known| known.number != *number)) {
            let known = PROTOCOLS.map(|known| known.number.to_string()).join(" and ");
            return Err(format!(
                "{file}: is of protocol {number}; there are tables for {known} alone"
            ));
        }
        Ok(Self { contract, protocol })
    }

    /// The names of all types, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.contract.defs.keys().map(String::as_str)
    }

    /// One type as JSON Schema.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.contract.defs.get(name)
    }

    fn whole(&self) -> Value {
        json!({ "$defs": self.contract.defs })
    }
}

impl Tables {
    /// The files of the selections, the newest protocol's first, as they are called in the folder of tables.
    pub fn files() -> [&'static str; PROTOCOLS.len()] {
        PROTOCOLS.map(|protocol| protocol.selection.rsplit('/').next().unwrap_or_default())
    }

    /// Those that the program was built with.
    pub fn built_in() -> Result<Self, String> {
        let files = PROTOCOLS.map(|protocol| protocol.selection.to_owned());
        Self::parse(files.into_iter().zip(SELECTIONS.map(str::to_owned)), LIFECYCLE)
    }

    /// From the selections, file and text, in the order of [`Tables::files`], and the text of `lifecycle.toml`.
    pub fn parse(selections: impl Iterator<Item = (String, String)>, lifecycle: &str) -> Result<Self, String> {
        let parsed = PROTOCOLS.into_iter().zip(selections).map(|(protocol, (file, text))| {
            let selection = Selection::parse(&file, &text).map_err(|error| error.line())?;
            Ok((protocol, selection))
        });
        Ok(Self {
            selections: parsed.collect::<Result<_, String>>()?,
            lifecycle: lifecycle.to_owned(),
        })
    }

    /// Everything that keeps a contract from becoming code by the tables of its protocol, one line each.
    pub fn problems(&self, schema: &Schema) -> Vec<String> {
        self.judge(schema).map_or_else(Vec::new, |judge| {
            build::check::problems(&schema.contract, judge.selection, judge.lifecycle, judge.protocol.name)
        })
    }

    /// The tables of a contract's protocol: of the written number, else of the selection that finds most of its names.
    fn judge(&self, schema: &Schema) -> Option<Judge<'_>> {
        let found = |selection: &Selection| {
            let names = selection.read.roots.iter().chain(&selection.sent.roots);
            let (known, all) = names.fold((0, 0), |(known, all), name| {
                (known + usize::from(schema.contract.defs.contains_key(name)), all + 1)
            });
            known * 1000 / std::cmp::max(all, 1)
        };
        let of_number = |number| self.selections.iter().find(|(protocol, _)| protocol.number == number);
        let by_names = || {
            self.selections
                .iter()
                .rev()
                .max_by_key(|(_, selection)| found(selection))
        };
        let (protocol, selection) = schema.protocol.and_then(of_number).or_else(by_names)?;
        Some(Judge {
            protocol: *protocol,
            selection,
            lifecycle: &self.lifecycle,
        })
    }
}
