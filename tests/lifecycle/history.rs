//! Whole histories of a thread, as a model of T3 makes them: runs that end out of order, are promoted, steered, cancelled while
//! queued, killed by a restart. An observer sees some of the snapshots, some twice, some again later, their facts in any order,
//! and must come to what the model knows.

use std::collections::BTreeMap;

use proptest::prelude::*;
use t3code_mcp::lifecycle::{
    HookEvent, RequestDriver, RequestFacts, RunDriver, RunFacts, ThreadFacts, ThreadState, fold, observe,
    observe_request,
};
use t3code_mcp::protocol::{RunId, RuntimeRequestId};

use crate::support::{at, request, run, run_id};

/// What may happen to a thread. A number picks one of the runs or requests that it can happen to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    Dispatched,
    NextStarts,
    Works(usize),
    Finishes(usize),
    Ends(usize, &'static str),
    Steered(usize),
    Unqueued(usize),
    Promoted(usize),
    Asks(usize, &'static str),
    Answered(usize, &'static str),
    Killed,
}

pub(crate) fn happening() -> impl Strategy<Value = Happening> {
    let pick = 0_usize..8;
    prop_oneof![
        4 => Just(Happening::Dispatched),
        5 => Just(Happening::NextStarts),
        4 => pick.clone().prop_map(Happening::Works),
        3 => pick.clone().prop_map(Happening::Finishes),
        4 => (pick.clone(), prop::sample::select(vec!["completed", "interrupted", "failed", "cancelled", "rolled_back"]))
            .prop_map(|(run, end)| Happening::Ends(run, end)),
        2 => pick.clone().prop_map(Happening::Steered),
        2 => pick.clone().prop_map(Happening::Unqueued),
        2 => pick.clone().prop_map(Happening::Promoted),
        3 => (pick.clone(), prop::sample::select(vec!["command", "user_input", "dynamic_tool_call", "auth_refresh", "new"]))
            .prop_map(|(run, kind)| Happening::Asks(run, kind)),
        3 => (pick, prop::sample::select(vec!["resolved", "expired", "cancelled"]))
            .prop_map(|(request, how)| Happening::Answered(request, how)),
        1 => Just(Happening::Killed),
    ]
}

/// T3, as far as a thread's runs and requests go. Several runs may work at once, as when one ends past a held queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: i64,
    pub(crate) runs: Vec<RunFacts>,
    pub(crate) requests: Vec<RequestFacts>,
}

/// Longer than T3 takes to end what it ends as it starts again: what ends together ended by that.
pub(crate) const STEP: i64 = 10;
pub(crate) const WORKING: &[&str] = &["starting", "running", "waiting"];

impl Model {
    pub(crate) fn of_status(&self, statuses: &[&str], pick: usize) -> Option<usize> {
        let fitting: Vec<usize> = (0..self.runs.len())
            .filter(|&at| statuses.contains(&self.runs[at].status.as_str()))
            .collect();
        (!fitting.is_empty()).then(|| fitting[pick % fitting.len()])
    }

    fn set(&mut self, run: usize, status: &str) {
        status.clone_into(&mut self.runs[run].status);
    }

    fn end(&mut self, run: usize, status: &str) {
        self.set(run, status);
        self.runs[run].completed_at = Some(at(self.now));
        self.runs[run].queue_position = None;
    }

    pub(crate) fn apply(&mut self, happening: Happening) {
        self.now += STEP;
        match happening {
            Happening::Dispatched => {
                let ordinal = self.runs.len() as u64 + 1;
                self.runs.push(RunFacts {
                    requested_at: at(self.now),
                    ..run(ordinal, "queued")
                });
            }
            Happening::NextStarts => {
                if let Some(run) = self.of_status(&["queued"], 0) {
                    self.set(run, "starting");
                    self.runs[run].started_at = Some(at(self.now));
                    self.runs[run].queue_position = None;
                }
            }
            Happening::Works(pick) => {
                if let Some(run) = self.of_status(&["starting"], pick) {
                    self.set(run, "running");
                }
            }
            Happening::Finishes(pick) => {
                if let Some(run) = self.of_status(&["running"], pick) {
                    self.set(run, "waiting");
                }
            }
            Happening::Ends(pick, end) => {
                if let Some(run) = self.of_status(WORKING, pick) {
                    self.end(run, end);
                }
            }
            Happening::Steered(pick) => {
                if let Some(run) = self.of_status(WORKING, pick) {
                    self.set(run, "starting");
                }
            }
            Happening::Unqueued(pick) => {
                if let Some(run) = self.of_status(&["queued"], pick) {
                    self.end(run, "cancelled");
                }
            }
            Happening::Promoted(pick) => {
                if let (Some(run), Some(into)) = (self.of_status(&["queued"], pick), self.of_status(WORKING, pick)) {
                    self.end(run, "cancelled");
                    self.runs[run].promoted_into = Some(self.runs[into].id.clone());
                    self.runs[into].user_message = self.runs[run].user_message.clone();
                    self.set(into, "starting");
                }
            }
            Happening::Asks(pick, kind) => {
                if let Some(run) = self.of_status(&["running"], pick) {
                    let name = format!("request-{}", self.requests.len());
                    let of = self.runs[run].ordinal;
                    self.requests.push(RequestFacts {
                        created_at: at(self.now),
                        ..request(&name, kind, of)
                    });
                }
            }
            Happening::Answered(pick, how) => {
                let open: Vec<usize> = (0..self.requests.len())
                    .filter(|&one| self.requests[one].status == "pending")
                    .collect();
                if !open.is_empty() {
                    how.clone_into(&mut self.requests[open[pick % open.len()]].status);
                }
            }
            Happening::Killed => {
                for run in 0..self.runs.len() {
                    if self.runs[run].completed_at.is_none() {
                        self.end(run, "cancelled");
                    }
                }
                for request in self.requests.iter_mut().filter(|request| request.status == "pending") {
                    "expired".clone_into(&mut request.status);
                }
            }
        }
    }

    pub(crate) fn facts(&self) -> ThreadFacts {
        ThreadFacts {
            imported: false,
            deleted: false,
            runs: self.runs.clone(),
            requests: self.requests.clone(),
        }
    }

    /// What is to be told of a run, once it has ended.
    pub(crate) fn owed(run: &RunFacts) -> Option<HookEvent> {
        run.started_at?;
        match run.status.as_str() {
            "completed" | "rolled_back" => Some(HookEvent::Completed),
            "failed" => Some(HookEvent::Failed),
            "interrupted" | "cancelled" => Some(HookEvent::Interrupted),
            _ => None,
        }
    }

    /// The state, by the contract's precedence, from what the model knows.
    fn state(&self) -> ThreadState {
        let works = |id: &RunId| {
            self.runs
                .iter()
                .any(|run| run.id == *id && WORKING.contains(&run.status.as_str()))
        };
        let holding = |kinds: &[&str]| {
            self.requests.iter().any(|one| {
                one.status == "pending" && kinds.contains(&one.kind.as_str()) && one.run.as_ref().is_some_and(works)
            })
        };
        if holding(&["command", "auth_refresh", "new"]) {
            return ThreadState::Approval;
        }
        if holding(&["user_input"]) {
            return ThreadState::Question;
        }
        for (status, state) in [
            ("running", ThreadState::Running),
            ("starting", ThreadState::Starting),
            ("waiting", ThreadState::Finishing),
            ("queued", ThreadState::Queued),
        ] {
            if self.runs.iter().any(|run| run.status == status) {
                return state;
            }
        }
        let last = self
            .runs
            .iter()
            .filter(|run| run.started_at.is_some())
            .max_by_key(|run| (run.completed_at, run.ordinal));
        match last.map(|run| run.status.as_str()) {
            Some("completed") => ThreadState::Completed,
            Some("interrupted") => ThreadState::Interrupted,
            Some("failed") => ThreadState::Failed,
            Some("cancelled") => ThreadState::Cancelled,
            Some("rolled_back") => ThreadState::RolledBack,
            _ => ThreadState::Idle,
        }
    }
}

/// One who keeps what was last known of each run and request, as a tracker does.
#[derive(Default)]
struct Observer {
    runs: BTreeMap<RunId, RunDriver>,
    requests: BTreeMap<RuntimeRequestId, RequestDriver>,
    told_of_runs: BTreeMap<RunId, Vec<HookEvent>>,
    told_of_requests: BTreeMap<RuntimeRequestId, Vec<HookEvent>>,
}

impl Observer {
    fn sees(&mut self, facts: &ThreadFacts) {
        for run in &facts.runs {
            let driver = self.runs.entry(run.id.clone()).or_default();
            driver.handle(observe(run, facts));
            self.told_of_runs
                .entry(run.id.clone())
                .or_default()
                .extend(driver.poll_event());
        }
        for request in &facts.requests {
            let driver = self.requests.entry(request.id.clone()).or_default();
            driver.handle(observe_request(&request.kind, &request.status, &request.capability));
            self.told_of_requests
                .entry(request.id.clone())
                .or_default()
                .extend(driver.poll_event());
        }
    }
}

/// All snapshots of a history, the empty one first.
fn snapshots(history: &[Happening]) -> Vec<Model> {
    let mut model = Model::default();
    let mut snapshots = vec![model.clone()];
    for &happening in history {
        model.apply(happening);
        snapshots.push(model.clone());
    }
    snapshots
}

/// How one looks at a snapshot: not at all, how often, and how far back one looks again afterwards.
type Look = (bool, usize, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whoever_sees_the_last_snapshot_has_told_every_end_once(
        history in prop::collection::vec(happening(), 0..40),
        looks in prop::collection::vec((any::<bool>(), 1_usize..3, 0_usize..4), 41),
    ) {
        let snapshots = snapshots(&history);
        let mut observer = Observer::default();
        for (at, (_, &(looks, often, back))) in snapshots.iter().zip::<&[Look]>(&looks).enumerate() {
            if !looks {
                continue;
            }
            for _ in 0..often {
                observer.sees(&snapshots[at].facts());
            }
            // A replay of something older, as after a reconnect.
            observer.sees(&snapshots[at.saturating_sub(back)].facts());
        }
        let last = snapshots.last().expect("at least the empty one");
        observer.sees(&last.facts());
        for run in &last.runs {
            let told = &observer.told_of_runs[&run.id];
            prop_assert_eq!(told.first().copied(), Model::owed(run), "{:?}", run);
            prop_assert!(told.len() <= 1, "{:?} told {:?}", run, told);
        }
        for request in &last.requests {
            let told = &observer.told_of_requests[&request.id];
            prop_assert!(told.len() <= 1, "{:?} told {:?}", request, told);
            if request.status == "pending" {
                let owed = match request.kind.as_str() {
                    "dynamic_tool_call" => None,
                    "user_input" => Some(HookEvent::Question),
                    _ => Some(HookEvent::Approval),
                };
                prop_assert_eq!(told.first().copied(), owed, "{:?}", request);
            }
        }
    }

    #[test]
    fn the_same_facts_give_the_same_status_whatever_their_order(
        (facts, shuffled_runs, shuffled_requests) in prop::collection::vec(happening(), 0..40).prop_flat_map(|history| {
            let facts = snapshots(&history).pop().expect("at least the empty one").facts();
            (Just(facts.clone()), Just(facts.runs).prop_shuffle(), Just(facts.requests).prop_shuffle())
        }),
    ) {
        let shuffled = ThreadFacts { imported: false, deleted: false, runs: shuffled_runs, requests: shuffled_requests };
        prop_assert_eq!(fold(&facts), fold(&shuffled));
    }

    #[test]
    fn the_state_is_what_the_contract_says_of_the_truth(history in prop::collection::vec(happening(), 0..40)) {
        for model in snapshots(&history) {
            let status = fold(&model.facts());
            prop_assert_eq!(status.state, model.state(), "{:?}", model);
            prop_assert_eq!(status.queue.len(), model.runs.iter().filter(|run| run.status == "queued").count());
            prop_assert_eq!(status.run.is_none(), status.state == ThreadState::Idle);
        }
    }
}

#[test]
fn runs_that_end_out_of_order_are_each_told_once() {
    use Happening::{Dispatched, Ends, NextStarts};
    let history = [
        Dispatched,
        Dispatched,
        NextStarts,
        NextStarts,
        Ends(1, "failed"),
        Ends(0, "completed"),
    ];
    let mut observer = Observer::default();
    for snapshot in snapshots(&history) {
        observer.sees(&snapshot.facts());
    }
    assert_eq!(observer.told_of_runs[&run_id(1)], [HookEvent::Completed]);
    assert_eq!(observer.told_of_runs[&run_id(2)], [HookEvent::Failed]);
}
