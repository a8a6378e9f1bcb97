//! T3's words: those that the schema allows at a place (`Def.property.property`, through references and unions), and that the table
//! maps all of them and no others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::list;
use super::graph::Graph;
use super::model::{Model, Words};

/// The words of the table are those of the schema, no more and no fewer, and mean something.
pub(super) fn mapped(
    model: &Model,
    schema: &Value,
    protocol: &str,
    name: &str,
    words: &Words,
    targets: &BTreeSet<&str>,
) -> Vec<String> {
    let mut refusals = Vec::new();
    for target in words.meanings.values() {
        if !targets.contains(target.get_ref().as_str()) {
            refusals.push(format!(
                "{}: `{}` is nothing to map to: use one of {}",
                model.place(target),
                target.get_ref(),
                list(targets)
            ));
        }
    }
    if !targets.contains(words.unknown.get_ref().as_str()) {
        refusals.push(format!(
            "{}: `{}` is nothing to map to: use one of {}",
            model.place(&words.unknown),
            words.unknown.get_ref(),
            list(targets)
        ));
    }
    let mut allowed = BTreeSet::new();
    for at in &words.at {
        let Some(here) = words_at(schema, at.get_ref()) else {
            refusals.push(format!(
                "{}: the schema of {protocol} has no words at `{}`: look for where T3 moved them and name that place",
                model.place(at),
                at.get_ref()
            ));
            continue;
        };
        for word in here {
            // Of a word that stands at several places the first is named.
            if !allowed.contains(&word) && !words.meanings.keys().any(|known| *known.get_ref() == word) {
                refusals.push(format!(
                    "{}: `{}` of the schema of {protocol} has the word `{word}`, which [mapping.{protocol}.{name}] lacks: decide \
                     what it means and add `{word} = \"…\"` with one of {}",
                    model.place(at),
                    at.get_ref(),
                    list(targets)
                ));
            }
            allowed.insert(word);
        }
    }
    for word in words.meanings.keys() {
        if !allowed.contains(word.get_ref()) {
            refusals.push(format!(
                "{}: the schema of {protocol} does not have the word `{}`: mend the spelling, or drop the line if T3 dropped the word",
                model.place(word),
                word.get_ref()
            ));
        }
    }
    refusals
}

/// A run status that we do not know is never an end.
pub(super) fn unknown_is_no_end(model: &Model, words: &Words, graph: &Graph<'_>) -> Option<String> {
    let (to, told) = graph.on(graph.machine.initial.get_ref(), words.unknown.get_ref());
    let busy = graph
        .machine
        .state
        .iter()
        .any(|state| state.get_ref().busy && state.get_ref().name == to);
    (!busy || told.is_some()).then(|| {
        format!(
            "{}: an unknown run status would lead to `{to}`: map it to an observation of a run that goes on",
            model.place(&words.unknown)
        )
    })
}

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
