//! Receipts on disk: what a dispatch is about to send is committed to the ledger before it is sent, and told to whoever keeps an eye on
//! threads. Without a ledger the same way is gone, and nothing outlives the process.
//!
//! Called by `dispatch`, `launch` and `continue_` alone. It sends nothing to T3 and decides nothing about runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::fleet::Found;
use crate::gateway::delivery::{Delivered, Delivery};
use crate::gateway::dispatch::{DispatchArgs, Work, other_arguments};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::memory::Origin;
use crate::gateway::receipts::{Call, IMPLICIT_WINDOW, Kept, Outcome, Progress, Receipt};
use crate::gateway::tracking::{Fate, Tracking, Wish};
use crate::gateway::waiting::key;
use crate::gateway::{Caller, Gateway, text};
use crate::lifecycle::{Baseline, Watch};
use crate::machine::Thread;
use crate::protocol::EnvironmentId;
use crate::store::{self, AnswerFate, Claimed, NewReceipt, ReceiptKind, ReceiptUpdate, Store, StoreError};

/// How far back a start remembers who dispatched what.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// How many of the latest dispatches it looks at.
const REMEMBERED: u32 = 10_000;

/// Where receipts are kept, and who keeps an eye on their threads.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The ledger.
    pub store: Store,
    /// Takes wishes.
    pub tracking: Tracking,
}

/// What is about to be sent.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: ReceiptKind,
    pub(super) name: &'static str,
    /// Where the thread's history ends.
    pub(super) baseline: Option<Baseline>,
}

impl Step {
    /// A thread is begun.
    pub(super) fn launch() -> Self {
        Self {
            kind: ReceiptKind::Launch,
            name: "launch",
            baseline: None,
        }
    }

    /// T3 has it already.
    pub(super) fn found(args: &DispatchArgs) -> Self {
        let kind = match args.thread_id {
            Some(_) => ReceiptKind::Continue,
            None => ReceiptKind::Launch,
        };
        Self {
            kind,
            name: "found",
            baseline: None,
        }
    }

    /// A message goes to a thread that is there.
    pub(super) fn send(thread: &Thread) -> Self {
        let last = thread.facts.runs.iter().max_by_key(|run| run.ordinal);
        Self {
            kind: ReceiptKind::Continue,
            name: "send",
            baseline: last.map(|run| Baseline {
                ordinal: run.ordinal,
                requested_at: run.requested_at,
            }),
        }
    }
}

impl Gateway {
    /// What the ledger has of the call that this one repeats.
    pub(super) async fn recall(&self, call: &Call<'_>) -> Result<Option<Receipt>, ToolError> {
        let Some(ledger) = &self.ledger else { return Ok(None) };
        let now = Timestamp::now();
        let found = if let Some(id) = call.request_id {
            ledger.store.receipt(call.client, id).await
        } else {
            let window = SignedDuration::try_from(IMPLICIT_WINDOW).unwrap_or(SignedDuration::ZERO);
            let since = now.saturating_sub(window).unwrap_or(now);
            ledger.store.lost_receipt(call.client, &call.hash, since).await
        };
        let found = found.map_err(|error| not_kept(&error))?;
        Ok(found.map(|found| {
            let clock = Instant::now();
            let lost = match found.answer {
                AnswerFate::Lost(at) => {
                    let ago = Duration::try_from(now.duration_since(at)).unwrap_or(Duration::ZERO);
                    Some(clock.checked_sub(ago).unwrap_or(clock))
                }
                AnswerFate::Pending | AnswerFate::Answered => None,
            };
            Receipt::recalled(found, clock, lost)
        }))
    }

    /// Remembers what the process before this one dispatched: a wait never ends with a run that is older than its caller's last dispatch. To be
    /// called before the first call.
    pub async fn remember_dispatches(&self) {
        let Some(ledger) = &self.ledger else { return };
        let now = Timestamp::now();
        let since = now.saturating_sub(REMEMBERED_FOR).unwrap_or(now);
        let receipts = match ledger.store.latest_receipts(since, REMEMBERED).await {
            Ok(receipts) => receipts,
            Err(error) => {
                tracing::warn!(%error, "what was dispatched before the start could not be read");
                return;
            }
        };
        for receipt in receipts {
            let intent = receipt.intent;
            let thread = (intent.machine, intent.thread);
            let origin = intent.watch.origin.as_deref();
            self.memory.remember(&intent.client, &thread, intent.message, origin);
        }
    }

