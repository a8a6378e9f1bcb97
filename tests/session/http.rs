//! What each kind of HTTP answer is taken for.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, header};
use axum::routing::get;
use serde_json::{Value, json};
use t3code_mcp::machine::descriptor::{self, Credential, Descriptor, Version};
use t3code_mcp::machine::http::HttpClient;
use t3code_mcp::machine::{MachineError, TokenFrom};
use t3code_mcp::protocol::ThreadId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use super::support::{TOKEN, always, answer, client, impatient, serve, settings};

/// An error in one line: its kind and its words.
fn told(error: &MachineError) -> String {
    let kind = format!("{error:?}");
    let kind = kind.split([' ', '(']).next().unwrap_or_default();
    format!("{kind}: {error}")
}

async fn shell_of(status: u16, content_type: &str, body: &str) -> String {
    let url = always(status, content_type, body).await;
    told(&client(url).shell().await.unwrap_err())
}

#[tokio::test]
#[allow(clippy::too_many_lines)] // A table.
async fn every_refusal_is_taken_for_what_it_is() {
    let json = "application/json";
    let html = "<!doctype html><title>Sign in</title>";
    let body = |value: Value| value.to_string();
    let cases = [
        (
            401,
            json,
            body(
                json!({"_tag": "EnvironmentAuthInvalidError", "code": "auth_invalid", "reason": "invalid_credential", "traceId": "t"}),
            ),
            "NeedsPairing: mac does not accept the token (invalid_credential): put another one into the variable that its token_env names",
        ),
        (
            401,
            json,
            body(
                json!({"_tag": "EnvironmentAuthInvalidError", "code": "auth_invalid", "reason": "missing_credential", "traceId": "t"}),
            ),
            "NeedsPairing: mac asks for a credential: set the variable that its token_env names in the config",
        ),
        (
            401,
            "text/html",
            html.into(),
            "NeedsPairing: mac asks for a credential: set the variable that its token_env names in the config",
        ),
        (
            403,
            json,
            body(
                json!({"_tag": "EnvironmentScopeRequiredError", "code": "insufficient_scope", "requiredScope": "orchestration:read"}),
            ),
            "InsufficientScope: the token lacks the scope orchestration:read",
        ),
        (
            403,
            json,
            body(
                json!({"_tag": "EnvironmentScopeRequiredError", "code": "insufficient_scope", "requiredScope": "a", "requiredPermission": "b"}),
            ),
            "InsufficientScope: the token lacks the scope b",
        ),
        (
            403,
            "text/html",
            html.into(),
            "NotT3: mac answered HTTP 403 in a way that T3 does not: is its url that of a T3 server?",
        ),
        (
            404,
            json,
            body(
                json!({"_tag": "EnvironmentResourceNotFoundError", "code": "not_found", "reason": "thread_not_found"}),
            ),
            "ThreadNotFound: the thread was not found",
        ),
        (
            404,
            "text/plain",
            "Not Found".into(),
            "NotT3: mac answers, but has no /api/orchestration/shell: is its url that of a T3 server?",
        ),
        (
            503,
            "text/plain",
            "No static directory configured and no dev URL set.".into(),
            "NotT3: mac answers, but has no /api/orchestration/shell: is its url that of a T3 server?",
        ),
        (
            503,
            "text/html",
            "<html>Service Unavailable</html>".into(),
            "Unreachable: mac's proxy answers HTTP 503, but the T3 server behind it does not: is it running?",
        ),
        (
            426,
            json,
            body(json!({"code": "orchestration_protocol_incompatible", "orchestrationProtocolVersion": 3})),
            "ProtocolUnsupported: mac speaks orchestration protocol 3, t3code-mcp speaks 1 and 2: update t3code-mcp",
        ),
        (
            400,
            "text/plain",
            String::new(),
            "NotT3: mac answered HTTP 400 in a way that T3 does not: is its url that of a T3 server?",
        ),
        (
            500,
            json,
            body(json!({"_tag": "EnvironmentInternalError", "code": "internal_error", "reason": "shell_failed"})),
            "Rejected: mac refused: shell_failed (HTTP 500)",
        ),
        (
            502,
            "text/html",
            html.into(),
            "Unreachable: mac's proxy answers HTTP 502, but the T3 server behind it does not: is it running?",
        ),
        (
            200,
            "text/html",
            html.into(),
            "NotT3: mac answers, but has no /api/orchestration/shell: is its url that of a T3 server?",
        ),
    ];
    for (status, content_type, body, expected) in cases {
        assert_eq!(shell_of(status, content_type, &body).await, expected, "{status} {body}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_named_without_its_query() {
    let followed = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&followed);
    let redirect = Response::builder()
        .status(307)
        .header(header::LOCATION, "/elsewhere?code=secret#there");
    let redirect = Arc::new(redirect.body(()).unwrap());
    let router = Router::new()
        .route(
            "/api/orchestration/shell",
            get(move || async move { redirect.map_to_body() }),
        )
        .fallback(move || async move { *seen.lock().unwrap() = true });
    let url = serve(router).await;
    let error = client(url.clone()).shell().await.unwrap_err();
    assert_eq!(
        told(&error),
        format!(
            "NotT3: mac redirects to {url}elsewhere, and redirects are not followed: set its url to where T3 itself listens"
        )
    );
    assert!(!*followed.lock().unwrap());
}

/// A response without a body, as often as it is asked for.
trait MapToBody {
    fn map_to_body(&self) -> Response<Body>;
}

impl MapToBody for Response<()> {
    fn map_to_body(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status();
        *response.headers_mut() = self.headers().clone();
        response
    }
}

#[tokio::test]
async fn every_request_carries_the_bearer_and_the_protocol_and_each_id_is_one_segment() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let router = Router::new().fallback(move |request: Request| async move {
        let value = |name: &str| {
            request
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let line = (
            format!("{} {}", request.method(), request.uri()),
            value("authorization"),
            value("x-t3-orchestration-protocol"),
        );
        log.lock().unwrap().push(line);
        answer(200, "application/json; charset=utf-8", "{}")()
    });
    let http = client(serve(router).await);
    let id = ThreadId("a/b?c#d%2e ü".into());
    assert_eq!(http.thread(&id).await.unwrap(), "{}");
    assert_eq!(http.thread_bounded(&id).await.unwrap().unwrap(), "{}");
    assert_eq!(http.shell().await.unwrap(), "{}");
    http.ticket().await.unwrap_err();
    // Who answers at the url may not be T3 at all: the descriptor is asked for without the token.
    http.descriptor().await.unwrap_err();

    let mut seen = seen.lock().unwrap();
    let (path, auth, protocol) = seen.pop().unwrap();
    assert_eq!(
        (path.as_str(), auth, protocol.as_deref()),
        ("GET /.well-known/t3/environment", None, Some("2"))
    );
    let lines: Vec<_> = seen.iter().map(|(line, ..)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "GET /api/orchestration/threads/a%2Fb%3Fc%23d%252e%20%C3%BC",
            "GET /api/orchestration/threads/a%2Fb%3Fc%23d%252e%20%C3%BC/bounded",
            "GET /api/orchestration/shell",
            "POST /api/auth/websocket-ticket",
        ]
    );
    let bearer = format!("Bearer {TOKEN}");
    assert!(
        seen.iter()
            .all(|(_, auth, protocol)| { auth.as_deref() == Some(&bearer) && protocol.as_deref() == Some("2") })
    );
}

