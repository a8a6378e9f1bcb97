//! The words that a schema allows at a place: `Def.property.property`, through references and unions.

use std::collections::BTreeSet;

use serde_json::Value;

/// All string values that the schema allows at `place`; none if there is no such place, or if it is not an enumeration.
pub(super) fn words_at(schema: &Value, place: &str) -> Option<BTreeSet<String>> {
    let defs = schema.get("$defs")?;
    let mut steps = place.split('.');
    let mut here = vec![defs.get(steps.next()?)?];
    for step in steps {
        here = arms(defs, here)
            .into_iter()
            .filter_map(|arm| arm.get("properties")?.get(step))
            .collect();
    }
    let words: BTreeSet<String> = arms(defs, here)
        .into_iter()
        .flat_map(|arm| arm.get("enum").and_then(Value::as_array).into_iter().flatten())
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    (!words.is_empty()).then_some(words)
}

/// The schemas themselves, with references followed and unions opened.
fn arms<'a>(defs: &'a Value, from: Vec<&'a Value>) -> Vec<&'a Value> {
    let mut open = from;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(schema) = open.pop() {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.trim_start_matches("#/$defs/");
            // A type that refers to itself is opened once.
            if seen.insert(name)
                && let Some(target) = defs.get(name)
            {
                open.push(target);
            }
            continue;
        }
        for union in ["anyOf", "oneOf"] {
            open.extend(schema.get(union).and_then(Value::as_array).into_iter().flatten());
        }
        found.push(schema);
    }
    found
}
