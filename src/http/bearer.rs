//! Who calls: the bearer decides, and puts the client beside the request.
//!
//! Tokens are compared by their digests, in constant time and all of them, so that time tells neither how much of a token was right nor
//! whose it was. A right token passes whatever its address did before: tokens are long, and a neighbour behind the same proxy must not lock
//! anybody out.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::failures::Failures;
use super::reply::refusal;
use super::settings::{Access, HttpSettings};
use super::wire::{Connection, is_socket};
use crate::mcp::{Client, Trusted};

/// The digest of a token, and who is behind it.
type Known = ([u8; 32], Arc<Client>);

/// All bearers and who is behind each.
pub(super) struct Bearers {
    /// None: everyone is the default client.
    known: Option<Arc<[Known]>>,
    failures: Mutex<Failures>,
}

impl Bearers {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        let known = match &settings.access {
            Access::Open => None,
            Access::Bearers(bearers) => Some(
                bearers
                    .iter()
                    .map(|(token, client)| (digest(token.expose_secret()), Arc::clone(client)))
                    .collect(),
            ),
        };
        Self {
            known,
            failures: Mutex::default(),
        }
    }

    /// The client behind a token.
    fn client(&self, token: &str) -> Option<Arc<Client>> {
        let shown = digest(token);
        let mut found = None;
        for (digest, client) in self.known.iter().flat_map(|known| known.iter()) {
            if digest.ct_eq(&shown).into() {
                found = Some(Arc::clone(client));
            }
        }
        found
    }
}

pub(super) async fn pass<F>(bearers: &Bearers, mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let client = if is_socket(&request) {
        // The file lets in its owner alone, who may say on whose behalf it calls.
        request.extensions_mut().insert(Trusted);
        match shown(request.headers()) {
            None => Arc::default(),
            Some(token) => match bearers.client(token) {
                Some(client) => client,
                None => return refused(bearers, &request, true),
            },
        }
    } else if bearers.known.is_none() {
        Arc::new(Client::default())
    } else {
        let shown = shown(request.headers());
        match shown.and_then(|token| bearers.client(token)) {
            Some(client) => client,
            None => return refused(bearers, &request, shown.is_some()),
        }
    };
    request.extensions_mut().insert(client);
    next(request).await
}

fn refused(bearers: &Bearers, request: &Request, token_shown: bool) -> Response {
    let address = request.extensions().get::<ConnectInfo<Connection>>().map_or(
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        |ConnectInfo(connection)| match connection {
            Connection::Tcp { peer, .. } => peer.ip(),
            Connection::Socket => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        },
    );
    let wait = bearers
        .failures
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .handle_failure(address, Instant::now());
    if let Some(wait) = wait {
        let mut response = refusal(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limited",
            "Too many requests with a wrong bearer token came from this address.",
            Some("Correct the token in the client's configuration, then wait."),
        );
        let seconds = wait.as_secs().saturating_add(1);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        return response;
    }
    let (challenge, message) = if token_shown {
        (
            r#"Bearer realm="t3code-mcp", error="invalid_token""#,
            "The bearer token is not known here.",
        )
    } else {
        (r#"Bearer realm="t3code-mcp""#, "This endpoint needs a bearer token.")
    };
    let mut response = refusal(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        message,
        Some("Send `Authorization: Bearer <token>`; `t3code-mcp token` prints it. There is no OAuth here."),
    );
    response
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// The token of the `Authorization` header.
fn shown(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
