//! The clock that runs while a connection waits for a request's head, so that half a head does not hold a connection for ever.
//!
//! hyper starts its own for every head, and as soon as the connection may take one: on a connection that is kept for later it would run while
//! there is no request at all. Here that wait has a longer time of its own, and the head's begins with its first byte.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

use super::line::Line;
use super::settings::Connections;

/// One connection's clock, as hyper asks for it.
pub(super) struct HeadClock {
    pub(super) line: Arc<Line>,
    pub(super) limits: Connections,
}

impl Timer for HeadClock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Plain(Box::pin(tokio::time::sleep(duration))))
    }

    // Only heads are timed in HTTP/1: the deadline is the head's, counted from now.
    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        let silence = if self.line.requests() == 0 {
            self.limits.head_within
        } else {
            self.limits.idle_within
        };
        Box::pin(HeadSleep {
            sleep: Box::pin(tokio::time::sleep(silence)),
            head_within: self.limits.head_within,
            reads_before: self.line.reads(),
            begun: false,
            line: Arc::clone(&self.line),
        })
    }
}

struct Plain(Pin<Box<tokio::time::Sleep>>);

impl Future for Plain {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for Plain {}

/// Ends when the head did not come in time. hyper polls it after each read that did not complete the head.
struct HeadSleep {
    sleep: Pin<Box<tokio::time::Sleep>>,
    head_within: Duration,
    line: Arc<Line>,
    reads_before: u64,
    /// The head's first byte is there.
    begun: bool,
}

impl Future for HeadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.begun && self.line.reads() != self.reads_before {
            self.begun = true;
            let deadline = tokio::time::Instant::now() + self.head_within;
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadSleep {}
