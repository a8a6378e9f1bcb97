//! Makes the schemas that clients see, out of what `schemars` derives.
//!
//! Clients differ in what they can read: some drop a tool, or all tools of a server, over a type union, an `anyOf` or a `$ref`. So every schema
//! that leaves here has an object root and plain properties: what is optional is left out, never null; what is mixed has no type and says its
//! rule in its description. `tool` calls it once a tool, at start.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::generate::{Contract, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The longest description, and the longest instructions, in characters: at least one client cuts what is longer without a word.
pub const DESCRIPTION_CHARS: usize = 2_048;

/// The schema of what a tool takes.
pub fn input<T: JsonSchema>() -> Arc<JsonObject> {
    plain::<T>(Contract::Deserialize)
}

/// The schema of what a tool answers.
pub fn output<T: JsonSchema>() -> Arc<JsonObject> {
    plain::<T>(Contract::Serialize)
}

fn plain<T: JsonSchema>(contract: Contract) -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    settings.contract = contract;
    let schema = settings
        .with_transform(Plain)
        .into_generator()
        .into_root_schema_for::<T>();
    let mut root = schema.as_object().cloned().unwrap_or_default();
    // The name and the doc comment of our own type; the tool has a title and a description.
    root.remove("title");
    root.remove("description");
    root.entry("type").or_insert_with(|| "object".into());
    // A tool without arguments still shows that it takes properties: some clients demand the key.
    root.entry("properties")
        .or_insert_with(|| Value::Object(JsonObject::new()));
    Arc::new(root)
}

/// Rewrites every schema into the subset that all clients read.
#[derive(Clone, Debug)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.as_bool().is_some() {
            *schema = Schema::default();
        }
        if let Some(object) = schema.as_object_mut() {
            without_choices(object);
            without_null(object);
            // Not JSON Schema's own (`uint32`, `double`): strict readers warn about each.
            object.remove("format");
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
        }
        transform_subschemas(self, schema);
        if let Some(object) = schema.as_object_mut() {
            open_maps(object);
        }
    }
}

/// `anyOf` and `oneOf`: null goes, a single rest takes the place, named constants become an `enum`, the rest stays untyped.
fn without_choices(object: &mut JsonObject) {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(members)) = object.remove(keyword) else {
            continue;
        };
        let mut members: Vec<JsonObject> = members
            .into_iter()
            .filter_map(|member| match member {
                Value::Object(member) => Some(member),
                _ => None,
            })
            .filter(|member| member.get("type") != Some(&Value::from("null")))
            .collect();
        if members.len() == 1 {
            for (key, value) in members.swap_remove(0) {
                object.entry(key).or_insert(value);
            }
            // The member may itself be a choice.
            without_choices(object);
        } else if let Some((words, notes)) = constants(&members) {
            object.insert("type".into(), "string".into());
            object.insert("enum".into(), words.into());
            if !notes.is_empty() {
                let told = object.get("description").and_then(Value::as_str).unwrap_or_default();
                let told = [told, &notes.join("; ")].join(" ").trim().to_owned();
                object.insert("description".into(), told.into());
            }
        }
    }
}

/// The words of a choice between strings, with what is said about each.
fn constants(members: &[JsonObject]) -> Option<(Vec<Value>, Vec<String>)> {
    let mut words = Vec::new();
    let mut notes = Vec::new();
    for member in members {
        if let Some(word) = member.get("const").and_then(Value::as_str) {
            if let Some(note) = member.get("description").and_then(Value::as_str) {
                notes.push(format!("`{word}`: {}", note.trim_end_matches('.')));
            }
            words.push(word.into());
        } else {
            words.extend(member.get("enum")?.as_array()?.iter().cloned());
        }
    }
    (!words.is_empty()).then_some((words, notes))
}

/// `["string", "null"]` becomes `"string"`; a union of several types has no type.
fn without_null(object: &mut JsonObject) {
    let Some(Value::Array(kinds)) = object.get("type") else {
        return;
    };
    let kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
    match <[Value; 1]>::try_from(kinds) {
        Ok([kind]) => object.insert("type".into(), kind),
        Err(_) => object.remove("type"),
    };
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

/// A map whose values have no single type is a plain object; an empty `additionalProperties` says nothing.
fn open_maps(object: &mut JsonObject) {
    let says_nothing = object
        .get("additionalProperties")
        .is_some_and(|rule| rule == &Value::Bool(true) || rule.get("type").is_none() && rule.is_object());
    if says_nothing {
        object.remove("additionalProperties");
    }
}

#[cfg(test)]
mod tests {
    #![allow(dead_code, clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        count: u32,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Word {
        /// Now.
        Soon,
        /// Then.
        Later,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Mixed {
        Flag(bool),
        Text(String),
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Everything {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inner: Option<Inner>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        word: Option<Word>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        map: Option<BTreeMap<String, Mixed>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        any: Option<Value>,
        number: f64,
    }

    #[test]
    fn an_optional_property_is_its_plain_type_and_not_required() {
        let schema = Value::Object((*input::<Everything>()).clone());
        assert_eq!(schema["properties"]["text"], json!({"type": "string"}));
        assert_eq!(schema["properties"]["inner"]["type"], "object");
        assert_eq!(schema["properties"]["any"], json!({}));
        assert_eq!(schema["properties"]["number"], json!({"type": "number"}));
        assert_eq!(schema["required"], json!(["number"]));
    }

    #[test]
    fn documented_words_become_an_enum_that_keeps_what_was_said() {
        let schema = Value::Object((*input::<Everything>()).clone());
        assert_eq!(
            schema["properties"]["word"],
            json!({"type": "string", "enum": ["Soon", "Later"], "description": "`Soon`: Now; `Later`: Then"})
        );
    }

    #[test]
    fn a_map_of_mixed_values_is_a_plain_object() {
        let schema = Value::Object((*output::<Everything>()).clone());
        assert_eq!(schema["properties"]["map"], json!({"type": "object"}));
        assert_eq!(schema["type"], "object");
        assert!(schema.get("$schema").is_none() && schema.get("$defs").is_none());
    }
}
