//! What only processes of the same user ask, over the socket in the state directory: who owns it, and the outbox of events. By TCP these
//! paths do not exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;

use super::not_found;
use super::reply::refusal;
use super::wire::is_socket;
use crate::gateway::{Gateway, Ledger, event_entry, list_events, retry_event};
use crate::mcp::{About, Place, Server};
use crate::store::{DeliveryState, PAGE_EVENTS, Store, StoreError};

pub(super) fn routes(server: Server) -> Router {
    Router::new()
        .route("/owner", get(about))
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
    let Some((gateway, ledger)) = kept(&server) else {
        return not_here();
    };
    let machines: BTreeMap<String, String> = gateway
        .fleet()
        .members()
        .iter()
        .map(|member| (member.name().to_owned(), member.machine.url().to_string()))
        .collect();
    Json(About {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machines,
        delivers: ledger.delivers,
    })
    .into_response()
}

#[derive(Deserialize)]
struct Listing {
    state: Option<String>,
    limit: Option<u32>,
}

async fn list(State(server): State<Server>, Query(listing): Query<Listing>) -> Response {
    let Some(store) = store(&server) else { return not_here() };
    let state = match listing.state.as_deref().map(|word| (word, DeliveryState::parse(word))) {
        None => None,
        Some((_, Some(state))) => Some(state),
        Some((word, None)) => {
            let message = format!("No delivery has the state `{word}`.");
            return refusal(StatusCode::BAD_REQUEST, "bad_request", &message, None);
        }
    };
    match list_events(&store, state, listing.limit.unwrap_or(PAGE_EVENTS)).await {
        Ok(events) => Json(events).into_response(),
        Err(error) => unread(&error),
    }
}

async fn show(State(server): State<Server>, Path(id): Path<String>) -> Response {
    let Some(store) = store(&server) else { return not_here() };
    match event_entry(&store, &id).await {
        Ok(entry) => Json(entry).into_response(),
        Err(error) => unread(&error),
    }
}

async fn retry(State(server): State<Server>, Path(id): Path<String>) -> Response {
    let Some(store) = store(&server) else { return not_here() };
    match retry_event(&store, &id).await {
        Ok(outcome) => Json(outcome).into_response(),
        Err(error) => unread(&error),
    }
}

fn kept(server: &Server) -> Option<(Arc<Gateway>, Ledger)> {
    match server.place() {
        Place::Here(gateway) => gateway.kept().cloned().map(|ledger| (gateway, ledger)),
        Place::There(_) => None,
    }
}

fn store(server: &Server) -> Option<Store> {
    kept(server).map(|(_, ledger)| ledger.store)
}

fn not_here() -> Response {
    refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "no_ledger",
        "This process keeps no ledger.",
        None,
    )
}

fn unread(error: &StoreError) -> Response {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal", &error.to_string(), None)
}
