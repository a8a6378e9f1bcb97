//! Says the selected part of a contract in forms that come out right in Rust.
//!
//! The exporter writes what effect's encoder does: unions as `anyOf`, a null beside every optional value, arms that only a
//! decoder uses, types without a name inside of others. typify takes several of these for something else without a word. The
//! result here is a [`Model`]: plain schemas that typify understands, string enums and tagged unions, each under one name.

mod forms;
mod names;
mod unions;

use std::collections::{BTreeMap, BTreeSet};

use heck::ToUpperCamelCase;
use serde_json::{Map, Value, json};

use super::Error;
use super::schema::{Contract, Selection, refer, reference};
use forms::{fields, integer, is_object, list, nullable, without_null};
use names::{WORDS_THAT_IDENTIFY, union_fingerprint, words_fingerprint};
use unions::RawUnion;

/// What is to be generated.
#[derive(Debug, Default)]
pub struct Model {
    /// Structs, ids, lists and maps: schemas for typify.
    pub plain: BTreeMap<String, Value>,
    /// String enums.
    pub words: BTreeMap<String, Vec<String>>,
    /// Unions of objects that a tag tells apart.
    pub unions: BTreeMap<String, Union>,
    /// Optional fields where absent and null differ, as (type, field): the contract gives them a second null.
    pub changes: BTreeSet<(String, String)>,
}

/// A union of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// The field that tells the members apart.
    pub tag: String,
    /// In the contract's order.
    pub members: Vec<Member>,
}

/// A member of a union.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The tag's value.
    pub word: String,
    /// The type of the other fields; none if there are no others.
    pub content: Option<String>,
}

/// Which way the types travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Direction {
    /// T3 sends them.
    Read,
    /// We send them.
    Sent,
}

/// Normalises what the roots of a direction reach.
pub fn normalise(contract: &Contract, selection: &Selection, direction: Direction) -> Result<Model, Error> {
    let mut work = Normaliser::new(contract, selection, direction);
    work.learn_names();
    let roots = match direction {
        Direction::Read => &selection.read.roots,
        Direction::Sent => &selection.sent.roots,
    };
    work.wanted.extend(roots.iter().cloned());
    while let Some(name) = work.wanted.pop_first() {
        if work.done.insert(name.clone()) {
            work.definition(&name)?;
        }
    }
    work.check_contents()?;
    Ok(work.model)
}

/// The words that tell the members of a named union apart; none if it is no such union.
pub fn union_words(contract: &Contract, selection: &Selection, name: &str) -> Result<Option<Vec<String>>, Error> {
    let work = Normaliser::new(contract, selection, Direction::Read);
    let union = work.raw_union(name, contract.get(name, name)?)?;
    Ok(union.map(|union| union.arms.into_iter().flat_map(|arm| arm.words).collect()))
}

struct Normaliser<'a> {
    contract: &'a Contract,
    selection: &'a Selection,
    direction: Direction,
    model: Model,
    /// Names that something refers to.
    wanted: BTreeSet<String>,
    /// Names of the contract that are in the model.
    done: BTreeSet<String>,
    /// Names of the contract that are contents of a union's members (without the tag), and the union.
    contents: BTreeMap<String, String>,
    /// Shapes that have a name, by fingerprint: a shape without a name that is equal gets the same one.
    known: BTreeMap<String, String>,
}

impl<'a> Normaliser<'a> {
    fn new(contract: &'a Contract, selection: &'a Selection, direction: Direction) -> Self {
        Self {
            contract,
            selection,
            direction,
            model: Model::default(),
            wanted: BTreeSet::new(),
            done: BTreeSet::new(),
            contents: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }
}

impl Normaliser<'_> {
    /// Learns the shapes of the contract's own enums and unions.
    fn learn_names(&mut self) {
        for (name, schema) in &self.contract.defs {
            if self.selection.is_opaque(name) {
                continue;
            }
            let fingerprint = match self.words(schema) {
                Some(words) if words.len() >= WORDS_THAT_IDENTIFY => words_fingerprint(&words),
                Some(_) => continue,
                None => match self.raw_union(name, schema) {
                    Ok(Some(union)) => union_fingerprint(&union),
                    _ => continue,
                },
            };
            self.known.entry(fingerprint).or_insert_with(|| name.clone());
        }
    }

