//! What the table must be before it becomes code: names that exist, exactly one answer to everything, no dead ends, nothing told
//! twice, and every word of T3's schema mapped. Each refusal names the row and how to mend it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Refused;
use super::folding::fold;
use super::graph::{Graph, reachability, repetition, totality};
use super::mapping::{mapped, unknown_is_no_end};
use super::model::{Machine, Model, OPEN};

/// Passes, or says everything that is wrong.
pub(super) fn check(model: &Model, schemas: &BTreeMap<String, Value>) -> Result<(), Refused> {
    let mut refusals = names(model);
    refusals.extend(rows(model, "run", &model.run));
    refusals.extend(rows(model, "request", &model.request));
    // What follows walks the graph, which wrong names would only confuse.
    if refusals.is_empty() {
        for (name, machine) in [("run", &model.run), ("request", &model.request)] {
            refusals.extend(totality(model, name, machine));
            let graph = Graph::new(machine);
            refusals.extend(reachability(model, name, machine, &graph));
            refusals.extend(repetition(model, name, machine, &graph));
        }
        refusals.extend(events(model));
        refusals.extend(fold(model));
    }
    for (protocol, mapping) in &model.mapping {
        let Some(schema) = schemas.get(protocol.get_ref()) else {
            refusals.push(format!(
                "{}: there is no schema of {}: export schemas/t3/{}/contract.json or drop the mapping",
                model.place(protocol),
                protocol.get_ref(),
                protocol.get_ref()
            ));
            continue;
        };
        let graph = Graph::new(&model.run);
        let run = set(model.run.observation.iter().map(|one| one.get_ref().name.as_str()));
        refusals.extend(mapped(
            model,
            schema,
            protocol.get_ref(),
            "run_status",
            &mapping.run_status,
            &run,
        ));
        refusals.extend(unknown_is_no_end(model, &mapping.run_status, &graph));
        let kinds = set(model.class.iter().map(|one| one.get_ref().name.as_str()));
        let mut status = set(model.request.observation.iter().map(|one| one.get_ref().name.as_str()));
        status.insert(OPEN);
        let capabilities = set(model.capability.iter().map(|one| one.get_ref().name.as_str()));
        let tables = [
            ("request_kind", &mapping.request_kind, kinds),
            ("request_status", &mapping.request_status, status),
            ("capability", &mapping.capability, capabilities),
        ];
        for (name, words, targets) in &tables {
            if let Some(words) = words {
                refusals.extend(mapped(model, schema, protocol.get_ref(), name, words, targets));
            }
        }
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(Refused(refusals))
    }
}

pub(super) fn set<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.collect()
}

pub(super) fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Names can be names, stand once, and state flags make sense.
fn names(model: &Model) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut once = |what: &str, names: Vec<(String, &str)>| {
        let mut seen: BTreeMap<&str, String> = BTreeMap::new();
        for (place, name) in names {
            let letter = name.starts_with(|first: char| first.is_ascii_lowercase());
            if !letter
                || !name
                    .chars()
                    .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
            {
                refusals.push(format!(
                    "{place}: the {what} `{name}` cannot be a name: write it in snake_case"
                ));
            }
            if let Some(first) = seen.get(name) {
                refusals.push(format!(
                    "{place}: the {what} `{name}` stands already at {first}: rename or drop one of them"
                ));
            } else {
                seen.insert(name, place);
            }
        }
    };
    once(
        "event",
        model
            .event
            .iter()
            .map(|one| (model.place(one), one.get_ref().name.as_str()))
            .collect(),
    );
    once(
        "class",
        model
            .class
            .iter()
            .map(|one| (model.place(one), one.get_ref().name.as_str()))
            .collect(),
    );
    once(
        "capability",
        model
            .capability
            .iter()
            .map(|one| (model.place(one), one.get_ref().name.as_str()))
            .collect(),
    );
    once(
        "thread state",
        model
            .thread
            .iter()
            .map(|one| (model.place(one), one.get_ref().state.as_str()))
            .collect(),
    );
    for (machine, name) in [(&model.run, "run"), (&model.request, "request")] {
        once(
            &format!("{name} state"),
            machine
                .state
                .iter()
                .map(|one| (model.place(one), one.get_ref().name.as_str()))
                .collect(),
        );
        once(
            &format!("{name} observation"),
            machine
                .observation
                .iter()
                .map(|one| (model.place(one), one.get_ref().name.as_str()))
                .collect(),
        );
    }
    for (machine, name) in [(&model.run, "run"), (&model.request, "request")] {
        for state in &machine.state {
            let place = model.place(state);
            let state = state.get_ref();
            let first = state.name == *machine.initial.get_ref();
            if first && (state.busy || state.ended) {
                refusals.push(format!(
                    "{place}: the {name} state `{}` is the first: it is neither busy nor ended",
                    state.name
                ));
            }
            if !first && state.busy == state.ended {
                refusals.push(format!(
                    "{place}: the {name} state `{}` must be either busy or ended: set one of the two",
                    state.name
                ));
            }
            if state.void && !state.ended {
                refusals.push(format!(
                    "{place}: the {name} state `{}` is void, so it must be ended as well",
                    state.name
                ));
            }
        }
    }
    refusals
}

