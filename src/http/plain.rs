//! Turns rmcp's plain-text refusals into JSON with the same status and headers: clients that find text may start an OAuth dance.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};

use super::reply::refusal;

/// The most that is read of a refusal's text.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// rmcp's words for a request of an older revision that belongs to no session.
const NO_SESSION: &str = "Session ID is required";

pub(super) async fn pass<F>(request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let deletes = request.method() == Method::DELETE;
    let mut response = next(request).await;
    if deletes && response.status() == StatusCode::ACCEPTED {
        // The session is gone by now; the Python SDK warns about a mere "accepted".
        *response.status_mut() = StatusCode::NO_CONTENT;
        return response;
    }
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if response.status().as_u16() < 400 || kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = axum::body::to_bytes(body, MAX_TEXT_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (told, body) = refusal(parts.status, word(parts.status), &text, hint(&text)).into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.extend(told.headers);
    Response::from_parts(parts, Body::new(body))
}

/// What helps where rmcp's words leave one alone.
fn hint(text: &str) -> Option<&'static str> {
    text.contains(NO_SESSION).then_some(
        "Send `initialize` first, and the mcp-session-id of its answer with each request after it. Revision 2026-07-28 needs no session: \
         it names itself in the header mcp-protocol-version and in `_meta`.",
    )
}

fn word(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "bad_request",
        StatusCode::NOT_FOUND => "not_found",
        StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
        StatusCode::NOT_ACCEPTABLE => "not_acceptable",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
        StatusCode::PAYLOAD_TOO_LARGE => "payload_too_large",
        status if status.is_server_error() => "internal",
        _ => "refused",
    }
}
