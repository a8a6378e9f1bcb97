//! The deterministic core of a session over T3's WebSocket: numbers calls, matches answers, acks chunks, pings, and notices silence.
//!
//! It does no I/O and reads no clock: text and the time come in, text and events go out, so that every behaviour can be tested
//! frame by frame. [`super::socket`] drives it. Whatever a server sends, each call ends exactly once, and a session that is dead
//! stays dead. Connecting anew is its owner's work, and so is subscribing again: to the same [`Subscription`], from its beginning.

mod call;
mod subscription;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use crate::protocol::rpc::{ClientFrame, Exit, FrameError, RequestId, ServerFrame, defect_text};
pub use call::CallError;
pub use subscription::{Subscription, empty_object};

/// How often a `Ping` goes out, whatever else does: T3 sends nothing by itself on a quiet socket.
pub const PING_EVERY: Duration = Duration::from_secs(20);
/// How long nothing at all may come before the session is dead: three pings, since one lost pong is no proof.
pub const SILENCE_LIMIT: Duration = Duration::from_mins(1);
/// How long a read may take.
pub const READ_LIMIT: Duration = Duration::from_secs(15);
/// How long a stream's first chunk may take: it is a whole snapshot, over a slow line perhaps.
pub const FIRST_CHUNK_LIMIT: Duration = Duration::from_mins(1);
/// How many calls may be in flight.
pub const MAX_CALLS: usize = 1024;
/// How many chunks of one stream may lie here. T3 sends one and waits; a few more are forgiven, a flood is not.
pub const MAX_UNACKED: usize = 8;

/// Names a call within its session.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Ord, PartialOrd, Hash)]
pub struct CallId(u64);

/// What a call is for, which decides whether it may be interrupted when nobody waits for it any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// It changes nothing.
    Read,
    /// It may have changed something: it is never interrupted half way.
    Command,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A call ended.
    Answered {
        /// Which.
        call: CallId,
        /// How.
        answer: Result<Box<RawValue>, CallError>,
    },
    /// A stream has values. The next come once [`Session::acknowledge`] was called.
    Chunk {
        /// Which stream.
        call: CallId,
        /// The values, one at least.
        values: Vec<Box<RawValue>>,
    },
    /// A stream ended.
    Ended {
        /// Which.
        call: CallId,
        /// Why; none where the server is simply done.
        error: Option<CallError>,
    },
    /// The server could not read something, or broke: every sent call has ended with it, the socket goes on.
    Defect {
        /// What it said.
        defect: String,
    },
    /// The session is dead. Every call has ended before this, and nothing comes after it.
    Dead {
        /// Why, in words.
        reason: String,
    },
}

#[derive(Debug)]
struct Call {
    kind: Kind,
    sent: bool,
    within: Duration,
    deadline: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Unary(Purpose),
    Stream { unacked: usize },
}

#[derive(Debug)]
struct Outgoing {
    /// The call without which the frame is not worth sending.
    call: Option<CallId>,
    /// It is the call's request: from here on the call counts as sent.
    starts: bool,
    frame: ClientFrame,
}

/// One session.
///
/// - getters: [`is_dead`](Self::is_dead)
/// - something happened: [`handle_frame`](Self::handle_frame), [`handle_activity`](Self::handle_activity),
///   [`handle_timeout`](Self::handle_timeout), [`handle_closed`](Self::handle_closed)
/// - the owner wants something: [`request`](Self::request), [`subscribe`](Self::subscribe), [`acknowledge`](Self::acknowledge),
///   [`interrupt`](Self::interrupt)
/// - what to do next: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event), [`poll_timeout`](Self::poll_timeout)
#[derive(Debug)]
pub struct Session {
    next_id: u64,
    calls: BTreeMap<CallId, Call>,
    deadlines: BTreeSet<(Instant, CallId)>,
    outgoing: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    heard_at: Instant,
    ping_at: Instant,
    dead: Option<String>,
}

impl Session {
    /// A session over a socket that has just opened.
    pub fn new(now: Instant) -> Self {
        Self {
            next_id: 1,
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            heard_at: now,
            ping_at: now + PING_EVERY,
            dead: None,
        }
    }

    /// It ended; nothing will go out or come in any more.
    pub fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// A text message came.
    pub fn handle_frame(&mut self, now: Instant, text: &str) {
        self.handle_activity(now);
        for frame in ServerFrame::read(text) {
            if self.is_dead() {
                return;
            }
            match frame {
                Ok(frame) => self.handle_one(frame),
                Err(error) => self.handle_unreadable(error),
            }
        }
    }

