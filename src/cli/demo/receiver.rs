//! The demo's receiver of hook events, and the state directory that their ledger lies in: both go with the demo.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use crate::cli::Failure;
use crate::delivery::{ATTEMPT_WITHIN, HookSettings};

/// An event comes within moments of what it tells.
const COMES_WITHIN: Duration = Duration::from_secs(10);
/// How many events may wait to be shown.
const WAITING: usize = 16;

/// A receiver that listens.
pub(super) struct Receiver {
    pub(super) hook: HookSettings,
    events: mpsc::Receiver<Value>,
}

impl Receiver {
    pub(super) async fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.await.map_err(Failure::said)?;
        let address = listener.local_addr().map_err(Failure::said)?;
        let (to, events) = mpsc::channel(WAITING);
        let router = Router::new().route("/events", post(take)).with_state(to);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let url: Url = format!("http://{address}/events").parse().map_err(Failure::said)?;
        let hook = HookSettings {
            url,
            token: None,
            secrets: Vec::new(),
            ca_file: None,
            attempt_within: ATTEMPT_WITHIN,
        };
        Ok(Self { hook, events })
    }

    /// The next event.
    pub(super) async fn next(&mut self) -> Result<Value, Failure> {
        let event = timeout(COMES_WITHIN, self.events.recv()).await.ok().flatten();
        event.ok_or_else(|| Failure::said("no event came to the receiver; that is a fault of this program"))
    }
}

async fn take(State(to): State<mpsc::Sender<Value>>, Json(event): Json<Value>) {
    // Nobody shows it any more: the demo is over.
    let _ = to.send(event).await;
}

/// A state directory that is removed with this.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        let name = format!("t3code-mcp-demo-{}", uuid::Uuid::new_v4().simple());
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, which empties this place.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
