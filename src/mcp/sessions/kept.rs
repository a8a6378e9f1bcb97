//! Sessions in the ledger: whoever was told of a session finds it again, over a restart too.
//!
//! A session is on disk before the answer that names it goes out. Its use is written down now and then, never on the way of a call. A row
//! that cannot be read is no session: its client opens a new one. Without a ledger nothing here does anything, until one is attached.

use std::sync::PoisonError;
use std::time::Instant;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use rmcp::transport::streamable_http_server::session::SessionState;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::Sessions;
use super::registry::{Unkept, canonical};
use crate::store::{SessionRecord, Store, StoreError};

/// How many sessions stay on disk: some scripts open one for each call and never end it.
const MOST_KEPT: u32 = 10_000;

/// What a client may say of itself as it opens a session: most take some hundred bytes.
const MOST_STATE_BYTES: usize = 64 * 1024;

/// What becomes of a request that names a session.
#[derive(Debug)]
pub enum Admission {
    /// Its session has a worker.
    Awake,
    /// Its session wakes with it. Others of the same session wait until the turn is over.
    Asleep(Turn),
    /// There is no such session, it is another client's, or the id is not written as we write them: all look the same.
    Unknown,
    /// Whether there is one cannot be said.
    Failed(LedgerFailed),
}

/// The right to wake a session.
#[derive(Debug)]
pub struct Turn {
    _of: OwnedMutexGuard<()>,
}

/// The ledger did not do what a session needs.
#[derive(Debug, thiserror::Error)]
pub enum LedgerFailed {
    /// Its own reason.
    #[error("The session could not be written down, so that it would be lost with the process. {0}")]
    Opening(StoreError),
    /// More than is kept of a session.
    #[error(
        "The client says more of itself than the {} KiB that are kept of a session. Shorten what `initialize` carries.",
        MOST_STATE_BYTES / 1024
    )]
    TooLarge,
    /// Its own reason.
    #[error("The session could not be looked up. {0}")]
    Looking(StoreError),
    /// Its own reason.
    #[error("The session could not be ended. {0}")]
    Ending(StoreError),
}

impl Sessions {
    /// From now on sessions are kept there, those that are open already included; the ones that it has are known here. It may come at any
    /// time, and another one in its place.
    pub async fn attach(&self, ledger: Store) {
        let before = {
            let mut place = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            place.replace(ledger)
        };
        if before.is_some() {
            self.shared.registry().handle_other_disk();
        }
        // One that is being opened meanwhile is either listed here, or finds the ledger by itself.
        self.keep_all().await;
    }

    /// Whether a request gets in that names this session, as this client's.
    pub async fn admit(&self, session: &str, client: &str) -> Admission {
        let Some(id) = canonical(session) else {
            return Admission::Unknown;
        };
        if !self.knows_id(id)
            && let Err(failed) = self.find(id, client).await
        {
            return Admission::Failed(failed);
        }
        let waking = {
            let mut registry = self.shared.registry();
            if !registry.handle_request(id, client, Instant::now()) {
                return Admission::Unknown;
            }
            if registry.is_awake(id) {
                return Admission::Awake;
            }
            registry.waking(id)
        };
        let turn = waking.lock_owned().await;
        if self.shared.registry().is_awake(id) {
            Admission::Awake
        } else {
            Admission::Asleep(Turn { _of: turn })
        }
    }

    /// Whether a session of that id is known in this process.
    pub fn knows(&self, session: &str) -> bool {
        canonical(session).is_some_and(|id| self.knows_id(id))
    }

    fn knows_id(&self, id: Uuid) -> bool {
        self.shared.registry().knows(id)
    }

    /// Its client ends the session: it is taken from the disk. What it has in memory goes as the request passes on.
    ///
    /// # Errors
    /// The disk did not let it go: it is still there.
    pub async fn end(&self, session: &str) -> Result<(), LedgerFailed> {
        if let (Some(ledger), Some(id)) = (self.ledger(), canonical(session)) {
            ledger
                .delete_session(&id.to_string())
                .await
                .map_err(LedgerFailed::Ending)?;
        }
        Ok(())
    }

