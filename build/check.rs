//! Whether a contract fits the tables: everything that keeps it from becoming code that works, one line each.
//!
//! The build stops on these, and the command `schema check` says them without a build.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use heck::ToUpperCamelCase as _;
use serde_json::{Value, json};

use super::Error;
use super::normalise::{Direction, normalise, union_words};
use super::schema::{Contract, Selection, reference};
use super::tables;

/// Everything that does not fit; `protocol` is the mapping's name in the lifecycle's table.
pub fn problems(contract: &Contract, selection: &Selection, table: &str, protocol: &str) -> Vec<String> {
    let mut found = selection.missing(contract);
    found.extend(members(contract, selection));
    found.extend(sends(contract, selection));
    let whole = json!({ "$defs": contract.defs });
    found.extend(decided(contract, selection, &whole));
    if found.is_empty() {
        // What follows trusts the names.
        let directions = [Direction::Read, Direction::Sent];
        found.extend(
            directions
                .iter()
                .filter_map(|direction| normalise(contract, selection, *direction).err()),
        );
    }
    let mut lines: Vec<String> = found.iter().map(Error::line).collect();
    lines.extend(tables::refusals(table, protocol, whole));
    lines
}

/// Members that the selection lists and the contract's union lacks.
fn members(contract: &Contract, selection: &Selection) -> Vec<Error> {
    let mut found = Vec::new();
    for (union, listed) in &selection.members {
        if !contract.defs.contains_key(union) {
            continue;
        }
        let words = match union_words(contract, selection, union) {
            Ok(words) => words.unwrap_or_default(),
            Err(error) => {
                found.push(error);
                continue;
            }
        };
        let fresh: Vec<&str> = words
            .iter()
            .filter(|word| !listed.contains(word))
            .map(String::as_str)
            .collect();
        for word in listed.iter().filter(|word| !words.contains(word)) {
            let mut mend = if fresh.is_empty() {
                "take it out, and what sends or reads it".to_owned()
            } else {
                format!(
                    "take it out, or put what it is called now, if that is one of: {}",
                    fresh.join(", ")
                )
            };
            let row = member_type(union, word);
            if selection.sends.contains_key(&row) && !contract.defs.contains_key(&row) {
                let _ = write!(
                    mend,
                    "; the same with the row `sends.{row}` and what fills it in `src/machine/dialect`"
                );
            }
            found.push(Error::new(
                &selection.file,
                &format!("members.{union}"),
                format!("lists `{word}`, which is no member of the contract's union"),
                &mend,
            ));
        }
    }
    found
}

/// What the exporter calls the type of a union's member.
fn member_type(union: &str, word: &str) -> String {
    format!("{union}{}", word.to_upper_camel_case())
}

/// What the types of the members were called that the contract's unions lack.
fn gone_members(contract: &Contract, selection: &Selection) -> BTreeSet<String> {
    let mut gone = BTreeSet::new();
    for (union, listed) in &selection.members {
        let words = union_words(contract, selection, union).ok().flatten();
        let lacks = |word: &&String| words.as_ref().is_some_and(|words| !words.contains(word));
        gone.extend(listed.iter().filter(lacks).map(|word| member_type(union, word)));
    }
    gone
}

/// Fields that we fill and that are gone, and fields that T3 requires and we do not fill.
fn sends(contract: &Contract, selection: &Selection) -> Vec<Error> {
    let mut found = Vec::new();
    let gone = gone_members(contract, selection);
    for (name, filled) in &selection.sends {
        // A member that is gone is told of once.
        if gone.contains(name) && !contract.defs.contains_key(name) {
            continue;
        }
        let at = format!("sends.{name}");
        let Some(schema) = shape(contract, selection, name) else {
            let mend = "take the row out with what fills it, or give it the name that the contract has for it now";
            found.push(Error::new(
                &selection.file,
                &at,
                "is a type that the contract does not have",
                mend,
            ));
            continue;
        };
        let fields = object(&schema);
        let required = required(&schema);
        let gone = filled.iter().filter(|field| !fields.contains(field.as_str()));
        found.extend(gone.map(|field| {
            let others = fields
                .iter()
                .filter(|known| !filled.iter().any(|one| one == *known) && !is_tag(&schema, known));
            let others: Vec<&str> = others.copied().collect();
            let renamed = if others.is_empty() {
                String::new()
            } else {
                format!(
                    ", or name what it is called now, if that is one of: {}",
                    others.join(", ")
                )
            };
            let mend = format!("take it out of the row and of what fills it in `src/machine/dialect`{renamed}");
            Error::new(
                &selection.file,
                &at,
                format!("lists `{field}`, which the type has no more"),
                &mend,
            )
        }));
        let unfilled = required.iter().filter(|field| !filled.iter().any(|one| one == *field));
        let unfilled = unfilled.filter(|field| !is_tag(&schema, field));
        found.extend(unfilled.map(|field| {
            let mend = format!(
                "fill it in `src/machine/dialect`, and add it to `{at}` in {}",
                selection.file
            );
            Error::new(
                &contract.file,
                &format!("{name}.{field}"),
                "is required now, and nothing fills it",
                &mend,
            )
        }));
    }
    found
}

/// Words at the places that the code decides by.
fn decided(contract: &Contract, selection: &Selection, whole: &Value) -> Vec<Error> {
    let mut found = Vec::new();
    for (place, listed) in &selection.decided {
        let at = format!("decided.{place}");
        let Some(words) = tables::words_at(whole, place) else {
            let mend = "look for where T3 moved them, and name that place";
            found.push(Error::new(
                &selection.file,
                &at,
                "is a place without words in the contract",
                mend,
            ));
            continue;
        };
        for word in words.iter().filter(|word| !listed.contains(word)) {
            let mend = format!(
                "decide what it means for us, and add it to `decided` in {}",
                selection.file
            );
            found.push(Error::new(
                &contract.file,
                place,
                format!("has the new word `{word}`"),
                &mend,
            ));
        }
        for word in listed.iter().filter(|word| !words.contains(*word)) {
            let mend = "take it out, and what is done with it";
            found.push(Error::new(
                &selection.file,
                &at,
                format!("lists `{word}`, which T3 no longer has"),
                mend,
            ));
        }
    }
    found
}

/// The schema of a type of the contract, or of one that the selection names by its place.
pub fn shape(contract: &Contract, selection: &Selection, name: &str) -> Option<Value> {
    if let Some(schema) = contract.defs.get(name) {
        return Some(schema.clone());
    }
    let (place, _) = selection.names.iter().find(|(_, given)| *given == name)?;
    let (owner, field) = place.split_once('.')?;
    let field = contract.defs.get(owner)?.get("properties")?.get(field)?;
    let arms = field.get("anyOf").and_then(Value::as_array);
    let whole = arms.and_then(|arms| arms.iter().find(|arm| arm.get("properties").is_some()));
    let schema = whole.unwrap_or(field);
    Some(
        reference(schema)
            .and_then(|target| contract.defs.get(target))
            .unwrap_or(schema)
            .clone(),
    )
}

/// A field of one word, which the union writes.
fn is_tag(schema: &Value, field: &str) -> bool {
    let words = schema["properties"][field].get("enum").and_then(Value::as_array);
    words.is_some_and(|words| words.len() == 1)
}

fn object(schema: &Value) -> BTreeSet<&str> {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn required(schema: &Value) -> Vec<&str> {
    let fields = schema.get("required").and_then(Value::as_array);
    fields.into_iter().flatten().filter_map(Value::as_str).collect()
}