#[tokio::test]
async fn an_id_that_would_be_a_step_in_the_path_is_a_thread_that_is_not_there() {
    // Nothing listens: it must be known without asking.
    let http = client("http://127.0.0.1:1".parse().unwrap());
    for id in ["", ".", ".."] {
        let error = http.thread(&ThreadId(id.into())).await.unwrap_err();
        assert!(matches!(error, MachineError::ThreadNotFound), "{id:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_server_without_the_bounded_route_says_so_but_a_missing_thread_is_an_error() {
    let id = ThreadId("t".into());
    for (status, content_type, body) in [
        (503, "text/plain", "No static directory configured and no dev URL set."),
        (503, "text/html", "<html>Service Unavailable</html>"),
        (404, "text/plain", "Not Found"),
        (200, "text/html", "<!doctype html>"),
    ] {
        let http = client(always(status, content_type, body).await);
        assert_eq!(http.thread_bounded(&id).await.unwrap(), None);
    }
    let missing =
        json!({"_tag": "EnvironmentResourceNotFoundError", "code": "not_found", "reason": "thread_not_found"});
    let http = client(always(404, "application/json", &missing.to_string()).await);
    let error = http.thread_bounded(&id).await.unwrap_err();
    assert!(matches!(error, MachineError::ThreadNotFound));
}

#[tokio::test]
async fn a_machine_where_nothing_listens_is_unreachable_in_words_that_help() {
    // The port is given to nobody.
    let address = "127.0.0.1:1";
    let http = client(format!("http://{address}").parse().unwrap());
    assert_eq!(
        told(&http.descriptor().await.unwrap_err()),
        format!("Unreachable: nothing listens at http://{address}/: is T3 Code running on mac, and is the port right?")
    );
}

/// A server that takes a request, says this much, and then nothing for ever.
async fn stalls_after(said: &'static str) -> (Url, tokio::sync::oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (asked, was_asked) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(said.as_bytes()).await.unwrap();
        asked.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    (url, was_asked)
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_wherever_it_hangs() {
    for said in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"a\":",
    ] {
        let (url, was_asked) = stalls_after(said).await;
        let http = impatient(url);
        let error = http.shell().await.unwrap_err();
        assert_eq!(told(&error), "Timeout: no answer within 1 s", "{said}");
        was_asked.await.unwrap();
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_taken_though_it_is_small_on_the_wire() {
    let router = Router::new()
        .fallback(|| async {
            let chunks = (0..66).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1024 * 1024])));
            Response::builder()
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from_stream(futures_util::stream::iter(chunks)))
                .unwrap()
        })
        .layer(tower_http::compression::CompressionLayer::new());
    let http = client(serve(router).await);
    assert_eq!(
        told(&http.shell().await.unwrap_err()),
        "Decode: mac answered /api/orchestration/shell with more than 64 MiB: raise frame_limit_mib for this machine"
    );
}

