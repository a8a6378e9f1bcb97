//! What was dispatched, so that no call starts its work twice.
//!
//! A receipt belongs to one caller's intent. It is found again by its request id, or, where the caller gave none, by an equal call within
//! [`IMPLICIT_WINDOW`] of one whose answer was lost. Kept in memory; that a request id holds for ever rests on the ids being derived and
//! on T3's own receipts. Pure but for the lock that lets one call at a time work on a receipt.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::gateway::bounded::Bounded;
use crate::gateway::delivery::{Delivered, Delivery};
use crate::gateway::dispatch::DispatchArgs;
use crate::gateway::ids::Intent;
use crate::protocol::{RunId, ThreadId};

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
    pub(super) intent: Intent,
    pub(super) thread: ThreadId,
    hash: PayloadHash,
    explicit: bool,
    loss: Mutex<Loss>,
    /// Held by the call that works on it: an equal call waits for what becomes of that one.
    pub(super) progress: tokio::sync::Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Loss {
    delivery: Delivery,
    unknown_since: Option<Instant>,
}

/// How far the work got.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// The attempt that the next command is part of. Moves on only after a definite refusal.
    pub(super) attempt: u32,
    /// What is known.
    pub(super) outcome: Outcome,
}

/// What became of a dispatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Outcome {
    /// Nothing was sent, or T3 refused it.
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

/// All receipts.
#[derive(Debug)]
pub(super) struct Receipts(Bounded<(String, String), Arc<Receipt>>);

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
        Self(Bounded::new(KEPT))
    }

    /// The receipt of an earlier call that this one repeats. From then on this call's answer is the one that counts.
    pub(super) fn find(
        &self,
        call: &Call<'_>,
        now: Instant,
    ) -> Result<Option<(Arc<Receipt>, Matched)>, OtherArguments> {
        let found = match call.request_id {
            Some(id) => match self.0.get(&(call.client.to_owned(), id.to_owned())) {
                Some(receipt) if receipt.hash != call.hash => return Err(OtherArguments),
                found => found.map(|receipt| (receipt, Matched::RequestId)),
            },
            None => self
                .0
                .values()
                .filter(|receipt| {
                    receipt.intent.client == call.client && !receipt.explicit && receipt.hash == call.hash
                })
                .find(|receipt| receipt.is_lost(now))
                .map(|receipt| (receipt, Matched::Implicit)),
        };
        Ok(found.map(|(receipt, matched)| {
            receipt.hand_over(call.delivery);
            (Arc::clone(receipt), matched)
        }))
    }

    /// Opens the receipt of a new call. Should an equal one have come first, that one's is returned.
    pub(super) fn open(
        &mut self,
        call: &Call<'_>,
        machine: &str,
        continues: Option<&ThreadId>,
        fresh: impl FnOnce() -> String,
    ) -> Result<Arc<Receipt>, OtherArguments> {
        let request = call.request_id.map_or_else(fresh, str::to_owned);
        let key = (call.client.to_owned(), request.clone());
        if let Some(receipt) = self.0.get(&key) {
            return if receipt.hash == call.hash {
                Ok(Arc::clone(receipt))
            } else {
                Err(OtherArguments)
            };
        }
        let intent = Intent {
            client: call.client.to_owned(),
            machine: machine.to_owned(),
            request,
        };
        let receipt = Arc::new(Receipt {
            thread: continues.cloned().unwrap_or_else(|| intent.thread()),
            intent,
            hash: call.hash,
            explicit: call.request_id.is_some(),
            loss: Mutex::new(Loss {
                delivery: call.delivery.clone(),
                unknown_since: None,
            }),
            progress: tokio::sync::Mutex::default(),
        });
        self.0
            .insert(key, Arc::clone(&receipt), |old| old.progress.try_lock().is_ok());
        Ok(receipt)
    }
}

impl Receipt {
    /// The run that it started, once it was seen.
    pub(super) async fn run(&self) -> Option<RunId> {
        match &self.progress.lock().await.outcome {
            Outcome::Started { run } => run.clone(),
            Outcome::NotStarted | Outcome::Unknown => None,
        }
    }

    /// Its outcome is not known: an equal call may ask for it, however this answer is delivered.
    pub(super) fn mark_unknown(&self, now: Instant) {
        self.loss().unknown_since = Some(now);
    }

    fn is_lost(&self, now: Instant) -> bool {
        let loss = self.loss();
        let since = match (loss.unknown_since, loss.delivery.state()) {
            (Some(since), _) | (None, Some(Delivered::Away(since) | Delivered::Lost(since))) => since,
            (None, Some(Delivered::Answered) | None) => return false,
        };
        now.saturating_duration_since(since) <= IMPLICIT_WINDOW
    }

    fn hand_over(&self, delivery: &Delivery) {
        let mut loss = self.loss();
        loss.delivery = delivery.clone();
        loss.unknown_since = None;
    }

    fn loss(&self) -> std::sync::MutexGuard<'_, Loss> {
        // Nothing is half done under this lock.
        self.loss.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "receipts_tests.rs"]
mod tests;
