//! Whose session a request names, asked before rmcp sees it: rmcp binds sessions to nobody and hands any header to the store.
//!
//! Unknown, badly written and another client's look the same: 404, the one status by which a client knows that it must open a new session.
//! Where nobody can say whether there is one, it is not told so: 503, and the client tries again.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;

use super::body::WholeBody;
use super::reply::{refusal, rpc_refusal};
use crate::mcp::Client;
use crate::mcp::sessions::{Admission, LedgerFailed, Sessions, Turn};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

/// From this revision on there are no sessions.
const FIRST_WITHOUT_SESSIONS: &str = "2026-07-28";

/// JSON-RPC's code for it, as the SDKs have it.
const SESSION_NOT_FOUND: i32 = -32001;

const INVALID_REQUEST: i32 = -32600;

const INTERNAL_ERROR: i32 = -32603;

pub(super) async fn pass<F>(sessions: &Sessions, mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    if has_no_sessions(request.headers()) {
        request.headers_mut().remove(SESSION);
        return next(request).await;
    }
    // `initialize` opens a session, whatever the client still remembers of an older one.
    if opens_session(&request) {
        request.headers_mut().remove(SESSION);
        return without_unknown(sessions, next(request).await);
    }
    let Some(session) = request.headers().get(SESSION).cloned() else {
        return next(request).await;
    };
    let client = request.extensions().get::<Arc<Client>>().cloned().unwrap_or_default();
    let session = session.to_str().unwrap_or_default();
    let turn = match sessions.admit(session, &client.name).await {
        Admission::Awake => None,
        Admission::Asleep(turn) => Some(turn),
        Admission::Unknown => {
            return rpc_refusal(
                StatusCode::NOT_FOUND,
                SESSION_NOT_FOUND,
                "There is no such session here. Open a new one with `initialize`.",
            );
        }
        Admission::Failed(failed) => return unavailable(&failed),
    };
    if let Some(refused) = resumes_nothing(sessions, session, &mut request) {
        return refused;
    }
    if request.method() == Method::DELETE
        && let Err(failed) = sessions.end(session).await
    {
        return unavailable(&failed);
    }
    match turn {
        None => next(request).await,
        Some(turn) => wake(turn, next(request)).await,
    }
}

/// Sees a session's waking through: were it dropped with a client that hangs up, the session would stay half awake.
async fn wake(turn: Turn, answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let waking = tokio::spawn(async move {
        let response = answer.await;
        drop(turn);
        response
    });
    waking.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a session could not be woken");
        refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The session could not be woken.",
            Some("Send the request again."),
        )
    })
}

/// Asked for what follows an event: the refusal where nothing of its stream is kept. Of a standing stream nothing is lost, it begins anew.
fn resumes_nothing(sessions: &Sessions, session: &str, request: &mut Request) -> Option<Response> {
    let last_event = request.headers().get(LAST_EVENT).cloned()?;
    let last_event = last_event.to_str().unwrap_or_default();
    if request.method() != Method::GET {
        return None;
    }
    if sessions.begins_anew(session, last_event) {
        request.headers_mut().remove(LAST_EVENT);
        return None;
    }
    // An empty stream instead would be asked for again and again, once a second.
    (!sessions.can_resume(session, last_event)).then(|| {
        rpc_refusal(
            StatusCode::BAD_REQUEST,
            INVALID_REQUEST,
            "That stream is not kept any more. Repeat the call, or read the thread.",
        )
    })
}

/// An `initialize` that failed after its session was made names none.
fn without_unknown(sessions: &Sessions, mut response: Response) -> Response {
    let named = response.headers().get(SESSION).and_then(|id| id.to_str().ok());
    if named.is_some_and(|id| !sessions.knows(id)) {
        response.headers_mut().remove(SESSION);
    }
    response
}

fn unavailable(failed: &LedgerFailed) -> Response {
    tracing::error!(error = %failed, "a session's request is refused");
    rpc_refusal(StatusCode::SERVICE_UNAVAILABLE, INTERNAL_ERROR, &failed.to_string())
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
