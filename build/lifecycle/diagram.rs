//! A machine as a Mermaid state diagram, small enough to be read.
//!
//! What every busy state does alike is drawn once, from the box around them. Left out are loops and what happens after an end,
//! since neither changes what is told.

use std::collections::BTreeSet;

use toml::Spanned;

use super::model::{Machine, State};

/// An edge without its beginning: observation, next state, what is told.
type Edge<'a> = (&'a str, &'a str, Option<&'a str>);

/// The diagram's text.
pub(super) fn mermaid(machine: &Machine) -> String {
    let states: Vec<&State> = machine.state.iter().map(Spanned::get_ref).collect();
    let initial = machine.initial.get_ref().as_str();
    let busy: Vec<&str> = states
        .iter()
        .filter(|state| state.busy)
        .map(|state| state.name.as_str())
        .collect();
    let edges_of = |name: &str| edges(machine, name);
    let alike: Vec<Edge<'_>> = busy
        .split_first()
        .map(|(first, others)| {
            edges_of(first)
                .into_iter()
                .filter(|edge| !busy.contains(&edge.1) && others.iter().all(|other| edges_of(other).contains(edge)))
                .collect()
        })
        .unwrap_or_default();

    let mut lines = vec!["stateDiagram-v2".to_owned(), "    state open {".to_owned()];
    for name in &busy {
        lines.push(format!("        {name}"));
        let inner: Vec<Edge<'_>> = edges_of(name)
            .into_iter()
            .filter(|edge| busy.contains(&edge.1) && edge.1 != *name)
            .collect();
        lines.extend(draw(name, &inner).into_iter().map(|line| format!("    {line}")));
    }
    lines.push("    }".to_owned());
    let first: Vec<Edge<'_>> = edges_of(initial)
        .into_iter()
        .filter(|edge| !alike.contains(edge))
        .collect();
    lines.extend(draw("[*]", &first));
    lines.extend(draw("open", &alike));
    for name in &busy {
        let own: Vec<Edge<'_>> = edges_of(name)
            .into_iter()
            .filter(|edge| !busy.contains(&edge.1) && !alike.contains(edge))
            .collect();
        lines.extend(draw(name, &own));
    }
    for state in states.iter().filter(|state| state.ended) {
        lines.push(format!("    {} --> [*]", state.name));
    }
    lines.join("\n") + "\n"
}

/// Where a state leads, loops left out.
fn edges<'a>(machine: &'a Machine, name: &str) -> Vec<Edge<'a>> {
    let mut found = Vec::new();
    for row in machine.row.iter().map(Spanned::get_ref) {
        let Some(to) = row.to.as_deref() else { continue };
        if to == name || !row.from.iter().any(|from| from == name) {
            continue;
        }
        found.extend(row.on.iter().map(|on| (on.as_str(), to, row.emit.as_deref())));
    }
    found
}

/// The lines of edges from one state: one line for each next state and event, all observations on it.
fn draw(from: &str, edges: &[Edge<'_>]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    for &(_, to, emit) in edges {
        if !seen.insert((to, emit)) {
            continue;
        }
        let observations: Vec<&str> = edges
            .iter()
            .filter(|edge| (edge.1, edge.2) == (to, emit))
            .map(|edge| edge.0)
            .collect();
        let told = emit.map(|event| format!(" / {event}")).unwrap_or_default();
        lines.push(format!("    {from} --> {to}: {}{told}", observations.join(", ")));
    }
    lines
}