    /// Nothing is sent into another database than the one that the receipt is of.
    pub(super) async fn same_database(&self, caller: &Caller, work: &Work<'_>) -> Result<(), ToolError> {
        let Some(kept) = &work.progress.kept else { return Ok(()) };
        let member = self.fleet.member(&caller.limits, &kept.receipt.machine)?;
        self.fleet.ready(&member).await?;
        check_environment(&kept.receipt, member.machine.status().environment.as_ref())
    }

    /// Makes the present attempt ready to be sent: when this returns, it is on disk, and its thread is followed. To be called before its
    /// first command; again it does nothing.
    pub(super) async fn keep(
        &self,
        caller: &Caller,
        args: &DispatchArgs,
        found: &Found,
        work: &mut Work<'_>,
        step: &Step,
    ) -> Result<(), ToolError> {
        if work.ready == Some(work.progress.attempt) {
            return Ok(());
        }
        let status = found.member.machine.status();
        if let Some(kept) = &work.progress.kept {
            check_environment(&kept.receipt, status.environment.as_ref())?;
        }
        let before = work.progress.kept.as_ref().map(|kept| &kept.receipt);
        let receipt = Box::new(NewReceipt {
            client: caller.client.clone(),
            request: work.receipt.request.clone(),
            explicit: work.receipt.explicit,
            payload_hash: work.receipt.hash(),
            machine: found.member.name().to_owned(),
            environment: status.environment,
            thread: found.id.clone(),
            message: work.message(found),
            kind: step.kind,
            watch: before.map_or_else(|| watch_of(caller, args), |before| before.watch.clone()),
            baseline: before.map_or_else(|| step.baseline.clone(), |before| before.baseline.clone()),
            created_at: Timestamp::now(),
            protocol: status.protocol.unwrap_or_default(),
        });
        if let Some(ledger) = &self.ledger {
            ledger.commit(args, &receipt, work.progress, step).await?;
        }
        work.progress.kept = Some(Kept {
            receipt: receipt.clone(),
            attempt: work.progress.attempt,
        });
        work.progress.sent = true;
        work.ready = Some(work.progress.attempt);
        if let Some(ledger) = &self.ledger {
            ledger.tracking.wish(Wish::TakeUp(receipt)).await;
        }
        Ok(())
    }

    /// Tells what became of the attempt's message.
    pub(super) async fn settle(&self, found: &Found, work: &Work<'_>, fate: Fate) {
        let Some(ledger) = &self.ledger else { return };
        let wish = Wish::Settle {
            machine: found.member.name().to_owned(),
            thread: found.id.clone(),
            message: work.message(found),
            fate,
        };
        ledger.tracking.wish(wish).await;
    }

    /// Keeps what a call came to. What it had sent was on disk before; if this cannot be kept, T3 is asked at the next occasion.
    pub(super) async fn keep_outcome(&self, receipt: &Receipt, progress: &Progress, good: bool) {
        let (Some(ledger), Some(kept)) = (&self.ledger, &progress.kept) else {
            return;
        };
        let (outcome, unsaid) = match &progress.outcome {
            _ if progress.attempt > kept.attempt => (Some(store::Outcome::Nothing), false),
            Outcome::NotStarted => (None, false),
            Outcome::Unknown => (Some(store::Outcome::Unknown), !good),
            Outcome::Started { run } => (Some(store::Outcome::Started { run: run.clone() }), !good),
        };
        let answer = match (good, unsaid) {
            (true, _) => Some(AnswerFate::Pending),
            (false, true) => Some(AnswerFate::Lost(Timestamp::now())),
            (false, false) => None,
        };
        let update = ReceiptUpdate {
            sent: true,
            outcome,
            answer,
            ..ReceiptUpdate::default()
        };
        ledger.update(receipt, &update).await;
    }

