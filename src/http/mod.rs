//! The endpoint: who may come in, and the way to `/mcp`.
//!
//! From the outside in: Host and Origin (before anything is read), the bearer, the whole body, the session's owner, an early sign of life for
//! long calls, then rmcp's service. Every refusal is JSON. `/metrics` lies behind the bearer, `/healthz` outside of all checks; neither asks a
//! machine. It knows no tool and decides nothing about threads. `cli` calls [`serve()`].

mod bearer;
mod body;
mod door;
mod early_sse;
mod exposition;
mod failures;
mod gate;
mod guard;
mod hang_up;
mod head_clock;
mod inside;
mod line;
mod metrics;
mod plain;
mod reply;
mod serve;
mod settings;
mod wire;

use std::sync::Arc;

use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Json, Router};
use http::{Method, StatusCode, Uri};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::mcp::Server;
use crate::mcp::sessions::Sessions;
use door::Door;
use reply::refusal;

pub use body::MAX_BODY_BYTES;
pub use serve::serve;
pub use settings::{Access, Connections, HttpSettings, Patience};
pub use wire::Listener;

/// The path of the endpoint.
pub const PATH: &str = "/mcp";

/// What a serving process holds of its endpoint.
#[derive(Clone)]
pub struct Endpoint {
    /// The routes.
    pub router: Router,
    /// The sessions of the older revisions.
    pub sessions: Arc<Sessions>,
    /// The server behind it.
    pub server: Server,
    /// Cuts what is still open; for the end of a graceful stop.
    pub cut: CancellationToken,
    /// What connections may take.
    pub connections: Connections,
}

/// The endpoint. Its sessions are looked after until `stop` is cancelled.
pub fn endpoint(server: Server, settings: HttpSettings, stop: &CancellationToken) -> Endpoint {
    let sessions = Sessions::new(settings.sessions);
    tokio::spawn(Arc::clone(&sessions).reap(stop.clone()));
    let cut = CancellationToken::new();
    let behind = server.clone();
    let door = Arc::new(Door {
        bearers: bearer::Bearers::new(&settings),
        sessions: Arc::clone(&sessions),
        patience: settings.patience,
        service: StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::clone(&sessions),
            mcp_config(&sessions, settings.patience, cut.clone()),
        ),
    });
    let connections = settings.connections;
    let settings = Arc::new(settings);
    let guarded = Router::new()
        .route(PATH, any(door::enter).with_state(Arc::clone(&door)))
        .route(
            "/metrics",
            get(metrics::scrape)
                .with_state((door, behind.clone()))
                .fallback(wrong_method),
        )
        .route("/readyz", get(ready).with_state(stop.clone()).fallback(wrong_method))
        .fallback(any(not_found))
        .layer(from_fn_with_state(Arc::clone(&settings), guard::layer));
    let router = Router::new()
        .route(
            "/healthz",
            get(health).with_state(behind.clone()).fallback(wrong_method),
        )
        .merge(inside::routes(behind.clone()))
        .merge(guarded);
    Endpoint {
        router,
        sessions,
        server: behind,
        cut,
        connections,
    }
}

fn mcp_config(sessions: &Arc<Sessions>, patience: Patience, cut: CancellationToken) -> StreamableHttpServerConfig {
    let mut config = StreamableHttpServerConfig::default()
        // `guard` has checked both, with a refusal that names the setting.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        // Calls of the newest revision that have no progress to tell: a third faster than a stream.
        .with_json_response(true)
        // The streams of sessions begin at once; what keeps them alive in a silent call is rmcp's own.
        .with_sse_keep_alive(Some(patience.comment_every))
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(cut);
    config.session_store = Some(Arc::clone(sessions) as Arc<_>);
    config
}

async fn health(State(server): State<Server>) -> Json<serde_json::Value> {
    Json(json!({"status": "ok", "machines": server.machines()}))
}

async fn ready(State(stop): State<CancellationToken>) -> (StatusCode, Json<serde_json::Value>) {
    if stop.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "stopping"})))
    } else {
        (StatusCode::OK, Json(json!({"status": "ready"})))
    }
}

async fn not_found(uri: Uri) -> Response {
    let path = uri.path();
    refusal(
        StatusCode::NOT_FOUND,
        "not_found",
        &format!("There is nothing at {path}."),
        Some("The MCP endpoint is /mcp, without a slash at its end. It takes a bearer token; there is no OAuth."),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        &format!("{} does not take {method}.", uri.path()),
        Some("Use GET."),
    )
}
