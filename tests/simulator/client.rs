//! A client as plain as a recording: frames as JSON values, no understanding.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use t3code_mcp::simulator::Simulator;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Longer than anything takes; only a hung server reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What [`Socket::next`] tells when nothing came at all; no close code of a server.
pub const NOTHING_CAME: u16 = 0;

/// One HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Speaks HTTP with a simulator.
#[derive(Clone)]
pub struct Http {
    pub client: reqwest::Client,
    pub base: String,
    pub token: Option<String>,
}

impl Http {
    pub fn new(simulator: &Simulator, token: Option<&str>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            client: reqwest::Client::new(),
            base: simulator.url(),
            token: token.map(str::to_owned),
        }
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        self.client.request(method, format!("{}{path}", self.base))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request("POST", path).json(body)).await
    }

    pub async fn ticket(&self) -> String {
        let answer = self.post("/api/auth/websocket-ticket", &json!({})).await;
        answer.body["ticket"].as_str().unwrap().to_owned()
    }

    pub async fn socket(&self) -> Socket {
        let ticket = self.ticket().await;
        Socket::open(&format!("{}/ws?wsTicket={ticket}", self.base.replace("http", "ws")))
            .await
            .unwrap()
    }
}

/// Speaks frames with a simulator.
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next_id: u64,
    /// Frames that came while another was awaited.
    kept: Vec<Value>,
}

impl Socket {
    pub async fn open(url: &str) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let (stream, _) = connect_async(url).await?;
        Ok(Self {
            stream,
            next_id: 1,
            kept: Vec::new(),
        })
    }

    pub async fn send_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub async fn send_binary(&mut self, text: &str) {
        self.stream
            .send(Message::binary(text.as_bytes().to_vec()))
            .await
            .unwrap();
    }

    /// The next frame, or the close code: none where the socket just broke.
    pub async fn next(&mut self) -> Result<Value, Option<u16>> {
        if !self.kept.is_empty() {
            return Ok(self.kept.remove(0));
        }
        self.receive().await
    }

    async fn receive(&mut self) -> Result<Value, Option<u16>> {
        loop {
            let Ok(message) = tokio::time::timeout(PATIENCE, self.stream.next()).await else {
                return Err(Some(NOTHING_CAME));
            };
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(frame)))) => return Err(Some(frame.code.into())),
                Some(Ok(Message::Close(None))) => return Err(Some(1005)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    pub async fn begin(&mut self, tag: &str, payload: &Value) -> Value {
        let id = Value::from(self.next_id.to_string());
        self.next_id += 1;
        self.send(&json!({"_tag": "Request", "id": id, "tag": tag, "payload": payload, "headers": []}))
            .await;
        id
    }

    /// Calls and waits for the exit; chunks that come meanwhile are kept.
    pub async fn call(&mut self, tag: &str, payload: &Value) -> Value {
        let id = self.begin(tag, payload).await;
        loop {
            let frame = self.receive().await.expect("the socket stays open");
            if frame["_tag"] == "Exit" && frame["requestId"] == id {
                return frame["exit"].clone();
            }
            self.kept.push(frame);
        }
    }

    pub async fn command(&mut self, command: &Value) -> Value {
        self.call("orchestration.dispatchCommand", command).await
    }

    /// The values of the next chunk, acknowledged.
    pub async fn chunk(&mut self) -> Vec<Value> {
        loop {
            let frame = self.next().await.expect("the socket stays open");
            if frame["_tag"] != "Chunk" {
                continue;
            }
            self.send(&json!({"_tag": "Ack", "requestId": frame["requestId"]}))
                .await;
            return frame["values"].as_array().unwrap().clone();
        }
    }

    /// Acknowledges chunks until a value of one fits; tells all values up to then.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let values = self.chunk().await;
            let found = values.iter().any(&fits);
            seen.extend(values);
            if found {
                return seen;
            }
        }
    }

    pub async fn close(mut self) {
        let _ = self.stream.close(None).await;
    }
}
