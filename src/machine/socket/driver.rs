//! The task between a socket and the core: it reads the clock, moves text, and hands events to whoever waits for them.
//!
//! Reading, writing and waiting go on side by side, so that a line that takes nothing delays neither answers nor deadlines.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::{Sink, SinkExt, StreamExt};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::CancellationToken;

use super::connect::Opened;
use super::{SessionEnd, SocketOptions};
use crate::machine::session::{CallError, CallId, Event, Purpose, Session, Subscription};
use crate::protocol::Untrusted;

/// How long a goodbye may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// What is said of a connection that just ended.
const NO_GOODBYE: &str = "the connection ended without a goodbye (1006)";

/// What a handle or a stream wants.
#[derive(Debug)]
pub(super) enum Order {
    /// A call.
    Call {
        key: u64,
        tag: String,
        payload: Box<RawValue>,
        purpose: Purpose,
        within: Duration,
        reply: Reply,
        permit: OwnedSemaphorePermit,
    },
    /// A stream.
    Subscribe {
        key: u64,
        subscription: Subscription,
        sender: mpsc::Sender<Delivery>,
        permit: OwnedSemaphorePermit,
    },
    /// A chunk was taken by its reader.
    Taken { key: u64 },
    /// Nobody wants it any more.
    Cancel { key: u64 },
}

type Reply = oneshot::Sender<Result<Box<RawValue>, CallError>>;

/// What a stream's reader gets.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Values, one at least.
    Chunk(Vec<Box<RawValue>>),
    /// Nothing more; none where the server is done.
    End(Option<CallError>),
}

/// Who waits for a call, and the permit that it frees at its end.
struct Waiting {
    key: u64,
    whom: Whom,
    _permit: OwnedSemaphorePermit,
}

enum Whom {
    Caller(Reply),
    Reader(mpsc::Sender<Delivery>),
}

/// The task's state.
pub(super) struct Driver {
    machine: String,
    frame_limit: usize,
    session: Session,
    orders: mpsc::UnboundedReceiver<Order>,
    waiting: HashMap<CallId, Waiting>,
    calls: HashMap<u64, CallId>,
}

impl Driver {
    pub(super) fn new(machine: &str, options: &SocketOptions, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        Self {
            machine: machine.to_owned(),
            frame_limit: options.frame_limit,
            session: Session::new(now()),
            orders,
            waiting: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    /// Runs until the session is dead, and says why it is.
    pub(super) async fn run(mut self, opened: Opened, stop: CancellationToken) -> SessionEnd {
        let Opened { socket, heard } = opened;
        let (mut sink, mut incoming) = socket.split();
        let mut next: Option<Message> = None;
        let mut unflushed = false;
        let reason = loop {
            if let Some(reason) = self.deliver() {
                break reason;
            }
            if next.is_none() {
                next = self.session.poll_transmit().map(Message::text);
            }
            let due = self.session.poll_timeout().unwrap_or_else(now);
            tokio::select! {
                () = stop.cancelled() => self.session.handle_closed("it was closed on our side"),
                message = incoming.next() => self.handle_message(message),
                order = self.orders.recv() => match order {
                    Some(order) => self.handle_order(order),
                    None => self.session.handle_closed("nobody needed it any more"),
                },
                written = poll_fn(|cx| poll_write(&mut sink, next.is_some(), cx)), if next.is_some() || unflushed => {
                    let written = written.and_then(|()| match next.take() {
                        Some(message) => sink.start_send_unpin(message).map(|()| true),
                        None => Ok(false),
                    });
                    unflushed = self.handle_written(written);
                }
                () = sleep_until(due.into()) => {
                    if heard.take() {
                        self.session.handle_activity(now());
                    }
                    self.session.handle_timeout(now());
                }
            }
        };
        self.refuse_the_rest(&reason);
        say_goodbye(&mut sink).await;
        SessionEnd { reason }
    }

    fn handle_message(&mut self, message: Option<Result<Message, tungstenite::Error>>) {
        match message {
            Some(Ok(Message::Text(text))) => self.session.handle_frame(now(), text.as_str()),
            // T3 sends text; the same frames in binary messages are as good.
            Some(Ok(Message::Binary(bytes))) => match std::str::from_utf8(&bytes) {
                Ok(text) => self.session.handle_frame(now(), text),
                Err(_) => self.lost("it sent bytes that are no text"),
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => self.session.handle_activity(now()),
            Some(Ok(Message::Close(frame))) => self.lost(&closed(frame)),
            Some(Err(error)) => {
                let problem = self.problem(&error);
                self.lost(&problem);
            }
            None => self.lost(NO_GOODBYE),
        }
    }

    fn handle_order(&mut self, order: Order) {
        match order {
            Order::Call {
                key,
                tag,
                payload,
                purpose,
                within,
                reply,
                permit,
            } => {
                let call = self.session.request(now(), &tag, payload, purpose, within);
                self.enter(key, call, Whom::Caller(reply), permit);
            }
            Order::Subscribe {
                key,
                subscription,
                sender,
                permit,
            } => {
                let call = self.session.subscribe(now(), &subscription);
                self.enter(key, call, Whom::Reader(sender), permit);
            }
            Order::Taken { key } => {
                if let Some(call) = self.calls.get(&key) {
                    self.session.acknowledge(*call);
                }
            }
            Order::Cancel { key } => {
                if let Some(call) = self.calls.get(&key) {
                    self.session.interrupt(*call);
                }
            }
        }
    }

    fn enter(&mut self, key: u64, call: Result<CallId, CallError>, whom: Whom, permit: OwnedSemaphorePermit) {
        match call {
            Ok(call) => {
                self.calls.insert(key, call);
                let waiting = Waiting {
                    key,
                    whom,
                    _permit: permit,
                };
                self.waiting.insert(call, waiting);
            }
            Err(error) => whom.end(Err(error)),
        }
    }

    /// A step of writing was done; whether something is left to flush.
    fn handle_written(&mut self, written: Result<bool, tungstenite::Error>) -> bool {
        written.unwrap_or_else(|error| {
            let problem = self.problem(&error);
            self.lost(&problem);
            false
        })
    }

    /// Hands out what happened; the reason when the session is dead.
    fn deliver(&mut self) -> Option<String> {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Answered { call, answer } => self.leave(call, answer),
                Event::Ended { call, error } => {
                    self.leave(call, error.map_or_else(|| Ok(RawValue::NULL.to_owned()), Err));
                }
                Event::Chunk { call, values } => {
                    let Some(Waiting {
                        whom: Whom::Reader(reader),
                        ..
                    }) = self.waiting.get(&call)
                    else {
                        continue;
                    };
                    // There is room for as many chunks as the core lets lie: it fails only for a reader that is gone.
                    if reader.try_send(Delivery::Chunk(values)).is_err() {
                        self.session.interrupt(call);
                    }
                }
                Event::Defect { defect } => {
                    let defect = Untrusted(&defect);
                    tracing::warn!(machine = %self.machine, %defect, "T3 reported a defect of the whole socket");
                }
                Event::Dead { reason } => return Some(reason),
            }
        }
        None
    }

    fn leave(&mut self, call: CallId, answer: Result<Box<RawValue>, CallError>) {
        if let Some(waiting) = self.waiting.remove(&call) {
            self.calls.remove(&waiting.key);
            waiting.whom.end(answer);
        }
    }

    /// Answers the orders that came too late: they were never sent.
    fn refuse_the_rest(&mut self, reason: &str) {
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            let error = CallError::Lost {
                sent: false,
                reason: reason.to_owned(),
            };
            match order {
                Order::Call { reply, .. } => Whom::Caller(reply).end(Err(error)),
                Order::Subscribe { sender, .. } => Whom::Reader(sender).end(Err(error)),
                Order::Taken { .. } | Order::Cancel { .. } => {}
            }
        }
    }

