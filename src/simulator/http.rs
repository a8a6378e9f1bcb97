//! The HTTP routes, and the WebSocket upgrade, which is refused as plain HTTP before it happens.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tower_http::compression::CompressionLayer;
use uuid::Uuid;

use super::auth::{ACCESS_READ, ACCESS_WRITE, AuthError, ExchangeError, OPERATE, READ, Session, TOKEN_EXPIRES_IN};
use super::host::Host;
use super::model::ProjectError;
use super::validate::{Shape, check};
use super::{describe, socket};

/// What an unknown path answers where no web app is built.
const NO_APP: &str = "No static directory configured and no dev URL set.";
/// The largest message that a socket takes.
const MAX_MESSAGE: usize = 64 << 20;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const SUBJECT_TYPE: &str = "urn:t3:params:oauth:token-type:environment-bootstrap";
const ACCESS_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";
/// What a history cursor begins with; the ordinal that it continues below follows.
const CURSOR: &str = "before-run-";
const PROTOCOL_HEADER: &str = "x-t3-orchestration-protocol";

type Shared = State<Arc<Host>>;

/// A refusal, with everything that its body needs.
#[derive(Debug)]
enum Refused {
    Auth(AuthError),
    Scope(&'static str),
    NoThread,
    Invalid(&'static str),
    Internal(&'static str),
    /// A body or header that fits no schema: nothing is said.
    Schema,
    /// No such route.
    NoRoute,
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

fn no_app() -> impl IntoResponse {
    let plain = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))];
    (StatusCode::SERVICE_UNAVAILABLE, plain, NO_APP)
}

type Answer = Result<Response, Refused>;

/// All routes.
pub(crate) fn router(host: Arc<Host>) -> Router {
    Router::new()
        .route("/.well-known/t3/environment", get(environment))
        .route("/api/auth/session", get(session))
        .route("/api/auth/websocket-ticket", post(ticket))
        .route("/api/auth/clients", get(clients))
        .route("/api/auth/clients/revoke", post(revoke))
        .route("/oauth/token", post(exchange))
        .route("/api/orchestration/shell", get(shell))
        .route("/api/orchestration/threads/{id}", get(thread))
        .route("/api/orchestration/threads/{id}/bounded", get(bounded))
        .route("/api/orchestration/threads/{id}/history", get(history))
        .route("/api/projects", get(projects))
        .route("/api/projects/mutate", post(mutate))
        .route("/ws", get(upgrade))
        .fallback(async || no_app())
        .method_not_allowed_fallback(async || no_app())
        .layer(CompressionLayer::new())
        .layer(from_fn_with_state(host.clone(), around))
        .with_state(host)
}

/// What goes around every answer: the faults, and the header for browsers.
async fn around(State(host): Shared, request: Request, next: Next) -> Response {
    host.hold().await;
    let mut response = next.run(request).await;
    response
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::trim)
}

/// The session of a request that may do this.
fn admitted(host: &Host, headers: &HeaderMap, scope: Option<&'static str>) -> Result<Session, Refused> {
    let mut state = host.read();
    let session = state
        .auth
        .session(bearer(headers), Host::now())
        .map_err(Refused::Auth)?
        .clone();
    match scope {
        Some(scope) if !session.may(scope) => Err(Refused::Scope(scope)),
        Some(_) | None => Ok(session),
    }
}

/// Newer servers want the protocol's number with every orchestration read.
fn gated(host: &Host, headers: &HeaderMap) -> Result<(), Refused> {
    let told = headers.get(PROTOCOL_HEADER).is_some_and(|value| value == "2");
    if host.gate && !told {
        Err(Refused::Schema)
    } else {
        Ok(())
    }
}

fn ok(body: &impl Serialize) -> Response {
    axum::Json(body).into_response()
}

fn uncached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

async fn environment(State(host): Shared) -> Response {
    ok(&describe::descriptor(host.read().model.options(), &host.label))
}

/// Always 200: whether one is signed in is what it tells.
async fn session(State(host): Shared, headers: HeaderMap) -> Response {
    let auth = describe::auth();
    match host.read().auth.session(bearer(&headers), Host::now()) {
        Err(_) => ok(&json!({"authenticated": false, "auth": auth})),
        Ok(session) => ok(&json!({
            "authenticated": true,
            "auth": auth,
            "scopes": session.scopes,
            "sessionMethod": "bearer-access-token",
            "expiresAt": session.expires_at.to_string(),
        })),
    }
}

async fn ticket(State(host): Shared, headers: HeaderMap) -> Answer {
    admitted(&host, &headers, None)?;
    let (ticket, expires_at) = host
        .read()
        .auth
        .ticket(bearer(&headers).unwrap_or_default(), Host::now());
    Ok(uncached(ok(
        &json!({"ticket": ticket, "expiresAt": expires_at.to_string()}),
    )))
}

async fn clients(State(host): Shared, headers: HeaderMap) -> Answer {
    let session = admitted(&host, &headers, Some(ACCESS_READ))?;
    Ok(ok(&host.read().auth.clients(&session.id)))
}

