//! The thin shell around a session: it opens the WebSocket, moves text between it and the deterministic core, and gives the rest of
//! `machine/` a handle to call and subscribe with.
//!
//! It decides nothing: ids, acks, pings, deadlines and ends are the core's ([`super::session`]). It must never show the ticket that
//! T3 wants in the URL: the URL is built in the connect step and lives nowhere else. Only `machine/` uses it; a session that ended
//! is never revived, a new one is connected with a new ticket.

mod connect;
mod driver;
mod heard;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::MachineError;
use super::http::{HttpClient, Ticket};
use super::session::{CallError, MAX_CALLS, MAX_UNACKED, Purpose, READ_LIMIT, Subscription};
use driver::{Driver, Order};
use heard::Heard;
pub use stream::{StreamEnd, ValueStream};

/// The largest message taken from T3 where nothing else is configured: a shell row carries its last message whole, and a whole shell
/// of many of them comes in one message.
pub const FRAME_LIMIT: usize = 64 * 1024 * 1024;

/// What a socket is told at its start.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// The largest message taken from T3, in bytes.
    pub frame_limit: usize,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            frame_limit: FRAME_LIMIT,
        }
    }
}

/// A live session over one socket. Clones share it; when the last one and the last [`ValueStream`] are gone, it closes.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    orders: Orders,
    /// One a call in flight: what waits here would otherwise pile up in the queue of orders.
    permits: Arc<Semaphore>,
    end: watch::Receiver<Option<SessionEnd>>,
    heard: Heard,
}

/// Why a session ended, fit for a person; never a URL with a ticket.
#[derive(Clone, Debug)]
pub struct SessionEnd {
    /// What happened.
    pub reason: String,
}

impl SessionHandle {
    /// Connects (5 s) and upgrades (15 s). The session ends when the socket does, when `stop` is cancelled, or when nobody holds it.
    pub async fn connect(
        http: &HttpClient,
        ticket: &Ticket,
        options: &SocketOptions,
        stop: CancellationToken,
    ) -> Result<Self, MachineError> {
        let socket = connect::connect(http, ticket, options).await?;
        let (sender, orders) = mpsc::unbounded_channel();
        let (ended, end) = watch::channel(None);
        let permits = Arc::new(Semaphore::new(MAX_CALLS));
        let driver = Driver::new(http.machine(), options, orders);
        let closing = Arc::clone(&permits);
        let heard = socket.heard.clone();
        tokio::spawn(async move {
            let end = driver.run(socket, stop).await;
            tracing::debug!(reason = %end.reason, "the session ended");
            closing.close();
            ended.send_replace(Some(end));
        });
        Ok(Self {
            orders: Orders {
                sender,
                next: Arc::default(),
            },
            permits,
            end,
            heard,
        })
    }

    /// Reads: at most 15 s, and interrupted when the future is dropped. Turn its error into a [`MachineError`] by
    /// [`CallError::for_read`].
    pub async fn call(&self, tag: &str, payload: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
        self.ask(tag, payload, Purpose::Read, READ_LIMIT).await
    }

    /// Changes something: never interrupted, also when the future is dropped. [`CallError::for_command`] says what an end means.
    pub async fn command(
        &self,
        tag: &str,
        payload: Box<RawValue>,
        within: Duration,
    ) -> Result<Box<RawValue>, CallError> {
        self.ask(tag, payload, Purpose::Command, within).await
    }

    /// Subscribes. The next chunk is asked of T3 only when the one before was taken, so a slow reader slows T3, not memory.
    pub async fn subscribe(&self, subscription: Subscription) -> Result<ValueStream, CallError> {
        let permit = self.permit(READ_LIMIT).await?;
        let key = self.orders.key();
        // Room for every chunk that the core lets lie, and for the end.
        let (sender, deliveries) = mpsc::channel(MAX_UNACKED + 1);
        let stream = ValueStream::new(self.orders.clone(), key, deliveries);
        let order = Order::Subscribe {
            key,
            subscription,
            sender,
            permit,
        };
        if self.orders.send(order) {
            Ok(stream)
        } else {
            Err(self.gone())
        }
    }

    /// How long ago the last bytes came.
    pub fn silent_for(&self) -> Duration {
        self.heard.silent_for()
    }

    /// Waits for the session's end, and says why.
    pub async fn closed(&self) -> SessionEnd {
        let mut end = self.end.clone();
        let found = end.wait_for(Option::is_some).await;
        found.ok().and_then(|end| end.clone()).unwrap_or_else(|| SessionEnd {
            reason: "the session's task is gone".into(),
        })
    }

    async fn ask(
        &self,
        tag: &str,
        payload: Box<RawValue>,
        purpose: Purpose,
        within: Duration,
    ) -> Result<Box<RawValue>, CallError> {
        let permit = self.permit(within).await?;
        let key = self.orders.key();
        let (reply, answer) = oneshot::channel();
        let order = Order::Call {
            key,
            tag: tag.to_owned(),
            payload,
            purpose,
            within,
            reply,
            permit,
        };
        if !self.orders.send(order) {
            return Err(self.gone());
        }
        let guard = CancelOnDrop {
            orders: &self.orders,
            key,
            armed: purpose == Purpose::Read,
        };
        let answer = answer.await;
        guard.disarm();
        // Without an answer the driver was torn down by its runtime: nobody knows how far the call went.
        answer.unwrap_or_else(|_| {
            Err(CallError::Lost {
                sent: true,
                reason: "the session's task is gone".into(),
            })
        })
    }

    async fn permit(&self, within: Duration) -> Result<OwnedSemaphorePermit, CallError> {
        let permit = tokio::time::timeout(within, Arc::clone(&self.permits).acquire_owned()).await;
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(self.gone()),
            Err(_elapsed) => Err(CallError::Busy { open: MAX_CALLS }),
        }
    }

    fn gone(&self) -> CallError {
        let end = self.end.borrow();
        CallError::Lost {
            sent: false,
            reason: end
                .as_ref()
                .map_or_else(|| "the session is closing".into(), |end| end.reason.clone()),
        }
    }
}

/// The way to the driver. Unbounded, since what is dropped must be able to say so without waiting; permits bound the calls, and each
/// call sends a few orders at most.
#[derive(Clone, Debug)]
struct Orders {
    sender: mpsc::UnboundedSender<Order>,
    next: Arc<AtomicU64>,
}

impl Orders {
    /// A name for a call before the core has given it one.
    fn key(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&self, order: Order) -> bool {
        self.sender.send(order).is_ok()
    }
}

/// Interrupts a read that nobody waits for any more.
struct CancelOnDrop<'a> {
    orders: &'a Orders,
    key: u64,
    armed: bool,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.orders.send(Order::Cancel { key: self.key });
        }
    }
}
