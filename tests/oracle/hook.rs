//! Deliveries: what the ledger lets out, what a receiver does with it, and what the promise to receivers says of both.
//!
//! The worker's steps are gone here by hand, on the ledger's own claims and records; the promise's numbers are written down anew.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use t3code_mcp::delivery::classify::{self, Failure, Verdict};
use t3code_mcp::delivery::{AT_ONCE, ATTEMPT_WITHIN, LEASE_MARGIN, schedule};
use t3code_mcp::protocol::ThreadId;
use t3code_mcp::store::{Attempt, AttemptOutcome, Due, Store};

use super::case::{Answer, Mood};
use super::check::Tally;

/// Seconds after each failed attempt, and after all later ones.
const DELAYS: [i64; 7] = [5, 30, 120, 600, 1_800, 3_600, 7_200];
const THREE_DAYS: i64 = 72 * 3_600;
const A_DAY: i64 = 24 * 3_600;
const PASSED_AFTER: u32 = 4;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    Waiting,
    Delivered,
    Dead,
}

/// An event's delivery, as the promise has it.
#[derive(Debug)]
pub struct Promise {
    thread: ThreadId,
    pub standing: Standing,
    failures: u32,
    due: Timestamp,
    first: Option<Timestamp>,
    out_of_order: bool,
    claims: u32,
    body: Option<String>,
    pub received: u32,
    gone: bool,
}

/// An attempt under way.
#[derive(Debug)]
struct Flight {
    due: Due,
    answer: Answer,
    ends: Timestamp,
    lease: Timestamp,
}

/// The hook of one machine's events.
#[derive(Debug)]
pub struct Hook {
    machine: String,
    answers: Vec<Answer>,
    answered: usize,
    pub mood: Mood,
    /// In the order of their numbers.
    pub promises: BTreeMap<u64, (String, Promise)>,
    flights: Vec<Flight>,
    look: bool,
    next: Option<Timestamp>,
    /// What was not as promised.
    pub wrong: Vec<String>,
}

impl Hook {
    pub fn new(machine: &str, answers: &[Answer]) -> Self {
        Self {
            machine: machine.to_owned(),
            answers: answers.to_vec(),
            answered: 0,
            mood: Mood::Up,
            promises: BTreeMap::new(),
            flights: Vec::new(),
            look: true,
            next: None,
            wrong: Vec::new(),
        }
    }

    pub fn is_done(&self) -> bool {
        let waits = |promise: &Promise| promise.standing == Standing::Waiting;
        !self.promises.values().any(|(_, promise)| waits(promise))
    }

    /// An event was committed.
    pub fn expects(&mut self, seq: u64, id: &str, thread: &ThreadId, now: Timestamp) {
        self.look = true;
        let promise = Promise {
            thread: thread.clone(),
            standing: Standing::Waiting,
            failures: 0,
            due: now,
            first: None,
            out_of_order: false,
            claims: 0,
            body: None,
            received: 0,
            gone: false,
        };
        self.promises.insert(seq, (id.to_owned(), promise));
    }

    /// The worker died.
    pub fn dies(&mut self) {
        self.flights.clear();
        self.look = true;
    }