async fn revoke(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
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

async fn exchange(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
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
    let response = match outcome {
        Ok((token, scopes)) => ok(&json!({
            "access_token": token,
            "issued_token_type": ACCESS_TYPE,
            "token_type": "Bearer",
            "expires_in": TOKEN_EXPIRES_IN,
            "scope": scopes.join(" "),
        })),
        Err(ExchangeError::Code) => Refused::Auth(AuthError::Invalid).into_response(),
        Err(ExchangeError::UnknownScope) => Refused::Invalid("invalid_scope").into_response(),
        Err(ExchangeError::NotGranted) => Refused::Invalid("scope_not_granted").into_response(),
    };
    Ok(uncached(response))
}

async fn shell(State(host): Shared, headers: HeaderMap) -> Answer {
    admitted(&host, &headers, Some(READ))?;
    gated(&host, &headers)?;
    Ok(ok(&host.read().model.shell()))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadRead<'a> {
    snapshot_sequence: u64,
    projection: &'a RawValue,
    #[serde(flatten)]
    bounds: Option<Bounds>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    history_cursor: Option<String>,
    has_more_history: bool,
    latest_local_turn_ordinal: Option<u64>,
}

fn read_thread(host: &Host, headers: &HeaderMap, id: &str, bounded: bool) -> Answer {
    admitted(host, headers, Some(READ))?;
    gated(host, headers)?;
    let state = host.read();
    let ix = state.model.find(id).ok_or(Refused::NoThread)?;
    let shown = host.bounded_runs.filter(|_| bounded);
    let first = shown
        .and_then(|count| state.model.first_of(ix, u64::MAX, count))
        .unwrap_or(0);
    let (snapshot_sequence, projection) = state.model.projection_from(ix, first).ok_or(Refused::NoThread)?;
    let bounds = bounded.then(|| Bounds {
        history_cursor: cursor(first),
        has_more_history: first > 1,
        latest_local_turn_ordinal: state.model.latest_ordinal(ix),
    });
    drop(state);
    Ok(ok(&ThreadRead {
        snapshot_sequence,
        projection: &projection,
        bounds,
    }))
}

async fn thread(State(host): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    read_thread(&host, &headers, &id, false)
}

async fn bounded(State(host): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    if !host.gate {
        return Err(Refused::NoRoute);
    }
    read_thread(&host, &headers, &id, true)
}

/// Where the history before a run is to be asked for; none where there is none. Its form is the simulator's own.
fn cursor(first: u64) -> Option<String> {
    (first > 1).then(|| format!("{CURSOR}{first}"))
}

#[derive(Debug, Deserialize)]
struct HistoryQuery {
    cursor: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryPage<'a> {
    snapshot_sequence: u64,
    items: &'a RawValue,
    next_cursor: Option<String>,
    has_more_history: bool,
}

async fn history(
    State(host): Shared,
    headers: HeaderMap,
    Path(id): Path<String>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Answer {
    if !host.gate {
        return Err(Refused::NoRoute);
    }
    admitted(&host, &headers, Some(READ))?;
    gated(&host, &headers)?;
    let asked = query.map_err(|_| Refused::Schema)?.0.cursor;
    let below = asked.strip_prefix(CURSOR).and_then(|below| below.parse().ok());
    let below: u64 = below.ok_or(Refused::Schema)?;
    let state = host.read();
    let ix = state.model.find(&id).ok_or(Refused::NoThread)?;
    let count = host.bounded_runs.unwrap_or(usize::MAX);
    let first = state.model.first_of(ix, below, count).unwrap_or(below);
    let items = state.model.history(ix, first, below).ok_or(Refused::NoThread)?;
    Ok(ok(&HistoryPage {
        snapshot_sequence: state.model.head(),
        items: &items,
        next_cursor: cursor(first),
        has_more_history: first > 1,
    }))
}

async fn projects(State(host): Shared, headers: HeaderMap) -> Answer {
    admitted(&host, &headers, Some(READ))?;
    Ok(ok(&host.read().model.project_list(Host::now())))
}

async fn mutate(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    admitted(&host, &headers, Some(OPERATE))?;
    let mutation: Value = serde_json::from_slice(&body).map_err(|_| Refused::Schema)?;
    check(Shape::Tagged("ProjectMutation"), &mutation, host.gate).map_err(|_| Refused::Schema)?;
    match host.change(|state, now| state.model.handle_project(now, &mutation, false)) {
        Ok(project) => Ok(ok(&project)),
        Err(ProjectError::RootTaken | ProjectError::NotEmpty) => Err(Refused::Invalid("invalid_command")),
        Err(ProjectError::NoFolder | ProjectError::NotFound) => Err(Refused::Internal("project_mutation_failed")),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpgradeQuery {
    ws_ticket: Option<String>,
    orchestration_protocol: Option<String>,
}

async fn upgrade(
    State(host): Shared,
    Query(query): Query<UpgradeQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    // Before authentication.
    if host.gate && query.orchestration_protocol.as_deref() != Some("2") {
        let body = json!({
            "code": "orchestration_protocol_incompatible",
            "message": "Update this client to one that supports orchestration protocol 2.",
            "orchestrationProtocolVersion": 2,
        });
        return Ok((StatusCode::UPGRADE_REQUIRED, axum::Json(body)).into_response());
    }
    let session = {
        let now = Host::now();
        let mut state = host.read();
        let bearer = match &query.ws_ticket {
            Some(ticket) => Some(state.auth.redeem(ticket, now).map_err(Refused::Auth)?),
            None => bearer(&headers).map(str::to_owned),
        };
        state
            .auth
            .session(bearer.as_deref(), now)
            .map_err(Refused::Auth)?
            .clone()
    };
    let upgrade = upgrade.map_err(|_| Refused::Schema)?;
    Ok(upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(move |socket| socket::serve(host, session, socket)))
}
