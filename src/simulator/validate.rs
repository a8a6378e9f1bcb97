//! Whether a payload fits its schema, and T3's words where it does not.
//!
//! The crate `jsonschema` decides, on the schemas as the exporter wrote them; this file only explains its verdict in the words of
//! the recorded server. A validator is compiled when its procedure or command is first used: an idle simulator holds none.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The contract, as exported.
const CONTRACT: &str = include_str!("../../schemas/t3/protocol-2/contract.json");

/// Command types that came after the recorded build.
const LATER_COMMANDS: &[&str] = &[
    "thread.auto-settle",
    "thread.auto-settle.set",
    "thread.active.reorder",
    "thread.pull-request.link",
    "thread.pull-request.unlink",
    "thread.pull-request-link.sync",
    "thread.pull-request.watch",
    "thread.pull-request.sync",
    "notification.delivery.accept",
    "prepared-run.retry",
    "queue.resume",
    "thread.user-input.dismiss",
];

/// Enum words that came after the recorded build.
const LATER_WORDS: &[&str] = &["acceptAlways"];

/// Text fields whose blankness T3 refuses; the check is not in its exported schemas.
const NOT_BLANK: &[&str] = &[
    "title",
    "commandId",
    "threadId",
    "projectId",
    "messageId",
    "workspaceRoot",
];

/// The schemas with the validators that were needed so far.
struct Schemas {
    definitions: Value,
    compiled: Mutex<HashMap<String, Option<Arc<Validator>>>>,
}

fn schemas() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let contract: Value = serde_json::from_str(CONTRACT).unwrap_or_default();
        Schemas {
            definitions: contract.get("$defs").cloned().unwrap_or_default(),
            compiled: Mutex::new(HashMap::new()),
        }
    })
}

impl Schemas {
    fn definition(&self, name: &str) -> Option<&Value> {
        self.definitions.get(name)
    }

    fn validator(&self, name: &str) -> Option<Arc<Validator>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled
            .entry(name.to_owned())
            .or_insert_with(|| {
                let root = json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "$ref": format!("#/$defs/{name}"),
                    "$defs": self.definitions,
                });
                jsonschema::validator_for(&root).ok().map(Arc::new)
            })
            .clone()
    }

    fn resolve<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        while let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let target = name.rsplit('/').next().and_then(|name| self.definition(name));
            let Some(target) = target else { break };
            schema = target;
        }
        schema
    }
}

/// Which schema a payload is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The definition of that name.
    Definition(&'static str),
    /// One member of a union of objects, by its `type`.
    Tagged(&'static str),
    /// No definition in the contract: an object with these text fields.
    Texts(&'static [&'static str]),
}

/// Holds a payload against its schema. `newer` servers know commands and words that the recorded one did not.
pub(crate) fn check(shape: Shape, payload: &Value, newer: bool) -> Result<(), String> {
    if !payload.is_object() && !payload.is_array() {
        return Err("Expected object | array".to_owned());
    }
    let explain = Explainer { newer };
    match shape {
        Shape::Texts(fields) => fields.iter().try_for_each(|field| match payload.get(field) {
            None => Err(at("Missing key", &[(*field).to_owned()])),
            Some(Value::String(_)) => Ok(()),
            Some(_) => Err(at("Expected string", &[(*field).to_owned()])),
        }),
        Shape::Definition(name) => explain.hold(name, payload),
        Shape::Tagged(union) => {
            let Some(definition) = schemas().definition(union) else {
                return Err(format!("Expected {union}"));
            };
            match explain.member(definition, payload) {
                Some(name) => explain.hold(name, payload),
                None => Err(format!("Expected {}", explain.describe(definition))),
            }
        }
    }
}

/// Says what is wrong with a payload that its schema has refused.
struct Explainer {
    newer: bool,
}

impl Explainer {
    fn hold(&self, name: &str, payload: &Value) -> Result<(), String> {
        let all = schemas();
        let Some(definition) = all.definition(name) else {
            return Err(format!("Expected {name}"));
        };
        let valid = all.validator(name).is_some_and(|validator| validator.is_valid(payload));
        if !valid || !self.newer {
            if let Some(words) = self.problem(definition, payload, &mut Vec::new()) {
                return Err(words);
            }
            if !valid {
                return Err(format!("Expected {name}"));
            }
        }
        for field in NOT_BLANK {
            if payload
                .get(field)
                .and_then(Value::as_str)
                .is_some_and(|text| text.trim().is_empty())
            {
                return Err(at(
                    "Expected a value with a length of at least 1",
                    &[(*field).to_owned()],
                ));
            }
        }
        Ok(())
    }

