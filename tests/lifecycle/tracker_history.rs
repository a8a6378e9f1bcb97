//! Whole histories of a thread, watched by two: one reads after everything that happens, the other now and then, twice, or not
//! until the end, and is stopped and begun again in between. Both must come to the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use t3code_mcp::lifecycle::{EventKind, HookEvent, RunFacts, RunState, Told, Watch};
use t3code_mcp::protocol::{MessageId, RunId, RuntimeRequestId};

use crate::history::{Happening, Model, WORKING, happening};
use crate::support::{at, run};
use crate::watcher::{Watcher, message, wanted};

/// A thread and who sent what into it.
#[derive(Clone, Debug, Default)]
struct World {
    model: Model,
    messages: BTreeMap<String, RunId>,
    /// The messages that were sent through us by what happened last.
    sent: Option<(String, Watch)>,
    /// T3 was killed by what happened last.
    killed: bool,
}

/// Of these, some want no events.
fn watch(number: usize, all: bool) -> Watch {
    Watch {
        on: all || !number.is_multiple_of(4),
        ..wanted(&format!("origin-{number}"))
    }
}

impl World {
    /// The next thing happens; `number` says which it is, and by that who did it.
    fn apply(&mut self, happening: Happening, number: usize, all: bool) {
        self.sent = None;
        self.killed = false;
        let ours = all || !number.is_multiple_of(3);
        let before = self.model.clone();
        self.model.apply(happening);
        match happening {
            Happening::Dispatched => {
                let run = self.model.runs.last().unwrap();
                let name = run.user_message.0.clone();
                self.messages.insert(name.clone(), run.id.clone());
                self.sent = ours.then(|| (name, watch(number, all)));
            }
            Happening::Steered(pick) => {
                if let Some(steered) = before.of_status(WORKING, pick) {
                    let name = format!("steer-{number}");
                    self.model.runs[steered].user_message = message(&name);
                    self.messages.insert(name.clone(), self.model.runs[steered].id.clone());
                    self.sent = ours.then(|| (name, watch(number, all)));
                }
            }
            Happening::Promoted(pick) => {
                if let (Some(_), Some(into)) = (before.of_status(&["queued"], pick), before.of_status(WORKING, pick)) {
                    let into = &self.model.runs[into];
                    self.messages.insert(into.user_message.0.clone(), into.id.clone());
                }
            }
            Happening::Killed => {
                self.killed = true;
                let open = before.runs.iter().position(|run| run.completed_at.is_none());
                if let Some(open) = open.filter(|_| number.is_multiple_of(2)) {
                    let continued = self.model.runs[open].id.clone();
                    let ordinal = self.model.runs.len() as u64 + 1;
                    self.model.runs.push(RunFacts {
                        requested_at: at(self.model.now),
                        continuation_of: Some(continued),
                        ..run(ordinal, "queued")
                    });
                }
            }
            Happening::NextStarts
            | Happening::Works(_)
            | Happening::Finishes(_)
            | Happening::Ends(..)
            | Happening::Unqueued(_)
            | Happening::Asks(..)
            | Happening::Answered(..) => {}
        }
    }

    fn messages(&self) -> Vec<(MessageId, Option<RunId>)> {
        let owned = self.messages.iter();
        owned.map(|(name, run)| (message(name), Some(run.clone()))).collect()
    }
}

/// How one looks at what happened: not at all, how often, whether after a gap, and whether one was stopped then.
#[derive(Clone, Copy, Debug)]
struct Look {
    looks: bool,
    often: usize,
    gap: bool,
    restarts: bool,
}

fn look() -> impl Strategy<Value = Look> {
    (any::<bool>(), 1_usize..3, any::<bool>(), any::<bool>()).prop_map(|(looks, often, gap, restarts)| Look {
        looks,
        often,
        gap,
        restarts,
    })
}

const ALWAYS: Look = Look {
    looks: true,
    often: 1,
    gap: false,
    restarts: false,
};

/// What is told of a history by one who looks like this, at the end in any case; and what is kept then.
fn told(history: &[Happening], looks: impl Fn(usize) -> Look, all: bool) -> (Vec<Told>, Watcher, World) {
    let mut watcher = Watcher::patient();
    let mut world = World::default();
    let mut told = Vec::new();
    let mut killed = false;
    for (number, happening) in history.iter().enumerate() {
        // Who sends a message says so before it is sent.
        let mut next = world.clone();
        next.apply(*happening, number, all);
        watcher.now = at(next.model.now);
        if let Some((name, watch)) = &next.sent {
            watcher.dispatch(name, watch.clone());
        }
        world = next;
        killed |= world.killed;
        let look = looks(number);
        if !look.looks && number + 1 < history.len() {
            continue;
        }
        if look.gap || killed {
            watcher.away(0);
            killed = false;
        }
        watcher.messages = world.messages();
        for _ in 0..look.often {
            told.extend(watcher.reads(&world.model.facts()));
        }
        if look.restarts {
            watcher.restarts();
        }
    }
    (told, watcher, world)
}

fn is_terminal(told: &Told) -> bool {
    [EventKind::Completed, EventKind::Interrupted, EventKind::Failed].contains(&told.kind)
}

