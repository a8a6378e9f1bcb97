//! Notices that a client hung up: hyper then drops the response, or its future, before the end.
//!
//! rmcp tells a handler of it only in the newest revision. Here each call gets a [`Fate`] beside its request, which its tool looks at in every
//! revision. Nothing is cancelled here.
//!
//! hyper has taken an answer to its end before the client has read it, or even before the server has noticed that the client is gone. Where
//! it matters (a dispatch that its client might send again), the answer counts as read only after the connection has shown no contrary sign.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::Method;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::line::Line;
use super::wire::is_socket;
use crate::mcp::{Fate, Reader, TELLS_HEADER};

pub(super) async fn pass<F>(mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    // Other methods carry no call: what a resumed stream's reader does is seen where the stream is made.
    if request.method() != Method::POST {
        return next(request).await;
    }
    let fate = Fate::default();
    let reader = Some(fate.reader());
    let line = request.extensions().get::<Arc<Line>>().cloned();
    let tells = request.headers().contains_key(TELLS_HEADER) && is_socket(&request);
    request.extensions_mut().insert(fate);
    let response = next(request).await;
    response.map(|body| {
        Body::new(Heard {
            body,
            reader,
            line,
            tells,
            in_one_breath: false,
        })
    })
}

/// A body that knows whether it was read to its end.
struct Heard {
    body: Body,
    /// There until the end.
    reader: Option<Reader>,
    line: Option<Arc<Line>>,
    /// The client will tell whether it read it.
    tells: bool,
    /// Nothing had to be waited for since the last frame: what comes now is written together with it.
    in_one_breath: bool,
}

impl Heard {
    fn finished(&mut self) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        match &self.line {
            Some(line) if self.tells && reader.is_to_be_sure() => {
                let watching = line.watch();
                tokio::spawn(async move {
                    if watching.was_told().await {
                        reader.finished();
                    }
                });
            }
            // Of a client that reads an answer and leaves before the stream's end has come, nothing can be told: it resets as well.
            Some(line) if self.in_one_breath && reader.is_to_be_sure() => {
                let watching = line.watch();
                tokio::spawn(async move {
                    let Some(later) = watching.was_read().await else { return };
                    reader.finished();
                    if later.was_reset().await {
                        reader.missed();
                    }
                });
            }
            Some(_) | None => reader.finished(),
        }
    }
}

impl HttpBody for Heard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Pending => self.in_one_breath = false,
            Poll::Ready(Some(Ok(_))) => {
                self.in_one_breath = true;
                // hyper does not ask again after a frame that it knows to be the last.
                if self.body.is_end_stream() {
                    self.finished();
                }
            }
            Poll::Ready(Some(Err(_))) => {}
            Poll::Ready(None) => self.finished(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // An empty body is never asked for a frame.
        if self.body.is_end_stream() {
            self.finished();
        }
    }
}
