//! What was dispatched, so that no call starts its work twice.
//!
//! A receipt belongs to one caller's intent. It is found again by its request id, or, where the caller gave none, by an equal call within
//! [`IMPLICIT_WINDOW`] of one whose answer was lost. Here is what this process knows, and what was recalled from the ledger (`keeping`); a
//! request id holds for ever because the ledger keeps it, and the ids at T3 are derived from it. Pure but for the locks that let one call at
//! a time work on a receipt, or look for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::gateway::bounded::Bounded;
use crate::gateway::delivery::{Delivered, Delivery};
use crate::gateway::dispatch::DispatchArgs;
use crate::gateway::ids::Intent;
use crate::protocol::RunId;
use crate::store::{self, NewReceipt};

/// How long after its loss an answer can be asked for again without a request id.
pub(super) const IMPLICIT_WINDOW: Duration = Duration::from_mins(2);

/// How many receipts are kept.
const KEPT: usize = 4_096;

/// What the caller asked for, in 32 bytes.
pub(super) type PayloadHash = [u8; 32];

/// The hash of everything that a call says besides its request id.
pub(super) fn payload_hash(args: &DispatchArgs) -> PayloadHash {
    let said = DispatchArgs {
        request_id: None,
        ..args.clone()
    };
    // Arguments that were read from JSON can be written as JSON.
    let written = serde_json::to_vec(&said).unwrap_or_default();
    Sha256::digest(written).into()
}

/// One caller's intent and what became of it.
#[derive(Debug)]
pub(super) struct Receipt {
    client: String,
    /// The caller's request id, or one of our own.
    pub(super) request: String,
    /// The caller named the request id.
    pub(super) explicit: bool,
    hash: PayloadHash,
    claimed: Instant,
    loss: Mutex<Loss>,
    /// Held by the call that works on it: an equal call waits for what becomes of that one.
    pub(super) progress: tokio::sync::Mutex<Progress>,
}

#[derive(Debug)]
struct Loss {
    /// What became of the last good answer, or of the first call's while there is none.
    delivery: Delivery,
    /// When a call ended without being able to say what became of the work.
    unsaid_since: Option<Instant>,
    /// What becomes of the answer to the repetition that is at work.
    repetition: Option<Delivery>,
}

/// How far the work got.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// The attempt that the next command is part of. Moves on only when the one before has definitely come to nothing.
    pub(super) attempt: u32,
    /// Something was sent to T3, whatever it said.
    pub(super) sent: bool,
    /// What is known.
    pub(super) outcome: Outcome,
    /// What was last made ready to be sent, and is on disk where there is a ledger.
    pub(super) kept: Option<Kept>,
}

/// An attempt that was made ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) receipt: Box<NewReceipt>,
    pub(super) attempt: u32,
}

/// What became of a dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Outcome {
    /// Nothing was sent, or it came to nothing.
    #[default]
    NotStarted,
    /// It was sent and nobody knows.
    Unknown,
    /// T3 has it.
    Started {
        /// The run, once it was seen.
        run: Option<RunId>,
    },
}

/// How an earlier call was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Matched {
    /// By its request id.
    RequestId,
    /// By its arguments.
    Implicit,
}

impl Matched {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::RequestId => "request_id",
            Self::Implicit => "implicit",
        }
    }
}

/// The request id was used for other arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OtherArguments;

/// Held by the one of several equal calls that looks for its receipt.
pub(super) type Turn = Arc<tokio::sync::Mutex<()>>;

/// All receipts.
#[derive(Debug)]
pub(super) struct Receipts {
    kept: Bounded<(String, String), Arc<Receipt>>,
    /// By client and arguments; those that nobody holds go when the next one is made.
    turns: HashMap<(String, PayloadHash), Weak<tokio::sync::Mutex<()>>>,
    /// What request ids of calls that start several things were used for; where there is a ledger, it has them.
    batches: Bounded<(String, String), PayloadHash>,
}

/// A call that looks for its receipt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) client: &'a str,
    pub(super) request_id: Option<&'a str>,
    pub(super) hash: PayloadHash,
    pub(super) delivery: &'a Delivery,
}

impl Receipts {
    pub(super) fn new() -> Self {
        Self {
            kept: Bounded::new(KEPT),
            turns: HashMap::new(),
            batches: Bounded::new(KEPT),
        }
    }

    /// Keeps what a request id is used for; false where it was used for something else before.
    pub(super) fn claim_batch(&mut self, client: &str, request: &str, hash: PayloadHash) -> bool {
        let key = (client.to_owned(), request.to_owned());
        if let Some(known) = self.batches.get(&key) {
            return *known == hash;
        }
        self.batches.insert(key, hash, |_| true);
        true
    }

