//! What the table must be before it becomes code: names that exist, exactly one answer to everything, no dead ends, nothing told
//! twice, and every word of T3's schema mapped. Each refusal names the row and how to mend it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use toml::Spanned;

use super::model::{Machine, Model, OPEN, Row, State, When, Words};
use super::words::words_at;
use super::{Refused, TABLE};

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
        refusals.extend(mapped(
            model,
            schema,
            protocol.get_ref(),
            "request_kind",
            &mapping.request_kind,
            &kinds,
        ));
        let mut status = set(model.request.observation.iter().map(|one| one.get_ref().name.as_str()));
        status.insert(OPEN);
        refusals.extend(mapped(
            model,
            schema,
            protocol.get_ref(),
            "request_status",
            &mapping.request_status,
            &status,
        ));
        let capabilities = set(model.capability.iter().map(|one| one.get_ref().name.as_str()));
        refusals.extend(mapped(
            model,
            schema,
            protocol.get_ref(),
            "capability",
            &mapping.capability,
            &capabilities,
        ));
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(Refused(refusals))
    }
}

fn set<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.collect()
}

fn list(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

/// Names stand once, and state flags make sense.
fn names(model: &Model) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut once = |what: &str, names: Vec<(String, &str)>| {
        let mut seen: BTreeMap<&str, String> = BTreeMap::new();
        for (place, name) in names {
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

/// Every state × observation has exactly one row.
fn totality(model: &Model, name: &str, machine: &Machine) -> Vec<String> {
    let mut refusals = Vec::new();
    for state in &machine.state {
        let state = state.get_ref().name.as_str();
        for observation in &machine.observation {
            let observation = observation.get_ref().name.as_str();
            let covering: Vec<&Spanned<Row>> = machine
                .row
                .iter()
                .filter(|row| covers(row.get_ref(), state, observation))
                .collect();
            match covering.as_slice() {
                [] => refusals.push(format!(
                    "{TABLE}: the {name} state `{state}` has no row for `{observation}`: add them to the `from` and `on` \
                     of a [[{name}.row]] with `to`, or with `ignore` and the reason"
                )),
                [row] => {
                    let row_place = model.place(row);
                    let row = row.get_ref();
                    let twice = |names: &[String], name: &str| names.iter().filter(|one| *one == name).count() > 1;
                    if twice(&row.from, state) || twice(&row.on, observation) {
                        refusals.push(format!(
                            "{row_place}: the row covers `{state}` on `{observation}` twice: name each once"
                        ));
                    }
                }
                [first, others @ ..] => {
                    for other in others {
                        refusals.push(format!(
                            "{}: the row answers `{state}` on `{observation}`, as does the row at {}: take the pair out of one of \
                             them",
                            model.place(other),
                            model.place(first)
                        ));
                    }
                }
            }
        }
    }
    refusals
}

fn covers(row: &Row, state: &str, observation: &str) -> bool {
    row.from.iter().any(|from| from == state) && row.on.iter().any(|on| on == observation)
}

/// The machine as a graph: for a state and an observation, the next state and what is told.
struct Graph<'a> {
    machine: &'a Machine,
}

impl<'a> Graph<'a> {
    fn new(machine: &'a Machine) -> Self {
        Self { machine }
    }

    /// All edges that lead somewhere: from, on, to, told, with the row.
    fn edges(&self) -> impl Iterator<Item = (&'a str, &'a str, &'a str, Option<&'a str>, &'a Spanned<Row>)> {
        self.machine.row.iter().flat_map(|spanned| {
            let row = spanned.get_ref();
            row.to.iter().flat_map(move |to| {
                row.from.iter().flat_map(move |from| {
                    row.on
                        .iter()
                        .map(move |on| (from.as_str(), on.as_str(), to.as_str(), row.emit.as_deref(), spanned))
                })
            })
        })
    }

    /// What a state becomes on an observation; itself where nothing happens.
    fn on<'s>(&self, state: &'s str, observation: &str) -> (&'s str, Option<&'a str>)
    where
        'a: 's,
    {
        self.edges()
            .find(|(from, on, ..)| *from == state && *on == observation)
            .map_or((state, None), |(_, _, to, emit, _)| (to, emit))
    }

    /// All states that can be reached, the beginning included.
    fn reach(&self, begin: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::from([begin]);
        loop {
            let next: Vec<&str> = self
                .edges()
                .filter(|edge| reached.contains(edge.0))
                .map(|edge| edge.2)
                .collect();
            let before = reached.len();
            reached.extend(next);
            if reached.len() == before {
                return reached;
            }
        }
    }
}

/// Every state can be reached, and every busy one be left for an end.
fn reachability(model: &Model, name: &str, machine: &Machine, graph: &Graph<'_>) -> Vec<String> {
    let reached = graph.reach(machine.initial.get_ref());
    let ended = set(machine
        .state
        .iter()
        .map(Spanned::get_ref)
        .filter(|state| state.ended)
        .map(|state| state.name.as_str()));
    let mut refusals = Vec::new();
    for spanned in &machine.state {
        let state: &State = spanned.get_ref();
        if !reached.contains(state.name.as_str()) {
            refusals.push(format!(
                "{}: no row leads to the {name} state `{}`: add a row with `to = \"{}\"`, or drop the state",
                model.place(spanned),
                state.name,
                state.name
            ));
        }
        if state.busy && graph.reach(&state.name).is_disjoint(&ended) {
            refusals.push(format!(
                "{}: the busy {name} state `{}` can never be left for an end: add a row from it to one of {}",
                model.place(spanned),
                state.name,
                list(&ended)
            ));
        }
    }
    refusals
}

/// Nothing is told twice, and a repeated observation changes nothing.
fn repetition(model: &Model, name: &str, machine: &Machine, graph: &Graph<'_>) -> Vec<String> {
    let mut refusals = Vec::new();
    let mut blamed = BTreeSet::new();
    for (_, _, told, emit, first) in graph.edges() {
        let Some(event) = emit else { continue };
        let after = graph.reach(told);
        for (from, on, _, again, second) in graph.edges() {
            if again.is_some() && after.contains(from) && blamed.insert((first.span().start, second.span().start)) {
                refusals.push(format!(
                    "{}: after the row at {} has told `{event}`, the {name} can come to `{from}` and tell again on `{on}`: drop \
                     `emit` here, or the way from `{told}` to `{from}`",
                    model.place(second),
                    model.place(first)
                ));
            }
        }
    }
    for state in &machine.state {
        for observation in &machine.observation {
            let observation = observation.get_ref().name.as_str();
            let once = graph.on(&state.get_ref().name, observation);
            let twice = graph.on(once.0, observation);
            if twice.0 != once.0 || twice.1.is_some() {
                refusals.push(format!(
                    "{TABLE}: the {name} state `{}` becomes `{}` on `{observation}`, and `{}` when that is observed again: \
                     a repeated observation must change nothing, so let `{}` stay on it",
                    state.get_ref().name,
                    once.0,
                    twice.0,
                    once.0
                ));
            }
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

/// Every run and request that can decide a thread's state has its step, every step has what it waits for, and one ends the list.
fn fold(model: &Model) -> Vec<String> {
    let mut refusals = Vec::new();
    let step = |when: When, state: &str| {
        model
            .thread
            .iter()
            .any(|row| row.get_ref().when == when && row.get_ref().state == state)
    };
    for spanned in &model.run.state {
        let state = spanned.get_ref();
        let (when, word) = if state.busy {
            (When::Run, "run")
        } else {
            (When::LastEnded, "last_ended")
        };
        if (state.busy || state.ended && !state.void) && !step(when, state.word()) {
            refusals.push(format!(
                "{}: no [[thread]] row folds the run state `{}`: add one with `state = \"{}\"` and `when = \"{word}\"`",
                model.place(spanned),
                state.name,
                state.word()
            ));
        }
    }
    let observations = set(model.request.observation.iter().map(|one| one.get_ref().name.as_str()));
    for spanned in &model.class {
        let place = model.place(spanned);
        let class = spanned.get_ref();
        if !observations.contains(class.asks.as_str()) {
            refusals.push(format!(
                "{place}: there is no request observation `{}`: declare it, or use one of {}",
                class.asks,
                list(&observations)
            ));
        }
        match &class.thread {
            Some(state) if !step(When::Request, state) => refusals.push(format!(
                "{place}: no [[thread]] row folds the class `{}`: add one with `state = \"{state}\"` and `when = \"request\"`",
                class.name
            )),
            None if class.holds => refusals.push(format!(
                "{place}: the class `{}` holds a run, so it needs `thread`: the thread's state while it does",
                class.name
            )),
            _ => {}
        }
    }
    for spanned in &model.thread {
        let place = model.place(spanned);
        let row = spanned.get_ref();
        let states =
            |busy: bool| {
                model.run.state.iter().map(Spanned::get_ref).any(|state| {
                    state.word() == row.state && if busy { state.busy } else { state.ended && !state.void }
                })
            };
        let waited_for = match row.when {
            When::Deleted | When::Otherwise => true,
            When::Request => model
                .class
                .iter()
                .any(|class| class.get_ref().thread.as_ref() == Some(&row.state)),
            When::Run => states(true),
            When::LastEnded => states(false),
        };
        if !waited_for {
            refusals.push(format!(
                "{place}: nothing leads to the thread state `{}`: name a state or class of that word, or drop the row",
                row.state
            ));
        }
    }
    let otherwise: Vec<usize> = model
        .thread
        .iter()
        .enumerate()
        .filter(|(_, row)| row.get_ref().when == When::Otherwise)
        .map(|(at, _)| at)
        .collect();
    if otherwise != [model.thread.len().saturating_sub(1)] {
        refusals.push(format!(
            "{TABLE}: exactly one [[thread]] row has `when = \"otherwise\"`, and it is the last"
        ));
    }
    refusals
}

/// The words of the table are those of the schema, no more and no fewer, and mean something.
fn mapped(
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
            if !words.meanings.keys().any(|known| *known.get_ref() == word) {
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
fn unknown_is_no_end(model: &Model, words: &Words, graph: &Graph<'_>) -> Option<String> {
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
