//! Takes what is due from the ledger, sends it, and writes down what came of it, until it is told to stop.
//!
//! An event is claimed before it is sent: whoever dies between, its claim runs out and the event is sent again, under the same id. Only the
//! thread's order, which the ledger holds, and the number of attempts at once bound what goes out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::classify::{self, Verdict};
use super::clock::Clock;
use super::request::Receiver;
use super::{body, schedule};
use crate::protocol::{ThreadId, Untrusted};
use crate::store::{Attempt, AttemptOutcome, DeliveryState, Due, Store, StoreError};

/// So many attempts are made at once: a slow receiver does not hold up all threads, and a busy one is not flooded.
pub const AT_ONCE: usize = 8;
/// A claim outlives the longest attempt by so much: the time to write the outcome down on a slow disk.
pub const LEASE_MARGIN: Duration = Duration::from_secs(15);
/// So long after the ledger could not be read or written it is tried again.
const LEDGER_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// So often the ledger is looked at without a sign: another process (`events retry`) may have had something sent again.
const LOOK_AGAIN_AT_LEAST: SignedDuration = SignedDuration::from_secs(30);
/// So long attempts may go on when told to stop; what is cut off then is sent again when its claim has run out.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What the worker works with.
pub(super) struct Worker {
    pub(super) store: Store,
    pub(super) receiver: Arc<Receiver>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: CancellationToken,
}

/// What an attempt under way is of.
struct Lane {
    /// Its machine and thread.
    thread: (String, ThreadId),
    /// Held while it is sent.
    turn: Arc<Mutex<()>>,
}

/// What is waited for.
enum Wait {
    /// An attempt's end: there is no room for more.
    Room,
    /// That, a change, or a time.
    Until(Timestamp),
    /// Nothing: the ledger is closed, or it is time to stop.
    Closed,
}

impl Worker {
    pub(super) async fn run(self) {
        let mut changes = self.store.changes();
        let mut attempts = JoinSet::new();
        let mut lanes = HashMap::new();
        loop {
            // Before the ledger is read: what is committed meanwhile wakes.
            changes.mark_unchanged();
            let (room, until) = match self.claim(&mut attempts, &mut lanes).await {
                Wait::Room => (false, None),
                Wait::Until(at) => (true, Some(at)),
                Wait::Closed => break,
            };
            let time = async {
                match until {
                    Some(at) => self.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = attempts.join_next_with_id() => {
                    free(&mut lanes, &ended);
                    free_ended(&mut lanes, &mut attempts);
                }
                _ = changes.changed(), if room => {}
                () = time => {}
            }
        }
        let rest = async { while attempts.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_WITHIN, rest).await.is_err() {
            tracing::warn!("events were on their way to the hook at the stop, and will be sent again");
        }
        attempts.shutdown().await;
    }

    /// Claims and begins what is due, as far as there is room.
    async fn claim(&self, attempts: &mut JoinSet<()>, lanes: &mut HashMap<Id, Lane>) -> Wait {
        loop {
            let room = AT_ONCE.saturating_sub(lanes.len());
            if room == 0 {
                return Wait::Room;
            }
            let now = self.clock.now();
            let next = match self.store.next_due(now).await {
                Ok(next) => next,
                Err(error) => return pause(&error, now),
            };
            match next {
                None => return Wait::Until(look_again(now)),
                Some(at) if at > now => return Wait::Until(at.min(look_again(now))),
                Some(_) => {}
            }
            // Told while the ledger was read: what is under way ends, nothing begins.
            if self.stop.is_cancelled() {
                return Wait::Closed;
            }
            let lease = now.checked_add(self.lease()).unwrap_or(Timestamp::MAX);
            let claimed = self.store.claim_due(now, lease, u32::try_from(room).unwrap_or(1)).await;
            let claimed = match claimed {
                Ok(claimed) => claimed,
                Err(error) => return pause(&error, now),
            };
            if claimed.is_empty() {
                return Wait::Until(now.checked_add(LEDGER_PAUSE).unwrap_or(Timestamp::MAX));
            }
            for due in claimed {
                let thread = (due.machine.clone(), due.thread.clone());
                let turn = lanes.values().find(|lane| lane.thread == thread);
                let turn = turn.map_or_else(Arc::default, |lane| Arc::clone(&lane.turn));
                let attempt = Attempting {
                    turn: Arc::clone(&turn),
                    lease,
                    store: self.store.clone(),
                    receiver: Arc::clone(&self.receiver),
                    clock: Arc::clone(&self.clock),
                    due,
                };
                lanes.insert(attempts.spawn(attempt.run()).id(), Lane { thread, turn });
            }
        }
    }

    fn lease(&self) -> SignedDuration {
        SignedDuration::try_from(self.receiver.within() + LEASE_MARGIN).unwrap_or(SignedDuration::MAX)
    }
}

/// How long to leave a ledger alone that fails.
fn pause(error: &StoreError, now: Timestamp) -> Wait {
    if matches!(error, StoreError::Closed) {
        return Wait::Closed;
    }
    tracing::error!(%error, "the ledger does not give what is to be sent; it is asked again in {} s", LEDGER_PAUSE.as_secs());
    Wait::Until(now.checked_add(LEDGER_PAUSE).unwrap_or(Timestamp::MAX))
}

/// Takes all attempts off that have ended.
fn free_ended(lanes: &mut HashMap<Id, Lane>, attempts: &mut JoinSet<()>) {
    while let Some(ended) = attempts.try_join_next_with_id() {
        free(lanes, &ended);
    }
}

/// Takes an attempt off that has ended.
fn free(lanes: &mut HashMap<Id, Lane>, ended: &Result<(Id, ()), JoinError>) {
    let id = match ended {
        Ok((id, ())) => *id,
        Err(error) => {
            tracing::error!(%error, "an attempt failed within; its event will be sent again");
            error.id()
        }
    };
    lanes.remove(&id);
}

/// One attempt.
struct Attempting {
    /// The ledger gives one of a thread at a time; here the one before may still be about to end, or its claim ran out because the clock jumped.
    turn: Arc<Mutex<()>>,
    lease: Timestamp,
    store: Store,
    receiver: Arc<Receiver>,
    clock: Arc<dyn Clock>,
    due: Due,
}

impl Attempting {
    async fn run(self) {
        let turn = Arc::clone(&self.turn);
        let Ok(_turn) = turn.try_lock() else {
            let _turn = turn.lock().await;
            if self.is_due_still().await {
                self.send().await;
            }
            return;
        };
        self.send().await;
    }

