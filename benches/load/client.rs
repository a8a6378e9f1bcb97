//! A small MCP client over one kept-alive HTTP connection. It shares the processors with what is measured, so it does next to nothing:
//! each request is one write of bytes made beforehand, and of an answer only the head's framing is looked at.
//!
//! It speaks revision 2026-07-28, which needs no session, and hands back the time at which the answer's first byte came.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REVISION: &str = "2026-07-28";

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    /// What all requests of the connection begin with.
    head: String,
    /// What was read and belongs to no answer yet.
    read: BytesMut,
}

/// A tool call, rendered once and sent many times.
#[derive(Clone)]
pub(crate) struct Call {
    /// The headers that depend on the call, an empty line, and the body.
    rest: Bytes,
}

/// What came back.
pub(crate) struct Answer {
    /// When the first byte of the body came.
    pub(crate) first_byte: Instant,
    /// The JSON-RPC message.
    pub(crate) message: Bytes,
}

/// How an answer's body ends.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
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
        })
        .to_string();
        let length = body.len();
        Self {
            rest: format!("mcp-name: {name}\r\ncontent-length: {length}\r\n\r\n{body}").into(),
        }
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut head = String::from("POST /mcp HTTP/1.1\r\n");
        for (name, value) in [
            ("host", &*address.to_string()),
            ("authorization", &format!("Bearer {token}")),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", REVISION),
            ("mcp-method", "tools/call"),
        ] {
            write!(head, "{name}: {value}\r\n")?;
        }
        Ok(Self {
            stream,
            head,
            read: BytesMut::new(),
        })
    }

    /// Calls a tool and reads its whole answer.
    pub(crate) async fn call(&mut self, call: &Call) -> anyhow::Result<Answer> {
        let mut request = Vec::with_capacity(self.head.len() + call.rest.len());
        request.extend_from_slice(self.head.as_bytes());
        request.extend_from_slice(&call.rest);
        self.stream.write_all(&request).await?;
        let (is_success, framing) = self.head().await?;
        if self.read.is_empty() && !matches!(framing, Framing::Length(0)) {
            self.more().await?;
        }
        let first_byte = Instant::now();
        let message = match framing {
            Framing::Length(length) => self.exactly(length).await?,
            Framing::Chunked => self.chunks().await?,
        };
        anyhow::ensure!(is_success, "the call failed: {}", String::from_utf8_lossy(&message));
        Ok(Answer { first_byte, message })
    }

    /// Reads the head of an answer: whether it is a success, and where its body ends.
    async fn head(&mut self) -> anyhow::Result<(bool, Framing)> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = std::str::from_utf8(&head)?;
        let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let field = |wanted: &str| {
            let mut fields = fields.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(name, value)| name.eq_ignore_ascii_case(wanted).then(|| value.trim()))
        };
        let framing = match field("content-length") {
            Some(length) => Framing::Length(length.parse()?),
            None if field("transfer-encoding") == Some("chunked") => Framing::Chunked,
            None => anyhow::bail!("an answer without an end: {head}"),
        };
        Ok((status.starts_with("HTTP/1.1 2"), framing))
    }

    /// Reads a body that comes in chunks.
    async fn chunks(&mut self) -> anyhow::Result<Bytes> {
        let mut body = Vec::new();
        loop {
            let size = self.until(b"\r\n").await?;
            let size = usize::from_str_radix(std::str::from_utf8(&size)?.trim(), 16).context("a chunk's size")?;
            let chunk = self.exactly(size + 2).await?;
            if size == 0 {
                return Ok(body.into());
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    /// The bytes up to `end`, which is taken off.
    async fn until(&mut self, end: &[u8]) -> anyhow::Result<Bytes> {
        let mut looked_at = 0;
        loop {
            let found = self.read[looked_at..].windows(end.len()).position(|bytes| bytes == end);
            if let Some(at) = found {
                let bytes = self.read.split_to(looked_at + at).freeze();
                self.read.advance(end.len());
                return Ok(bytes);
            }
            looked_at = self.read.len().saturating_sub(end.len() - 1);
            self.more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> anyhow::Result<Bytes> {
        while self.read.len() < length {
            self.more().await?;
        }
        Ok(self.read.split_to(length).freeze())
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        self.read.reserve(8 * 1024);
        let count = self.stream.read_buf(&mut self.read).await?;
        anyhow::ensure!(count > 0, "the gateway closed the connection");
        Ok(())
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
