//! Answers of the HTTP layer itself: always JSON, since clients take plain text for a sign that they should try OAuth.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::{Map, Value, json};

/// A refusal: a code, what happened, and what to do.
pub(super) fn refusal(status: StatusCode, code: &str, message: &str, hint: Option<&str>) -> Response {
    let mut body = Map::new();
    body.insert("error".into(), code.into());
    body.insert("message".into(), message.into());
    if let Some(hint) = hint {
        body.insert("hint".into(), hint.into());
    }
    (status, Json(Value::Object(body))).into_response()
}

/// A refusal that a JSON-RPC client reads as one.
pub(super) fn rpc_refusal(status: StatusCode, code: i32, message: &str) -> Response {
    (status, Json(rpc_error(&Value::Null, code, message))).into_response()
}

/// A JSON-RPC error.
pub(super) fn rpc_error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
