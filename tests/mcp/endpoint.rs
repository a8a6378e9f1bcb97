//! Who gets in, and what the endpoint says to those who do not.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{ALICE, Running, initialize, messages, seen, settings, start};

/// A request as bytes, for what no client library sends; the whole answer as text.
async fn raw(endpoint: &Running, request: &str) -> String {
    let address = endpoint.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn refusal(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    (status, response.json().await.unwrap())
}

#[tokio::test]
async fn health_is_open_to_everyone_and_everything_else_asks_for_a_known_host_first() {
    let endpoint = start(settings()).await;
    let health = raw(
        &endpoint,
        "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(
        health.starts_with("HTTP/1.1 200") && health.ends_with(r#"{"machines":[],"status":"ok"}"#),
        "{health}"
    );
    // The body is announced and never sent: the answer cannot have waited for it, nor for the bearer.
    for path in ["/mcp", "/nowhere", "/readyz"] {
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\nConnection: close\r\n\r\n");
        let answer = raw(&endpoint, &request).await;
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("server.allowed_hosts"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn an_origin_must_be_listed_and_its_absence_passes() {
    let mut settings = settings();
    settings.allowed_origins = vec!["https://app.example".into()];
    let endpoint = start(settings).await;
    let send = |origin: &str| {
        endpoint
            .modern("tools/list", json!({}))
            .header("origin", origin.to_owned())
            .send()
    };
    assert_eq!(send("https://app.example").await.unwrap().status(), 200);
    let (status, body) = refusal(send("https://evil.example").await.unwrap()).await;
    assert_eq!(status, 403);
    assert!(body["hint"].as_str().unwrap().contains("server.allowed_origins"));
}

#[tokio::test]
async fn without_a_known_bearer_there_is_a_challenge_and_after_many_tries_a_pause() {
    let endpoint = start(settings()).await;
    let send = |token: Option<&str>| {
        let mut request = endpoint.http.post(format!("{}/mcp", endpoint.url)).json(&initialize());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send()
    };
    let response = send(None).await.unwrap();
    assert_eq!(response.headers()["www-authenticate"], r#"Bearer realm="t3code-mcp""#);
    assert_eq!(refusal(response).await.0, 401);
    let response = send(Some("wrong")).await.unwrap();
    assert!(
        response.headers()["www-authenticate"]
            .to_str()
            .unwrap()
            .contains("invalid_token")
    );
    let mut statuses = Vec::new();
    for _ in 0..25 {
        statuses.push(send(Some("wrong")).await.unwrap().status().as_u16());
    }
    assert_eq!((statuses.first(), statuses.last()), (Some(&401), Some(&429)));
    // A right token is not locked out by its neighbours.
    assert_eq!(
        endpoint.modern("tools/list", json!({})).send().await.unwrap().status(),
        200
    );
}

#[tokio::test]
async fn each_bearer_is_its_own_client_and_the_origin_header_goes_with_the_call() {
    let endpoint = start(settings()).await;
    let call = endpoint
        .modern_call("trial_read", &json!({"key": "client"}))
        .header("x-conversation-origin", "chat:42");
    assert_eq!(call.send().await.unwrap().status(), 200);
    assert_eq!(
        seen("client").client.get(),
        Some(&("alice".to_owned(), Some("chat:42".to_owned())))
    );
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_told_in_json() {
    let endpoint = start(settings()).await;
    for path in [
        "/",
        "/mcp/",
        "/mcp/x",
        "/.well-known/oauth-protected-resource/mcp",
        "/register",
    ] {
        let response = endpoint
            .http
            .get(format!("{}{path}", endpoint.url))
            .send()
            .await
            .unwrap();
        assert_eq!(refusal(response).await.0, 404, "{path}");
    }
    let url = |path: &str| format!("{}{path}", endpoint.url);
    for response in [
        endpoint.http.post(url("/healthz")).send().await.unwrap(),
        endpoint.http.put(url("/mcp")).bearer_auth(ALICE).send().await.unwrap(),
        endpoint.http.delete(url("/readyz")).send().await.unwrap(),
    ] {
        assert_eq!(refusal(response).await.0, 405);
    }
    // What rmcp refuses in plain text.
    let bad = endpoint
        .post(ALICE)
        .header("content-type", "text/plain")
        .body("{}")
        .send();
    assert_eq!(refusal(bad.await.unwrap()).await.0, 415);
    let bad = endpoint
        .http
        .post(url("/mcp"))
        .bearer_auth(ALICE)
        .json(&initialize())
        .send()
        .await
        .unwrap();
    assert_eq!(refusal(bad).await.0, 406);
}

#[tokio::test]
async fn a_body_that_is_no_message_is_refused_as_json_rpc_says() {
    let endpoint = start(settings()).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for (body, code) in [
        (b"{".to_vec(), -32700),
        (b"".to_vec(), -32700),
        (b"{\"jsonrpc\":\"\xff\"}".to_vec(), -32700),
        (json!([call]).to_string().into_bytes(), -32600),
        (b" []".to_vec(), -32600),
        (b"7".to_vec(), -32600),
        (json!({"id": 1}).to_string().into_bytes(), -32600),
    ] {
        let shown = String::from_utf8_lossy(&body).into_owned();
        let sent = endpoint
            .post(ALICE)
            .header("content-type", "application/json; charset=utf-8")
            .body(body)
            .send();
        let (status, answer) = refusal(sent.await.unwrap()).await;
        assert_eq!(
            (status, answer["error"]["code"].as_i64()),
            (400, Some(code)),
            "{shown}: {answer}"
        );
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &Value::Null));
    }
}

#[tokio::test]
async fn a_request_with_two_hosts_is_refused() {
    let endpoint = start(settings()).await;
    for second in ["localhost", "evil.example"] {
        let request = format!(
            "GET /readyz HTTP/1.1\r\nHost: localhost\r\nHost: {second}\r\nAuthorization: Bearer {ALICE}\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&endpoint, &request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_announced_or_not() {
    let endpoint = start(settings()).await;
    let large = vec![b' '; t3code_mcp::http::MAX_BODY_BYTES + 1];
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ALICE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        large.len()
    );
    let answer = raw(&endpoint, &request).await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"),
        "{answer}"
    );
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(large)]);
    let response = endpoint
        .post(ALICE)
        .body(reqwest::Body::wrap_stream(chunks))
        .send()
        .await;
    // The server may close before the client has sent it all, which the client may see first.
    if let Ok(response) = response {
        assert_eq!(refusal(response).await.0, 413);
    }
    let fits = endpoint
        .post(ALICE)
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": " ".repeat(4_000_000)}}));
    assert_ne!(fits.send().await.unwrap().status(), 413);
}

#[tokio::test]
async fn both_eras_answer_on_one_endpoint() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let legacy = endpoint
        .legacy(&session, 1, "tools/list", &json!({}))
        .send()
        .await
        .unwrap();
    let modern = endpoint.modern("tools/list", json!({})).send().await.unwrap();
    let (legacy, modern) = (messages(legacy).await, messages(modern).await);
    assert_eq!(legacy[0]["result"]["tools"], modern[0]["result"]["tools"]);
}