    /// Nothing came of the attempt before that makes this one needless, and the claim holds.
    async fn is_due_still(&self) -> bool {
        let listed = self.store.delivery(&self.due.id).await.ok().flatten();
        let delivery = listed.and_then(|listed| listed.delivery);
        self.clock.now() < self.lease && delivery.is_some_and(|delivery| delivery.state == DeliveryState::Waiting)
    }

    async fn send(&self) {
        let body = body::of(&self.due);
        let sent = self
            .receiver
            .send(&self.due.id, body.clone().into_owned(), self.clock.now())
            .await;
        let now = self.clock.now();
        let (verdict, status, error) = match sent {
            Ok(answer) => {
                let verdict = classify::answer(answer.status, answer.retry_after.as_deref(), now);
                let error = (verdict != Verdict::Delivered).then(|| match answer.said {
                    Some(said) => format!("{}: {said}", classify::words(answer.status)),
                    None => classify::words(answer.status),
                });
                (verdict, Some(answer.status.as_u16()), error)
            }
            Err(failure) => (classify::failure(&failure), None, Some(failure.to_string())),
        };
        let outcome = self.outcome(verdict, now);
        self.log(outcome, status, error.as_deref());
        let attempt = Attempt {
            at: now,
            outcome,
            status,
            error,
            body: match body {
                std::borrow::Cow::Owned(body) => Some(body),
                std::borrow::Cow::Borrowed(_) => None,
            },
        };
        match self.store.record(&self.due, &attempt).await {
            Ok(true) => {}
            Ok(false) => tracing::debug!(event = %self.due.id, "another attempt of it has gone on meanwhile"),
            Err(error) => tracing::error!(
                event = %self.due.id, %error,
                "what came of an attempt could not be written down; the event will be sent again, under the same id"
            ),
        }
    }

    fn outcome(&self, verdict: Verdict, now: Timestamp) -> AttemptOutcome {
        match verdict {
            Verdict::Delivered => AttemptOutcome::Delivered,
            Verdict::Ended => AttemptOutcome::Dead,
            Verdict::Retry { after } => {
                let failed = self.due.attempts.saturating_add(1);
                let jitter = schedule::jitter(&self.due.id, failed);
                schedule::next(failed, self.due.first_attempt_at, now, after, jitter)
                    .map_or(AttemptOutcome::Dead, AttemptOutcome::Retry)
            }
        }
    }

    fn log(&self, outcome: AttemptOutcome, status: Option<u16>, error: Option<&str>) {
        let Due {
            id, machine, thread, ..
        } = &self.due;
        let (thread, error) = (Untrusted(thread), error.unwrap_or_default());
        let attempt = self.due.attempts.saturating_add(1);
        match outcome {
            AttemptOutcome::Delivered => {
                tracing::debug!(event = %id, %machine, %thread, attempt, status, "an event was delivered");
            }
            AttemptOutcome::Retry(at) => {
                tracing::warn!(event = %id, %machine, %thread, attempt, %error, next = %at, "an event was not delivered");
            }
            AttemptOutcome::Dead => {
                tracing::error!(event = %id, %machine, %thread, attempt, %error, "an event was given up; `events retry` sends it again");
            }
        }
    }
}

fn look_again(now: Timestamp) -> Timestamp {
    now.checked_add(LOOK_AGAIN_AT_LEAST).unwrap_or(Timestamp::MAX)
}
