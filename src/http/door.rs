//! The way of one request to `/mcp`: each step either answers or passes it on.
//!
//! One handler instead of a stack of layers: axum clones every layer below each layer for each request, which took as long as the calls
//! themselves.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use rmcp::transport::streamable_http_server::StreamableHttpService;

use super::settings::Patience;
use super::{bearer, body, early_sse, gate, hang_up, plain};
use crate::mcp::Server;
use crate::mcp::sessions::Sessions;

/// What stands on the way.
pub(super) struct Door {
    pub(super) bearers: bearer::Bearers,
    pub(super) sessions: Arc<Sessions>,
    pub(super) patience: Patience,
    pub(super) service: StreamableHttpService<Server, Sessions>,
}

/// From the outside in: the bearer, the refusals' form, the client's presence, the whole body, the session's owner, the early sign of life.
pub(super) async fn enter(State(door): State<Arc<Door>>, request: Request) -> Response {
    bearer::pass(&door.bearers, request, |request| {
        plain::pass(request, |request| {
            hang_up::pass(request, |request| {
                body::pass(request, |request| {
                    gate::pass(&door.sessions, request, |request| {
                        let served = Arc::clone(&door);
                        early_sse::pass(door.patience, request, async move |request: Request| {
                            served.service.handle(request).await.map(Body::new)
                        })
                    })
                })
            })
        })
    })
    .await
}
