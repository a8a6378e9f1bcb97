//! The choices of a contract: string enums, and unions of objects with the tag that tells them apart.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::Error;
use super::super::schema::reference;
use super::Normaliser;
use super::forms::{fields, is_null, is_object, list};

/// Tags that T3 uses, the likeliest first. Only these may stand twice in one union.
const TAGS: [&str; 3] = ["type", "kind", "_tag"];

/// A union as the contract has it: its members' schemas by word, and the name of each that has one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawUnion {
    pub(super) tag: String,
    pub(super) arms: Vec<RawArm>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawArm {
    pub(super) name: Option<String>,
    pub(super) words: Vec<String>,
    pub(super) body: Value,
}

impl Normaliser<'_> {
    /// The words of a string enum, or of a choice between string enums.
    pub(super) fn words(&self, schema: &Value) -> Option<Vec<String>> {
        let schema = self.resolve(schema);
        if let Some(arms) = schema.get("anyOf").and_then(Value::as_array) {
            let mut all = Vec::new();
            for arm in arms {
                for word in self.words(arm)? {
                    if !all.contains(&word) {
                        all.push(word);
                    }
                }
            }
            return Some(all);
        }
        let words = schema.get("enum")?.as_array()?;
        words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
    }

    /// The schema itself, behind a reference.
    pub(super) fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        reference(schema)
            .and_then(|name| self.contract.defs.get(name))
            .unwrap_or(schema)
    }

    /// The tagged union that a choice between objects is; none if it is no such choice.
    pub(super) fn raw_union(&self, at: &str, schema: &Value) -> Result<Option<RawUnion>, Error> {
        if schema.get("anyOf").is_none() {
            return Ok(None);
        }
        let mut arms = Vec::new();
        self.open(schema, None, &mut arms);
        if arms.len() < 2 || !arms.iter().all(|(_, body)| is_object(body)) {
            return Ok(None);
        }
        let Some(tag) = find_tag(&arms) else {
            let mend = "export it with a tag (`type`, `kind` or `_tag`) in each member, or make the type opaque in the selection";
            return Err(self.error(at, "is a union of objects that no tag tells apart", mend));
        };
        let mut union = RawUnion {
            tag: tag.clone(),
            arms: Vec::new(),
        };
        for (name, body) in arms {
            // Arms whose tag is any word are T3's own way to decode what is newer; they never travel.
            let Some(words) = tag_words(&body, &tag) else { continue };
            self.add_arm(
                at,
                &mut union,
                RawArm {
                    name,
                    words,
                    body: without_field(&body, &tag),
                },
            )?;
        }
        Ok(Some(union))
    }

    /// All arms of a choice with their names, choices inside of it opened.
    pub(super) fn open(&self, schema: &Value, name: Option<&str>, into: &mut Vec<(Option<String>, Value)>) {
        let (name, schema) = match reference(schema) {
            Some(target) => (Some(target), self.resolve(schema)),
            None => (name, schema),
        };
        match schema.get("anyOf").and_then(Value::as_array) {
            Some(arms) => arms
                .iter()
                .filter(|arm| !is_null(arm))
                .for_each(|arm| self.open(arm, None, into)),
            None => into.push((name.map(str::to_owned), schema.clone())),
        }
    }

    /// Adds an arm, or joins it with the one that has its tag.
    pub(super) fn add_arm(&self, at: &str, union: &mut RawUnion, arm: RawArm) -> Result<(), Error> {
        let Some(before) = union
            .arms
            .iter_mut()
            .find(|before| before.words.iter().any(|word| arm.words.contains(word)))
        else {
            union.arms.push(arm);
            return Ok(());
        };
        if before.words == arm.words {
            if let Some(body) = join(&before.body, &arm.body) {
                before.body = body;
                before.name = before.name.take().or(arm.name);
                return Ok(());
            }
            // The same tag with other fields: the arm with a name travels, the one without is a decoder's.
            match (&before.name, &arm.name) {
                (Some(_), None) => return Ok(()),
                (None, Some(_)) => {
                    *before = arm;
                    return Ok(());
                }
                _ => {}
            }
        }
        let what = format!("has two members with the tag `{}` that differ", arm.words.join("`, `"));
        Err(self.error(at, what, "export them with tags of their own"))
    }
}

/// The field that tells the arms of a union apart.
fn find_tag(arms: &[(Option<String>, Value)]) -> Option<String> {
    let mut candidates: Vec<&str> = TAGS.to_vec();
    candidates.extend(
        arms.iter()
            .flat_map(|(_, body)| fields(body))
            .map(|(field, _)| field.as_str()),
    );
    let found = candidates.into_iter().find(|tag| {
        let words: Vec<Vec<String>> = arms.iter().filter_map(|(_, body)| tag_words(body, tag)).collect();
        if TAGS.contains(tag) {
            return !words.is_empty();
        }
        let all: Vec<&String> = words.iter().flatten().collect();
        let distinct: BTreeSet<&String> = all.iter().copied().collect();
        words.len() == arms.len() && distinct.len() == all.len()
    });
    found.map(str::to_owned)
}

/// The words that an arm's tag may have; none if it may have any.
fn tag_words(body: &Value, tag: &str) -> Option<Vec<String>> {
    if !list(body, "required").iter().any(|field| field == tag) {
        return None;
    }
    let words = body.get("properties")?.get(tag)?.get("enum")?.as_array()?;
    words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// Two objects as one that reads both; none if a field has two types.
fn join(one: &Value, other: &Value) -> Option<Value> {
    let mut properties: Map<String, Value> = fields(one)
        .map(|(field, schema)| (field.clone(), schema.clone()))
        .collect();
    for (field, schema) in fields(other) {
        match properties.insert(field.clone(), schema.clone()) {
            Some(before) if before != *schema => return None,
            _ => {}
        }
    }
    let both = list(other, "required");
    let required: Vec<&Value> = list(one, "required")
        .iter()
        .filter(|field| both.contains(field))
        .collect();
    Some(json!({ "type": "object", "properties": properties, "required": required }))
}

fn without_field(body: &Value, field: &str) -> Value {
    let properties: Map<String, Value> = fields(body)
        .filter(|(name, _)| *name != field)
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    let required: Vec<&Value> = list(body, "required").iter().filter(|name| *name != field).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
