//! That the fold has a step for everything that can decide a thread's state, and no step that waits for nothing.

use toml::Spanned;

use super::TABLE;
use super::check::{list, set};
use super::model::{Model, When};

/// Every run and request that can decide a thread's state has its step, every step has what it waits for, and one ends the list.
pub(super) fn fold(model: &Model) -> Vec<String> {
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
