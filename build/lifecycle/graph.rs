//! What must hold of a machine as a graph: one answer to everything, no state out of reach, no dead ends, nothing told twice.

use std::collections::BTreeSet;

use toml::Spanned;

use super::TABLE;
use super::check::{list, set};
use super::model::{Machine, Model, Row, State};

/// Every state × observation has exactly one row.
pub(super) fn totality(model: &Model, name: &str, machine: &Machine) -> Vec<String> {
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
pub(super) struct Graph<'a> {
    pub(super) machine: &'a Machine,
}

impl<'a> Graph<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
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
    pub(super) fn on<'s>(&self, state: &'s str, observation: &str) -> (&'s str, Option<&'a str>)
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
pub(super) fn reachability(model: &Model, name: &str, machine: &Machine, graph: &Graph<'_>) -> Vec<String> {
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
pub(super) fn repetition(model: &Model, name: &str, machine: &Machine, graph: &Graph<'_>) -> Vec<String> {
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
