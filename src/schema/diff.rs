//! What changed between two contracts, sorted by what it means for the connector.

use std::collections::BTreeSet;

use serde::Serialize;

use super::build::tables;
use super::compare::Comparison;
use super::used::used;
use super::{Schema, Tables};

/// What a change means.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// Something that we send or require is gone, was renamed, became required or changed its type.
    Breaks,
    /// There is a word that the lifecycle, the views or the answers should know.
    Decision,
    /// Nothing that we send or read is touched.
    Harmless,
}

/// One change.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Change {
    /// What it means.
    pub meaning: Meaning,
    /// The type, or the field in it.
    pub place: String,
    /// What happened there.
    pub what: String,
}

/// Every change from one contract to another of the same protocol, the ones that matter first.
pub fn diff(old: &Schema, new: &Schema, tables: &Tables) -> Result<Vec<Change>, String> {
    let (Some(judge), Some(other)) = (tables.judge(old), tables.judge(new)) else {
        return Err("there are no tables to judge by".to_owned());
    };
    if judge.protocol.number != other.protocol.number {
        return Err(format!(
            "{} is of protocol {} and {} of protocol {}: only contracts of one protocol can be compared",
            old.contract.file, judge.protocol.number, new.contract.file, other.protocol.number
        ));
    }
    let selection = judge.selection;
    let places = tables::places(judge.lifecycle, judge.protocol.name);
    let mut watched = places.map_err(|refused| refused.to_string())?;
    watched.extend(selection.decided.keys().cloned());
    let mut changes = words(old, new, &watched);
    let comparison = Comparison {
        old: &old.contract.defs,
        new: &new.contract.defs,
        before: used(&old.contract.defs, selection),
        after: used(&new.contract.defs, selection),
        selection,
        watched: &watched,
    };
    changes.extend(comparison.run());
    changes.sort();
    changes.dedup();
    Ok(changes)
}

/// New and lost words at the places that somebody decides by.
fn words(old: &Schema, new: &Schema, watched: &BTreeSet<String>) -> Vec<Change> {
    let (before, after) = (old.whole(), new.whole());
    let mut changes = Vec::new();
    for place in watched {
        let known = tables::words_at(&before, place).unwrap_or_default();
        let now = tables::words_at(&after, place).unwrap_or_default();
        let mut say = |what: String| {
            changes.push(Change {
                meaning: Meaning::Decision,
                place: place.clone(),
                what,
            });
        };
        if now.is_empty() && !known.is_empty() {
            say("has no words any more: look for where they are now".to_owned());
            continue;
        }
        now.difference(&known)
            .for_each(|word| say(format!("has the new word `{word}`")));
        known
            .difference(&now)
            .for_each(|word| say(format!("has lost the word `{word}`")));
    }
    changes
}