    /// Nothing was sent for it.
    pub(super) fn forget_batch(&mut self, client: &str, request: &str) {
        self.batches.remove(&(client.to_owned(), request.to_owned()));
    }

    /// Whether there is a receipt of the request id.
    pub(super) fn has(&self, client: &str, request: &str) -> bool {
        self.kept.get(&(client.to_owned(), request.to_owned())).is_some()
    }

    /// Equal calls without a request id look for their receipts one after the other, in the order in which they came: each may be the
    /// repetition of any before it.
    pub(super) fn turn(&mut self, call: &Call<'_>) -> Turn {
        let key = (call.client.to_owned(), call.hash);
        if let Some(turn) = self.turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Turn::default();
        self.turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// The answer to an equal call of which it is not known yet whether it was lost: what this call means cannot be said before. None where
    /// one is known to be lost, and for a call with a request id.
    pub(super) fn undecided(&self, call: &Call<'_>, now: Instant) -> Option<Delivery> {
        if call.request_id.is_some() || self.repeated_by(call, now).is_some() {
            return None;
        }
        let mut equal = self.kept.values().filter(|receipt| receipt.is_equal_to(call));
        equal.find_map(|receipt| receipt.undecided())
    }

    /// The receipt of the earlier call that this one repeats, else a new one. To be called before anything is waited for: whoever hangs
    /// up later has left a receipt that an equal call finds.
    pub(super) fn claim(
        &mut self,
        call: &Call<'_>,
        now: Instant,
        recalled: Option<Receipt>,
        fresh: impl FnOnce() -> String,
    ) -> Result<(Arc<Receipt>, Option<Matched>), OtherArguments> {
        if let Some(recalled) = recalled {
            let key = (recalled.client.clone(), recalled.request.clone());
            // What is in memory knows better.
            if self.kept.get(&key).is_none() {
                self.keep(Arc::new(recalled));
            }
        }
        let request = match call.request_id {
            Some(id) => {
                match self.kept.get(&(call.client.to_owned(), id.to_owned())) {
                    Some(receipt) if receipt.hash != call.hash => return Err(OtherArguments),
                    Some(receipt) => return Ok((Arc::clone(receipt), Some(Matched::RequestId))),
                    None => {}
                }
                id.to_owned()
            }
            None => match self.repeated_by(call, now) {
                Some(receipt) => {
                    receipt.handle_repetition(call.delivery);
                    return Ok((Arc::clone(receipt), Some(Matched::Implicit)));
                }
                None => fresh(),
            },
        };
        let receipt = Arc::new(Receipt {
            client: call.client.to_owned(),
            request: request.clone(),
            explicit: call.request_id.is_some(),
            hash: call.hash,
            claimed: now,
            loss: Mutex::new(Loss {
                delivery: call.delivery.clone(),
                unsaid_since: None,
                repetition: None,
            }),
            progress: tokio::sync::Mutex::default(),
        });
        self.keep(Arc::clone(&receipt));
        Ok((receipt, None))
    }

    fn keep(&mut self, receipt: Arc<Receipt>) {
        let key = (receipt.client.clone(), receipt.request.clone());
        self.kept.insert(key, receipt, |old| old.progress.try_lock().is_ok());
    }

    /// Whether the receipt that the call repeats is in memory: then the ledger need not be asked.
    pub(super) fn knows(&self, call: &Call<'_>, now: Instant) -> bool {
        match call.request_id {
            Some(id) => self.kept.get(&(call.client.to_owned(), id.to_owned())).is_some(),
            None => self.repeated_by(call, now).is_some(),
        }
    }

    /// The equal call without a request id that this one repeats, or that repeats this one: of two calls the one that was given up can be the
    /// later to get here.
    fn repeated_by(&self, call: &Call<'_>, now: Instant) -> Option<&Arc<Receipt>> {
        let gone = match call.delivery.state() {
            Some(Delivered::Away(since) | Delivered::Lost(since)) => Some(since),
            Some(Delivered::Answered) | None => None,
        };
        let mut equal = self.kept.values().filter(|receipt| receipt.is_equal_to(call));
        equal.find(|receipt| receipt.is_lost(now) || gone.is_some_and(|gone| receipt.claimed >= gone))
    }

    /// A call that ended before anything was sent leaves nothing behind, unless an equal one waits for the receipt: its request id may be
    /// used again with arguments that were put right.
    pub(super) fn forget_unsent(&mut self, receipt: &Arc<Receipt>) {
        // The map's and the caller's own; no more can come up while the map is locked.
        if Arc::strong_count(receipt) <= 2 && receipt.progress.try_lock().is_ok_and(|progress| !progress.sent) {
            self.kept.remove(&(receipt.client.clone(), receipt.request.clone()));
        }
    }
}

impl Receipt {
    /// A receipt as the ledger has it. `lost` is since when its answer is lost, if it is.
    pub(super) fn recalled(found: store::Receipt, now: Instant, lost: Option<Instant>) -> Self {
        let refused = found.outcome == store::Outcome::Nothing;
        let outcome = match found.outcome {
            store::Outcome::Started { run } => Outcome::Started { run },
            // It was made ready, and then the process ended: it may have been sent.
            store::Outcome::NotStarted | store::Outcome::Unknown => Outcome::Unknown,
            store::Outcome::Nothing => Outcome::NotStarted,
        };
        let answer = match (found.answer, lost) {
            (_, Some(since)) => Delivery::settled(Delivered::Lost(since)),
            (store::AnswerFate::Answered, None) => Delivery::settled(Delivered::Answered),
            (store::AnswerFate::Pending | store::AnswerFate::Lost(_), None) => Delivery::default(),
        };
        Self {
            client: found.intent.client.clone(),
            request: found.intent.request.clone(),
            explicit: found.intent.explicit,
            hash: found.intent.payload_hash,
            claimed: now,
            loss: Mutex::new(Loss {
                delivery: answer,
                unsaid_since: None,
                repetition: None,
            }),
            progress: tokio::sync::Mutex::new(Progress {
                attempt: found.attempt + u32::from(refused),
                sent: true,
                outcome,
                kept: Some(Kept {
                    receipt: Box::new(found.intent),
                    attempt: found.attempt,
                }),
            }),
        }
    }