    fn ledger(&self) -> Option<Store> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Brings the client's session into memory, if the ledger has it.
    async fn find(&self, id: Uuid, client: &str) -> Result<(), LedgerFailed> {
        let Some(ledger) = self.ledger() else { return Ok(()) };
        let row = match ledger.session(&id.to_string()).await {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(()),
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Word { .. })) => {
                tracing::warn!(session = %id, %error, "a session's row cannot be read: its client has to open a new one");
                return Ok(());
            }
            Err(
                error @ (StoreError::Full { .. }
                | StoreError::Newer { .. }
                | StoreError::Refused { .. }
                | StoreError::Io { .. }
                | StoreError::Closed),
            ) => return Err(LedgerFailed::Looking(error)),
        };
        if row.client != client || row.last_used_at < self.forgotten_before(Timestamp::now()) {
            return Ok(());
        }
        match serde_json::from_str::<SessionState>(&row.state) {
            Ok(state) => self
                .shared
                .registry()
                .handle_found(id, row.client, state, Instant::now()),
            // What it says is the client's own: it does not belong into the log.
            Err(error) => tracing::warn!(
                session = %id, at = error.column(),
                "a session's row is damaged, or a newer version's: its client has to open a new one"
            ),
        }
        Ok(())
    }

    /// Writes a session down, if there is a ledger and it is not there yet.
    pub(super) async fn keep(&self, id: Uuid) -> Result<(), LedgerFailed> {
        let Some(ledger) = self.ledger() else { return Ok(()) };
        let Some(unkept) = self.shared.registry().unkept(id) else {
            return Ok(());
        };
        let record = record(&unkept)?;
        // It is false for another client's: no id of ours is given twice.
        if ledger.put_session(&record).await.map_err(LedgerFailed::Opening)? {
            self.shared.registry().handle_kept(id);
        }
        if !self.knows_id(id) {
            // Ended meanwhile.
            ledger.delete_session(&record.id).await.map_err(LedgerFailed::Ending)?;
        }
        Ok(())
    }

    /// Writes down the sessions that are not on disk yet: opened before there was a ledger.
    async fn keep_all(&self) {
        if self.ledger().is_none() {
            return;
        }
        let unkept = self.shared.registry().all_unkept();
        // Together they share a transaction.
        for kept in join_all(unkept.into_iter().map(|id| self.keep(id))).await {
            if let Err(error) = kept {
                tracing::error!(%error, "a session could not be written down; it is tried again");
            }
        }
    }

    /// What the clock brings: sessions to write down, uses to note, old ones to forget.
    pub(super) async fn keep_up(&self, now: Instant, last_forgotten: &mut Option<Instant>) {
        self.keep_all().await;
        let forget = last_forgotten.is_none_or(|last| now.duration_since(last) >= self.settings.forget_every);
        if forget {
            *last_forgotten = Some(now);
            self.shared.registry().forget_unused(now, self.settings.forget_after);
        }
        let Some(ledger) = self.ledger() else {
            // The one that comes later is looked through at once.
            *last_forgotten = None;
            return;
        };
        let used = self.shared.registry().poll_used(now, self.settings.note_every);
        let used: Vec<(String, Timestamp)> = used.into_iter().map(|(id, at)| (id.to_string(), clock(at))).collect();
        if !used.is_empty()
            && let Err(error) = ledger.touch_sessions(used).await
        {
            tracing::warn!(%error, "that sessions were used could not be noted");
        }
        if forget {
            self.forget(&ledger, now).await;
        }
    }

    async fn forget(&self, ledger: &Store, now: Instant) {
        let spared = self.shared.registry().in_use(now, self.settings.forget_after);
        let spared = spared.iter().map(Uuid::to_string).collect();
        let before = self.forgotten_before(Timestamp::now());
        match ledger.forget_sessions(before, MOST_KEPT, spared).await {
            Ok(0) => {}
            Ok(sessions) => tracing::info!(sessions, "sessions that nobody used for long were forgotten"),
            Err(error) => tracing::warn!(%error, "old sessions could not be forgotten"),
        }
    }

    fn forgotten_before(&self, now: Timestamp) -> Timestamp {
        let after = SignedDuration::try_from(self.settings.forget_after).unwrap_or(SignedDuration::MAX);
        now.saturating_sub(after).unwrap_or(Timestamp::MIN)
    }
}

fn record(unkept: &Unkept) -> Result<SessionRecord, LedgerFailed> {
    // A struct of strings and maps always prints.
    let state = serde_json::to_string(&unkept.state).unwrap_or_default();
    if state.len() > MOST_STATE_BYTES {
        return Err(LedgerFailed::TooLarge);
    }
    Ok(SessionRecord {
        id: unkept.id.to_string(),
        client: unkept.owner.clone(),
        created_at: clock(unkept.opened),
        last_used_at: clock(unkept.seen),
        state,
    })
}

/// What the wall clock showed then.
fn clock(at: Instant) -> Timestamp {
    let ago = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::ZERO);
    let now = Timestamp::now();
    now.checked_sub(ago).unwrap_or(now)
}
