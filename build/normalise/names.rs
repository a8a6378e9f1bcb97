//! Names for shapes that have none in the contract: that of an equal shape, the selection's, or one by the place.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::Error;
use super::super::schema::refer;
use super::Normaliser;
use super::unions::RawUnion;

/// An enum without a name that has this many words and the words of a named one is that one.
pub(super) const WORDS_THAT_IDENTIFY: usize = 3;

impl Normaliser<'_> {
    pub(super) fn name_words(&mut self, at: &str, name: &str, words: Vec<String>) -> Value {
        if let Some(known) = self.known.get(&words_fingerprint(&words)).cloned() {
            if self.contract.defs.contains_key(&known) {
                self.wanted.insert(known.clone());
            }
            return refer(&known);
        }
        if let Some(given) = self
            .selection
            .names
            .get(at)
            .filter(|given| self.model.words.get(*given) == Some(&words))
        {
            return refer(given);
        }
        let name = self.free_name(at, name);
        if words.len() >= WORDS_THAT_IDENTIFY {
            self.known.insert(words_fingerprint(&words), name.clone());
        }
        self.model.words.insert(name.clone(), words);
        refer(&name)
    }

    pub(super) fn name_union(&mut self, at: &str, name: &str, union: RawUnion) -> Result<Value, Error> {
        let fingerprint = union_fingerprint(&union);
        if let Some(known) = self.known.get(&fingerprint).cloned() {
            if self.contract.defs.contains_key(&known) {
                self.wanted.insert(known.clone());
            }
            return Ok(refer(&known));
        }
        let name = self.free_name(at, name);
        self.known.insert(fingerprint, name.clone());
        self.union(&name, union)?;
        Ok(refer(&name))
    }

    pub(super) fn name_object(&mut self, at: &str, name: &str, schema: &Value) -> Result<Value, Error> {
        let fingerprint = format!("object {schema}");
        if let Some(known) = self.known.get(&fingerprint) {
            return Ok(refer(known));
        }
        let name = self.free_name(at, name);
        self.known.insert(fingerprint, name.clone());
        let plain = self.object(&name, schema)?;
        self.model.plain.insert(name.clone(), plain);
        Ok(refer(&name))
    }

    /// The name for a shape without one: the selection's, else its place's; never one that is taken.
    pub(super) fn free_name(&self, at: &str, name: &str) -> String {
        let mut name = self.selection.names.get(at).cloned().unwrap_or_else(|| name.to_owned());
        let model = &self.model;
        while self.contract.defs.contains_key(&name)
            || model.plain.contains_key(&name)
            || model.words.contains_key(&name)
            || model.unions.contains_key(&name)
        {
            name.push_str("Inline");
        }
        name
    }
}

pub(super) fn words_fingerprint(words: &[String]) -> String {
    let words: BTreeSet<&String> = words.iter().collect();
    format!("words {words:?}")
}

pub(super) fn union_fingerprint(union: &RawUnion) -> String {
    let arms: BTreeMap<&Vec<String>, String> = union
        .arms
        .iter()
        .map(|arm| (&arm.words, arm.body.to_string()))
        .collect();
    format!("union {} {arms:?}", union.tag)
}