    /// One type of the contract, under its own name.
    fn definition(&mut self, name: &str) -> Result<(), Error> {
        let schema = self.contract.get(name, name)?.clone();
        if self.selection.is_opaque(name) {
            self.model.plain.insert(name.into(), json!({}));
        } else if let Some(words) = self.words(&schema) {
            self.model.words.insert(name.into(), words);
        } else if let Some(union) = self.raw_union(name, &schema)? {
            self.union(name, union)?;
        } else {
            let plain = if is_object(&schema) {
                self.object(name, &schema)?
            } else {
                self.value(name, name, &schema)?
            };
            self.model.plain.insert(name.into(), plain);
        }
        Ok(())
    }

    /// The schema of a value that stands at `at`; a shape that needs a name gets `name`.
    fn value(&mut self, at: &str, name: &str, schema: &Value) -> Result<Value, Error> {
        if let Some(target) = reference(schema) {
            self.contract.get(target, at)?;
            self.wanted.insert(target.to_owned());
            return Ok(refer(target));
        }
        let (arms, nulls) = without_null(schema);
        if nulls > 0 {
            let inner = self.any_of(at, name, &arms)?;
            return Ok(nullable(inner));
        }
        self.any_of(at, name, &arms)
    }

    /// A value that is one of several, null aside.
    fn any_of(&mut self, at: &str, name: &str, arms: &[Value]) -> Result<Value, Error> {
        let schema = match arms {
            [one] if one.get("anyOf").is_some() || reference(one).is_some() => return self.value(at, name, one),
            [one] => one.clone(),
            several => json!({ "anyOf": several }),
        };
        if let Some(words) = self.words(&schema) {
            return Ok(self.name_words(at, name, words));
        }
        if let Some(union) = self.raw_union(at, &schema)? {
            return self.name_union(at, name, union);
        }
        match arms {
            [one] => self.single(at, name, one),
            several => self.scalars(at, several),
        }
    }

    /// A schema that is neither a reference nor a choice.
    fn single(&mut self, at: &str, name: &str, schema: &Value) -> Result<Value, Error> {
        if is_object(schema) {
            return self.name_object(at, name, schema);
        }
        match schema.get("type").and_then(Value::as_str) {
            None if schema.as_object().is_some_and(Map::is_empty) => Ok(json!({})),
            Some("array") => {
                let items = schema.get("items").cloned().unwrap_or_else(|| json!({}));
                let items = self.value(&format!("{at}[]"), &format!("{name}Item"), &items)?;
                Ok(json!({ "type": "array", "items": items }))
            }
            Some("object") => {
                let values = schema.get("additionalProperties").filter(|values| values.is_object());
                let values = values.cloned().unwrap_or_else(|| json!({}));
                let values = self.value(&format!("{at}{{}}"), &format!("{name}Value"), &values)?;
                Ok(json!({ "type": "object", "additionalProperties": values }))
            }
            // Lengths and patterns are T3's to check.
            Some("string") => Ok(json!({ "type": "string" })),
            Some("boolean") => Ok(json!({ "type": "boolean" })),
            Some("integer") => Ok(integer(schema)),
            // Constants like a version stand as `number`.
            Some("number") if schema.get("enum").is_some() => Ok(integer(schema)),
            Some("number") => Ok(json!({ "type": "number" })),
            _ => Err(self.error(
                at,
                format!("has a form that the build does not know: {schema}"),
                "teach `build/normalise.rs` that form, or make the type opaque in the selection",
            )),
        }
    }

    /// A choice between scalars: typify makes an untagged enum of it.
    fn scalars(&mut self, at: &str, arms: &[Value]) -> Result<Value, Error> {
        let text = |arm| *self.resolve(arm) == json!({ "type": "string" });
        // Ids of several kinds: on the wire they are one, and which kind it is stands beside them.
        if arms.iter().all(text) {
            return Ok(json!({ "type": "string" }));
        }
        let number = arms.iter().any(|arm| arm.get("type") == Some(&json!("number")));
        let mut scalars = Vec::new();
        for arm in arms {
            // effect writes the numbers that JSON lacks as words; none of the fields that we read can be one.
            if number && self.words(arm).is_some() {
                continue;
            }
            match arm.get("type").and_then(Value::as_str) {
                Some("string" | "boolean" | "integer" | "number") if arm.get("enum").is_none() => {
                    scalars.push(self.single(at, "", arm)?);
                }
                _ => {
                    let mend = "export it with a tag (`type`, `kind` or `_tag`) in each member, or make the type opaque in the selection";
                    return Err(self.error(
                        at,
                        format!("is a union that no tag tells apart; one arm is {arm}"),
                        mend,
                    ));
                }
            }
        }
        Ok(match scalars.as_slice() {
            [one] => one.clone(),
            several => json!({ "anyOf": several }),
        })
    }