    /// The definition of the union's member whose tag the payload carries.
    fn member(&self, union: &'static Value, payload: &Value) -> Option<&'static str> {
        let tag = payload.get("type")?.as_str()?;
        if !self.newer && LATER_COMMANDS.contains(&tag) {
            return None;
        }
        union.get("anyOf")?.as_array()?.iter().find_map(|member| {
            let carries = tags(schemas().resolve(member), "type").contains(&tag);
            let name = member.get("$ref")?.as_str()?.rsplit('/').next()?;
            carries.then_some(name)
        })
    }

    /// The first thing that is wrong, in the order of the schema's fields.
    fn problem(&self, schema: &Value, value: &Value, path: &mut Vec<String>) -> Option<String> {
        let schema = schemas().resolve(schema);
        if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
            return self.union_problem(schema, members, value, path);
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let later = value
                .as_str()
                .is_some_and(|word| !self.newer && LATER_WORDS.contains(&word));
            let known = words.contains(value) && !later;
            return (!known).then(|| at(&format!("Expected {}", self.describe(schema)), path));
        }
        let expected = schema.get("type").and_then(Value::as_str)?;
        let fits = match expected {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" | "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        };
        if !fits {
            return Some(at(&format!("Expected {}", self.describe(schema)), path));
        }
        if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_i64), value.as_f64())
            && value.as_i64().is_none_or(|number| number < least)
        {
            let words = if number.fract() == 0.0 {
                format!("Expected a value greater than or equal to {least}")
            } else {
                "Expected an integer".to_owned()
            };
            return Some(at(&words, path));
        }
        if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
            return list.iter().enumerate().find_map(|(index, item)| {
                path.push(index.to_string());
                let problem = self.problem(items, item, path);
                path.pop();
                problem
            });
        }
        self.object_problem(schema, value, path)
    }

    fn object_problem(&self, schema: &Value, value: &Value, path: &mut Vec<String>) -> Option<String> {
        let properties = schema.get("properties").and_then(Value::as_object)?;
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let optional = properties
            .keys()
            .map(String::as_str)
            .filter(|name| !required.contains(name));
        for name in required.iter().copied().chain(optional) {
            path.push(name.to_owned());
            let problem = match (value.get(name), properties.get(name)) {
                (None, _) if required.contains(&name) => Some(at("Missing key", path)),
                (Some(field), Some(schema)) => self.problem(schema, field, path),
                (_, _) => None,
            };
            path.pop();
            if problem.is_some() {
                return problem;
            }
        }
        None
    }

    fn union_problem(
        &self,
        schema: &Value,
        members: &[Value],
        value: &Value,
        path: &mut Vec<String>,
    ) -> Option<String> {
        let problems: Vec<Option<String>> = members.iter().map(|member| self.problem(member, value, path)).collect();
        if problems.iter().any(Option::is_none) {
            return None;
        }
        // A tag decides which member is meant; with a single member besides null, that one is.
        let others: Vec<&Value> = members.iter().filter(|member| !is_null(member)).collect();
        let meant = match others.as_slice() {
            [only] => Some(*only),
            several => value.get("type").and_then(Value::as_str).and_then(|tag| {
                several
                    .iter()
                    .find(|member| tags(schemas().resolve(member), "type").contains(&tag))
                    .copied()
            }),
        };
        match meant {
            Some(member) => self.problem(member, value, path),
            None => Some(at(&format!("Expected {}", self.describe(schema)), path)),
        }
    }

    /// A schema in the recorded server's words.
    fn describe(&self, schema: &Value) -> String {
        let schema = schemas().resolve(schema);
        if let Some(members) = schema.get("anyOf").and_then(Value::as_array) {
            let parts: Vec<String> = members
                .iter()
                .filter(|member| !is_null(member))
                .filter(|member| {
                    let later = |tag: &&str| LATER_COMMANDS.contains(tag);
                    self.newer || !tags(schemas().resolve(member), "type").iter().any(later)
                })
                .map(|member| self.describe(member))
                .collect();
            return parts.join(" | ");
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let parts: Vec<String> = words
                .iter()
                .filter(|word| self.newer || word.as_str().is_none_or(|word| !LATER_WORDS.contains(&word)))
                .map(Value::to_string)
                .collect();
            return parts.join(" | ");
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("integer") => "number".to_owned(),
            Some("object") if !fixed_fields(schema).is_empty() => {
                let mut words = String::from("{ ");
                for (name, value) in fixed_fields(schema) {
                    let _ = write!(words, "readonly \"{name}\": {value}, ");
                }
                words.push_str("... }");
                words
            }
            Some(name) => name.to_owned(),
            None => "unknown".to_owned(),
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("null")
}

/// The values that a field of an object may have, where the schema lists them.
fn tags<'a>(schema: &'a Value, field: &str) -> Vec<&'a str> {
    schema
        .get("properties")
        .and_then(|properties| properties.get(field))
        .and_then(|field| field.get("enum"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The fields that can have one value only: the tag first.
fn fixed_fields(schema: &Value) -> Vec<(&str, &Value)> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let mut fixed: Vec<(&str, &Value)> = properties
        .iter()
        .filter_map(|(name, field)| match field.get("enum")?.as_array()?.as_slice() {
            [only] => Some((name.as_str(), only)),
            _ => None,
        })
        .collect();
    fixed.sort_by_key(|(name, _)| *name != "type");
    fixed
}

/// Words with the place that they are about.
fn at(words: &str, path: &[String]) -> String {
    if path.is_empty() {
        return words.to_owned();
    }
    let mut text = format!("{words}\n  at ");
    for part in path {
        let _ = write!(text, "[{}]", Value::from(part.as_str()));
    }
    text
}

#[cfg(test)]
mod tests;
