//! Receipts: a caller's intent, on disk before the first command is sent, and what became of it.
//!
//! Written by `gateway`; `watch` reads those that it has not taken up yet, and settles them. Kept for ever: a request id holds for ever.

use jiff::Timestamp;

use crate::lifecycle::{Baseline, Watch};
use crate::protocol::{EnvironmentId, MessageId, RunId, ThreadId};
use crate::store::Store;
use crate::store::columns::micros;
use crate::store::error::StoreError;
use crate::store::receipt_rows::{apply, find, insert, latest, lost, open};

/// Whether a thread is begun or continued.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReceiptKind {
    /// A thread with a run in it.
    Launch,
    /// A message to a thread that is there.
    Continue,
}

/// What a caller asked for, before anything is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewReceipt {
    /// The caller's configured name.
    pub client: String,
    /// Its request id, or one of our own.
    pub request: String,
    /// The caller named the request id.
    pub explicit: bool,
    /// What it asked for, in 32 bytes.
    pub payload_hash: [u8; 32],
    /// The machine.
    pub machine: String,
    /// The machine's environment id, once known.
    pub environment: Option<EnvironmentId>,
    /// The thread.
    pub thread: ThreadId,
    /// The message.
    pub message: MessageId,
    /// Whether a thread is begun.
    pub kind: ReceiptKind,
    /// What the run is to be reported as.
    pub watch: Watch,
    /// Where the thread's history ended when it was asked, if it was there.
    pub baseline: Option<Baseline>,
    /// When it was asked; once more was sent, when that was.
    pub created_at: Timestamp,
    /// The protocol that the machine spoke.
    pub protocol: u32,
}

/// What became of an intent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Nothing was sent yet.
    NotStarted,
    /// It was sent, and nobody knows.
    Unknown,
    /// T3 has it.
    Started {
        /// The run, once it was seen.
        run: Option<RunId>,
    },
    /// It definitely came to nothing.
    Nothing,
}

/// What became of the answer to the call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AnswerFate {
    /// The call goes on, or its process died with it.
    Pending,
    /// It was written.
    Answered,
    /// It was lost, then.
    Lost(Timestamp),
}

/// A receipt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Receipt {
    /// What was asked; thread and message are those of the last attempt.
    pub intent: NewReceipt,
    /// The attempt, from 0. Moves on only when the one before has definitely come to nothing.
    pub attempt: u32,
    /// Something was sent.
    pub sent: bool,
    /// The last step that was begun.
    pub step: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What became of the answer.
    pub answer: AnswerFate,
    /// `watch` has taken it up.
    pub settled: bool,
}

/// What is now known of a receipt; what is left out stays.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReceiptUpdate {
    /// Something is about to be sent: from this moment on it is open to be taken up (again), and made then.
    pub opened: Option<Timestamp>,
    /// A later attempt begins: it is open to be taken up again.
    pub attempt: Option<u32>,
    /// Something was sent. Never taken back.
    pub sent: bool,
    /// The step that begins.
    pub step: Option<String>,
    /// What became of it. What has started stays so within its attempt.
    pub outcome: Option<Outcome>,
    /// The thread of this attempt.
    pub thread: Option<ThreadId>,
    /// The message of this attempt.
    pub message: Option<MessageId>,
    /// What became of the answer.
    pub answer: Option<AnswerFate>,
    /// `watch` has taken it up.
    pub settled: bool,
}

/// Whether a receipt is new.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Claimed {
    /// It was not there: it is now.
    New,
    /// It was there, with these facts. Whether they are those of the same call is the caller's to compare.
    Existing(Box<Receipt>),
}

impl Store {
    /// Puts a receipt on disk, unless there is one of that client and request.
    pub async fn claim_receipt(&self, new: &NewReceipt) -> Result<Claimed, StoreError> {
        let new = new.clone();
        self.write(move |connection| {
            Box::pin(async move {
                if insert(connection, &new).await? {
                    return Ok(Claimed::New);
                }
                let existing = find(connection, &new.client, &new.request).await?;
                Ok(existing.map_or(Claimed::New, |receipt| Claimed::Existing(Box::new(receipt))))
            })
        })
        .await
    }

