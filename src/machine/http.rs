//! A machine's HTTP routes: who it is, what the credential may do, tickets for the socket, and reads of shell and threads.
//!
//! Bodies come back as bytes, bounded and timed; the dialect decodes them. Redirects are never followed, the bearer goes out as a
//! sensitive header, and no error repeats a URL's query. Only `machine/` uses it.

use std::fmt;
use std::path::PathBuf;
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
use super::pairing::ExchangeError;
use super::refusal::{self, Refusal};
use super::{Access, MachineError, MachineSettings, TokenFrom};
use crate::outbound::{bare, client_config};
use crate::protocol::ThreadId;

/// The longest that a connection may take to stand.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a read may take, from the request to the last byte.
pub const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a machine may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a connection to stand.
    pub connect: Duration,
    /// For a read, from the request to the last byte, and for the upgrade to a WebSocket.
    pub read: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: CONNECT_TIMEOUT,
            read: READ_TIMEOUT,
        }
    }
}

/// The largest body of a refusal that is looked at.
const REFUSAL_LIMIT: usize = 64 * 1024;
/// Newer servers refuse orchestration routes without it.
pub(super) const PROTOCOL_HEADER: &str = "x-t3-orchestration-protocol";

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
    source: TokenFrom,
    ca_file: Option<PathBuf>,
    limits: Limits,
    /// The largest body taken, decompressed: what a frame may be, since the same snapshots come both ways.
    body_limit: usize,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("machine", &self.machine)
            .field("base", &bare(&self.base))
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Checks the machine's URL and reads its `ca_file`; connects to nothing yet.
    pub fn new(settings: &MachineSettings) -> Result<Self, MachineError> {
        Self::with_limits(settings, Limits::default())
    }

    /// The same with other limits than the usual ones.
    pub fn with_limits(settings: &MachineSettings, limits: Limits) -> Result<Self, MachineError> {
        Self::build(settings, &Access::of(settings), limits)
    }

    /// The same by another access than the settings'.
    pub(super) fn by(settings: &MachineSettings, access: &Access) -> Result<Self, MachineError> {
        Self::build(settings, access, Limits::default())
    }

    /// The same client with another access.
    pub(super) fn with(&self, access: &Access) -> Result<Self, MachineError> {
        let settings = MachineSettings {
            name: self.machine.to_string(),
            url: access.url.clone(),
            token: None,
            ca_file: self.ca_file.clone(),
            frame_limit: self.body_limit,
        };
        Self::build(&settings, access, self.limits)
    }

    fn build(settings: &MachineSettings, access: &Access, limits: Limits) -> Result<Self, MachineError> {
        let machine: Arc<str> = settings.name.as_str().into();
        let base = base(&machine, &access.url)?;
        let failed = |problem: String| MachineError::Unreachable {
            reason: format!("{machine} cannot be reached: {problem}"),
        };
        let tls = client_config(base.scheme() == "https", settings.ca_file.as_deref())
            .map_err(|error| failed(error.to_string()))?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .redirect(Policy::none())
            // The socket goes straight to the machine, so the reads do too: one that works without the other helps nobody.
            .no_proxy()
            .tcp_nodelay(true)
            .connect_timeout(limits.connect)
            .timeout(limits.read)
            .build()
            .map_err(|error| failed(error.without_url().to_string()))?;
        Ok(Self {
            machine,
            base,
            client,
            tls: Arc::new(tls),
            token: access.token.clone(),
            source: access.source,
            ca_file: settings.ca_file.clone(),
            limits,
            body_limit: settings.frame_limit,
        })
    }

    /// The machine's name.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// `GET /.well-known/t3/environment`, which needs no credential.
    pub async fn descriptor(&self) -> Result<Descriptor, MachineError> {
        let url = self.url(&[".well-known", "t3", "environment"]);
        // Whoever answers there need not be T3: the token goes out only after this was read.
        let body = self.fetch(Method::GET, &url, None).await;
        let body = body.map_err(|refusal| refusal.into_error(&self.machine, url.path()))?;
        Descriptor::read(&self.machine, &body)
    }

    /// `GET /api/auth/session`: `NeedsPairing` where the token is not (or no longer) good, or there is none.
    pub async fn credential(&self) -> Result<Credential, MachineError> {
        let body = self.json(Method::GET, &["api", "auth", "session"]).await?;
        Credential::read(&self.machine, self.source, &body)
    }

    /// `POST /oauth/token`: exchanges a pairing code. The form holds the code, so it is shown nowhere.
    pub(super) async fn exchange(&self, form: String) -> Result<Bytes, ExchangeError> {
        let url = self.url(&["oauth", "token"]);
        let request = self
            .client
            .post(url.clone())
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        let refusal = match self.answered(request, &url).await {
            Ok(body) => return Ok(body),
            Err(refusal) => refusal,
        };
        Err(match refusal {
            Refusal::Error(MachineError::NeedsPairing { .. }) => ExchangeError::Code,
            Refusal::Error(MachineError::Rejected { message, .. }) if message.contains("scope_not_granted") => {
                ExchangeError::Grants
            }
            refusal => refusal.into_error(&self.machine, url.path()).into(),
        })
    }

    /// What is done about a token that is not good.
    pub(super) fn source(&self) -> TokenFrom {
        self.source
    }

    /// `POST /api/auth/websocket-ticket`: a new one for each socket.
    pub async fn ticket(&self) -> Result<Ticket, MachineError> {
        #[derive(Deserialize)]
        struct Issued {
            ticket: String,
        }
        let body = self.json(Method::POST, &["api", "auth", "websocket-ticket"]).await?;
        // The parser's own words could repeat the ticket.
        let issued: Issued = serde_json::from_slice(&body).map_err(|_| MachineError::NotT3 {
            reason: format!(
                "{} answered, but not with a WebSocket ticket: is its url that of a T3 server?",
                self.machine
            ),
        })?;
        Ok(Ticket(issued.ticket.into()))
    }

    /// `GET /api/orchestration/shell`: the shell snapshot.
    pub async fn shell(&self) -> Result<Bytes, MachineError> {
        self.json(Method::GET, &["api", "orchestration", "shell"]).await
    }

    /// `GET /api/orchestration/threads/:id`: the whole thread, archived and deleted ones too; `ThreadNotFound` where there never was
    /// such a thread.
    pub async fn thread(&self, id: &ThreadId) -> Result<Bytes, MachineError> {
        let id = segment(id)?;
        self.json(Method::GET, &["api", "orchestration", "threads", id]).await
    }

    /// The same; none where the server does not have this route.
    pub async fn thread_if_routed(&self, id: &ThreadId) -> Result<Option<Bytes>, MachineError> {
        let path = ["api", "orchestration", "threads", segment(id)?];
        self.routed(&path).await
    }

    /// `GET /api/orchestration/threads/:id/bounded`: the newest part of the thread; none where the server does not have this route.
    pub async fn thread_bounded(&self, id: &ThreadId) -> Result<Option<Bytes>, MachineError> {
        let path = ["api", "orchestration", "threads", segment(id)?, "bounded"];
        self.routed(&path).await
    }

    /// What a route answers that servers may not have.
    async fn routed(&self, path: &[&str]) -> Result<Option<Bytes>, MachineError> {
        match self.fetch(Method::GET, &self.url(path), self.token.as_ref()).await {
            Ok(body) => Ok(Some(body)),
            Err(Refusal::RouteAbsent | Refusal::Unavailable) => Ok(None),
            Err(Refusal::Error(error)) => Err(error),
        }
    }

    /// Where the socket is, without a ticket.
    pub(super) fn socket_url(&self) -> Url {
        let mut url = self.url(&["ws"]);
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        // Both pairs of schemes are special ones with the same rules, so this cannot be refused.
        let _ = url.set_scheme(scheme);
        url.query_pairs_mut()
            .append_pair("orchestrationProtocol", &SPOKEN.to_string());
        url
    }

    /// How long the machine may take.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// The TLS configuration that the socket shares.
    pub(super) fn tls(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.tls)
    }

    /// The body of a route that every T3 of ours has.
    async fn json(&self, method: Method, path: &[&str]) -> Result<Bytes, MachineError> {
        let url = self.url(path);
        let body = self.fetch(method, &url, self.token.as_ref()).await;
        body.map_err(|refusal| refusal.into_error(&self.machine, url.path()))
    }

    async fn fetch(&self, method: Method, url: &Url, token: Option<&SecretString>) -> Result<Bytes, Refusal> {
        let mut request = self
            .client
            .request(method, url.clone())
            .header(PROTOCOL_HEADER, SPOKEN)
            .header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(
                header::AUTHORIZATION,
                bearer(&self.machine, token).map_err(Refusal::Error)?,
            );
        }
        self.answered(request, url).await
    }

    async fn answered(&self, request: reqwest::RequestBuilder, url: &Url) -> Result<Bytes, Refusal> {
        let failed = |error: reqwest::Error| Refusal::Error(self.failed(&error));
        let mut response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            // What matters of a refusal is small; a body that breaks off is as good as none.
            let mut body = BytesMut::new();
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > REFUSAL_LIMIT {
                    break;
                }
            }
            return Err(refusal::read(
                (&self.machine, self.source),
                url,
                status,
                &headers,
                &body,
            ));
        }
        if !is_json(&headers) {
            // A T3 with its web app answers unknown paths with the app's page.
            return Err(Refusal::RouteAbsent);
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > self.body_limit {
                return Err(Refusal::Error(MachineError::Decode(format!(
                    "{} answered {} with more than {} MiB: raise frame_limit_mib for this machine",
                    self.machine,
                    url.path(),
                    self.body_limit / (1024 * 1024)
                ))));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    fn failed(&self, error: &reqwest::Error) -> MachineError {
        let place = bare(&self.base);
        if error.is_timeout() && error.is_connect() {
            MachineError::Unreachable {
                reason: refusal::no_connection(&self.machine, &place, self.limits.connect),
            }
        } else if error.is_timeout() {
            MachineError::Timeout(self.limits.read)
        } else if error.is_decode() {
            MachineError::NotT3 {
                reason: format!("{} sent a body that cannot be decompressed", self.machine),
            }
        } else {
            MachineError::Unreachable {
                reason: refusal::connection_failed(&self.machine, &place, error),
            }
        }
    }
}

/// A machine's URL as requests are built on it: http or https, a host, perhaps a path, and nothing that could carry a secret.
fn base(machine: &str, url: &Url) -> Result<Url, MachineError> {
    let wrong = |what: &str| MachineError::NotT3 {
        reason: format!("the url of {machine} {what}: it is to be like http://host:3773"),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    if !url.has_host() {
        return Err(wrong("names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("holds a query or a fragment"));
    }
    Ok(url.clone())
}

/// A thread id as one segment of a path. These few would be taken for steps within the path, and no thread has them.
fn segment(id: &ThreadId) -> Result<&str, MachineError> {
    match id.0.as_str() {
        "" | "." | ".." => Err(MachineError::ThreadNotFound),
        id => Ok(id),
    }
}

fn bearer(machine: &str, token: &SecretString) -> Result<HeaderValue, MachineError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).map_err(|_| {
        MachineError::NeedsPairing {
            reason: format!("the token of {machine} holds characters that no token has: set another one"),
        }
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("application/json"))
}
