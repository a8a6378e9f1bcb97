//! The thin shell around a session: it opens the WebSocket, moves text between it and the deterministic core, and gives the rest of
//! `machine/` a handle to call and subscribe with.
//!
//! It decides nothing: ids, acks, pings, deadlines and ends are the core's ([`super::session`]). It must never show the ticket that
//! T3 wants in the URL: the URL is built in [`SessionHandle::connect`] and lives nowhere else. Only `machine/` uses it; a session
//! that ended is never revived, a new one is connected with a new ticket.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::MachineError;
use super::http::{HttpClient, Ticket};
use super::session::{CallError, Subscription};

/// What a socket is told at its start.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// The largest message taken from T3, in bytes.
    pub frame_limit: usize,
}

/// A live session over one socket. Clones share it; when the last one and the last [`ValueStream`] are gone, it closes.
#[derive(Clone, Debug)]
pub struct SessionHandle {}

// STAND-IN bodies; the signatures stay.
#[allow(clippy::todo, clippy::unused_async, unused_variables)]
impl SessionHandle {
    /// Connects (5 s) and upgrades (15 s). The session ends when the socket does, when `stop` is cancelled, or when nobody holds it.
    pub async fn connect(
        http: &HttpClient,
        ticket: &Ticket,
        options: &SocketOptions,
        stop: CancellationToken,
    ) -> Result<Self, MachineError> {
        todo!()
    }

    /// Reads: at most 15 s, and interrupted when the future is dropped. Turn its error into a [`MachineError`] by
    /// [`CallError::for_read`].
    pub async fn call(&self, tag: &str, payload: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
        todo!()
    }

    /// Changes something: never interrupted, also when the future is dropped. [`CallError::for_command`] says what an end means.
    pub async fn command(
        &self,
        tag: &str,
        payload: Box<RawValue>,
        within: Duration,
    ) -> Result<Box<RawValue>, CallError> {
        todo!()
    }

    /// Subscribes. The next chunk is asked of T3 only when the one before was taken, so a slow reader slows T3, not memory.
    pub async fn subscribe(&self, subscription: Subscription) -> Result<ValueStream, CallError> {
        todo!()
    }

    /// Waits for the session's end, and says why.
    pub async fn closed(&self) -> SessionEnd {
        todo!()
    }
}

/// Why a session ended, fit for a person; never a URL with a ticket.
#[derive(Clone, Debug)]
pub struct SessionEnd {
    /// What happened.
    pub reason: String,
}

/// The values of a subscription. Dropping it interrupts the stream.
#[derive(Debug)]
pub struct ValueStream {}

#[allow(clippy::todo, clippy::unused_async, unused_variables)]
impl ValueStream {
    /// The values of the next chunk, one at least; an error is the end, and every later call repeats it. Cancel-safe.
    pub async fn next_chunk(&mut self) -> Result<Vec<Box<RawValue>>, StreamEnd> {
        todo!()
    }

    /// Everything up to this sequence was applied ([`Subscription::resume_after`]).
    pub fn resume_after(&mut self, sequence: Option<u64>) {
        todo!()
    }
}

/// The end of a stream, with what to subscribe to in the next session.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    /// Why; none where the server ended it as one that is complete.
    pub error: Option<CallError>,
    /// The same stream, from where it was applied to.
    pub resume: Subscription,
}
