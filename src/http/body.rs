//! Takes the whole body of a request before anything else looks at it, within a size and a time.
//!
//! The layers behind need it whole: one looks for `initialize`, and the clock of a long call must not run while its request still comes in.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;

use super::reply::refusal;

/// The largest body.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How long a body may take to come in.
const MAX_BODY_TIME: Duration = Duration::from_mins(1);

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
    parts.extensions.insert(WholeBody(body.clone()));
    next(Request::from_parts(parts, Body::from(body))).await
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