    /// Whose it is.
    pub(super) fn client(&self) -> &str {
        &self.client
    }

    /// What was asked for, in 32 bytes.
    pub(super) fn hash(&self) -> PayloadHash {
        self.hash
    }

    /// The last call about it could not say what became of the work.
    pub(super) fn is_unsaid(&self) -> bool {
        self.loss().unsaid_since.is_some()
    }

    /// Whether what becomes of this answer is what counts for the receipt.
    pub(super) fn hangs_on(&self, delivery: &Delivery) -> bool {
        self.loss().delivery.is(delivery)
    }

    /// What the ids at T3 are derived from.
    pub(super) fn intent(&self, machine: &str) -> Intent {
        Intent {
            client: self.client.clone(),
            machine: machine.to_owned(),
            request: self.request.clone(),
        }
    }

    /// A call about this receipt ended. Only a good answer takes the place of the lost one: a call that failed while the work may be there
    /// leaves it to be found, whether its failure was delivered or not.
    pub(super) fn handle_end(&self, good: bool, outcome: &Outcome, delivery: &Delivery, now: Instant) {
        let mut loss = self.loss();
        loss.repetition = None;
        if good {
            loss.delivery = delivery.clone();
        }
        loss.unsaid_since = match outcome {
            _ if good => None,
            Outcome::NotStarted => None,
            Outcome::Unknown | Outcome::Started { .. } => Some(now),
        };
    }

    fn is_equal_to(&self, call: &Call<'_>) -> bool {
        self.client == call.client && !self.explicit && self.hash == call.hash
    }

    fn undecided(&self) -> Option<Delivery> {
        let loss = self.loss();
        let deliveries = loss.repetition.iter().chain([&loss.delivery]);
        deliveries.into_iter().find(|delivery| is_open(delivery)).cloned()
    }

    fn handle_repetition(&self, delivery: &Delivery) {
        self.loss().repetition = Some(delivery.clone());
    }

    fn is_lost(&self, now: Instant) -> bool {
        let loss = self.loss();
        if loss.repetition.as_ref().is_some_and(is_open) {
            return false;
        }
        let since = match (loss.unsaid_since, loss.delivery.state()) {
            (Some(since), _) | (None, Some(Delivered::Away(since) | Delivered::Lost(since))) => since,
            (None, Some(Delivered::Answered) | None) => return false,
        };
        now.saturating_duration_since(since) <= IMPLICIT_WINDOW
    }

    fn loss(&self) -> std::sync::MutexGuard<'_, Loss> {
        // Nothing is half done under this lock.
        self.loss.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The edge will say what becomes of the answer, and has not yet.
fn is_open(delivery: &Delivery) -> bool {
    delivery.is_reported() && delivery.state().is_none()
}

#[cfg(test)]
#[path = "receipts_tests.rs"]
mod tests;
