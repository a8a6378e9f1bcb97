//! Sends the ledger's events to the operator's hook, each at least once and in order per thread, until they are delivered or given up.
//!
//! [`schedule`] says when, [`classify`] what an answer means, `sign` signs, `request` makes one attempt, `worker` does it all until it is
//! stopped. It decides nothing about events: `watch` makes them, `store` keeps them and their order, and nothing else writes attempts. The
//! bearer and the secrets never reach a log, an error or the ledger. Started by `cli` in the process that owns the ledger; `events test`
//! sends a sample through the same request.

mod body;
pub mod classify;
mod clock;
mod request;
pub mod schedule;
mod sign;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use secrecy::SecretString;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use crate::config::HookConfig;
use crate::outbound::{TlsError, bare};
use crate::store::Store;
use classify::Verdict;
use request::Receiver;
use worker::Worker;

pub use clock::{Clock, SystemClock};
pub use request::{ID_HEADER, MOST_READ, MOST_SENT, SIGNATURE_HEADER, TIMESTAMP_HEADER};
pub use worker::{AT_ONCE, LEASE_MARGIN};

/// The longest that an attempt may take, from the first look-up to the answer.
pub const ATTEMPT_WITHIN: Duration = Duration::from_secs(15);

/// Where events go, and how they are proved.
#[derive(Clone)]
pub struct HookSettings {
    /// The receiver.
    pub url: Url,
    /// The bearer that it is shown.
    pub token: Option<SecretString>,
    /// The secrets to sign with, the newest first: two while one is replaced, none to sign nothing.
    pub secrets: Vec<SecretString>,
    /// A PEM file of further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The longest that an attempt may take: [`ATTEMPT_WITHIN`].
    pub attempt_within: Duration,
}

impl HookSettings {
    /// What the operator wrote.
    pub fn from_config(config: &HookConfig) -> Self {
        Self {
            url: config.url.clone(),
            token: config.token.clone(),
            secrets: config.secrets.clone(),
            ca_file: config.ca_file.clone(),
            attempt_within: ATTEMPT_WITHIN,
        }
    }
}

impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings")
            .field("url", &bare(&self.url))
            .field("token", &self.token.is_some())
            .field("secrets", &self.secrets.len())
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

/// Why nothing can be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The URL.
    #[error("hook.url is no http or https URL without a user in it. Set it to where the receiver listens")]
    Url,
    /// A secret.
    #[error(
        "a secret of the hook is not in the form of Standard Webhooks. Write whsec_ and the base64 of 24 random bytes or more"
    )]
    Secret,
    /// The bearer.
    #[error("the token of the hook holds characters that no header can have. Copy the token again")]
    Token,
    /// TLS.
    #[error("the hook cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The HTTP client.
    #[error("the hook cannot be used: {0}")]
    Client(String),
}

/// The deliveries under way.
#[derive(Debug)]
pub struct Delivery {
    task: JoinHandle<()>,
}

impl Delivery {
    /// Returns when everything has ended after `stop` was cancelled.
    pub async fn stopped(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the deliveries ended within");
        }
    }
}

/// Starts to send what the ledger has to be sent, until `stop` is cancelled.
pub fn start(store: Store, settings: &HookSettings, stop: CancellationToken) -> Result<Delivery, HookError> {
    start_with(store, settings, Arc::new(SystemClock), stop)
}

/// The same by another clock.
pub fn start_with(
    store: Store,
    settings: &HookSettings,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<Delivery, HookError> {
    let receiver = Receiver::new(settings)?;
    tracing::info!(
        url = receiver.shown(),
        signed = receiver.signs(),
        "events are sent to the hook"
    );
    let worker = Worker {
        store,
        receiver: Arc::new(receiver),
        clock,
        stop,
    };
    Ok(Delivery {
        task: tokio::spawn(worker.run()),
    })
}

/// What came of a sample.
#[derive(Clone, Debug, Serialize)]
pub struct SampleOutcome {
    /// Where it went, without a query.
    pub url: String,
    /// Its event id.
    pub id: String,
    /// It was signed.
    pub signed: bool,
    /// The receiver took it.
    pub delivered: bool,
    /// The answer's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The beginning of the answer's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// Sends an event that nothing happened for (`"event": "test"`), once, as events are sent; nothing of it is kept.
pub async fn send_sample(settings: &HookSettings) -> Result<SampleOutcome, HookError> {
    let receiver = Receiver::new(settings)?;
    let id = format!("evt_{}", Uuid::new_v4().simple());
    let (begun, now) = (Instant::now(), SystemClock.now());
    let sent = receiver.send(&id, body::sample(&id, now), now).await;
    let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let outcome = SampleOutcome {
        url: receiver.shown().to_owned(),
        id,
        signed: receiver.signs(),
        delivered: false,
        status: None,
        answer: None,
        error: None,
        milliseconds,
    };
    Ok(match sent {
        Ok(answer) => {
            let delivered = classify::answer(answer.status, None, now) == Verdict::Delivered;
            SampleOutcome {
                delivered,
                status: Some(answer.status.as_u16()),
                answer: answer.said,
                error: (!delivered).then(|| classify::words(answer.status)),
                ..outcome
            }
        }
        Err(failure) => SampleOutcome {
            error: Some(failure.to_string()),
            ..outcome
        },
    })
}