    /// When something happens next, while there is a worker.
    pub fn poll_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        if self.look && self.flights.len() < AT_ONCE {
            return Some(now);
        }
        let ends = self.flights.iter().map(|flight| flight.ends).min();
        ends.into_iter().chain(self.next).min()
    }

    /// Does what is due; true if the process dies over it.
    pub async fn happen(&mut self, store: &Store, now: Timestamp) -> bool {
        let (ended, rest) = std::mem::take(&mut self.flights)
            .into_iter()
            .partition(|flight| flight.ends <= now);
        self.flights = rest;
        let ended: Vec<Flight> = ended;
        for flight in ended {
            self.record(store, flight, now).await;
        }
        if self.look || self.next.is_some_and(|next| next <= now) {
            return self.claim(store, now).await;
        }
        false
    }

    async fn claim(&mut self, store: &Store, now: Timestamp) -> bool {
        let room = AT_ONCE.saturating_sub(self.flights.len());
        if room == 0 {
            return false;
        }
        self.look = false;
        self.next = store.next_due(now).await.unwrap();
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        let within = SignedDuration::try_from(ATTEMPT_WITHIN + LEASE_MARGIN).unwrap();
        let claimed = store.claim_due(now, now + within, u32::try_from(room).unwrap()).await;
        let claimed = claimed.unwrap();
        if claimed.is_empty() {
            self.wrong
                .push(format!("{now}: something is due and nothing can be claimed"));
            self.next = Some(now + SignedDuration::from_secs(5));
            return false;
        }
        let mut dies = false;
        for due in claimed {
            dies |= self.begin(due, now, now + within);
        }
        self.look = true;
        dies
    }

    /// Holds a claim against the promise and sends it.
    fn begin(&mut self, due: Due, now: Timestamp, lease: Timestamp) -> bool {
        let mut wrong = Vec::new();
        if due.machine != self.machine {
            self.wrong.push(format!("an event of another case is claimed: {due:?}"));
            return false;
        }
        // One that an earlier attempt turned out to have delivered is nobody's business any more: the worker's lanes hold the next back.
        let counts = |seq: u64| {
            self.promises
                .get(&seq)
                .is_some_and(|(_, promise)| promise.standing == Standing::Waiting)
        };
        let busy = |flight: &&Flight| flight.due.thread == due.thread && flight.lease > now && counts(flight.due.seq);
        if let Some(other) = self.flights.iter().find(busy) {
            wrong.push(format!(
                "{} is sent while {} of its thread is on its way",
                due.id, other.due.id
            ));
        }
        let waits = |promise: &Promise| promise.standing == Standing::Waiting && promise.thread == due.thread;
        let earlier = || self.promises.range(..due.seq).map(|(_, (_, promise))| promise);
        let behind = earlier().any(&waits);
        if earlier().any(|promise| waits(promise) && promise.failures < PASSED_AFTER) {
            wrong.push(format!("{} is sent before an earlier one of its thread", due.id));
        }
        let Some((_, promise)) = self.promises.get_mut(&due.seq) else {
            self.wrong
                .push(format!("an event was claimed that nobody committed: {due:?}"));
            return false;
        };
        if promise.standing != Standing::Waiting {
            wrong.push(format!("{} is sent although it is {:?}", due.id, promise.standing));
        }
        if promise.due > now {
            wrong.push(format!("{} is sent at {now}, before {}", due.id, promise.due));
        }
        if promise.failures != due.attempts {
            wrong.push(format!(
                "{} has failed {} times, not {}",
                due.id, promise.failures, due.attempts
            ));
        }
        if *promise.first.get_or_insert(now) != due.first_attempt_at {
            wrong.push(format!(
                "the first attempt of {} was not at {}",
                due.id, due.first_attempt_at
            ));
        }
        if promise.claims == 0 {
            promise.out_of_order = behind;
        }
        promise.claims += 1;
        if promise.out_of_order != due.out_of_order {
            wrong.push(format!("{} has out_of_order {}", due.id, due.out_of_order));
        }
        if *promise.body.get_or_insert_with(|| due.body.clone()) != due.body {
            wrong.push(format!("the body of {} is another one", due.id));
        }
        let answer = match self.mood {
            Mood::Up => Answer::Takes(0),
            Mood::Down => Answer::Refuses,
            Mood::Mixed => self.answers[self.answered % self.answers.len()],
        };
        self.answered += 1;
        let (received, after, dies) = match answer {
            Answer::Takes(seconds) => (true, SignedDuration::from_secs(seconds), false),
            Answer::Refuses | Answer::Gone | Answer::Later(_) => (false, SignedDuration::from_millis(10), false),
            Answer::Silent => (false, SignedDuration::from_secs(15), false),
            Answer::TakesAndWeDie => (true, SignedDuration::ZERO, true),
            Answer::WeDie => (false, SignedDuration::ZERO, true),
            Answer::TakesAndWeSleep => (true, SignedDuration::from_secs(47), false),
            Answer::RefusesAndWeSleep => (false, SignedDuration::from_secs(47), false),
        };
        promise.received += u32::from(received);
        promise.gone |= answer == Answer::Gone;
        self.wrong.extend(wrong);
        self.flights.push(Flight {
            due,
            answer,
            ends: now + after,
            lease,
        });
        dies
    }

    /// Keeps what came of an attempt, as the worker does.
    async fn record(&mut self, store: &Store, flight: Flight, now: Timestamp) {
        let Flight { due, answer, .. } = flight;
        let (verdict, status) = match answer {
            Answer::Takes(_) | Answer::TakesAndWeDie | Answer::TakesAndWeSleep => said(StatusCode::ACCEPTED, None, now),
            Answer::Refuses | Answer::RefusesAndWeSleep => said(StatusCode::INTERNAL_SERVER_ERROR, None, now),
            Answer::Gone => said(StatusCode::GONE, None, now),
            Answer::Later(seconds) => said(StatusCode::TOO_MANY_REQUESTS, Some(seconds), now),
            Answer::Silent | Answer::WeDie => (classify::failure(&Failure::Timeout(ATTEMPT_WITHIN)), None),
        };
        let outcome = match verdict {
            Verdict::Delivered => AttemptOutcome::Delivered,
            Verdict::Ended => AttemptOutcome::Dead,
            Verdict::Retry { after } => {
                let failed = due.attempts + 1;
                let jitter = schedule::jitter(&due.id, failed);
                schedule::next(failed, due.first_attempt_at, now, after, jitter)
                    .map_or(AttemptOutcome::Dead, AttemptOutcome::Retry)
            }
        };
        let attempt = Attempt {
            at: now,
            outcome,
            status,
            error: None,
            body: None,
        };
        let counts = store.record(&due, &attempt).await.unwrap();
        self.look = true;
        let Some((_, promise)) = self.promises.get_mut(&due.seq) else {
            return;
        };
        let current = promise.standing == Standing::Waiting && promise.claims == due.claim;
        let late = outcome == AttemptOutcome::Delivered && promise.standing != Standing::Delivered;
        if counts != (current || late) {
            let wrong = format!("{}: that {outcome:?} counts is {counts}, of {promise:?}", due.id);
            self.wrong.push(wrong);
        }
        if !counts {
            return;
        }
        let wanted = standing(answer, promise, now, outcome);
        promise.failures += 1;
        match outcome {
            AttemptOutcome::Delivered => promise.standing = Standing::Delivered,
            AttemptOutcome::Dead => promise.standing = Standing::Dead,
            AttemptOutcome::Retry(at) => promise.due = at,
        }
        if let Err(wrong) = wanted {
            self.wrong.push(format!("{}: {wrong}", due.id));
        }
    }

    /// Counts what was done.
    pub fn count(&self, tally: &mut Tally) {
        for (_, promise) in self.promises.values() {
            *tally.entry("attempts".to_owned()).or_default() += u64::from(promise.claims);
            *tally.entry(format!("{:?}", promise.standing)).or_default() += 1;
            *tally.entry("out of order".to_owned()).or_default() += u64::from(promise.out_of_order);
        }
    }

    /// What the ledger has of each event at the end, and what the receiver.
    pub async fn verify(&mut self, store: &Store) {
        let mut ids = BTreeSet::new();
        for (id, promise) in self.promises.values() {
            if !ids.insert(id.clone()) {
                self.wrong.push(format!("{id} was committed twice"));
            }
            let listed = store.delivery(id).await.unwrap().and_then(|listed| listed.delivery);
            let kept = listed.map(|delivery| format!("{:?}", delivery.state));
            if kept != Some(format!("{:?}", promise.standing)) {
                self.wrong
                    .push(format!("{id} is {:?}, and kept as {kept:?}", promise.standing));
            }
            match promise.standing {
                Standing::Waiting => self.wrong.push(format!("{id} is never delivered")),
                Standing::Delivered if promise.received == 0 => {
                    self.wrong.push(format!("{id} counts as delivered, and nobody has it"));
                }
                Standing::Delivered | Standing::Dead => {}
            }
        }
    }
}

