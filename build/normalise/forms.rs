//! Small questions to a schema, and small schemas.

use serde_json::{Map, Value, json};

/// The arms of a schema besides null, and how many nulls there are: two are the sign that absent and null differ.
pub(super) fn without_null(schema: &Value) -> (Vec<Value>, usize) {
    let Some(arms) = schema.get("anyOf").and_then(Value::as_array) else {
        return if is_null(schema) {
            (Vec::new(), 1)
        } else {
            (vec![schema.clone()], 0)
        };
    };
    let mut rest = Vec::new();
    let mut nulls = 0;
    for arm in arms {
        let (inner, more) = without_null(arm);
        nulls += more;
        // A choice inside of a choice stays one: only its nulls come out (older encoders nest them).
        match inner.as_slice() {
            [] => {}
            [_] => rest.extend(inner),
            several => rest.push(json!({ "anyOf": several })),
        }
    }
    (rest, nulls)
}

pub(super) fn nullable(inner: Value) -> Value {
    if inner.as_object().is_some_and(Map::is_empty) {
        return inner;
    }
    json!({ "oneOf": [inner, { "type": "null" }] })
}

pub(super) fn integer(schema: &Value) -> Value {
    let constant = schema.get("enum").and_then(|words| words.get(0));
    let least = schema.get("minimum").or(constant).and_then(Value::as_i64);
    if least.is_some_and(|least| least >= 0) {
        return json!({ "type": "integer", "format": "uint64", "minimum": 0 });
    }
    json!({ "type": "integer", "format": "int64" })
}

pub(super) fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// An object with fields of its own, not a map.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some()
}

pub(super) fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

pub(super) fn list<'s>(schema: &'s Value, key: &str) -> &'s [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
