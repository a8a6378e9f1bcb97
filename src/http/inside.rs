//! What only processes of the same user ask, over the socket in the state directory: who owns it, and the outbox of events. By TCP these
//! paths do not exist.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::not_found;
use super::reply::refusal;
use super::wire::is_socket;
use crate::gateway::{ErrorCode, Gateway, ToolError};
use crate::mcp::{About, Place, Server};

pub(super) fn routes(server: Server) -> Router {
    Router::new()
        .route("/owner", get(about))
        .route("/owner/hand-over", post(hand_over))
        .route("/events", get(list))
        .route("/events/{id}", get(show))
        .route("/events/{id}/retry", post(retry))
        .with_state(server)
        .layer(from_fn(inside))
}

async fn inside(request: Request, next: Next) -> Response {
    if is_socket(&request) {
        next.run(request).await
    } else {
        not_found(request.uri().clone()).await
    }
}

async fn about(State(server): State<Server>) -> Response {
    match (server.place(), server.about()) {
        (Place::Here(gateway), Some(about)) => {
            let members = gateway.fleet().members();
            let machines = members
                .iter()
                .map(|member| (member.name().to_owned(), member.machine.url().to_string()));
            // Pairing makes machines while the process runs.
            let machines = machines.collect();
            Json(About {
                machines,
                ..about.clone()
            })
            .into_response()
        }
        (Place::Here(_) | Place::There(_), _) => refused(&not_here()),
    }
}

/// Another process goes before this one.
async fn hand_over(State(server): State<Server>) -> Response {
    server.hand_over();
    Json(true).into_response()
}

#[derive(Deserialize)]
struct Listing {
    state: Option<String>,
    limit: u32,
}

async fn list(State(server): State<Server>, Query(listing): Query<Listing>) -> Response {
    let listed = async { here(&server)?.outbox(listing.state.as_deref(), listing.limit).await };
    told(listed.await)
}

async fn show(State(server): State<Server>, Path(id): Path<String>) -> Response {
    told(async { here(&server)?.outbox_entry(&id).await }.await)
}

async fn retry(State(server): State<Server>, Path(id): Path<String>) -> Response {
    told(async { here(&server)?.outbox_retry(&id).await }.await)
}

/// The gateway of this process; only the owner listens on the socket.
fn here(server: &Server) -> Result<Arc<Gateway>, ToolError> {
    match server.place() {
        Place::Here(gateway) => Ok(gateway),
        Place::There(_) => Err(not_here()),
    }
}

fn not_here() -> ToolError {
    ToolError::new(ErrorCode::Internal, "This process keeps no ledger.")
}

fn told<T: Serialize>(answer: Result<T, ToolError>) -> Response {
    match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => refused(&error),
    }
}

fn refused(error: &ToolError) -> Response {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        error.code.as_str(),
        &error.message,
        None,
    )
}
