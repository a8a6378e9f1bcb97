//! Notices that a client hung up: hyper then drops the response, or its future, before the end.
//!
//! rmcp tells a handler of it only in the newest revision. Here each call gets a [`Fate`] beside its request, which its tool looks at in every
//! revision. Nothing is cancelled here.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::Method;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::mcp::{Fate, Reader};

pub(super) async fn pass<F>(mut request: Request, next: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    // Other methods carry no call: what a resumed stream's reader does is seen where the stream is made.
    if request.method() != Method::POST {
        return next(request).await;
    }
    let fate = Fate::default();
    let reader = fate.reader();
    request.extensions_mut().insert(fate);
    let response = next(request).await;
    response.map(|body| Body::new(Heard { body, reader }))
}

/// A body that knows whether it was read to its end.
struct Heard {
    body: Body,
    reader: Reader,
}

impl HttpBody for Heard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // hyper does not ask again after a frame that it knows to be the last.
        if matches!(frame, Poll::Ready(None)) || matches!(frame, Poll::Ready(Some(Ok(_)))) && self.body.is_end_stream()
        {
            self.reader.finished();
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
            self.reader.finished();
        }
    }
}
