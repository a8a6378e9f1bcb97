//! Servers that are no good: each is named for what it is, and never keeps another machine from answering.

use std::future::IntoFuture;
use std::net::Ipv4Addr;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use t3code_mcp::machine::{Machine, MachineError};
use tokio::net::TcpListener;

use super::support::{launch, machine, online, until};

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, router).into_future());
    url
}

/// The error of a machine whose every route answers so.
async fn error_of(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> MachineError {
    let url = serve(Router::new().fallback(move || std::future::ready(answer()))).await;
    let (machine, _guard) = machine(&url);
    until(&machine, |machine| machine.status().error.is_some()).await;
    let ready = machine.ready(super::support::PATIENCE).await;
    assert!(ready.is_err(), "whoever needs it is told at once");
    machine.status().error.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_answers_wrongly_is_named_and_never_keeps_others_from_answering() {
    let (_simulator, good, _guard) = online().await;

    let html = error_of(|| (StatusCode::OK, "<html>a router's page</html>").into_response()).await;
    assert!(matches!(html, MachineError::NotT3 { .. }), "{html:?}");
    let redirect = error_of(|| (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:1/")]).into_response()).await;
    assert!(matches!(redirect, MachineError::NotT3 { .. }), "{redirect:?}");
    let body = |code, body: Value| move || (code, axum::Json(body.clone())).into_response();
    let unauthorized = error_of(body(
        StatusCode::UNAUTHORIZED,
        json!({"_tag": "EnvironmentAuthInvalidError", "code": "auth_invalid", "reason": "invalid_credential", "traceId": "t"}),
    ));
    let unauthorized = unauthorized.await;
    assert!(
        matches!(unauthorized, MachineError::NeedsPairing { .. }),
        "{unauthorized:?}"
    );
    let forbidden = error_of(body(
        StatusCode::FORBIDDEN,
        json!({"_tag": "EnvironmentScopeRequiredError", "code": "insufficient_scope", "requiredScope": "orchestration:read", "traceId": "t"}),
    ));
    let forbidden = forbidden.await;
    assert!(
        matches!(forbidden, MachineError::InsufficientScope { .. }),
        "{forbidden:?}"
    );
    let newer = error_of(body(
        StatusCode::UPGRADE_REQUIRED,
        json!({"code": "orchestration_protocol_incompatible", "message": "Update.", "orchestrationProtocolVersion": 3}),
    ));
    let newer = newer.await;
    assert!(matches!(newer, MachineError::ProtocolUnsupported { .. }), "{newer:?}");

    // A port where nobody listens, and a server that takes connections and says nothing.
    let (gone, _gone) = machine("http://127.0.0.1:1");
    until(&gone, |machine| {
        matches!(machine.status().error, Some(MachineError::Unreachable { .. }))
    })
    .await;
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (silent, _silent) = machine(&format!("http://{}", silent.local_addr().unwrap()));

    let launched = good.launch(&launch("one", "say hello")).await.unwrap();
    good.read_thread(&launched.thread).await.unwrap();
    assert!(!silent.status().online && silent.threads().is_empty());
    assert!(matches!(
        silent.providers().await,
        Err(MachineError::Unreachable { .. })
    ));
}

/// A T3 from before `launchThread`: one project, one provider, and every command is recorded.
async fn older_t3() -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    t3(Some(2), Some(2)).await
}

/// The same, by the protocol version that its descriptor names and the version of its shell's schema. It has no shell over HTTP.
async fn t3(version: Option<i64>, schema: Option<i64>) -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let (commands, received) = tokio::sync::mpsc::unbounded_channel();
    let router = Router::new()
        .route(
            "/.well-known/t3/environment",
            get(move || async move {
                let mut descriptor = json!({
                    "environmentId": "e", "label": "old", "serverVersion": "0.0.33", "platform": {"os": "linux", "arch": "x64"},
                    "capabilities": {},
                });
                if let Some(version) = version {
                    descriptor["orchestrationProtocolVersion"] = json!(version);
                }
                axum::Json(descriptor)
            }),
        )
        .route(
            "/api/auth/session",
            get(|| async {
                axum::Json(json!({"authenticated": true, "scopes": ["orchestration:read", "orchestration:operate"], "auth": {}}))
            }),
        )
        .route(
            "/api/auth/websocket-ticket",
            axum::routing::post(|| async { axum::Json(json!({"ticket": "ticket", "expiresAt": "2099-01-01T00:00:00.000Z"})) }),
        )
        .route(
            "/ws",
            get(move |upgrade: WebSocketUpgrade| {
                let commands = commands.clone();
                async move { upgrade.on_upgrade(move |socket| talk(socket, commands, schema)) }
            }),
        );
    (serve(router).await, received)
}

async fn talk(mut socket: WebSocket, commands: tokio::sync::mpsc::UnboundedSender<Value>, schema: Option<i64>) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        let id = &frame["id"];
        let exit = |exit: Value| json!({"_tag": "Exit", "requestId": id, "exit": exit});
        let answer = match frame["tag"].as_str() {
            Some("orchestration.subscribeShell") => {
                let project = json!({
                    "id": "project-t3-smoke", "title": "t3-smoke", "workspaceRoot": "/w", "defaultModelSelection": null, "scripts": [],
                    "createdAt": "2026-11-30T05:45:56.962Z", "updatedAt": "2026-11-30T05:45:56.962Z",
                });
                let mut snapshot = json!({"snapshotSequence": 4, "threads": [{"id": "half a thread"}], "archivedThreads": [], "projects": [project, 7]});
                if let Some(schema) = schema {
                    snapshot["schemaVersion"] = json!(schema);
                }
                json!({"_tag": "Chunk", "requestId": id, "values": [{"kind": "snapshot", "snapshot": snapshot}]})
            }
            Some("server.getConfig") => {
                let provider = json!({
                    "instanceId": "grok", "driver": "grok", "enabled": true, "installed": true, "version": null, "status": "ready",
                    "auth": {"status": "authenticated"}, "checkedAt": "2026-11-30T05:45:56.962Z", "models": [],
                });
                exit(json!({"_tag": "Success", "value": {"providers": [provider, null]}}))
            }
            Some("orchestration.dispatchCommand") => {
                commands.send(frame["payload"].clone()).unwrap();
                exit(json!({"_tag": "Success", "value": {"sequence": 5}}))
            }
            Some(other) => exit(
                json!({"_tag": "Failure", "cause": [{"_tag": "Die", "defect": format!("Unknown request tag: {other}")}]}),
            ),
            None => continue,
        };
        if socket.send(Message::text(answer.to_string())).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_read_do_not_keep_a_machine_away() {
    let (url, _received) = t3(Some(2), Some(2)).await;
    let (machine, _guard) = machine(&url);
    until(&machine, |machine| machine.status().online).await;
    assert_eq!(machine.projects().len(), 1);
    let error = machine.status().error.unwrap().to_string();
    assert!(
        error.starts_with("2 threads or projects of the shell are left out"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_t3_that_names_no_version_is_known_by_the_first_snapshot_of_its_stream() {
    let (url, _received) = t3(None, Some(2)).await;
    let (machine, _guard) = machine(&url);
    until(&machine, |machine| machine.status().online).await;
    assert_eq!(machine.status().protocol, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_t3_of_another_protocol_is_refused_with_both_versions_and_which_side_to_update() {
    let (url, _received) = t3(None, Some(3)).await;
    let (machine, _guard) = machine(&url);
    until(&machine, |machine| machine.status().error.is_some()).await;
    let error = machine.status().error.unwrap();
    assert!(matches!(error, MachineError::ProtocolUnsupported { .. }), "{error:?}");
    let said = error.to_string();
    assert!(
        said.contains("protocol 3") && said.contains("speaks 1 and 2") && said.ends_with("update t3code-mcp"),
        "{said}"
    );
    assert!(machine.projects().is_empty() && machine.status().protocol.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_t3_without_launches_gets_a_thread_and_then_its_message() {
    let (url, mut received) = older_t3().await;
    let (machine, _guard): (std::sync::Arc<Machine>, _) = machine(&url);
    until(&machine, |machine| machine.status().online).await;

    let launched = machine.launch(&launch("one", "say hello")).await.unwrap();
    assert_eq!((launched.thread.0.as_str(), launched.run), ("thread-one", None));
    let (create, message) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    let ids = |command: &Value| {
        (
            command["type"].clone(),
            command["commandId"].clone(),
            command["threadId"].clone(),
        )
    };
    assert_eq!(
        ids(&create),
        (json!("thread.create"), json!("command-one:create"), json!("thread-one"))
    );
    assert_eq!(
        ids(&message),
        (
            json!("message.dispatch"),
            json!("command-one:message"),
            json!("thread-one")
        )
    );
    assert_eq!(
        (&create["creationSource"], &message["messageId"]),
        (&json!("mcp"), &json!("message-one"))
    );
}
