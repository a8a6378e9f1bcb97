//! The WebSocket upgrade, which is refused as plain HTTP before it happens.

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;

use super::refused::Refused;
use super::{Answer, Shared, bearer};
use crate::simulator::host::Host;
use crate::simulator::socket;

/// The largest message that a socket takes.
const MAX_MESSAGE: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpgradeQuery {
    ws_ticket: Option<String>,
    orchestration_protocol: Option<String>,
}

pub(super) async fn upgrade(
    State(host): Shared,
    Query(query): Query<UpgradeQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer {
    // Before authentication.
    if host.gate && host.read().older.is_none() && query.orchestration_protocol.as_deref() != Some("2") {
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