    /// Bytes came, perhaps only a part of a message: the line lives.
    pub fn handle_activity(&mut self, now: Instant) {
        self.heard_at = self.heard_at.max(now);
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_dead() {
            return;
        }
        if now >= self.heard_at + SILENCE_LIMIT {
            self.die(&format!("nothing came for {} s", SILENCE_LIMIT.as_secs()));
            return;
        }
        if now >= self.ping_at {
            self.ping_at = now + PING_EVERY;
            self.push(ClientFrame::Ping);
        }
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            let Some(call) = self.calls.get(&id) else {
                self.deadlines.remove(&(deadline, id));
                continue;
            };
            let error = CallError::TimedOut {
                sent: call.sent,
                within: call.within,
            };
            self.give_up(id, error);
        }
    }

    /// The socket is gone, or is about to be closed by us.
    pub fn handle_closed(&mut self, reason: &str) {
        self.die(reason);
    }

    /// Calls a procedure.
    pub fn request(
        &mut self,
        now: Instant,
        tag: &str,
        payload: Box<RawValue>,
        purpose: Purpose,
        within: Duration,
    ) -> Result<CallId, CallError> {
        self.start(now, tag, payload, Kind::Unary(purpose), within)
    }

    /// Opens a stream.
    pub fn subscribe(&mut self, now: Instant, subscription: &Subscription) -> Result<CallId, CallError> {
        let kind = Kind::Stream { unacked: 0 };
        self.start(now, subscription.tag(), subscription.payload(), kind, FIRST_CHUNK_LIMIT)
    }

    /// A chunk of the stream was taken: the server may send the next. One call a chunk; more are ignored.
    pub fn acknowledge(&mut self, id: CallId) {
        if let Some(Call {
            kind: Kind::Stream { unacked },
            ..
        }) = self.calls.get_mut(&id)
            && *unacked > 0
        {
            *unacked -= 1;
            let request_id = RequestId::from(id.0);
            self.push_for(id, ClientFrame::Ack { request_id });
        }
    }

    /// Nobody wants the call any more. It ends here and now; a command goes on at the server all the same.
    pub fn interrupt(&mut self, id: CallId) {
        self.give_up(id, CallError::Cancelled);
    }

    /// The next text to send.
    pub fn poll_transmit(&mut self) -> Option<String> {
        while let Some(next) = self.outgoing.pop_front() {
            if let Some(id) = next.call {
                // Its call ended before the frame could go out: a request that never left, an ack that nobody needs.
                let Some(call) = self.calls.get_mut(&id) else {
                    continue;
                };
                call.sent |= next.starts;
            }
            if let Ok(text) = serde_json::to_string(&next.frame) {
                return Some(text);
            }
        }
        None
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next; never for a dead session.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_dead() {
            return None;
        }
        let own = self.ping_at.min(self.heard_at + SILENCE_LIMIT);
        Some(self.deadlines.first().map_or(own, |&(deadline, _)| own.min(deadline)))
    }

    fn handle_one(&mut self, frame: ServerFrame) {
        match frame {
            ServerFrame::Chunk { request_id, values } => self.handle_chunk(&request_id, values),
            ServerFrame::Exit { request_id, exit } => {
                let answer = match exit {
                    Exit::Success(value) => Ok(value),
                    Exit::Failure(causes) => Err(CallError::from_causes(&causes)),
                };
                if let Some(id) = ours(&request_id) {
                    self.end(id, answer);
                }
            }
            // That it came is all it says.
            ServerFrame::Pong => {}
            ServerFrame::Defect { defect } => self.handle_defect(defect_text(&defect)),
            ServerFrame::ClientProtocolError { error } => {
                self.die(&format!(
                    "the server says that we broke its protocol: {}",
                    defect_text(&error)
                ));
            }
            ServerFrame::Unknown { tag } => {
                tracing::debug!(?tag, "a frame that we do not know was passed over");
            }
        }
    }

    fn handle_chunk(&mut self, request_id: &RequestId, values: Vec<Box<RawValue>>) {
        // A chunk of a stream that ended here is still on its way when our Interrupt goes out.
        let Some((id, call)) = ours(request_id).and_then(|id| Some((id, self.calls.get_mut(&id)?))) else {
            return;
        };
        let Kind::Stream { unacked } = &mut call.kind else {
            let problem = "a chunk where one value was expected".into();
            self.give_up(id, CallError::Malformed { problem });
            return;
        };
        if *unacked == MAX_UNACKED {
            self.give_up(id, CallError::Overrun);
            return;
        }
        *unacked += 1;
        if let Some(deadline) = call.deadline.take() {
            self.deadlines.remove(&(deadline, id));
        }
        if values.is_empty() {
            self.acknowledge(id);
        } else {
            self.events.push_back(Event::Chunk { call: id, values });
        }
    }

    /// A defect names no call, and the call that it is about will see no exit: all that went out end, as effect's own client has it.
    fn handle_defect(&mut self, defect: String) {
        let sent: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.sent)
            .map(|(id, _)| *id)
            .collect();
        for id in sent {
            let reason = format!("a defect of the server: {defect}");
            self.give_up(id, CallError::BrokenOff { reason });
        }
        self.events.push_back(Event::Defect { defect });
    }

    /// Only the call that a broken frame names is hurt. Where none can be read, some call would wait for ever: the session ends.
    fn handle_unreadable(&mut self, error: FrameError) {
        match error {
            FrameError::Malformed {
                tag,
                request_id: Some(request_id),
                problem,
            } => {
                if let Some(id) = ours(&request_id) {
                    let problem = format!("{tag}: {problem}");
                    self.give_up(id, CallError::Malformed { problem });
                }
            }
            FrameError::Malformed { request_id: None, .. } | FrameError::NotJson(_) | FrameError::MissingHeaders => {
                self.die(&format!("the server sent {error}"));
            }
        }
    }

    fn start(
        &mut self,
        now: Instant,
        tag: &str,
        payload: Box<RawValue>,
        kind: Kind,
        within: Duration,
    ) -> Result<CallId, CallError> {
        if let Some(reason) = &self.dead {
            return Err(CallError::Lost {
                sent: false,
                reason: reason.clone(),
            });
        }
        if self.calls.len() >= MAX_CALLS {
            return Err(CallError::Busy { open: self.calls.len() });
        }
        let id = CallId(self.next_id);
        self.next_id += 1;
        let deadline = now + within;
        self.deadlines.insert((deadline, id));
        self.calls.insert(
            id,
            Call {
                kind,
                sent: false,
                within,
                deadline: Some(deadline),
            },
        );
        self.outgoing.push_back(Outgoing {
            call: Some(id),
            starts: true,
            frame: ClientFrame::request(RequestId::from(id.0), tag, payload),
        });
        Ok(id)
    }

    /// Ends a call from our side, and tells the server to stop unless it works on a command or never heard of the call.
    fn give_up(&mut self, id: CallId, error: CallError) {
        let stops = self
            .calls
            .get(&id)
            .is_some_and(|call| call.sent && !matches!(call.kind, Kind::Unary(Purpose::Command)));
        if stops {
            let request_id = RequestId::from(id.0);
            self.push(ClientFrame::Interrupt { request_id });
        }
        self.end(id, Err(error));
    }

    /// The one way out for a call.
    fn end(&mut self, id: CallId, answer: Result<Box<RawValue>, CallError>) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        self.events.push_back(match call.kind {
            Kind::Unary(_) => Event::Answered { call: id, answer },
            Kind::Stream { .. } => Event::Ended {
                call: id,
                error: answer.err(),
            },
        });
    }

    fn die(&mut self, reason: &str) {
        if self.is_dead() {
            return;
        }
        self.dead = Some(reason.to_owned());
        self.outgoing.clear();
        let open: Vec<_> = self.calls.iter().map(|(id, call)| (*id, call.sent)).collect();
        for (id, sent) in open {
            let reason = reason.to_owned();
            self.end(id, Err(CallError::Lost { sent, reason }));
        }
        self.events.push_back(Event::Dead {
            reason: reason.to_owned(),
        });
    }

    fn push(&mut self, frame: ClientFrame) {
        self.outgoing.push_back(Outgoing {
            call: None,
            starts: false,
            frame,
        });
    }

    fn push_for(&mut self, call: CallId, frame: ClientFrame) {
        self.outgoing.push_back(Outgoing {
            call: Some(call),
            starts: false,
            frame,
        });
    }
}

/// The call of an id that a server echoed; none where it is none of ours.
fn ours(id: &RequestId) -> Option<CallId> {
    id.as_u64().map(CallId)
}

#[cfg(test)]
mod tests;
