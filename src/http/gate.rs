//! Whose session a request names, asked before rmcp sees it: rmcp binds sessions to nobody and hands any header to the store.
//!
//! Unknown, badly written and another client's look the same: 404, the one status by which a client knows that it must open a new session.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;

use super::body::WholeBody;
use super::reply::rpc_refusal;
use crate::mcp::Client;
use crate::mcp::sessions::Sessions;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

/// From this revision on there are no sessions.
const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";

/// JSON-RPC's code for it, as the SDKs have it.
const SESSION_NOT_FOUND: i32 = -32001;

const INVALID_REQUEST: i32 = -32600;

pub(super) async fn pass<F>(sessions: &Sessions, mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let Some(session) = request.headers().get(SESSION) else {
        return next(request).await;
    };
    // `initialize` opens a session, whatever the client still remembers of an older one.
    if has_no_sessions(request.headers()) || opens_session(&request) {
        request.headers_mut().remove(SESSION);
        return next(request).await;
    }
    let client = request.extensions().get::<Arc<Client>>().cloned().unwrap_or_default();
    let session = session.to_str().unwrap_or_default();
    if !sessions.admit(session, &client.name) {
        return rpc_refusal(
            StatusCode::NOT_FOUND,
            SESSION_NOT_FOUND,
            "There is no such session here. Open a new one with `initialize`.",
        );
    }
    let last_event = request
        .headers()
        .get(LAST_EVENT)
        .map(|id| id.to_str().unwrap_or_default());
    if request.method() == Method::GET
        && let Some(last_event) = last_event
        && !sessions.can_resume(session, last_event)
    {
        // An empty stream instead would be asked for again and again, once a second.
        return rpc_refusal(
            StatusCode::BAD_REQUEST,
            INVALID_REQUEST,
            "That stream is not kept any more. Repeat the call, or read the thread.",
        );
    }
    next(request).await
}

fn has_no_sessions(headers: &HeaderMap) -> bool {
    // Revisions are dates: they sort by their letters.
    headers
        .get(VERSION)
        .map(HeaderValue::as_bytes)
        .is_some_and(|version| version >= FIRST_WITHOUT_SESSIONS.as_bytes())
}

fn opens_session(request: &Request) -> bool {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    let Some(WholeBody(body)) = request.extensions().get::<WholeBody>() else {
        return false;
    };
    request.method() == Method::POST
        && serde_json::from_slice::<Envelope<'_>>(body).is_ok_and(|envelope| envelope.method == "initialize")
}
