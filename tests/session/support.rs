//! Small hand-made servers, each with the one behaviour that a test is about.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{Response, StatusCode, header};
use axum::routing::{get, post};
use serde_json::{Value, json};
use t3code_mcp::machine::MachineError;
use t3code_mcp::machine::MachineSettings;
use t3code_mcp::machine::http::{HttpClient, Limits};
use t3code_mcp::machine::socket::{SessionHandle, SocketOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

/// The ticket of every server here: no test's output may ever hold it.
pub(crate) const TICKET: &str = "ticket-that-nobody-may-see";
/// The bearer of every client here.
pub(crate) const TOKEN: &str = "token-that-nobody-may-see";

pub(crate) fn settings(url: Url) -> MachineSettings {
    MachineSettings {
        name: "mac".into(),
        url,
        token: Some(TOKEN.into()),
        ca_file: None,
        frame_limit: 64 * 1024 * 1024,
    }
}

pub(crate) fn client(url: Url) -> HttpClient {
    HttpClient::new(&settings(url)).unwrap()
}

/// A client for servers that are to hang: the usual limits would only make the test long.
pub(crate) fn impatient(url: Url) -> HttpClient {
    let limits = Limits {
        read: Duration::from_millis(300),
        ..Limits::default()
    };
    HttpClient::with_limits(&settings(url), limits).unwrap()
}

/// Serves on a free port of the loopback interface for as long as the test's runtime lives.
pub(crate) async fn serve(router: Router) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// A server that answers everything alike.
pub(crate) async fn always(status: u16, content_type: &str, body: &str) -> Url {
    let answer = answer(status, content_type, body);
    serve(Router::new().fallback(move || async move { answer() })).await
}

pub(crate) fn answer(
    status: u16,
    content_type: &str,
    body: &str,
) -> impl Fn() -> Response<axum::body::Body> + Clone + Send + Sync + 'static {
    let (content_type, body) = (content_type.to_owned(), body.to_owned());
    move || {
        Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header(header::CONTENT_TYPE, &content_type)
            .body(body.clone().into())
            .unwrap()
    }
}

/// The route that gives out tickets.
pub(crate) fn tickets() -> Router {
    let body = json!({"ticket": TICKET, "expiresAt": "2026-11-30T05:49:14.220Z"}).to_string();
    Router::new().route(
        "/api/auth/websocket-ticket",
        post(move || async move { answer(200, "application/json", &body)() }),
    )
}

/// A server whose socket follows a script.
pub(crate) async fn scripted<F, S>(script: S) -> Url
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(Wire) -> F + Send + Sync + 'static,
{
    let script = Arc::new(script);
    let upgrade = get(move |upgrade: WebSocketUpgrade| {
        let script = Arc::clone(&script);
        async move { upgrade.on_upgrade(move |socket| script(Wire(socket))) }
    });
    serve(tickets().route("/ws", upgrade)).await
}

/// A connected session with a server of the script's.
pub(crate) async fn session<F, S>(script: S) -> SessionHandle
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(Wire) -> F + Send + Sync + 'static,
{
    connect(scripted(script).await).await.unwrap()
}

pub(crate) async fn connect(url: Url) -> Result<SessionHandle, MachineError> {
    connect_with(url, &SocketOptions::default()).await
}

pub(crate) async fn connect_with(url: Url, options: &SocketOptions) -> Result<SessionHandle, MachineError> {
    let http = client(url);
    let ticket = http.ticket().await?;
    SessionHandle::connect(&http, &ticket, options, CancellationToken::new()).await
}

/// The server's end of a socket.
pub(crate) struct Wire(pub(crate) WebSocket);

impl Wire {
    /// The client's next frame; pings, which come by time, are passed over. None once the client is gone.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.recv().await?.ok()? {
                Message::Text(text) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    if frame["_tag"] != "Ping" {
                        return Some(frame);
                    }
                }
                Message::Close(_) => return None,
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
            }
        }
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.say(&frame.to_string()).await;
    }

    pub(crate) async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn chunk(&mut self, id: &Value, values: &[u32]) {
        self.send(&json!({"_tag": "Chunk", "requestId": id, "values": values}))
            .await;
    }

    pub(crate) async fn success(&mut self, id: &Value, value: Value) {
        self.send(&json!({"_tag": "Exit", "requestId": id, "exit": {"_tag": "Success", "value": value}}))
            .await;
    }
}
