//! One attempt: the request to the hook and what comes back, bounded in time and size.
//!
//! The bearer goes out as a sensitive header and redirects are not followed, so it reaches the configured receiver alone, and straight: no
//! proxy of the environment is used. Neither bearer, nor secret, nor the URL's query stands in anything that leaves this file.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::classify::Failure;
use super::sign::Signer;
use super::{HookError, HookSettings};
use crate::outbound::{bare, client_config, tls_cause};
use crate::protocol::Untrusted;

/// The event's id, the same on every attempt: receivers tell repeats by it.
pub const ID_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_ID;
/// When this attempt was made, in seconds: receivers refuse what was kept too long.
pub const TIMESTAMP_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_TIMESTAMP;
/// The signatures, where there is a secret.
pub const SIGNATURE_HEADER: &str = standardwebhooks::HEADER_WEBHOOK_SIGNATURE;

/// No larger event is sent: receivers refuse more, and an event points to its thread anyway.
pub const MOST_SENT: usize = 256 * 1024;
/// So much of an answer is read: enough to say what is wrong, and to use the connection again.
pub const MOST_READ: usize = 64 * 1024;
/// So many characters of an answer are shown.
const MOST_SHOWN: usize = 200;
/// So much of the cause of a failed connection is told.
const LONGEST_CAUSE: usize = 200;
/// An idle connection is closed after so long: before the receiver does it, which is after 5 s with the usual servers.
const IDLE: Duration = Duration::from_secs(4);
/// A run of so many letters and digits of a secret is taken for the secret.
const TELLING: usize = 8;

/// The receiver that the hook's URL names.
pub(super) struct Receiver {
    client: reqwest::Client,
    url: Url,
    shown: String,
    authorization: Option<HeaderValue>,
    secrets: Vec<SecretString>,
    signer: Signer,
    within: Duration,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<String>,
    /// The beginning of its text, fit to be shown.
    pub(super) said: Option<String>,
}

impl Receiver {
    /// Checks the settings; connects to nothing yet.
    pub(super) fn new(settings: &HookSettings) -> Result<Self, HookError> {
        let url = settings.url.clone();
        let userinfo = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || userinfo {
            return Err(HookError::Url);
        }
        let signer = Signer::new(&settings.secrets).ok_or(HookError::Secret)?;
        let authorization = settings.token.as_ref().map(bearer).transpose()?;
        let tls = client_config(url.scheme() == "https", settings.ca_file.as_deref())?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .no_proxy()
            .no_gzip()
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("t3code-mcp/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| HookError::Client(root(&error)))?;
        Ok(Self {
            client,
            shown: bare(&url),
            url,
            authorization,
            secrets: settings.secrets.iter().chain(&settings.token).cloned().collect(),
            signer,
            within: settings.attempt_within,
        })
    }

    /// The URL as it may be shown.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether what is sent is signed.
    pub(super) fn signs(&self) -> bool {
        self.signer.signs()
    }

    /// The longest that an attempt takes.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// Sends an event once.
    pub(super) async fn send(&self, id: &str, body: String, now: Timestamp) -> Result<Answer, Failure> {
        if body.len() > MOST_SENT {
            return Err(Failure::TooLarge {
                size: body.len(),
                most: MOST_SENT,
            });
        }
        let deadline = tokio::time::Instant::now() + self.within;
        let mut request = self
            .client
            .post(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(ID_HEADER, id)
            .header(TIMESTAMP_HEADER, now.as_second());
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(signature) = self.signer.sign(id, now, &body) {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        let mut response = match tokio::time::timeout_at(deadline, request.body(body).send()).await {
            Ok(sent) => sent.map_err(|error| failed(&error))?,
            Err(_) => return Err(Failure::Timeout(self.within)),
        };
        // The status is the answer; whatever becomes of the text, the receiver has decided.
        let text = read(&mut response, deadline).await;
        Ok(Answer {
            status: response.status(),
            retry_after: retry_after(response.headers()),
            said: self.said(&text),
        })
    }

    /// The beginning of an answer's text; none where it is empty, or repeats what nobody may read in a log.
    fn said(&self, text: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        let tells = |secret: &SecretString| repeats(text, secret.expose_secret());
        if text.is_empty() || self.secrets.iter().any(tells) {
            return None;
        }
        Some(Untrusted(text).at_most(MOST_SHOWN).to_string())
    }
}

fn bearer(token: &SecretString) -> Result<HeaderValue, HookError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).map_err(|_| HookError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether a text holds a secret, or a part of it between signs that may be written in other ways (`\u002b`, `%2B`).
fn repeats(text: &str, secret: &str) -> bool {
    text.contains(secret)
        || secret
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| part.len() >= TELLING && text.contains(part))
}

/// What can be read of an answer's text, within the bounds.
async fn read(response: &mut reqwest::Response, deadline: tokio::time::Instant) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < MOST_READ {
        match tokio::time::timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => text.extend(chunk.iter().take(MOST_READ - text.len())),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    text
}

fn retry_after(headers: &HeaderMap) -> Option<String> {
    headers.get(header::RETRY_AFTER)?.to_str().ok().map(str::to_owned)
}

/// Why there is no answer, by the causes below reqwest's own words, which repeat the URL.
fn failed(error: &reqwest::Error) -> Failure {
    let chain = || std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    if let Some(cause) = chain().find_map(tls_cause) {
        return Failure::Untrusted(cut(cause));
    }
    let io = chain().find_map(|error| error.downcast_ref::<std::io::Error>());
    if error.is_connect() {
        return Failure::Unreachable(match io.map(std::io::Error::kind) {
            Some(ErrorKind::ConnectionRefused) => "nothing listens there".to_owned(),
            Some(_) | None => root(error),
        });
    }
    Failure::Broken(root(error))
}

/// The cause at the root.
fn root(error: &(dyn Error + 'static)) -> String {
    match std::iter::successors(error.source(), |&error| error.source()).last() {
        Some(root) => cut(root),
        None => "no cause is known".to_owned(),
    }
}

fn cut(cause: &(dyn Error + 'static)) -> String {
    Untrusted(&cause.to_string()).at_most(LONGEST_CAUSE).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_repeats_a_secret_in_any_spelling_is_known() {
        let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        for text in [
            format!("you sent {secret}"),
            "whsec_C2FVsBQIhrscChlQIMV\\u002bb5sSYspob7oD".to_owned(),
            "...b5sSYspob7oD".to_owned(),
        ] {
            assert!(repeats(&text, secret), "{text}");
        }
        assert!(!repeats("whsec is missing", secret));
        assert!(repeats("the pin is 12-34", "12-34"), "a short secret too");
    }
}
