//! Clients whose connection breaks and who call again instead of coming back, with the clocks as they are by default.

use serde_json::json;
use t3code_mcp::gateway::Delivered;
use t3code_mcp::mcp::sessions::SessionSettings;

use crate::support::{ALICE, delivered, first_bytes, result, seen, settings, simulator, start, start_over, until};

#[tokio::test]
async fn a_dispatch_sent_again_over_a_new_connection_starts_nothing_twice() {
    let simulator = simulator().await;
    let mut settings = settings();
    settings.sessions = SessionSettings::default();
    let endpoint = start_over(&simulator, settings).await;
    let session = endpoint.session(ALICE).await;
    let arguments = json!({"project": "t3-smoke", "prompt": "say hello"});
    let call = endpoint.legacy_call(&session, 1, "t3_dispatch", &arguments);
    let (_, connection) = first_bytes(call.send().await.unwrap()).await;
    drop(connection);
    until("the first call's thread is there", || simulator.thread_count() == 1).await;
    let again = result(endpoint.legacy_call(&session, 2, "t3_dispatch", &arguments)).await;
    assert_eq!(again["structuredContent"]["existing"], true, "{again}");
    assert_eq!(again["structuredContent"]["matched"], "implicit");
    assert_eq!(simulator.thread_count(), 1);
    // That answer was read: a third call is meant.
    let third = result(endpoint.legacy_call(&session, 3, "t3_dispatch", &arguments)).await;
    assert_eq!(third["structuredContent"].get("existing"), None, "{third}");
    assert_eq!(simulator.thread_count(), 2);
}

#[tokio::test]
async fn a_client_that_is_away_is_known_to_be_at_once_and_until_it_is_back() {
    let mut settings = settings();
    settings.sessions = SessionSettings::default();
    let endpoint = start(settings).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(
        &session,
        1,
        "trial_change",
        &json!({"key": "gone-a-while", "hold": true}),
    );
    let (priming, connection) = first_bytes(call.send().await.unwrap()).await;
    let event = priming.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let seen = seen("gone-a-while");
    seen.began.notified().await;
    assert_eq!(delivered(&seen), None);
    drop(connection);
    until("it is away", || matches!(delivered(&seen), Some(Delivered::Away(_)))).await;
    let back = endpoint
        .http
        .get(format!("{}/mcp", endpoint.url))
        .bearer_auth(ALICE)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("last-event-id", event)
        .send()
        .await
        .unwrap();
    until("it is back", || delivered(&seen).is_none()).await;
    seen.release.notify_one();
    let _ = back.text().await.unwrap();
    until("it has read", || delivered(&seen) == Some(Delivered::Answered)).await;
}