    /// Keeps what becomes of the answer, once that is known.
    pub(super) fn keep_fate(&self, receipt: &Arc<Receipt>, delivery: &Delivery) {
        let Some(ledger) = self.ledger.clone() else { return };
        let (receipt, delivery, stop) = (Arc::clone(receipt), delivery.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            let answer = match delivery.decided(&stop).await {
                Some(Delivered::Answered) => AnswerFate::Answered,
                Some(Delivered::Away(since) | Delivered::Lost(since)) => {
                    let ago = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::ZERO);
                    let now = Timestamp::now();
                    AnswerFate::Lost(now.saturating_sub(ago).unwrap_or(now))
                }
                None => return,
            };
            // The answer to a later call may count by now.
            if receipt.hangs_on(&delivery) {
                let update = ReceiptUpdate {
                    answer: Some(answer),
                    ..ReceiptUpdate::default()
                };
                ledger.update(&receipt, &update).await;
            }
        });
    }

    /// Whether events will tell of what this dispatch starts.
    pub(super) fn is_watched(&self, args: &DispatchArgs) -> bool {
        self.ledger.is_some() && args.watch != Some(false)
    }

    /// The conversation that a thread belongs to before this call, as far as anybody remembers.
    pub(super) async fn origin_before(&self, found: &Found) -> Option<String> {
        if let Some(Origin(origin)) = self.memory.origin(&key(found)) {
            return origin;
        }
        let ledger = self.ledger.as_ref()?;
        match ledger.store.origin_of(found.member.name(), &found.id).await {
            Ok(origin) => origin,
            Err(error) => {
                tracing::warn!(%error, "the conversation that a thread belonged to could not be looked up");
                None
            }
        }
    }
}

impl Ledger {
    /// Puts an attempt on disk.
    async fn commit(
        &self,
        args: &DispatchArgs,
        receipt: &NewReceipt,
        progress: &Progress,
        step: &Step,
    ) -> Result<(), ToolError> {
        if progress.kept.is_none() {
            return match self.store.claim_receipt(receipt).await {
                Ok(Claimed::New) => Ok(()),
                Ok(Claimed::Existing(other)) if other.intent.payload_hash != receipt.payload_hash => {
                    Err(other_arguments(args))
                }
                Ok(Claimed::Existing(_)) => Err(ToolError::new(
                    ErrorCode::OutcomeUnknown,
                    "An equal call with the same request_id is at work in another process of the gateway.",
                )
                .hint("Repeat the same call: it finds what that one started and starts nothing twice.")),
                Err(error) => Err(not_kept(&error)),
            };
        }
        let update = ReceiptUpdate {
            opened: Some(receipt.created_at),
            attempt: Some(progress.attempt),
            step: Some(step.name.to_owned()),
            outcome: (progress.outcome == Outcome::NotStarted).then_some(store::Outcome::NotStarted),
            thread: Some(receipt.thread.clone()),
            message: Some(receipt.message.clone()),
            ..ReceiptUpdate::default()
        };
        match self
            .store
            .update_receipt(&receipt.client, &receipt.request, &update)
            .await
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(ToolError::new(
                ErrorCode::Internal,
                "The receipt of this call is not in the ledger any more; nothing was sent.",
            )
            .hint("Tell the operator: something else changed the ledger's file.")),
            Err(error) => Err(not_kept(&error)),
        }
    }

    /// Keeps what is known of a receipt; what is lost here, T3 still knows.
    async fn update(&self, receipt: &Receipt, update: &ReceiptUpdate) {
        let kept = self
            .store
            .update_receipt(receipt.client(), &receipt.request, update)
            .await;
        if let Err(error) = kept {
            tracing::warn!(%error, "what became of a dispatch could not be kept; T3 is asked when it matters");
        }
    }
}

/// What the run is to be reported as.
fn watch_of(caller: &Caller, args: &DispatchArgs) -> Watch {
    Watch {
        on: args.watch != Some(false),
        origin: caller.origin.clone(),
        client: Some(caller.client.clone()),
    }
}

fn check_environment(kept: &NewReceipt, now: Option<&EnvironmentId>) -> Result<(), ToolError> {
    match (&kept.environment, now) {
        (Some(then), Some(now)) if then != now => Err(ToolError::new(
            ErrorCode::InvalidRequest,
            format!(
                "This call was made before, when {} had another database (environment {}; now it is {}): what it started is not there. \
                 Nothing was sent.",
                kept.machine,
                text::quoted(then),
                text::quoted(now)
            ),
        )
        .hint("Use another request_id to start the work in the new database.")
        .with("machine", kept.machine.clone())),
        (Some(_) | None, Some(_) | None) => Ok(()),
    }
}

/// The ledger did not take it: nothing was sent.
pub(super) fn not_kept(error: &StoreError) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("Nothing was sent, since the gateway could not write down what it is about to do. {error}"),
    )
    .hint("Tell the operator; then repeat the same call.")
}