    fn lost(&mut self, what: &str) {
        let reason = format!("the connection to {} was lost: {what}", self.machine);
        self.session.handle_closed(&reason);
    }

    fn problem(&self, error: &tungstenite::Error) -> String {
        use tungstenite::error::{CapacityError, Error, ProtocolError};
        match error {
            Error::Capacity(CapacityError::MessageTooLong { size, .. }) => format!(
                "a message of {size} bytes came, over the limit of {} bytes: raise frame_limit_mib for this machine",
                self.frame_limit
            ),
            Error::ConnectionClosed | Error::AlreadyClosed => "it is closed".into(),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => NO_GOODBYE.into(),
            // Which of these is seen depends on whether reading or writing met the end first.
            Error::Io(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe
                        | ErrorKind::ConnectionReset
                        | ErrorKind::ConnectionAborted
                        | ErrorKind::UnexpectedEof
                ) =>
            {
                NO_GOODBYE.into()
            }
            Error::Io(error) => error.to_string(),
            Error::Capacity(_) | Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => {
                format!("what came is no WebSocket traffic ({error})")
            }
            // These belong to the handshake, and some hold a URL.
            Error::Tls(_) | Error::WriteBufferFull(_) | Error::Url(_) | Error::Http(_) | Error::HttpFormat(_) => {
                "the WebSocket broke".into()
            }
        }
    }
}

impl Whom {
    fn end(self, answer: Result<Box<RawValue>, CallError>) {
        // Whoever does not wait any more needs no answer.
        match self {
            Self::Caller(reply) => drop(reply.send(answer)),
            Self::Reader(reader) => drop(reader.try_send(Delivery::End(answer.err()))),
        }
    }
}

/// Room for the next message if there is one, else everything written so far on its way.
fn poll_write<S>(sink: &mut S, more: bool, cx: &mut Context<'_>) -> Poll<Result<(), tungstenite::Error>>
where
    S: Sink<Message, Error = tungstenite::Error> + Unpin,
{
    if more {
        sink.poll_ready_unpin(cx)
    } else {
        sink.poll_flush_unpin(cx)
    }
}

/// A server's goodbye in words; 1005 is the protocol's number for one without a number.
fn closed(frame: Option<CloseFrame>) -> String {
    match frame {
        None => "the server closed it (1005)".into(),
        Some(frame) if frame.reason.is_empty() => format!("the server closed it ({})", u16::from(frame.code)),
        Some(frame) => {
            let reason = Untrusted(frame.reason.as_str()).to_string();
            format!("the server closed it ({}: {reason})", u16::from(frame.code))
        }
    }
}

async fn say_goodbye(sink: &mut (impl Sink<Message, Error = tungstenite::Error> + Unpin)) {
    let goodbye = async {
        let frame = CloseFrame {
            code: CloseCode::Normal,
            reason: tungstenite::Utf8Bytes::default(),
        };
        sink.send(Message::Close(Some(frame))).await?;
        sink.close().await
    };
    // A line that takes no goodbye is dropped without one.
    let _ = timeout(CLOSE_LIMIT, goodbye).await;
}

/// tokio's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
