//! A schema in words: as short as a type can be said.

use serde_json::Value;

use super::forms::reference;

/// What kind of type it is, in a word.
pub fn kind(schema: &Value) -> &'static str {
    if schema.get("properties").is_some() {
        "object"
    } else if schema.get("anyOf").is_some() {
        "choice"
    } else if schema.get("enum").is_some() {
        "words"
    } else {
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => "map",
            Some("array") => "list",
            Some("string") => "text",
            Some(_) => "number or flag",
            None => ANYTHING,
        }
    }
}

/// What a schema without a type is called.
pub(super) const ANYTHING: &str = "anything";

/// The whole of a type: an object's fields and a choice's members on lines of their own.
pub fn definition(name: &str, schema: &Value) -> String {
    let mut lines = vec![format!("{name}: {}", kind(schema))];
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        let required = super::forms::strings(schema.get("required"));
        lines.extend(fields.iter().map(|(field, inner)| {
            let mark = if required.contains(&field.as_str()) { "" } else { "?" };
            format!("  {field}{mark}: {}", short(inner))
        }));
    } else if let Some(arms) = schema.get("anyOf").and_then(Value::as_array) {
        lines.extend(arms.iter().map(|arm| format!("  {}", short(arm))));
    } else {
        lines.push(format!("  {}", short(schema)));
    }
    lines.join("\n")
}

/// A type on one line.
pub(super) fn short(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return name.to_owned();
    }
    if let Some(arms) = schema.get("anyOf").and_then(Value::as_array) {
        return arms.iter().map(short).collect::<Vec<_>>().join(" | ");
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        let required = super::forms::strings(schema.get("required"));
        let fields = fields.iter().map(|(field, inner)| {
            let mark = if required.contains(&field.as_str()) { "" } else { "?" };
            format!("{field}{mark}: {}", short(inner))
        });
        return format!("{{{}}}", fields.collect::<Vec<_>>().join(", "));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => format!("[{}]", schema.get("items").map_or_else(|| ANYTHING.to_owned(), short)),
        Some("object") => {
            let values = schema.get("additionalProperties").filter(|values| values.is_object());
            format!("{{*: {}}}", values.map_or_else(|| ANYTHING.to_owned(), short))
        }
        Some(kind) => {
            let bounds = ["minimum", "maximum", "minLength", "maxLength"]
                .into_iter()
                .filter_map(|bound| {
                    let value = schema.get(bound)?;
                    // The bounds of every integer say nothing.
                    (value.as_i64()?.unsigned_abs() != MAX_SAFE).then(|| format!("{bound} {value}"))
                });
            let bounds: Vec<String> = bounds.collect();
            if bounds.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind} ({})", bounds.join(", "))
            }
        }
        None => ANYTHING.to_owned(),
    }
}

/// The largest integer that JavaScript counts to.
const MAX_SAFE: u64 = 9_007_199_254_740_991;
