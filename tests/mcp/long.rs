//! Long calls: an early sign of life, progress that never follows the result, and the answer as the client expects it.

use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ClientRequest};
use serde_json::json;
use t3code_mcp::http::Patience;

use crate::support::{ALICE, Running, messages, seen, settings, start};

const QUICK: Patience = Patience {
    early_after: Duration::from_millis(20),
    comment_every: Duration::from_millis(20),
};

async fn quick() -> Running {
    let mut settings = settings();
    settings.patience = QUICK;
    start(settings).await
}

#[tokio::test]
async fn a_silent_wait_gets_a_sign_of_life_and_then_its_answer() {
    let endpoint = quick().await;
    let call = endpoint.modern_call("trial_read", &json!({"key": "silent", "hold": true}));
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = Box::pin(response.bytes_stream());
    let mut text = String::new();
    // The head and several comments come while the tool still holds.
    while text.matches(": waiting").count() < 3 {
        let bytes = futures_util::StreamExt::next(&mut stream).await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    seen("silent").release.notify_one();
    while let Some(bytes) = futures_util::StreamExt::next(&mut stream).await {
        text.push_str(&String::from_utf8_lossy(&bytes.unwrap()));
    }
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let message: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (&message["id"], &message["result"]["structuredContent"]["key"]),
        (&json!(1), &json!("silent"))
    );
}

#[tokio::test]
async fn a_silent_wait_in_a_session_gets_signs_of_life_and_keeps_the_session_awake() {
    let mut settings = settings();
    settings.patience = QUICK;
    settings.sessions.idle = Duration::from_millis(20);
    settings.sessions.look_every = Duration::from_millis(5);
    let endpoint = start(settings).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(
        &session,
        1,
        "trial_read",
        &json!({"key": "silent-legacy", "hold": true}),
    );
    let mut stream = Box::pin(call.send().await.unwrap().bytes_stream());
    let mut text = String::new();
    // Several comments come while the tool still holds, each long after the session would have gone to sleep.
    while text.lines().filter(|line| line.starts_with(':')).count() < 5 {
        let bytes = futures_util::StreamExt::next(&mut stream).await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    assert!(!text.contains("result"), "{text}");
    seen("silent-legacy").release.notify_one();
    while let Some(bytes) = futures_util::StreamExt::next(&mut stream).await {
        text.push_str(&String::from_utf8_lossy(&bytes.unwrap()));
    }
    assert!(text.contains(r#""key":"silent-legacy""#), "{text}");
}

#[tokio::test]
async fn a_short_call_of_the_newest_revision_is_plain_json() {
    let endpoint = start(settings()).await;
    let response = endpoint
        .modern_call("trial_read", &json!({"key": "short"}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn progress_comes_before_the_result_and_never_after_in_both_eras() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let params = |key: &str| json!({"name": "trial_read", "arguments": {"key": key, "ticks": 3}, "_meta": {"progressToken": "p"}});
    for request in [
        endpoint.modern("tools/call", params("ticks-modern")),
        endpoint.legacy(&session, 1, "tools/call", &params("ticks-legacy")),
    ] {
        let all = messages(request.send().await.unwrap()).await;
        let kinds: Vec<bool> = all.iter().map(|message| message.get("result").is_some()).collect();
        assert_eq!(kinds, [false, false, false, true], "{all:?}");
        let counts: Vec<f64> = all[..3]
            .iter()
            .map(|tick| tick["params"]["progress"].as_f64().unwrap())
            .collect();
        assert_eq!(counts, [1.0, 2.0, 3.0]);
    }
}

#[tokio::test]
async fn rmcps_own_client_sees_a_silent_wait_through() {
    use rmcp::transport::StreamableHttpClientTransport;
    use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

    let endpoint = quick().await;
    let mut config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", endpoint.url));
    config.auth_header = Some(ALICE.to_owned());
    let transport = StreamableHttpClientTransport::with_client(endpoint.http.clone(), config);
    let client = ().serve(transport).await.unwrap();
    let mut params = CallToolRequestParams::new("trial_read");
    params.arguments = json!({"key": "rmcp", "hold": true}).as_object().cloned();
    let request = ClientRequest::CallToolRequest(rmcp::model::Request::new(params));
    let peer = client.peer().clone();
    let call = tokio::spawn(async move { peer.send_request(request).await.unwrap() });
    seen("rmcp").began.notified().await;
    seen("rmcp").release.notify_one();
    let answer = serde_json::to_value(call.await.unwrap()).unwrap();
    assert_eq!(answer["structuredContent"]["key"], "rmcp");
    client.cancel().await.unwrap();
}