#[tokio::test]
async fn a_gzipped_body_comes_out_plain() {
    let body = json!({"padding": "x".repeat(10_000)}).to_string();
    let expected = body.clone();
    let encoded = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&encoded);
    let router = Router::new()
        .fallback(move |request: Request| async move {
            *seen.lock().unwrap() = request.headers().get(header::ACCEPT_ENCODING).cloned();
            answer(200, "application/json", &body)()
        })
        .layer(tower_http::compression::CompressionLayer::new());
    let http = client(serve(router).await);
    assert_eq!(http.shell().await.unwrap(), expected);
    assert_eq!(encoded.lock().unwrap().as_ref().unwrap(), "gzip");
}

#[test]
fn a_url_that_could_carry_a_secret_or_is_no_http_is_refused() {
    for (url, why) in [
        ("ftp://mac:3773", "is neither http nor https"),
        ("http://user:secret@mac:3773", "holds a user name or password"),
        ("http://mac:3773/?token=secret", "holds a query or a fragment"),
        ("http://mac:3773/#token=secret", "holds a query or a fragment"),
    ] {
        let error = HttpClient::new(&settings(url.parse().unwrap())).unwrap_err();
        assert_eq!(
            told(&error),
            format!("NotT3: the url of mac {why}: it is to be like http://host:3773")
        );
    }
}

#[test]
fn a_token_that_no_header_can_carry_is_not_shown() {
    let settings = t3code_mcp::machine::MachineSettings {
        token: Some("bad\nsecret".into()),
        ..settings("http://127.0.0.1:1".parse().unwrap())
    };
    let http = HttpClient::new(&settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime.block_on(http.shell()).unwrap_err();
    assert!(matches!(error, MachineError::NeedsPairing { .. }));
    assert!(!format!("{error:?} {error} {http:?}").contains("secret"));
}

fn descriptor(version: Option<i64>) -> Descriptor {
    let mut body = json!({"environmentId": "e", "label": "vm", "serverVersion": "0.0.33", "platform": {"os": "linux", "arch": "x64"}, "capabilities": {}});
    if let Some(version) = version {
        body["orchestrationProtocolVersion"] = version.into();
    }
    Descriptor::read("mac", body.to_string().as_bytes()).unwrap()
}

#[test]
fn the_descriptor_decides_the_protocol_and_says_which_side_is_to_be_updated() {
    assert_eq!(descriptor(Some(2)).version("mac").unwrap(), Version::Spoken);
    assert_eq!(descriptor(None).version("mac").unwrap(), Version::AskShell);
    assert_eq!(descriptor(Some(1)).version("mac").unwrap(), Version::AskShell);
    assert_eq!(
        told(&descriptor(Some(3)).version("mac").unwrap_err()),
        "ProtocolUnsupported: mac speaks orchestration protocol 3, t3code-mcp speaks 1 and 2: update t3code-mcp"
    );
}

#[test]
fn where_the_descriptor_is_silent_the_shell_decides() {
    let check = |shell: Value| descriptor::check_shell("mac", shell.to_string().as_bytes());
    check(json!({"schemaVersion": 2, "snapshotSequence": 7, "threads": [{"id": "t"}], "archivedThreads": [], "projects": []})).unwrap();
    check(json!({"snapshotSequence": 7, "projects": [], "threads": [], "updatedAt": "x"})).unwrap();
    assert!(
        told(&check(json!({"schemaVersion": 3, "snapshotSequence": 7, "threads": []})).unwrap_err())
            .ends_with("update t3code-mcp")
    );
    assert!(matches!(
        check(json!({"hello": 1})).unwrap_err(),
        MachineError::NotT3 { .. }
    ));
}

#[test]
fn where_permissions_are_there_only_they_count() {
    let read = |session: Value| Credential::read("mac", TokenFrom::Variable, session.to_string().as_bytes());
    let old = read(json!({"authenticated": true, "auth": {}, "scopes": ["orchestration:read", "orchestration:operate"], "expiresAt": "2026-11-30T17:44:14.006Z"})).unwrap();
    old.require("orchestration:operate").unwrap();
    assert_eq!(old.expires_at.unwrap().to_string(), "2026-11-30T17:44:14.006Z");
    let new = read(json!({"authenticated": true, "auth": {}, "scopes": ["orchestration:read", "orchestration:operate"], "permissions": ["orchestration:read", null]})).unwrap();
    new.require("orchestration:read").unwrap();
    assert!(
        matches!(new.require("orchestration:operate").unwrap_err(), MachineError::InsufficientScope { scope } if scope == "orchestration:operate")
    );
    assert!(matches!(
        read(json!({"authenticated": false, "auth": {}})).unwrap_err(),
        MachineError::NeedsPairing { .. }
    ));
}
