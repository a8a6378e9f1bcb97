//! One connection, seen from outside of HTTP: what came in, how it ended, and hence whether the client read an answer.
//!
//! An answer that the kernel took is not one that the client has read: a client that hung up a moment before, or without reading, starts the
//! same work again over another connection. It shows itself by a reset: a kernel sends one when data comes for a socket that was closed, or
//! when a socket is closed over data that nobody read. A next request on the same connection is the contrary proof. It decides nothing about
//! calls; `hang_up` asks it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::timeout;

use super::wire::Wire;

/// How long an equal call has to wait for a reset that shows that an answer was not read: the way there and back, on slow networks too. A
/// client whose reset the network swallows counts as one that has read.
const SHOWS_WITHIN: Duration = Duration::from_millis(250);

/// How long after an answer a reset still shows that it was not read.
const LOOKED_ON_FOR: Duration = Duration::from_mins(2);

/// How long a client that tells whether it read an answer may take to do so.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// How long a connection is kept at a stop for the sign that its answer was read.
const HEARD_OUT_WITHIN: Duration = Duration::from_secs(1);

/// What was seen of a connection.
#[derive(Debug)]
pub(super) struct Line {
    reads: AtomicU64,
    seen: watch::Sender<Seen>,
    /// Who waits to learn whether an answer was read.
    watching: AtomicUsize,
    /// The socket, kept for them after the connection's end: a reset may still come.
    left: Mutex<Option<Wire>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// How many requests began.
    requests: u64,
    /// The client reset it.
    reset: bool,
    /// It is over.
    closed: bool,
}

impl Line {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            reads: AtomicU64::new(0),
            seen: watch::Sender::new(Seen::default()),
            watching: AtomicUsize::new(0),
            left: Mutex::new(None),
        })
    }

    /// How often something came in.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// How many requests began.
    pub(super) fn requests(&self) -> u64 {
        self.seen.borrow().requests
    }

    /// A request's head is there.
    pub(super) fn handle_request(&self) {
        self.seen.send_modify(|seen| seen.requests += 1);
    }

    /// Looks from now on for signs of whether the answer to the latest request is read.
    pub(super) fn watch(self: &Arc<Self>) -> Watching {
        self.watching.fetch_add(1, Ordering::AcqRel);
        Watching {
            requests: self.requests(),
            seen: self.seen.subscribe(),
            line: Arc::clone(self),
        }
    }

    /// Waits until nobody waits any more to learn whether an answer was read, but not for ever.
    pub(super) async fn heard_out(&self) {
        let mut seen = self.seen.subscribe();
        let quiet = async { while self.watching.load(Ordering::Acquire) > 0 && seen.changed().await.is_ok() {} };
        // At the end of the wait the sign counts as missing.
        let _ = timeout(HEARD_OUT_WITHIN, quiet).await;
    }

    fn handle_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    fn handle_reset(&self) {
        self.seen.send_modify(|seen| seen.reset = true);
    }

    fn handle_closed(&self, stream: Wire) {
        self.seen.send_modify(|seen| seen.closed = true);
        if self.watching.load(Ordering::Acquire) > 0 {
            *self.left() = Some(stream);
        }
    }

    fn left(&self) -> MutexGuard<'_, Option<Wire>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody waits to learn whether an answer was read.
#[derive(Debug)]
pub(super) struct Watching {
    line: Arc<Line>,
    seen: watch::Receiver<Seen>,
    requests: u64,
}

impl Watching {
    /// Whether it was, as far as can be known soon; and then who can wait for a sign that it was not after all.
    pub(super) async fn was_read(mut self) -> Option<Later> {
        let before = self.requests;
        let sign = self.seen.wait_for(|seen| seen.requests > before || seen.reset);
        let read = match timeout(SHOWS_WITHIN, sign).await {
            Ok(Ok(seen)) => seen.requests > before,
            Ok(Err(_)) | Err(_) => self.line.left().as_ref().is_none_or(|stream| !stream.has_failed()),
        };
        read.then(|| Later {
            seen: self.seen.clone(),
            requests: before,
        })
    }

    /// The same of a client that said beforehand that it will tell: by another request, or by closing the connection without one.
    pub(super) async fn was_told(mut self) -> bool {
        let before = self.requests;
        let sign = self
            .seen
            .wait_for(|seen| seen.requests > before || seen.reset || seen.closed);
        matches!(timeout(TOLD_WITHIN, sign).await, Ok(Ok(seen)) if seen.requests > before)
    }
}

/// Somebody who looks on after an answer was taken to be read.
#[derive(Debug)]
pub(super) struct Later {
    seen: watch::Receiver<Seen>,
    requests: u64,
}

impl Later {
    /// Whether the client resets the connection before it asks for anything else on it: a client that hung for a while and was given up by
    /// its user closes its socket over the answer.
    pub(super) async fn was_reset(mut self) -> bool {
        let before = self.requests;
        let sign = self
            .seen
            .wait_for(|seen| seen.requests > before || seen.reset || seen.closed);
        matches!(timeout(LOOKED_ON_FOR, sign).await, Ok(Ok(seen)) if seen.reset && seen.requests == before)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.line.watching.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.line.left().take();
            self.line.seen.send_modify(|_| ());
        }
    }
}

/// A connection's socket, whose doings its [`Line`] tells.
#[derive(Debug)]
pub(super) struct Socket {
    /// There until it is dropped.
    stream: Option<Wire>,
    line: Arc<Line>,
}

impl Socket {
    pub(super) fn new(stream: Wire, line: Arc<Line>) -> Self {
        Self {
            stream: Some(stream),
            line,
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Wire>> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(stream))
    }

    fn heard<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(result, Poll::Ready(Err(_))) {
            self.line.handle_reset();
        }
        result
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (filled, room) = (buf.filled().len(), buf.remaining());
        let result = self.stream()?.poll_read(cx, buf);
        if matches!(result, Poll::Ready(Ok(()))) {
            if buf.filled().len() > filled {
                self.line.handle_read();
            } else if room > 0 && self.stream.as_ref().is_some_and(Wire::has_failed) {
                // After the client's end of the stream a read no longer tells that it also reset the connection.
                self.line.handle_reset();
            }
        }
        self.heard(result)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write(cx, buf);
        self.heard(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write_vectored(cx, bufs);
        self.heard(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that the client has closed already cannot be shut down: that is no sign of anything.
        self.stream()?.poll_shutdown(cx)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.line.handle_closed(stream);
        }
    }
}
