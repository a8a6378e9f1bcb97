//! A machine's HTTP routes: who it is, what the credential may do, tickets for the socket, and reads of shell and threads.
//!
//! Bodies come back as bytes, bounded and timed; the dialect decodes them. Redirects are never followed, the bearer goes out as a
//! sensitive header, and no error repeats a URL's query. Only `machine/` uses it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::descriptor::{Credential, Descriptor, SPOKEN};
use super::refusal::{self, Refusal};
use super::{MachineError, MachineSettings, tls};
use crate::protocol::ThreadId;

/// The longest that a connection may take to stand.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a read may take, from the request to the last byte.
pub const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest body taken from a machine, decompressed.
const BODY_LIMIT: usize = 64 * 1024 * 1024;
/// The largest body of a refusal that is looked at.
const REFUSAL_LIMIT: usize = 64 * 1024;
/// Newer servers refuse orchestration routes without it.
const PROTOCOL_HEADER: &str = "x-t3-orchestration-protocol";

/// Opens a socket for five minutes (`POST /api/auth/websocket-ticket`). Shown nowhere.
#[derive(Clone, Debug)]
pub struct Ticket(SecretString);

impl Ticket {
    /// For the socket's URL alone.
    pub(super) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// The HTTP side of one machine.
#[derive(Clone)]
pub struct HttpClient {
    machine: Arc<str>,
    base: Url,
    client: reqwest::Client,
    tls: Arc<ClientConfig>,
    token: Option<SecretString>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("machine", &self.machine)
            .field("base", &refusal::bare(&self.base))
            .finish_non_exhaustive()
    }
}

// STAND-IN bodies; the signatures stay.
#[allow(clippy::todo, clippy::unused_async, unused_variables)]
impl HttpClient {
    /// Checks the machine's URL and reads its `ca_file`; connects to nothing yet.
    pub fn new(settings: &MachineSettings) -> Result<Self, MachineError> {
        todo!()
    }

    /// `GET /.well-known/t3/environment`, which needs no credential.
    pub async fn descriptor(&self) -> Result<Descriptor, MachineError> {
        todo!()
    }

    /// `GET /api/auth/session`: `NeedsPairing` where the token is not (or no longer) good, or there is none.
    pub async fn credential(&self) -> Result<Credential, MachineError> {
        todo!()
    }

    /// `POST /api/auth/websocket-ticket`: a new one for each socket.
    pub async fn ticket(&self) -> Result<Ticket, MachineError> {
        todo!()
    }

    /// `GET /api/orchestration/shell`: the shell snapshot.
    pub async fn shell(&self) -> Result<Bytes, MachineError> {
        todo!()
    }

    /// `GET /api/orchestration/threads/:id`: the whole thread, archived and deleted ones too; `ThreadNotFound` where there never was
    /// such a thread.
    pub async fn thread(&self, id: &ThreadId) -> Result<Bytes, MachineError> {
        todo!()
    }

    /// `GET /api/orchestration/threads/:id/bounded`: the newest part of the thread; none where the server does not have this route.
    pub async fn thread_bounded(&self, id: &ThreadId) -> Result<Option<Bytes>, MachineError> {
        todo!()
    }

    /// `GET /api/projects`: `{projects, updatedAt}`.
    pub async fn projects(&self) -> Result<Bytes, MachineError> {
        todo!()
    }
}
