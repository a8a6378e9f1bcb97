//! The table as a plain data model, with the line of every row for the messages.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Refused, TABLE};

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) event: Vec<Spanned<Named>>,
    pub(super) run: Machine,
    pub(super) request: Machine,
    pub(super) class: Vec<Spanned<Class>>,
    pub(super) capability: Vec<Spanned<Capability>>,
    pub(super) thread: Vec<Spanned<ThreadRow>>,
    pub(super) mapping: BTreeMap<Spanned<String>, Mapping>,
    /// Where each line of the text begins.
    #[serde(skip)]
    lines: Vec<usize>,
}

/// A name and what it means.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) doc: String,
}

/// One machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    pub(super) initial: Spanned<String>,
    pub(super) state: Vec<Spanned<State>>,
    pub(super) observation: Vec<Spanned<Named>>,
    pub(super) row: Vec<Spanned<Row>>,
}

/// One state of a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) shown: Option<String>,
    #[serde(default)]
    pub(super) busy: bool,
    #[serde(default)]
    pub(super) ended: bool,
    #[serde(default)]
    pub(super) void: bool,
    pub(super) doc: String,
}

impl State {
    /// The word that views and events use.
    pub(super) fn word(&self) -> &str {
        self.shown.as_deref().unwrap_or(&self.name)
    }
}

/// What happens in each of these states on each of these observations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) from: Vec<String>,
    pub(super) on: Vec<String>,
    pub(super) to: Option<String>,
    pub(super) emit: Option<String>,
    pub(super) ignore: Option<String>,
}

/// What a request's kind makes of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) holds: bool,
    pub(super) answerable: bool,
    pub(super) asks: String,
    /// The thread's state while it holds a run.
    pub(super) thread: Option<String>,
    pub(super) doc: String,
}

/// What the way that an answer can go makes of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capability {
    pub(super) name: String,
    pub(super) holds: bool,
    pub(super) answerable: bool,
    pub(super) asks: bool,
    /// What views show where it is not the usual way.
    pub(super) mode: Option<String>,
    pub(super) doc: String,
}

/// One step of the fold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadRow {
    pub(super) state: String,
    pub(super) when: When,
    pub(super) doc: String,
}

/// When a step of the fold holds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    Deleted,
    Request,
    Run,
    LastEnded,
    Otherwise,
}

/// One protocol's words. A protocol without words for requests has none of the tables about them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mapping {
    pub(super) run_status: Words,
    pub(super) request_kind: Option<Words>,
    pub(super) request_status: Option<Words>,
    pub(super) capability: Option<Words>,
}

/// The words of one place of a protocol.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    pub(super) at: Vec<Spanned<String>>,
    pub(super) unknown: Spanned<String>,
    #[serde(rename = "words")]
    pub(super) meanings: BTreeMap<Spanned<String>, Spanned<String>>,
}

/// The word of a request's status that its kind and capability refine.
pub(super) const OPEN: &str = "pending";

impl Model {
    /// `file:line` of something that was read.
    pub(super) fn place<T>(&self, spanned: &Spanned<T>) -> String {
        let line = self.lines.partition_point(|&start| start <= spanned.span().start);
        format!("{TABLE}:{line}")
    }
}

/// Reads the table. An unknown or missing key is refused by name and line.
pub(super) fn parse(text: &str) -> Result<Model, Refused> {
    let mut model: Model = toml::from_str(text).map_err(|error| Refused(vec![format!("{TABLE}: {error}")]))?;
    model.lines = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    Ok(model)
}