fn said(status: StatusCode, after: Option<i64>, now: Timestamp) -> (Verdict, Option<u16>) {
    let after = after.map(|seconds| seconds.to_string());
    (classify::answer(status, after.as_deref(), now), Some(status.as_u16()))
}

/// Holds an outcome against the promise.
fn standing(answer: Answer, promise: &Promise, now: Timestamp, outcome: AttemptOutcome) -> Result<(), String> {
    let takes = matches!(
        answer,
        Answer::Takes(_) | Answer::TakesAndWeDie | Answer::TakesAndWeSleep
    );
    let fit = match outcome {
        AttemptOutcome::Delivered => takes,
        AttemptOutcome::Dead | AttemptOutcome::Retry(_) if takes => false,
        AttemptOutcome::Dead if answer == Answer::Gone => true,
        AttemptOutcome::Retry(_) if answer == Answer::Gone => false,
        AttemptOutcome::Dead | AttemptOutcome::Retry(_) => {
            let index = usize::try_from(promise.failures).unwrap().min(DELAYS.len() - 1);
            let millis = |percent: i64| SignedDuration::from_millis(DELAYS[index] * 10 * percent);
            let (soonest, latest) = (now + millis(80), now + millis(120));
            let end = promise.first.unwrap_or(now) + SignedDuration::from_secs(THREE_DAYS);
            let asked = match answer {
                Answer::Later(seconds) => Some((now + SignedDuration::from_secs(seconds.min(A_DAY))).min(end)),
                _ => None,
            };
            match outcome {
                AttemptOutcome::Retry(at) => {
                    at >= soonest && asked.is_none_or(|asked| at >= asked) && at <= latest.max(asked.unwrap_or(latest))
                }
                AttemptOutcome::Dead => latest > end,
                AttemptOutcome::Delivered => false,
            }
        }
    };
    if fit {
        Ok(())
    } else {
        Err(format!("at {now} {answer:?} became {outcome:?} of {promise:?}"))
    }
}
