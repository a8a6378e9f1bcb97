//! Small questions to a JSON Schema of a contract.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) type Defs = BTreeMap<String, Value>;

/// The arms of a choice besides null, choices inside of it opened, and how many nulls there are.
pub(super) fn arms(schema: &Value) -> (Vec<&Value>, usize) {
    let Some(list) = schema.get("anyOf").and_then(Value::as_array) else {
        return if schema.get("type").is_some_and(|kind| kind == "null") {
            (Vec::new(), 1)
        } else {
            (vec![schema], 0)
        };
    };
    let mut found = (Vec::new(), 0);
    for arm in list {
        let (inner, nulls) = arms(arm);
        found.0.extend(inner);
        found.1 += nulls;
    }
    found
}

/// The name that a schema refers to.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// The schema itself, behind references.
pub(super) fn resolve<'s>(defs: &'s Defs, schema: &'s Value) -> &'s Value {
    let mut here = schema;
    // A reference to itself alone would be no type.
    for _ in 0..8 {
        match reference(here).and_then(|name| defs.get(name)) {
            Some(target) => here = target,
            None => break,
        }
    }
    here
}

/// The arms of a choice with references and the choices behind them opened: schema, and its name if it has one.
pub(super) fn opened<'s>(defs: &'s Defs, schema: &'s Value) -> Vec<(Option<&'s str>, &'s Value)> {
    let mut found = Vec::new();
    let mut choices = vec![schema];
    let mut next = 0;
    while let Some(choice) = choices.get(next).copied() {
        next += 1;
        for arm in arms(choice).0 {
            let target = resolve(defs, arm);
            if target.get("anyOf").is_none() {
                found.push((reference(arm), target));
            } else if !choices.iter().any(|known| std::ptr::eq(*known, target)) {
                // Each once: choices may hold each other.
                choices.push(target);
            }
        }
    }
    found
}

/// The field that tells the members of a union apart, and each member's words.
pub(super) fn tag<'s>(bodies: &[&'s Value]) -> Option<&'s str> {
    if bodies.len() < 2 || !bodies.iter().all(|body| body.get("properties").is_some()) {
        return None;
    }
    let common = ["type", "kind", "_tag"];
    let found = common
        .into_iter()
        .find(|tag| bodies.iter().any(|body| !words(body, tag).is_empty()));
    found.or_else(|| {
        let fields = bodies.first()?.get("properties")?.as_object()?.keys();
        fields.map(String::as_str).find(|field| {
            let mut all: Vec<&str> = bodies.iter().flat_map(|body| words(body, field)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            count == all.len() && bodies.iter().all(|body| !words(body, field).is_empty())
        })
    })
}

/// The words that a field of an object may have.
pub(super) fn words<'s>(body: &'s Value, field: &str) -> Vec<&'s str> {
    let words = body
        .get("properties")
        .and_then(|fields| fields.get(field))
        .and_then(|field| field.get("enum"));
    strings(words)
}

/// The words of a string enum, or of a choice between such; none if it is anything else.
pub(super) fn enumeration<'s>(defs: &'s Defs, schema: &'s Value) -> Option<Vec<&'s str>> {
    let mut all = Vec::new();
    for (_, arm) in opened(defs, schema) {
        let words = strings(arm.get("enum"));
        if words.is_empty() {
            return None;
        }
        all.extend(words);
    }
    (!all.is_empty()).then_some(all)
}

/// The strings of a list.
pub(super) fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The fields of an object, and whether each is required.
pub(super) fn fields(schema: &Value) -> BTreeMap<&str, (&Value, bool)> {
    let required = strings(schema.get("required"));
    let fields = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    fields
        .map(|(name, field)| (name.as_str(), (field, required.contains(&name.as_str()))))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn choices_that_hold_each_other_come_to_an_end() {
        let defs: Defs = serde_json::from_value(json!({
            "A": {"anyOf": [{"$ref": "#/$defs/B"}, {"enum": ["a"]}]},
            "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"$ref": "#/$defs/C"}]},
            "C": {"enum": ["c"]},
            "D": {"$ref": "#/$defs/D"},
        }))
        .unwrap();
        let schema = json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]});
        let names: Vec<_> = opened(&defs, &schema).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [None, Some("C")]);
        assert_eq!(enumeration(&defs, &defs["B"]), Some(vec!["c", "a"]));
        assert_eq!(opened(&defs, &defs["D"]).len(), 1);
    }
}
