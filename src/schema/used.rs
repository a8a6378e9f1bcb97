//! Which types of a contract the connector uses, by the tables: what T3 sends to us, and what we send.

use std::collections::BTreeSet;

use serde_json::Value;

use super::build::schema::{Selection, reference};
use super::forms::{Defs, opened, strings, tag};

/// The names of the types that are used.
#[derive(Debug, Default)]
pub(super) struct Used {
    /// They are read.
    pub(super) read: BTreeSet<String>,
    /// They are sent: what has a row of filled fields, and what it refers to.
    pub(super) sent: BTreeSet<String>,
}

/// What a selection uses of a contract.
pub(super) fn used(defs: &Defs, selection: &Selection) -> Used {
    let mut used = Used::default();
    for root in &selection.read.roots {
        follow(defs, selection, root, None, &mut used.read);
    }
    for (name, filled) in &selection.sends {
        follow(defs, selection, name, Some(filled), &mut used.sent);
    }
    used
}

fn follow(defs: &Defs, selection: &Selection, name: &str, filled: Option<&[String]>, into: &mut BTreeSet<String>) {
    let Some(schema) = defs.get(name) else { return };
    if selection.is_opaque(name) || !into.insert(name.to_owned()) {
        return;
    }
    if let Some(members) = selection.members.get(name) {
        let arms = opened(defs, schema);
        let bodies: Vec<&Value> = arms.iter().map(|(_, body)| *body).collect();
        let tag = tag(&bodies).unwrap_or("type");
        for (own, body) in arms {
            let words = strings(body.get("properties").and_then(|fields| fields.get(tag)?.get("enum")));
            if !words.iter().any(|word| members.iter().any(|member| member == word)) {
                continue;
            }
            match own {
                Some(own) => follow(defs, selection, own, None, into),
                None => inside(defs, selection, body, None, into),
            }
        }
        return;
    }
    inside(defs, selection, schema, filled, into);
}

fn inside(defs: &Defs, selection: &Selection, schema: &Value, filled: Option<&[String]>, into: &mut BTreeSet<String>) {
    if let Some(name) = reference(schema) {
        // A type with a row of its own says itself which fields count.
        let filled = selection
            .sends
            .get(name)
            .map(Vec::as_slice)
            .filter(|_| filled.is_some());
        follow(defs, selection, name, filled, into);
    }
    match schema {
        Value::Object(map) => {
            for (key, inner) in map {
                let fields = (key == "properties").then(|| inner.as_object()).flatten();
                let Some(fields) = fields else {
                    inside(defs, selection, inner, None, into);
                    continue;
                };
                for (field, inner) in fields {
                    if filled.is_none_or(|filled| filled.contains(field)) {
                        inside(defs, selection, inner, None, into);
                    }
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| inside(defs, selection, inner, None, into)),
        _ => {}
    }
}
