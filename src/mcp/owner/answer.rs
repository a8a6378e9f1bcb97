//! What the owner answers to a call that was passed on: heartbeats, then one result; as JSON, or as an event stream.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use rmcp::model::CallToolResult;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sse_stream::SseStream;
use tokio::time::timeout;

use super::Unanswered;

/// Far above what any tool answers.
const LARGEST: usize = 64 * 1024 * 1024;

/// An owner that says nothing for so long does not work: it sends a sign of life every 15 s.
pub(super) const SILENCE: Duration = Duration::from_mins(1);

/// What is shown of an answer that is none.
const SHOWN_CHARS: usize = 200;

/// One message of the owner.
#[derive(Deserialize)]
struct Message {
    method: Option<String>,
    params: Option<Value>,
    result: Option<CallToolResult>,
    error: Option<Value>,
}

/// Reads to the result; heartbeats go to `beat` as they come.
pub(super) async fn read<F: Future<Output = ()>>(
    response: http::Response<Incoming>,
    mut beat: impl FnMut(String) -> F,
) -> Result<CallToolResult, Unanswered> {
    let (head, body) = response.into_parts();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    if head.status != StatusCode::OK || !is_stream {
        let whole = whole(body).await?;
        if head.status != StatusCode::OK {
            return Err(refused(head.status, &whole));
        }
        return match message(&whole)? {
            Some(Said::Result(result)) => Ok(*result),
            Some(Said::Beat(_)) | None => Err(Unanswered::Refused(shown(&whole))),
        };
    }
    let mut events = SseStream::from_bytes_stream(Box::pin(frames(body)));
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| Unanswered::Broken(error.to_string()))?;
        match message(event.data.unwrap_or_default().as_bytes())? {
            Some(Said::Result(result)) => return Ok(*result),
            Some(Said::Beat(text)) => beat(text).await,
            None => {}
        }
    }
    Err(Unanswered::Broken("its stream ended without a result".to_owned()))
}

/// Reads an answer that is plain JSON.
pub(super) async fn read_json<T: DeserializeOwned>(response: http::Response<Incoming>) -> Result<T, Unanswered> {
    let (head, body) = response.into_parts();
    let whole = whole(body).await?;
    if head.status != StatusCode::OK {
        return Err(refused(head.status, &whole));
    }
    serde_json::from_slice(&whole).map_err(|error| Unanswered::Refused(format!("{error}: {}", shown(&whole))))
}

async fn whole(body: Incoming) -> Result<Bytes, Unanswered> {
    let whole = timeout(SILENCE, Limited::new(body, LARGEST).collect()).await;
    let whole = whole.map_err(|_| Unanswered::Silent)?;
    Ok(whole.map_err(|error| Unanswered::Broken(error.to_string()))?.to_bytes())
}

/// In the owner's own words, where it has some.
fn refused(status: StatusCode, body: &[u8]) -> Unanswered {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    Unanswered::Refused(match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => refusal.message,
        Err(_) => format!("{status}: {}", shown(body)),
    })
}

/// The body's frames; a silence that is too long is an error.
fn frames(body: Incoming) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(body, |mut body| async move {
        loop {
            let frame = match timeout(SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Some((Err(io::Error::other(error)), body)),
                Ok(None) => return None,
                Err(_) => return Some((Err(io::ErrorKind::TimedOut.into()), body)),
            };
            if let Ok(data) = frame.into_data() {
                return Some((Ok(data), body));
            }
        }
    })
}

enum Said {
    Beat(String),
    Result(Box<CallToolResult>),
}

fn message(text: &[u8]) -> Result<Option<Said>, Unanswered> {
    if text.is_empty() {
        return Ok(None);
    }
    let message: Message =
        serde_json::from_slice(text).map_err(|error| Unanswered::Refused(format!("{error}: {}", shown(text))))?;
    if let Some(error) = message.error {
        return Err(Unanswered::Refused(shown(error.to_string().as_bytes())));
    }
    if let Some(result) = message.result {
        return Ok(Some(Said::Result(Box::new(result))));
    }
    let is_beat = message.method.as_deref() == Some("notifications/progress");
    let text = message.params.as_ref().and_then(|params| params.get("message"));
    Ok(is_beat.then(|| Said::Beat(text.and_then(Value::as_str).unwrap_or_default().to_owned())))
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(SHOWN_CHARS).collect()
}
