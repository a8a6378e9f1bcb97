//! A small MCP client over one kept-alive HTTP connection, light enough not to be what is measured.
//!
//! It speaks revision 2026-07-28, which needs no session, and hands back the time at which the answer's first byte came.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

const REVISION: &str = "2026-07-28";

/// One connection.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: String,
}

/// A tool call, rendered once and sent many times.
#[derive(Clone)]
pub(crate) struct Call {
    name: String,
    body: Bytes,
}

/// What came back.
pub(crate) struct Answer {
    /// When the first byte of the body came.
    pub(crate) first_byte: Instant,
    /// The JSON-RPC message.
    pub(crate) message: Bytes,
}

impl Call {
    pub(crate) fn tool(name: &str, arguments: &Value) -> Self {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": name, "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": REVISION,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
                },
            },
        });
        Self {
            name: name.to_owned(),
            body: Bytes::from(body.to_string()),
        }
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: address.to_string(),
            bearer: format!("Bearer {token}"),
        })
    }

    /// Calls a tool and reads its whole answer.
    pub(crate) async fn call(&mut self, call: &Call) -> anyhow::Result<Answer> {
        let request = hyper::Request::post("/mcp")
            .header("host", &self.host)
            .header("authorization", &self.bearer)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", &call.name)
            .body(Full::new(call.body.clone()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut first_byte = None;
        let mut message = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Some(data) = frame?.data_ref() {
                first_byte.get_or_insert_with(Instant::now);
                message.extend_from_slice(data);
            }
        }
        anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&message));
        Ok(Answer {
            first_byte: first_byte.unwrap_or_else(Instant::now),
            message: message.into(),
        })
    }
}

impl Answer {
    /// The tool's structured content, from a plain JSON body or from the last event of a stream.
    pub(crate) fn content(&self) -> anyhow::Result<Value> {
        let text = std::str::from_utf8(&self.message)?;
        let json = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("data:"))
            .unwrap_or(text);
        let message: Value = serde_json::from_str(json.trim())?;
        let result = &message["result"];
        anyhow::ensure!(
            result["isError"] != true && result.is_object(),
            "the call failed: {message}"
        );
        Ok(result["structuredContent"].clone())
    }
}

/// How long calls took.
#[derive(Default)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there were a second.
    pub(crate) fn per_second(&self, span: Duration) -> f64 {
        u32::try_from(self.0.len()).map_or(f64::NAN, f64::from) / span.as_secs_f64()
    }

    /// Prints their row of the table.
    pub(crate) fn print(&mut self, what: &str) {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        println!("| {what} | p50 {p50:.1} ms, p99 {p99:.1} ms |");
    }

    /// The duration that `percent` of the calls did not exceed, in milliseconds.
    pub(crate) fn percentile(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let index = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0
            .get(index)
            .map_or(f64::NAN, |duration| duration.as_secs_f64() * 1_000.0)
    }
}
