//! Deliveries: what is claimed when, against a small model that knows no index and no mark.

use jiff::Timestamp;
use proptest::prelude::*;
use t3code_mcp::store::{
    Attempt, AttemptOutcome, DeliveryState, Due, ListFilter, NewEvent, PASSED_AFTER_ATTEMPTS, Resend, Store,
};

use crate::support::{again, at, event, ledger, of_events};

/// How long a claim holds.
const LEASE: i64 = 60;

fn attempt(outcome: AttemptOutcome, now: Timestamp) -> Attempt {
    Attempt {
        at: now,
        outcome,
        status: Some(500),
        error: Some("no".to_owned()),
        body: None,
    }
}

async fn claim(store: &Store, seconds: i64, max: u32) -> Vec<Due> {
    store.claim_due(at(seconds), at(seconds + LEASE), max).await.unwrap()
}

async fn claimed(store: &Store, seconds: i64) -> Vec<String> {
    claim(store, seconds, 9).await.into_iter().map(|due| due.id).collect()
}

async fn fail(store: &Store, due: &Due, seconds: i64) {
    let retry = attempt(AttemptOutcome::Retry(at(seconds)), at(seconds));
    assert!(store.record(due, &retry).await.unwrap());
}

#[tokio::test]
async fn a_claim_is_its_holders_alone_until_its_lease_is_over() {
    let (folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    assert_eq!(claimed(&store, 9).await, Vec::<String>::new(), "not due yet");
    let first = claim(&store, 10, 9).await.remove(0);
    assert_eq!((first.first_attempt_at, first.claim, first.frozen), (at(10), 1, false));
    let store = again(&folder, store).await;
    assert_eq!(store.next_due(at(11)).await.unwrap(), Some(at(10 + LEASE)));
    assert_eq!(claimed(&store, 10 + LEASE - 1).await, Vec::<String>::new());
    let second = claim(&store, 10 + LEASE, 9).await.remove(0);
    assert_eq!(
        (second.first_attempt_at, second.claim),
        (at(10), 2),
        "the first attempt is the first claim"
    );
    let late = attempt(AttemptOutcome::Retry(at(500)), at(75));
    assert!(
        !store.record(&first, &late).await.unwrap(),
        "the first claim has run out"
    );
    let (id, state) = (&second.id, async || {
        store.delivery(&second.id).await.unwrap().unwrap().delivery.unwrap()
    });
    assert_eq!(
        (state().await.attempts, state().await.leased_until),
        (0, Some(at(10 + 2 * LEASE))),
        "{id}"
    );
    assert!(
        store
            .record(&first, &attempt(AttemptOutcome::Delivered, at(76)))
            .await
            .unwrap(),
        "it was delivered"
    );
    assert!(
        !store
            .record(&second, &attempt(AttemptOutcome::Dead, at(77)))
            .await
            .unwrap()
    );
    assert_eq!(state().await.state, DeliveryState::Delivered);
    assert_eq!(store.next_due(at(999)).await.unwrap(), None);
}

#[tokio::test]
async fn claimers_at_once_never_get_the_same_event_nor_two_of_a_thread() {
    let (_folder, store) = ledger().await;
    let events = (0..40)
        .map(|n| event(&format!("e{n}"), &format!("t{}", n % 20)))
        .collect();
    store.commit(of_events(events)).await.unwrap();
    let claims = (0..10).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { claim(&store, 20, 3).await })
    });
    let mut got = Vec::new();
    for claim in claims {
        got.extend(claim.await.unwrap());
    }
    let mut threads: Vec<_> = got.iter().map(|due| due.thread.clone()).collect();
    threads.sort();
    threads.dedup();
    assert_eq!((got.len(), threads.len()), (20, 20));
}

