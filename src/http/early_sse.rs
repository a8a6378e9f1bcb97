//! Answers a long call early: after five seconds the client gets the head of an event stream and a comment, then a comment every 15 seconds,
//! then what rmcp answers.
//!
//! rmcp sends nothing at all before the handler's first message, and clients give up after 300 s without a byte. A short call passes
//! untouched. When the client hangs up, rmcp's own future is dropped with this one's.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Interval, interval, timeout};

use super::body::WholeBody;
use super::reply::rpc_error;
use super::settings::Patience;

/// What event streams ignore and connections do not.
const COMMENT: Bytes = Bytes::from_static(b": waiting\n\n");

/// Far above what any tool answers.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

const INTERNAL_ERROR: i32 = -32603;

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

pub(super) async fn pass<F>(patience: Patience, mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response> + Send + 'static,
{
    let body = request.extensions_mut().remove::<WholeBody>();
    if request.method() != Method::POST {
        return next(request).await;
    }
    let mut answer: Answer = Box::pin(next(request));
    match timeout(patience.early_after, &mut answer).await {
        Ok(response) => response,
        Err(_) => early(answer, patience.comment_every, body),
    }
}

/// What an early stream does next.
enum Early {
    /// rmcp has not answered yet.
    Waiting(Answer, Interval, Option<WholeBody>),
    /// It has: this is its stream.
    Events(BodyDataStream),
    /// Everything is said.
    Done,
}

fn early(answer: Answer, every: Duration, body: Option<WholeBody>) -> Response {
    let events = stream::unfold(Early::Waiting(answer, interval(every), body), step);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies would keep the comments back.
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

async fn step(state: Early) -> Option<(Result<Bytes, Infallible>, Early)> {
    match state {
        Early::Waiting(mut answer, mut comments, body) => tokio::select! {
            biased;
            response = &mut answer => {
                let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
                if kind.starts_with(b"text/event-stream") {
                    next_of(response.into_body().into_data_stream()).await
                } else {
                    Some((Ok(as_event(response, body).await), Early::Done))
                }
            }
            _ = comments.tick() => Some((Ok(COMMENT), Early::Waiting(answer, comments, body))),
        },
        Early::Events(events) => next_of(events).await,
        Early::Done => None,
    }
}

async fn next_of(mut events: BodyDataStream) -> Option<(Result<Bytes, Infallible>, Early)> {
    // rmcp's bodies do not fail; one that did would end here as well.
    let bytes = events.next().await?.ok()?;
    Some((Ok(bytes), Early::Events(events)))
}

/// A JSON answer as the one event of a stream. The status has gone out, so a refusal becomes a JSON-RPC error.
async fn as_event(response: Response, request: Option<WholeBody>) -> Bytes {
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await.unwrap_or_default();
    let is_rpc = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let data = if is_rpc {
        String::from_utf8_lossy(&body).into_owned()
    } else {
        let id = request.map(|WholeBody(body)| id_of(&body)).unwrap_or_default();
        rpc_error(&id, INTERNAL_ERROR, &String::from_utf8_lossy(&body)).to_string()
    };
    Bytes::from(format!("data: {data}\n\n"))
}

fn id_of(body: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct Envelope {
        id: Value,
    }
    serde_json::from_slice::<Envelope>(body)
        .map(|envelope| envelope.id)
        .unwrap_or_default()
}