    /// The body of an object.
    fn object(&mut self, name: &str, schema: &Value) -> Result<Value, Error> {
        let required: BTreeSet<&str> = list(schema, "required").iter().filter_map(Value::as_str).collect();
        let filled = self
            .selection
            .sends
            .get(name)
            .filter(|_| self.direction == Direction::Sent);
        let mut properties = Map::new();
        for (field, property) in fields(schema) {
            // What we never fill: a field that T3 adds disturbs nobody.
            if !required.contains(field.as_str()) && filled.is_some_and(|filled| !filled.contains(field)) {
                continue;
            }
            let at = format!("{name}.{field}");
            let hoisted = format!("{name}{}", field.to_upper_camel_case());
            let (arms, nulls) = without_null(property);
            if arms.is_empty() {
                return Err(self.error(&at, "can only be null", "take the field out of the contract's type"));
            }
            let inner = self.any_of(&at, &hoisted, &arms)?;
            let optional = !required.contains(field.as_str());
            if optional && nulls > 1 {
                self.model.changes.insert((name.into(), field.clone()));
            }
            // An optional list or map would become one that null does not decode into and that drops `[]` when it is sent.
            let collection = matches!(inner.get("type").and_then(Value::as_str), Some("array" | "object"));
            let null = if optional { collection } else { nulls > 0 };
            properties.insert(field.clone(), if null { nullable(inner) } else { inner });
        }
        Ok(json!({ "type": "object", "properties": properties, "required": list(schema, "required") }))
    }

    /// A tagged union, under a name.
    fn union(&mut self, name: &str, raw: RawUnion) -> Result<(), Error> {
        let selected = self.selection.members.get(name);
        if let Some(missing) = selected
            .into_iter()
            .flatten()
            .find(|word| !raw.arms.iter().any(|arm| arm.words.contains(word)))
        {
            let words: Vec<&str> = raw.arms.iter().flat_map(|arm| &arm.words).map(String::as_str).collect();
            let mend = format!("take it out, or name one of: {}", words.join(", "));
            return Err(Error::new(
                &self.selection.file,
                &format!("members.{name}"),
                format!("lists `{missing}`, which is no member of the contract's union"),
                &mend,
            ));
        }
        let mut members = Vec::new();
        for arm in raw.arms {
            let words: Vec<String> = arm
                .words
                .into_iter()
                .filter(|word| selected.is_none_or(|selected| selected.contains(word)))
                .collect();
            let Some(first) = words.first() else { continue };
            let content = if fields(&arm.body).next().is_none() {
                None
            } else if let Some(own) = arm.name {
                self.content(&own, name, &arm.body)?;
                Some(own)
            } else {
                let at = format!("{name} ({first})");
                let hoisted = self.name_object(&at, &format!("{name}{}", first.to_upper_camel_case()), &arm.body)?;
                reference(&hoisted).map(str::to_owned)
            };
            members.extend(words.into_iter().map(|word| Member {
                word,
                content: content.clone(),
            }));
        }
        self.model.unions.insert(name.into(), Union { tag: raw.tag, members });
        Ok(())
    }

    /// A named type that is a member of a union: its fields without the tag, which the union's enum writes.
    fn content(&mut self, name: &str, union: &str, body: &Value) -> Result<(), Error> {
        self.contents.insert(name.into(), union.into());
        let plain = self.object(name, body)?;
        match self.model.plain.insert(name.into(), plain.clone()) {
            Some(before) if before != plain => {
                let mend = "export the two unions with types of their own for it";
                Err(self.error(
                    name,
                    format!("is a member of `{union}` and of another union with other fields"),
                    mend,
                ))
            }
            _ => Ok(()),
        }
    }

    /// A member of a union has lost its tag, so that nothing may use it on its own.
    fn check_contents(&self) -> Result<(), Error> {
        match self.contents.iter().find(|(name, _)| self.done.contains(*name)) {
            None => Ok(()),
            Some((name, union)) => {
                let mend = "refer to the union instead, or export the member's fields under another name";
                Err(self.error(
                    name,
                    format!("is a member of the union `{union}` and is used on its own as well"),
                    mend,
                ))
            }
        }
    }

    fn error(&self, at: &str, what: impl Into<String>, mend: &str) -> Error {
        Error::new(&self.contract.file, at, what, mend)
    }
}
