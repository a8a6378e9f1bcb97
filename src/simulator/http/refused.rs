//! Refusals, as T3 words them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

use crate::simulator::auth::AuthError;

/// What an unknown path answers where no web app is built.
const NO_APP: &str = "No static directory configured and no dev URL set.";
/// What an unknown path may answer where one is.
const APP: &str = "<!doctype html><title>Not found</title>";

/// A refusal, with everything that its body needs.
#[derive(Debug)]
pub(super) enum Refused {
    Auth(AuthError),
    Scope(&'static str),
    NoThread,
    Invalid(&'static str),
    Internal(&'static str),
    /// A body or header that fits no schema: nothing is said.
    Schema,
    /// No such route.
    NoRoute,
    /// The same on a server that has its web app.
    NoPage,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, tag, code, key, detail) = match self {
            Self::Auth(error) => (
                401,
                "EnvironmentAuthInvalidError",
                "auth_invalid",
                "reason",
                error.reason(),
            ),
            Self::Scope(scope) => (
                403,
                "EnvironmentScopeRequiredError",
                "insufficient_scope",
                "requiredScope",
                scope,
            ),
            Self::NoThread => (
                404,
                "EnvironmentResourceNotFoundError",
                "not_found",
                "reason",
                "thread_not_found",
            ),
            Self::Invalid(reason) => (
                400,
                "EnvironmentRequestInvalidError",
                "invalid_request",
                "reason",
                reason,
            ),
            Self::Internal(reason) => (500, "EnvironmentInternalError", "internal_error", "reason", reason),
            Self::Schema => return StatusCode::BAD_REQUEST.into_response(),
            Self::NoRoute => return no_app().into_response(),
            Self::NoPage => return (StatusCode::NOT_FOUND, axum::response::Html(APP)).into_response(),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let trace = Uuid::new_v4().simple().to_string();
        (
            status,
            axum::Json(json!({"_tag": tag, "code": code, key: detail, "traceId": trace})),
        )
            .into_response()
    }
}

/// There is no such route, and no web app that might have it.
pub(super) fn no_app() -> impl IntoResponse {
    let plain = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))];
    (StatusCode::SERVICE_UNAVAILABLE, plain, NO_APP)
}
