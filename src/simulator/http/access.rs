//! Who the server is and who may speak with it: its description, the session, tickets, clients, pairing.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::refused::Refused;
use super::{Answer, Shared, admitted, bearer, ok};
use crate::simulator::auth::{ACCESS_READ, ACCESS_WRITE, AuthError, ExchangeError};
use crate::simulator::describe;
use crate::simulator::host::Host;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const SUBJECT_TYPE: &str = "urn:t3:params:oauth:token-type:environment-bootstrap";
const ACCESS_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

fn uncached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

pub(super) async fn environment(State(host): Shared) -> Response {
    let state = host.read();
    ok(&describe::descriptor(
        state.model.options(),
        (&host.label, state.older.is_some()),
    ))
}

/// Always 200: whether one is signed in is what it tells.
pub(super) async fn session(State(host): Shared, headers: HeaderMap) -> Response {
    let auth = describe::auth();
    match host.read().auth.session(bearer(&headers), Host::now()) {
        Err(_) => ok(&json!({"authenticated": false, "auth": auth})),
        Ok(session) => {
            let mut shown = json!({
                "authenticated": true,
                "auth": auth,
                "scopes": session.scopes,
                "sessionMethod": "bearer-access-token",
                "expiresAt": session.expires_at.to_string(),
            });
            if host.gate {
                // Newer servers say the real grant apart.
                shown["permissions"] = json!(session.scopes);
            }
            ok(&shown)
        }
    }
}

pub(super) async fn ticket(State(host): Shared, headers: HeaderMap) -> Answer {
    admitted(&host, &headers, None)?;
    let (ticket, expires_at) = host
        .read()
        .auth
        .ticket(bearer(&headers).unwrap_or_default(), Host::now());
    Ok(uncached(ok(
        &json!({"ticket": ticket, "expiresAt": expires_at.to_string()}),
    )))
}

pub(super) async fn clients(State(host): Shared, headers: HeaderMap) -> Answer {
    let session = admitted(&host, &headers, Some(ACCESS_READ))?;
    Ok(ok(&host.read().auth.clients(&session.id)))
}

pub(super) async fn revoke(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Which {
        session_id: String,
    }
    admitted(&host, &headers, Some(ACCESS_WRITE))?;
    let which: Which = serde_json::from_slice(&body).map_err(|_| Refused::Schema)?;
    let revoked = host.read().auth.revoke_session(&which.session_id);
    Ok(ok(&json!({ "revoked": revoked })))
}

pub(super) async fn exchange(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if !kind.starts_with("application/x-www-form-urlencoded") {
        let plain = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))];
        let words = format!("Unsupported content-type: {kind}");
        return Ok((StatusCode::UNSUPPORTED_MEDIA_TYPE, plain, words).into_response());
    }
    let form: std::collections::HashMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let is = |field: &str, value: &str| form.get(field).is_some_and(|given| given == value);
    let fits = is("grant_type", GRANT_TYPE)
        && is("subject_token_type", SUBJECT_TYPE)
        && is("requested_token_type", ACCESS_TYPE);
    let Some(code) = form.get("subject_token").filter(|_| fits) else {
        return Err(Refused::Schema);
    };
    let outcome = host.read().auth.exchange(
        code,
        form.get("scope").map(String::as_str),
        form.get("client_label").map(String::as_str),
        Host::now(),
    );
    let expires_in = host.read().auth.expires_in();
    let response = match outcome {
        Ok((token, scopes)) => ok(&json!({
            "access_token": token,
            "issued_token_type": ACCESS_TYPE,
            "token_type": "Bearer",
            "expires_in": expires_in,
            "scope": scopes.join(" "),
        })),
        Err(ExchangeError::Code) => Refused::Auth(AuthError::Invalid).into_response(),
        Err(ExchangeError::UnknownScope) => Refused::Invalid("invalid_scope").into_response(),
        Err(ExchangeError::NotGranted) => Refused::Invalid("scope_not_granted").into_response(),
    };
    Ok(uncached(response))
}
