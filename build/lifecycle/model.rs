//! The table as a plain data model, with the line of every row for the messages.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Refused, TABLE};

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) event: Vec<Spanned<Named>>,
    pub(crate) run: Machine,
    pub(crate) request: Machine,
    pub(crate) class: Vec<Spanned<Class>>,
    pub(crate) capability: Vec<Spanned<Capability>>,
    pub(crate) thread: Vec<Spanned<ThreadRow>>,
    pub(crate) mapping: BTreeMap<Spanned<String>, Mapping>,
    /// Where each line of the text begins.
    #[serde(skip)]
    lines: Vec<usize>,
}

/// A name and what it means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) doc: String,
}

/// One machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    pub(crate) initial: Spanned<String>,
    pub(crate) state: Vec<Spanned<State>>,
    pub(crate) observation: Vec<Spanned<Named>>,
    pub(crate) row: Vec<Spanned<Row>>,
}

/// One state of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) name: String,
    pub(crate) shown: Option<String>,
    #[serde(default)]
    pub(crate) busy: bool,
    #[serde(default)]
    pub(crate) ended: bool,
    #[serde(default)]
    pub(crate) void: bool,
    pub(crate) doc: String,
}

impl State {
    /// The word that views and events use.
    pub(crate) fn word(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.name)
    }
}

/// What happens in each of these states on each of these observations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) from: Vec<String>,
    pub(crate) on: Vec<String>,
    pub(crate) to: Option<String>,
    pub(crate) emit: Option<String>,
    pub(crate) ignore: Option<String>,
}

/// What a request's kind makes of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) holds: bool,
    pub(crate) answerable: bool,
    pub(crate) asks: String,
    /// The thread's state while it holds a run.
    pub(crate) thread: Option<String>,
    pub(crate) doc: String,
}

/// What the way that an answer can go makes of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capability {
    pub(crate) name: String,
    pub(crate) holds: bool,
    pub(crate) answerable: bool,
    pub(crate) asks: bool,
    /// What views show where it is not the usual way.
    pub(crate) mode: Option<String>,
    pub(crate) doc: String,
}

/// One step of the fold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadRow {
    pub(crate) state: String,
    pub(crate) when: When,
    pub(crate) doc: String,
}

/// When a step of the fold holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    Deleted,
    Request,
    Run,
    LastEnded,
    Otherwise,
}

/// One protocol's words. A protocol without words for requests has none of the tables about them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    pub(crate) run_status: Words,
    pub(crate) request_kind: Option<Words>,
    pub(crate) request_status: Option<Words>,
    pub(crate) capability: Option<Words>,
}

/// The words of one place of a protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Words {
    pub(crate) at: Vec<Spanned<String>>,
    pub(crate) unknown: Spanned<String>,
    #[serde(rename = "words")]
    pub(crate) meanings: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// The word of a request's status that its kind and capability refine.
pub(crate) const OPEN: &str = "pending";

impl Model {
    /// `file:line` of something that was read.
    pub(crate) fn place<T>(&self, spanned: &Spanned<T>) -> String {
        let line = self.lines.partition_point(|&start| start <= spanned.span().start);
        format!("{TABLE}:{line}")
    }
}

/// Reads the table. An unknown or missing key is refused by name and line.
pub(crate) fn parse(text: &str) -> Result<Model, Refused> {
    let mut model: Model = toml::from_str(text).map_err(|error| Refused(vec![format!("{TABLE}: {error}")]))?;
    model.lines = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    Ok(model)
}
