//! The HTTP routes: which there are, what goes around every answer, and who is let in. The shell and the projects are read here, every
//! other kind of route has a file of its own.

mod access;
mod refused;
mod threads;
mod upgrade;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::Value;
use tower_http::compression::CompressionLayer;

use super::auth::{OPERATE, READ, Session};
use super::host::Host;
use super::model::ProjectError;
use super::validate::{Shape, check};
use refused::{Refused, no_app};

const PROTOCOL_HEADER: &str = "x-t3-orchestration-protocol";

type Shared = State<Arc<Host>>;

type Answer = Result<Response, Refused>;

/// All routes.
pub(crate) fn router(host: Arc<Host>) -> Router {
    Router::new()
        .route("/.well-known/t3/environment", get(access::environment))
        .route("/api/auth/session", get(access::session))
        .route("/api/auth/websocket-ticket", post(access::ticket))
        .route("/api/auth/clients", get(access::clients))
        .route("/api/auth/clients/revoke", post(access::revoke))
        .route("/oauth/token", post(access::exchange))
        .route("/api/orchestration/shell", get(shell))
        .route("/api/orchestration/threads/{id}", get(threads::thread))
        .route("/api/orchestration/threads/{id}/bounded", get(threads::bounded))
        .route("/api/orchestration/threads/{id}/history", get(threads::history))
        .route("/api/projects", get(projects))
        .route("/api/projects/mutate", post(mutate))
        .route("/ws", get(upgrade::upgrade))
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
    // A server of protocol 1 takes no notice of it.
    if host.gate && !told && host.read().older.is_none() {
        Err(Refused::Schema)
    } else {
        Ok(())
    }
}

/// Routes that a server of protocol 1 does not have.
fn newer_only(host: &Host) -> Result<(), Refused> {
    match host.read().older {
        Some(_) => Err(Refused::NoRoute),
        None => Ok(()),
    }
}

fn ok(body: &impl Serialize) -> Response {
    axum::Json(body).into_response()
}

async fn shell(State(host): Shared, headers: HeaderMap) -> Answer {
    admitted(&host, &headers, Some(READ))?;
    gated(&host, &headers)?;
    let state = host.read();
    match &state.older {
        Some(older) if older.routeless => Err(Refused::NoRoute),
        Some(older) => Ok(ok(&older.shell())),
        None => Ok(ok(&state.model.shell())),
    }
}

async fn projects(State(host): Shared, headers: HeaderMap) -> Answer {
    newer_only(&host)?;
    admitted(&host, &headers, Some(READ))?;
    Ok(ok(&host.read().model.project_list(Host::now())))
}

async fn mutate(State(host): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    newer_only(&host)?;
    admitted(&host, &headers, Some(OPERATE))?;
    let mutation: Value = serde_json::from_slice(&body).map_err(|_| Refused::Schema)?;
    check(Shape::Tagged("ProjectMutation"), &mutation, host.gate).map_err(|_| Refused::Schema)?;
    match host.change(|state, now| state.model.handle_project(now, &mutation, false)) {
        Ok(project) => Ok(ok(&project)),
        Err(ProjectError::RootTaken | ProjectError::NotEmpty) => Err(Refused::Invalid("invalid_command")),
        Err(ProjectError::NoFolder | ProjectError::NotFound) => Err(Refused::Internal("project_mutation_failed")),
    }
}
