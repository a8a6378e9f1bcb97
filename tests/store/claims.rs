//! What is claimed when, against a small model that knows no index and no mark.

use proptest::prelude::*;
use t3code_mcp::store::{AttemptOutcome, DeliveryState, Due, Resend};

use crate::deliveries::{LEASE, attempt, claim};
use crate::support::{at, event, ledger, of_events};

#[derive(Clone, Debug)]
enum Step {
    Event(u8),
    Claim(u32),
    Record(usize, AttemptOutcomeKind),
    Pass(i64),
    Resend(usize),
}

#[derive(Clone, Copy, Debug)]
enum AttemptOutcomeKind {
    Delivered,
    Retry(i64),
    Dead,
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        2 => Just(AttemptOutcomeKind::Delivered),
        6 => (0..40_i64).prop_map(AttemptOutcomeKind::Retry),
        1 => Just(AttemptOutcomeKind::Dead),
    ];
    prop_oneof![
        4 => (0..3_u8).prop_map(Step::Event),
        5 => (1..4_u32).prop_map(Step::Claim),
        7 => (0..4_usize, outcome).prop_map(|(back, outcome)| Step::Record(back, outcome)),
        3 => prop_oneof![4 => 1..30_i64, 1 => Just(LEASE)].prop_map(Step::Pass),
        1 => (0..30_usize).prop_map(Step::Resend),
    ]
}

/// What the contract says of one event, without marks.
#[derive(Debug)]
struct Row {
    thread: u8,
    state: DeliveryState,
    failed: u32,
    resent: bool,
    due: i64,
    leased: i64,
    claims: u32,
    marked: Option<bool>,
}

#[derive(Debug, Default)]
struct Model {
    now: i64,
    rows: Vec<Row>,
}

impl Model {
    fn may_go(&self, at: usize) -> bool {
        let row = &self.rows[at];
        row.state == DeliveryState::Waiting
            && row.due <= self.now
            && self.in_turn(at)
            && !self
                .rows
                .iter()
                .any(|other| other.thread == row.thread && other.leased > self.now)
    }

    /// Everything before it in its thread is delivered, dead, or failed often enough.
    fn in_turn(&self, at: usize) -> bool {
        self.waiting_before(at).all(|row| row.resent || row.failed >= 4)
    }

    fn waiting_before(&self, at: usize) -> impl Iterator<Item = &Row> {
        let thread = self.rows[at].thread;
        self.rows[..at]
            .iter()
            .filter(move |row| row.thread == thread && row.state == DeliveryState::Waiting)
    }

    fn claim(&mut self, max: u32) -> Vec<(usize, u32, bool)> {
        let mut claimed = Vec::new();
        for _ in 0..max {
            let next = (0..self.rows.len())
                .filter(|at| self.may_go(*at))
                .min_by_key(|at| (self.rows[*at].due, *at));
            let Some(at) = next else { break };
            let passes = self.waiting_before(at).next().is_some();
            let now = self.now;
            let row = &mut self.rows[at];
            row.leased = now + LEASE;
            row.claims += 1;
            let marked = *row.marked.get_or_insert(passes);
            claimed.push((at, row.claims, marked));
        }
        claimed
    }

    fn record(&mut self, at: usize, claim: u32, outcome: AttemptOutcomeKind) -> bool {
        let now = self.now;
        let row = &mut self.rows[at];
        let current = row.state == DeliveryState::Waiting && row.claims == claim;
        match outcome {
            AttemptOutcomeKind::Delivered if row.state != DeliveryState::Delivered => {
                row.state = DeliveryState::Delivered;
            }
            AttemptOutcomeKind::Retry(after) if current => row.due = now + after,
            AttemptOutcomeKind::Dead if current => row.state = DeliveryState::Dead,
            AttemptOutcomeKind::Delivered | AttemptOutcomeKind::Retry(_) | AttemptOutcomeKind::Dead => return false,
        }
        row.failed += 1;
        row.leased = 0;
        true
    }

    fn resend(&mut self, at: usize) -> Resend {
        let in_turn = self.in_turn(at);
        let now = self.now;
        let row = &mut self.rows[at];
        match row.state {
            DeliveryState::Delivered => Resend::Delivered,
            DeliveryState::Waiting if !in_turn => Resend::Behind,
            DeliveryState::Waiting if row.leased > now => Resend::InFlight,
            DeliveryState::Waiting => {
                row.due = row.due.min(now);
                Resend::Queued
            }
            DeliveryState::Dead => {
                (row.state, row.failed, row.resent, row.due) = (DeliveryState::Waiting, 0, true, now);
                Resend::Queued
            }
        }
    }

    fn next(&self) -> Option<i64> {
        let free = (0..self.rows.len()).filter(|at| {
            let row = &self.rows[*at];
            row.state == DeliveryState::Waiting
                && self.in_turn(*at)
                && !self
                    .rows
                    .iter()
                    .any(|other| other.thread == row.thread && other.leased > self.now)
        });
        let leases = self
            .rows
            .iter()
            .map(|row| row.leased)
            .filter(|leased| *leased > self.now);
        free.map(|at| self.rows[at].due).chain(leases).min()
    }
}

async fn follow(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (_folder, store) = ledger().await;
    let mut model = Model::default();
    let mut held: Vec<Due> = Vec::new();
    for step in steps {
        match step {
            Step::Event(thread) => {
                let mut batch = of_events(vec![event(&model.rows.len().to_string(), &format!("t{thread}"))]);
                batch.at = at(model.now);
                store.commit(batch).await.unwrap();
                model.rows.push(Row {
                    thread,
                    state: DeliveryState::Waiting,
                    failed: 0,
                    resent: false,
                    due: model.now,
                    leased: 0,
                    claims: 0,
                    marked: None,
                });
            }
            Step::Claim(max) => {
                let got = claim(&store, model.now, max).await;
                let said: Vec<_> = got
                    .iter()
                    .map(|due| (due.id.parse::<usize>().unwrap(), due.claim, due.out_of_order))
                    .collect();
                prop_assert_eq!(said, model.claim(max));
                held.extend(got);
            }
            Step::Record(back, outcome) => {
                if held.is_empty() {
                    continue;
                }
                let due = held.remove(held.len() - 1 - back % held.len());
                let said = match outcome {
                    AttemptOutcomeKind::Delivered => AttemptOutcome::Delivered,
                    AttemptOutcomeKind::Retry(after) => AttemptOutcome::Retry(at(model.now + after)),
                    AttemptOutcomeKind::Dead => AttemptOutcome::Dead,
                };
                let counted = store.record(&due, &attempt(said, at(model.now))).await.unwrap();
                prop_assert_eq!(counted, model.record(due.id.parse().unwrap(), due.claim, outcome));
            }
            Step::Pass(seconds) => model.now += seconds,
            Step::Resend(which) => {
                if !model.rows.is_empty() {
                    let which = which % model.rows.len();
                    let said = store.retry_event(&which.to_string(), at(model.now)).await.unwrap();
                    prop_assert_eq!(said, model.resend(which));
                }
            }
        }
        prop_assert_eq!(store.next_due(at(model.now)).await.unwrap(), model.next().map(at));
    }
    store.close().await;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn claims_come_in_the_order_that_the_contract_says(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(steps))?;
    }
}

/// Each case writes to a real disk; more of them with `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(24)
}