#[tokio::test]
async fn the_next_event_of_a_thread_passes_one_that_failed_four_times_and_is_marked() {
    let (_folder, store) = ledger().await;
    store
        .commit(of_events(vec![event("a", "one"), event("b", "one"), event("c", "one")]))
        .await
        .unwrap();
    for failed in 0..PASSED_AFTER_ATTEMPTS {
        let due = claim(&store, 20, 9).await;
        assert_eq!(due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(
            (due[0].attempts, due[0].out_of_order, due[0].frozen),
            (failed, false, failed > 0)
        );
        fail(&store, &due[0], 20).await;
    }
    let b = claim(&store, 20, 9).await;
    assert_eq!(
        (b.len(), b[0].id.as_str(), b[0].out_of_order),
        (1, "b", true),
        "one of a thread at a time"
    );
    store
        .record(&b[0], &attempt(AttemptOutcome::Delivered, at(22)))
        .await
        .unwrap();
    let c = claim(&store, 22, 9).await.remove(0);
    assert_eq!((c.id.as_str(), c.out_of_order), ("c", true), "a is still undelivered");
    store
        .record(&c, &attempt(AttemptOutcome::Delivered, at(23)))
        .await
        .unwrap();
    let a = claim(&store, 24, 9).await.remove(0);
    assert_eq!((a.id.as_str(), a.out_of_order), ("a", false));
}

#[tokio::test]
async fn a_body_is_sent_again_as_it_was_first_sent() {
    let (_folder, store) = ledger().await;
    store.commit(of_events(vec![event("a", "one")])).await.unwrap();
    let due = claim(&store, 20, 1).await.remove(0);
    let mut first = attempt(AttemptOutcome::Retry(at(30)), at(21));
    first.body = Some("frozen".to_owned());
    store.record(&due, &first).await.unwrap();
    let due = claim(&store, 30, 1).await.remove(0);
    assert_eq!((due.body.as_str(), due.frozen), ("frozen", true));
    let mut second = attempt(AttemptOutcome::Retry(at(40)), at(31));
    second.body = Some("another".to_owned());
    store.record(&due, &second).await.unwrap();
    assert_eq!(claim(&store, 40, 1).await.remove(0).body, "frozen");
}

#[tokio::test]
async fn only_what_is_dead_or_waits_its_turn_is_sent_again_by_hand() {
    let (_folder, store) = ledger().await;
    let silent = NewEvent {
        deliver: false,
        ..event("silent", "two")
    };
    store
        .commit(of_events(vec![event("a", "one"), event("b", "one"), silent]))
        .await
        .unwrap();
    let retry = async |id: &str, seconds| store.retry_event(id, at(seconds)).await.unwrap();
    assert_eq!(retry("none", 20).await, Resend::Unknown);
    assert_eq!(retry("silent", 20).await, Resend::NotForDelivery);
    assert_eq!(retry("b", 20).await, Resend::Behind);
    let a = claim(&store, 20, 1).await.remove(0);
    assert_eq!(retry("a", 21).await, Resend::InFlight);
    fail(&store, &a, 5_000).await;
    let mut changes = store.changes();
    assert_eq!(retry("a", 22).await, Resend::Queued);
    assert!(
        changes.has_changed().unwrap(),
        "whoever waits for the next one is woken"
    );
    changes.mark_unchanged();
    let a = claim(&store, 22, 1).await.remove(0);
    store.record(&a, &attempt(AttemptOutcome::Dead, at(23))).await.unwrap();
    let b = claim(&store, 23, 9).await.remove(0);
    assert_eq!((b.id.as_str(), b.out_of_order), ("b", false));
    store
        .record(&b, &attempt(AttemptOutcome::Delivered, at(24)))
        .await
        .unwrap();
    assert_eq!(retry("b", 25).await, Resend::Delivered);
    let counts = store.delivery_counts().await.unwrap();
    assert_eq!(
        (counts.waiting, counts.in_flight, counts.dead, counts.oldest_waiting),
        (0, 0, 1, None)
    );
    let dead = ListFilter {
        state: Some(DeliveryState::Dead),
        before: None,
    };
    assert_eq!(store.deliveries(dead, 9).await.unwrap().len(), 1);
    assert_eq!(retry("a", 30).await, Resend::Queued);
    let a = claim(&store, 31, 9).await.remove(0);
    assert_eq!(
        (a.id.as_str(), a.attempts, a.first_attempt_at, a.resent, a.frozen),
        ("a", 0, at(31), true, true)
    );
    let all: Vec<String> = store
        .deliveries(ListFilter::default(), 9)
        .await
        .unwrap()
        .into_iter()
        .map(|l| l.event.id)
        .collect();
    assert_eq!(
        all,
        ["silent", "b", "a"],
        "newest first, with those that are not for delivery"
    );
}

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
                row.state = DeliveryState::Delivered
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
