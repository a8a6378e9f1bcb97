//! Takes the whole body of a request before anything else looks at it, within a size and a time.
//!
//! The layers behind need it whole: one looks for `initialize`, and the clock of a long call must not run while its request still comes in.
//! A body that is no JSON-RPC message is refused here as JSON-RPC says; rmcp would call it a wrong media type.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};
use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::reply::{refusal, rpc_refusal};

/// The largest body.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long a body may take to come in.
const MAX_BODY_TIME: Duration = Duration::from_mins(1);

const PARSE_ERROR: i32 = -32700;

const INVALID_REQUEST: i32 = -32600;

/// The body that the request came with.
#[derive(Clone, Debug)]
pub(super) struct WholeBody(pub(super) Bytes);

pub(super) async fn pass<F>(request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    if announced(request.headers()).is_some_and(|length| length > MAX_BODY_BYTES) {
        return too_large();
    }
    let (mut parts, body) = request.into_parts();
    let body = match timeout(MAX_BODY_TIME, axum::body::to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if is_too_large(&error) => return too_large(),
        Ok(Err(_)) => {
            return refusal(StatusCode::BAD_REQUEST, "bad_request", "The body broke off.", None);
        }
        Err(_) => {
            return refusal(
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                "The body did not come in within a minute.",
                None,
            );
        }
    };
    let says_json = parts.method == Method::POST && says_json(&parts.headers);
    if says_json && let Some(refusal) = malformed(&body) {
        return refusal;
    }
    // Nothing begins for a client that has hung up already: while this gives way, hyper looks at what the system has told meanwhile, and
    // drops the call. Else a request that lay unread would come after the one that its client sent in its place.
    tokio::task::yield_now().await;
    parts.extensions.insert(WholeBody(body.clone()));
    let response = next(Request::from_parts(parts, Body::from(body))).await;
    if says_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        // rmcp's word for JSON that it cannot read as a message.
        return invalid("The body is no JSON-RPC message.");
    }
    response
}

fn says_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

/// The refusal of a body that is no JSON object.
fn malformed(body: &[u8]) -> Option<Response> {
    let text = std::str::from_utf8(body).ok();
    let Some(text) = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok()) else {
        return Some(rpc_refusal(
            StatusCode::BAD_REQUEST,
            PARSE_ERROR,
            "The body is not valid JSON.",
        ));
    };
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => None,
        Some(b'[') => Some(invalid(
            "Batches are not taken: send each message in a request of its own.",
        )),
        Some(_) | None => Some(invalid("The body is no JSON-RPC message.")),
    }
}

fn invalid(why: &str) -> Response {
    rpc_refusal(StatusCode::BAD_REQUEST, INVALID_REQUEST, why)
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The limit's own error stands somewhere in the chain, under axum's.
fn is_too_large(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains("length limit") {
            return true;
        }
        cause = error.source();
    }
    false
}

fn too_large() -> Response {
    refusal(
        StatusCode::PAYLOAD_TOO_LARGE,
        "payload_too_large",
        &format!("The body is larger than {MAX_BODY_BYTES} bytes."),
        Some("Put long material into a file of the project and name it in the prompt."),
    )
}