/// The ends of a history, each with all that is said of it but when.
fn ends(told: &[Told]) -> Vec<(RunId, EventKind, &'static str, Watch, Option<RunId>)> {
    let mut ends: Vec<_> = told
        .iter()
        .filter(|told| is_terminal(told))
        .map(|told| {
            let run = told.run.clone().unwrap().id;
            (
                run,
                told.kind,
                told.state,
                told.watch.clone(),
                told.continues_in.clone(),
            )
        })
        .collect();
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    ends
}

fn requests(told: &[Told]) -> Vec<RuntimeRequestId> {
    let mut requests: Vec<_> = told.iter().filter_map(|told| told.request.clone()).collect();
    requests.sort();
    requests
}

proptest! {
    // As many cases as PROPTEST_CASES says.
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn whoever_was_away_tells_the_same_ends_to_the_same_as_one_who_never_was(
        history in prop::collection::vec(happening(), 1..50),
        looks in prop::collection::vec(look(), 50),
    ) {
        let (always, all_seen, _) = told(&history, |_| ALWAYS, false);
        let (sometimes, some_seen, world) = told(&history, |number| looks[number], false);
        prop_assert_eq!(ends(&sometimes), ends(&always));
        // Requests that were resolved while one was away are told by the other alone; none is told twice.
        let (of_some, of_all) = (requests(&sometimes), requests(&always));
        for request in &of_some {
            prop_assert!(of_all.contains(request));
            prop_assert_eq!(of_some.iter().filter(|other| *other == request).count(), 1);
        }
        // A steer may have switched the watch of its run off meanwhile.
        let listens = |run: &RunId| {
            let is_open = all_seen.kept().runs.iter().any(|one| one.id == *run && one.watch.on && one.state.is_busy());
            is_open || ends(&always).iter().any(|end| end.0 == *run)
        };
        for request in &of_all {
            let pending = world.model.requests.iter().find(|one| one.id == *request && one.status == "pending");
            let asks = pending.and_then(|one| one.run.as_ref()).is_some_and(listens);
            prop_assert!(!asks || of_some.contains(request), "{:?}", request);
        }
        // And from here on, both know the same.
        let known = |watcher: &Watcher| {
            let mut thread = watcher.kept();
            // What one knows of the past need not be the other's.
            thread.requests.clear();
            thread.runs.retain(|run| run.state.is_busy());
            for run in &mut thread.runs {
                run.changed_at = at(0);
                run.finishing_since = run.finishing_since.map(|_| at(0));
            }
            thread
        };
        prop_assert_eq!(known(&some_seen), known(&all_seen));
    }

    #[test]
    fn every_end_of_a_watched_thread_is_told_once_and_nothing_of_what_never_started(
        history in prop::collection::vec(happening(), 1..50),
        looks in prop::collection::vec(look(), 50),
    ) {
        let (told, watcher, world) = told(&history, |number| looks[number], true);
        let ends = ends(&told);
        for run in &world.model.runs {
            let of_run: Vec<_> = ends.iter().filter(|end| end.0 == run.id).map(|end| end.1).collect();
            let owed = Model::owed(run).map(|event| match event {
                HookEvent::Completed => EventKind::Completed,
                HookEvent::Failed => EventKind::Failed,
                HookEvent::Interrupted => EventKind::Interrupted,
                HookEvent::Question | HookEvent::Approval => unreachable!(),
            });
            // What T3 cancelled by a restart is told although it never started.
            let together = world.model.runs.iter().any(|other| {
                other.started_at.is_some() && other.status == "cancelled" && other.completed_at == run.completed_at
            });
            let killed = run.started_at.is_none() && run.status == "cancelled" && together;
            match owed {
                Some(owed) => prop_assert_eq!(of_run, vec![owed], "{:?}", run),
                None if killed => prop_assert!(of_run.len() <= 1, "{:?}", run),
                None => prop_assert!(of_run.is_empty(), "{:?} told {:?}", run, of_run),
            }
        }
        let kept = watcher.kept();
        let open = world.model.runs.iter().filter(|run| run.completed_at.is_none()).count();
        let followed = kept.runs.iter().filter(|run| run.state.is_busy()).count();
        prop_assert_eq!(followed, open);
        let unqueued = kept.runs.iter().filter(|run| run.state == RunState::NeverStarted).count();
        prop_assert!(kept.runs.len() <= open + unqueued + 2, "{:?}", kept);
        prop_assert!(open > 0 || unqueued == 0 && kept.requests.is_empty(), "{:?}", kept);
    }

    #[test]
    fn the_same_again_changes_nothing_and_asks_for_nothing_to_be_kept(history in prop::collection::vec(happening(), 1..50)) {
        let (_, mut watcher, world) = told(&history, |_| ALWAYS, false);
        watcher.tracker.poll_dirty();
        let before = watcher.kept();
        prop_assert_eq!(watcher.reads(&world.model.facts()), vec![]);
        prop_assert!(!watcher.tracker.poll_dirty());
        prop_assert_eq!(watcher.kept(), before);
    }
}
