//! A graceful stop: what is open is answered, not cut.

use serde_json::json;

use crate::support::{ALICE, messages, seen, settings, start};

#[tokio::test]
async fn open_calls_are_answered_and_standing_streams_closed_when_the_process_stops() {
    let mut endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let standing = endpoint
        .http
        .get(format!("{}/mcp", endpoint.url))
        .bearer_auth(ALICE)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .send()
        .await
        .unwrap();
    assert_eq!(standing.status(), 200);
    let mut calls = Vec::new();
    for (key, request) in [
        (
            "stop-modern",
            endpoint.modern_call("trial_read", &json!({"key": "stop-modern", "hold": true})),
        ),
        (
            "stop-legacy",
            endpoint.legacy_call(&session, 1, "trial_read", &json!({"key": "stop-legacy", "hold": true})),
        ),
    ] {
        calls.push((key, tokio::spawn(request.send())));
        seen(key).began.notified().await;
    }
    endpoint.stop.cancel();
    // The gateway's own waits select on the same token; the trial tool is released by hand.
    for (key, call) in calls {
        seen(key).release.notify_one();
        let answer = messages(call.await.unwrap().unwrap()).await;
        assert_eq!(answer.last().unwrap()["result"]["structuredContent"]["key"], key);
    }
    let _ = standing.text().await;
    (&mut endpoint.served).await.unwrap();
    assert!(
        endpoint
            .http
            .get(format!("{}/healthz", endpoint.url))
            .send()
            .await
            .is_err()
    );
}
