//! A stream that notes whether bytes came in: a message of many megabytes over a slow line is no silence, though no message ends.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether bytes came since it was last asked, and when the last ones came.
#[derive(Clone, Debug)]
pub(super) struct Heard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fresh: AtomicBool,
    last: Mutex<Instant>,
}

impl Heard {
    /// Asks, and forgets.
    pub(super) fn take(&self) -> bool {
        self.0.fresh.swap(false, Ordering::Relaxed)
    }

    /// How long ago the last bytes came; at first, how long ago the line was opened.
    pub(super) fn silent_for(&self) -> Duration {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.elapsed()
    }

    fn handle_bytes(&self) {
        self.0.fresh.store(true, Ordering::Relaxed);
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// A stream that notes what it reads.
#[derive(Debug)]
pub(super) struct Listening<S> {
    inner: S,
    heard: Heard,
}

impl<S> Listening<S> {
    pub(super) fn new(inner: S) -> (Self, Heard) {
        let heard = Heard(Arc::new(Inner {
            fresh: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
        }));
        let listening = Self {
            inner,
            heard: heard.clone(),
        };
        (listening, heard)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.handle_bytes();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