/// Each row names what exists, and either leads somewhere or says why not.
fn rows(model: &Model, name: &str, machine: &Machine) -> Vec<String> {
    let states = set(machine.state.iter().map(|one| one.get_ref().name.as_str()));
    let observations = set(machine.observation.iter().map(|one| one.get_ref().name.as_str()));
    let events = set(model.event.iter().map(|one| one.get_ref().name.as_str()));
    let mut refusals = Vec::new();
    let mut known = |place: &str, what: &str, word: &str, known: &BTreeSet<&str>| {
        if !known.contains(word) {
            refusals.push(format!(
                "{place}: there is no {what} `{word}`: declare it, or use one of {}",
                list(known)
            ));
        }
    };
    known(
        &model.place(&machine.initial),
        &format!("{name} state"),
        machine.initial.get_ref(),
        &states,
    );
    for row in &machine.row {
        let place = model.place(row);
        let row = row.get_ref();
        for state in row.from.iter().chain(&row.to) {
            known(&place, &format!("{name} state"), state, &states);
        }
        for observation in &row.on {
            known(&place, &format!("{name} observation"), observation, &observations);
        }
        if let Some(event) = &row.emit {
            known(&place, "event", event, &events);
        }
    }
    for row in &machine.row {
        let place = model.place(row);
        let row = row.get_ref();
        if row.from.is_empty() || row.on.is_empty() {
            refusals.push(format!(
                "{place}: the row covers nothing: name a state in `from` and an observation in `on`"
            ));
        }
        match (&row.to, &row.ignore) {
            (Some(_), Some(_)) => {
                refusals.push(format!(
                    "{place}: the row both leads to a state and ignores: drop `to` or `ignore`"
                ));
            }
            (None, None) => {
                refusals.push(format!(
                    "{place}: the row leads nowhere: give it `to`, or `ignore` with the reason"
                ));
            }
            (None, Some(_)) if row.emit.is_some() => {
                refusals.push(format!(
                    "{place}: the row ignores and yet tells something: drop `emit` or `ignore`"
                ));
            }
            _ => {}
        }
    }
    refusals
}

/// Every event is told by some row.
fn events(model: &Model) -> Vec<String> {
    let told: BTreeSet<&str> = [&model.run, &model.request]
        .into_iter()
        .flat_map(|machine| &machine.row)
        .filter_map(|row| row.get_ref().emit.as_deref())
        .collect();
    model
        .event
        .iter()
        .filter(|event| !told.contains(event.get_ref().name.as_str()))
        .map(|event| {
            format!(
                "{}: no row tells the event `{}`: give a row `emit = \"{}\"`, or drop the event",
                model.place(event),
                event.get_ref().name,
                event.get_ref().name
            )
        })
        .collect()
}
