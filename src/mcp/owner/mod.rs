//! The process that owns the state directory, as another one reaches it: over the socket there, with the newest revision of MCP.
//!
//! Each call has a connection of its own: closing it is how the owner learns that nobody waits any more, and another request on it is how it
//! learns that the answer was read. [`super::forward`] drives a call; this sends one and reads what comes back.

mod allowed;
mod answer;
mod passport;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rmcp::model::{CallToolResult, JsonObject};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::config::Config;
use crate::config::credentials::Credentials;
use crate::config::socket::SocketPath;
use crate::gateway::Caller;

use allowed::Allowed;
pub(super) use passport::{META_KEY, Passport, unreadable};

/// Says that the sender will tell whether the answer was read: by another request on the same connection, or by closing it.
pub const TELLS_HEADER: &str = "x-t3code-mcp-tells";

/// The revision in which calls are passed on. It has no sessions.
const REVISION: &str = "2026-07-28";

/// How long the head of an answer may take. An owner that works shows it within 5 s.
const HEAD_WITHIN: Duration = Duration::from_secs(20);

/// The process that owns the state directory.
#[derive(Debug)]
pub struct Owner {
    socket: SocketPath,
    allowed: Allowed,
    /// This process is told to stop.
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// How long the owner may take to hear that an answer was read.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// What the owner says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct About {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// It serves over HTTP: it goes before those that a client started.
    pub serves: bool,
    /// The name of its ledger's file.
    pub ledger: String,
    /// Its machines, and where each is.
    pub machines: BTreeMap<String, String>,
    /// It sends events to a hook.
    pub delivers: bool,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// Nothing was sent.
    #[error("its socket cannot be reached: {0}")]
    Nobody(#[source] io::Error),
    /// It broke after the call was sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// It was sent, and nothing came back.
    #[error("it says nothing")]
    Silent,
    /// What came back is no result.
    #[error("it answers: {0}")]
    Refused(String),
}

/// A call that is passed on.
pub(super) struct Passed<'a> {
    pub(super) tool: &'a str,
    pub(super) arguments: &'a Option<JsonObject>,
    pub(super) caller: &'a Caller,
    /// Somebody wants heartbeats.
    pub(super) beats: bool,
    pub(super) under_way: Duration,
}

/// A connection whose last answer is not yet known to be read; dropped, it was not.
pub(super) struct Unheard {
    sender: SendRequest<Full<Bytes>>,
    _driving: AbortOnDropHandle<()>,
}

impl Owner {
    /// The owner behind the socket, for a process with this config and what is paired in its state directory.
    pub fn new(
        socket: PathBuf,
        config: &Config,
        credentials: Credentials,
        stop: CancellationToken,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            socket: SocketPath::new(socket)?,
            allowed: Allowed::new(config, credentials),
            stop,
            tasks: TaskTracker::new(),
        }))
    }

    /// The machines that this process may speak of.
    pub(super) fn machines(&self) -> Vec<String> {
        self.allowed.now().keys().cloned().collect()
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// What is still told to it.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Passes a call on and reads to its result.
    pub(super) async fn call<F: Future<Output = ()>>(
        &self,
        call: &Passed<'_>,
        beat: impl FnMut(String) -> F,
    ) -> Result<(CallToolResult, Unheard), Unanswered> {
        let request = self
            .request(call)
            .map_err(|error| Unanswered::Refused(error.to_string()))?;
        let (response, unheard) = self.send(request).await?;
        Ok((answer::read(response, beat).await?, unheard))
    }

    /// Asks for what only processes of the same user ask.
    pub async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, Unanswered> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .body(Full::default())
            .map_err(|error| Unanswered::Refused(error.to_string()))?;
        let (response, _connection) = self.send(request).await?;
        answer::read_json(response).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(http::Response<Incoming>, Unheard), Unanswered> {
        let stream = UnixStream::connect(self.socket.path())
            .await
            .map_err(Unanswered::Nobody)?;
        let broken = |error: hyper::Error| Unanswered::Broken(error.to_string());
        let (mut sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Unanswered::Nobody(io::Error::other(error)))?;
        let driving = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the owner broke");
            }
        }));
        let response = timeout(HEAD_WITHIN, sender.send_request(request)).await;
        let response = response.map_err(|_| Unanswered::Silent)?.map_err(broken)?;
        let unheard = Unheard {
            sender,
            _driving: driving,
        };
        Ok((response, unheard))
    }

    fn request(&self, call: &Passed<'_>) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
            META_KEY: Passport::of(call.caller, &self.allowed.now(), call.under_way),
        });
        if call.beats {
            meta["progressToken"] = json!(1);
        }
        let mut params = json!({"name": call.tool, "_meta": meta});
        if let Some(arguments) = call.arguments {
            params["arguments"] = json!(arguments);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", call.tool)
            .header(TELLS_HEADER, "1")
            .body(Full::from(body.to_string()))
    }
}

impl Unheard {
    /// Tells the owner that the answer was read.
    pub(super) async fn heard(mut self) {
        let request = Request::builder()
            .uri("/healthz")
            .header(HOST, "localhost")
            .body(Full::default());
        // The owner is gone, or will count the answer as lost: then an equal call finds what this one started.
        let Ok(request) = request else { return };
        let telling = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        match timeout(HEARD_WITHIN, telling).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the owner could not be told that an answer was read"),
            Err(_) => tracing::debug!("the owner did not hear that an answer was read"),
        }
    }
}