    /// Keeps what became of an intent; false where there is no such receipt.
    pub async fn update_receipt(
        &self,
        client: &str,
        request: &str,
        update: &ReceiptUpdate,
    ) -> Result<bool, StoreError> {
        let (client, request, update) = (client.to_owned(), request.to_owned(), update.clone());
        self.write(move |connection| Box::pin(async move { apply(connection, &client, &request, &update).await }))
            .await
    }

    /// The receipt of a client's request.
    pub async fn receipt(&self, client: &str, request: &str) -> Result<Option<Receipt>, StoreError> {
        let mut reader = self.reader().await?;
        find(&mut reader, client, request)
            .await
            .map_err(|fault| self.told(fault))
    }

    /// The newest receipt without a request id for an equal call whose answer was lost at `since` or later.
    pub async fn lost_receipt(
        &self,
        client: &str,
        payload_hash: &[u8; 32],
        since: Timestamp,
    ) -> Result<Option<Receipt>, StoreError> {
        let mut reader = self.reader().await?;
        lost(&mut reader, client, payload_hash, since)
            .await
            .map_err(|fault| self.told(fault))
    }

    /// The latest of the receipts that may have started something, oldest first: at most so many, none from before `since`.
    pub async fn latest_receipts(&self, since: Timestamp, most: u32) -> Result<Vec<Receipt>, StoreError> {
        let mut reader = self.reader().await?;
        latest(&mut reader, since, most).await.map_err(|fault| self.told(fault))
    }

    /// Calls whose answers are pending were cut off with their process: from now on they count as lost. For the owner, before it answers its
    /// first call; gives their number.
    pub async fn lose_pending_answers(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("UPDATE receipts SET answer = 'lost', lost_at = ? WHERE answer = 'pending'")
                    .bind(micros(now))
                    .execute(connection)
                    .await?;
                Ok(done.rows_affected())
            })
        })
        .await
    }

    /// Every receipt that `watch` has not taken up, oldest first.
    pub async fn open_receipts(&self) -> Result<Vec<Receipt>, StoreError> {
        let mut reader = self.reader().await?;
        open(&mut reader).await.map_err(|fault| self.told(fault))
    }

    /// Takes a receipt away: its call ended before anything was sent. One of which something was sent stays; false then.
    pub async fn forget_receipt(&self, client: &str, request: &str) -> Result<bool, StoreError> {
        let (client, request) = (client.to_owned(), request.to_owned());
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("DELETE FROM receipts WHERE client = ? AND request = ? AND sent = 0")
                    .bind(client)
                    .bind(request)
                    .execute(connection)
                    .await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }
}

impl Receipt {
    /// What an update makes of it.
    pub(super) fn updated(mut self, update: &ReceiptUpdate) -> Self {
        let moves_on = update.attempt.is_some_and(|attempt| attempt > self.attempt);
        if let Some(outcome) = &update.outcome {
            self.outcome = match (self.outcome, outcome.clone()) {
                (_, new) if moves_on => new,
                (Outcome::Started { run: known }, Outcome::Started { run }) => Outcome::Started { run: run.or(known) },
                (started @ Outcome::Started { .. }, Outcome::NotStarted | Outcome::Unknown | Outcome::Nothing) => {
                    started
                }
                (Outcome::NotStarted | Outcome::Unknown | Outcome::Nothing, new) => new,
            };
        }
        self.attempt = update.attempt.unwrap_or(0).max(self.attempt);
        let opens = moves_on || update.opened.is_some();
        self.settled = update.settled || (self.settled && !opens);
        self.intent.created_at = update.opened.unwrap_or(self.intent.created_at);
        self.sent |= update.sent;
        self.step = update.step.clone().unwrap_or(self.step);
        self.intent.thread = update.thread.clone().unwrap_or(self.intent.thread);
        self.intent.message = update.message.clone().unwrap_or(self.intent.message);
        self.answer = update.answer.unwrap_or(self.answer);
        self
    }
}
