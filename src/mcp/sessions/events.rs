//! Keeps what was sent on the streams of sessions, so that a client whose connection broke can come back for the rest.
//!
//! Without it the result of a call that ends while its client is away is lost. Only streams of sessions come here (the newest revision has no
//! way to resume), and what is kept is bounded: [`MAX_WRITTEN`] streams that were read to their end, [`MAX_UNREAD`] that were not, and those
//! for [`UNREAD_FOR`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::{EventStore, EventStoreError, EventStream, ServerSseMessage};
use tokio::sync::watch;

use crate::mcp::fate::Fate;

/// Streams kept after they were read to their end: the last bytes may still have been lost on the way.
pub(super) const MAX_WRITTEN: usize = 256;

/// Streams kept whose result nobody read.
pub(super) const MAX_UNREAD: usize = 4_096;

/// How long an unread result is kept.
pub(super) const UNREAD_FOR: Duration = Duration::from_mins(5);

/// Events kept of one stream; progress beyond it makes room, oldest first.
const MAX_EVENTS: usize = 64;

/// The id of the event with which the MCP library begins a session's standing stream.
const STANDING_PRIMING: &str = "0";

/// The events of all streams.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    streams: HashMap<String, Track>,
    /// Finished streams, in the order of their end.
    written: VecDeque<String>,
    unread: VecDeque<(String, Instant)>,
}

#[derive(Debug)]
struct Track {
    events: VecDeque<(u64, ServerSseMessage)>,
    next: u64,
    ended: bool,
    /// The call that it is for, once known.
    of: Option<Call>,
    changed: watch::Sender<u64>,
}

/// Whose call a stream is for, and what becomes of its answer.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) session: SessionId,
    pub(super) request: Option<RequestId>,
    pub(super) fate: Fate,
}

/// Why a stream cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[error("no stream of this session is kept for that event id")]
pub(super) struct UnknownEvent;

impl Events {
    /// Says whose stream the event is of.
    pub(super) fn belongs(&self, event_id: &str, call: &Call) {
        if let Some((_, name)) = parse(event_id)
            && let Some(track) = self.kept().streams.get_mut(name)
        {
            track.of.get_or_insert_with(|| call.clone());
        }
    }

    /// The stream of that event can be resumed by that session.
    pub(super) fn can_resume(&self, event_id: &str, session: &str) -> bool {
        let Some((_, name)) = parse(event_id) else {
            return false;
        };
        // What a session's own standing stream carried is named after it.
        name.strip_suffix(":common") == Some(session)
            || self
                .kept()
                .streams
                .get(name)
                .and_then(|track| track.of.as_ref())
                .is_some_and(|call| &*call.session == session)
    }

    /// The event is of that session's own standing stream, and nothing of it is kept.
    pub(super) fn begins_anew(&self, event_id: &str, session: &str) -> bool {
        // The first event of each standing stream is the library's, and is not named after its stream.
        event_id == STANDING_PRIMING
            || parse(event_id).is_some_and(|(_, name)| {
                name.strip_suffix(":common") == Some(session) && !self.kept().streams.contains_key(name)
            })
    }

    /// What follows the event, for that session; it ends with the result.
    pub(super) fn resume(self: &Arc<Self>, event_id: &str, session: &str) -> Result<EventStream, UnknownEvent> {
        if !self.can_resume(event_id, session) {
            return Err(UnknownEvent);
        }
        let (after, name) = parse(event_id).ok_or(UnknownEvent)?;
        let (name, mut changed, fate) = {
            let kept = self.kept();
            let track = kept.streams.get(name).ok_or(UnknownEvent)?;
            let fate = track.of.as_ref().map(|call| call.fate.clone());
            (name.to_owned(), track.changed.subscribe(), fate)
        };
        let mut reader = fate.map(|fate| fate.reader());
        let events = Arc::clone(self);
        changed.mark_changed();
        let state = (after, changed);
        Ok(Box::pin(
            stream::unfold(state, move |(after, mut changed)| {
                let events = Arc::clone(&events);
                let name = name.clone();
                async move {
                    loop {
                        if let Some((number, event)) = events.after(&name, after) {
                            return Some((event, (number, changed)));
                        }
                        if events.has_ended(&name) || changed.changed().await.is_err() {
                            return None;
                        }
                    }
                }
            })
            .map(move |event| {
                if is_result(&event)
                    && let Some(reader) = &mut reader
                {
                    reader.finished();
                }
                event
            }),
        ))
    }

    /// A stream was read to its end by the one who asked: it is kept a while, as one of the last [`MAX_WRITTEN`].
    pub(super) fn read_to_end(&self, event_id: &str) {
        let Some((_, name)) = parse(event_id) else {
            return;
        };
        let mut kept = self.kept();
        kept.unread.retain(|(unread, _)| unread != name);
        kept.written.push_back(name.to_owned());
        if kept.written.len() > MAX_WRITTEN
            && let Some(oldest) = kept.written.pop_front()
        {
            kept.streams.remove(&oldest);
        }
    }

    /// A call was cancelled: no result will end its stream.
    pub(super) fn cancelled(&self, session: &str, request: &RequestId, now: Instant) {
        let mut kept = self.kept();
        let open = kept.streams.iter_mut().filter(|(_, track)| !track.ended);
        let mut of_it = open.filter(|(_, track)| {
            let call = track.of.as_ref();
            call.is_some_and(|call| &*call.session == session && call.request.as_ref() == Some(request))
        });
        let Some((name, track)) = of_it.next() else {
            return;
        };
        let name = name.clone();
        track.ended = true;
        track.events.clear();
        track.changed.send_modify(|_| {});
        // Heartbeats that were on their way may still come: it goes with the unread ones, not now.
        kept.unread.push_back((name, now));
        kept.make_room();
    }

    /// A stream ended without a result: there is nothing to come back for.
    pub(super) fn ended_without_result(&self, event_id: &str) {
        if let Some((_, name)) = parse(event_id) {
            let mut kept = self.kept();
            kept.streams.remove(name);
            kept.unread.retain(|(unread, _)| unread != name);
        }
    }

    /// A session is gone, and with it what its streams carried.
    pub(super) fn forget_session(&self, session: &str) {
        self.kept().streams.retain(|name, track| {
            name.strip_suffix(":common") != Some(session)
                && track.of.as_ref().is_none_or(|call| &*call.session != session)
        });
    }

    /// Lets go of results that nobody came for.
    pub(super) fn forget_old(&self, now: Instant) {
        let mut kept = self.kept();
        while let Some((_, ended)) = kept.unread.front()
            && now.duration_since(*ended) >= UNREAD_FOR
            && let Some((name, _)) = kept.unread.pop_front()
        {
            kept.streams.remove(&name);
        }
    }

    /// How many streams are kept.
    pub(super) fn kept_streams(&self) -> usize {
        self.kept().streams.len()
    }

    fn after(&self, name: &str, after: u64) -> Option<(u64, ServerSseMessage)> {
        let kept = self.kept();
        let events = &kept.streams.get(name)?.events;
        events.iter().find(|(number, _)| *number > after).cloned()
    }

    fn has_ended(&self, name: &str) -> bool {
        self.kept().streams.get(name).is_none_or(|track| track.ended)
    }

    fn add(&self, name: &str, event: &ServerSseMessage, now: Instant) -> String {
        let mut kept = self.kept();
        let ends = is_result(event);
        let track = kept.streams.entry(name.to_owned()).or_insert_with(|| Track {
            events: VecDeque::new(),
            next: 1,
            ended: false,
            of: None,
            changed: watch::Sender::new(0),
        });
        let number = track.next;
        track.next += 1;
        let id = format!("{number}_{name}");
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        if track.events.len() >= MAX_EVENTS {
            track.events.pop_front();
        }
        track.events.push_back((number, event));
        track.changed.send_replace(number);
        if ends && !track.ended {
            track.ended = true;
            kept.unread.push_back((name.to_owned(), now));
            kept.make_room();
        }
        id
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Beyond [`MAX_UNREAD`] the oldest result goes.
    fn make_room(&mut self) {
        while self.unread.len() > MAX_UNREAD
            && let Some((name, _)) = self.unread.pop_front()
        {
            self.streams.remove(&name);
        }
    }
}

/// The event carries the answer to the request that its stream is for.
pub(super) fn is_result(event: &ServerSseMessage) -> bool {
    matches!(
        event.message.as_deref(),
        Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
    )
}

/// An event id's number and stream.
fn parse(event_id: &str) -> Option<(u64, &str)> {
    let (number, name) = event_id.split_once('_')?;
    Some((number.parse().ok()?, name))
}

#[async_trait::async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<String, EventStoreError> {
        Ok(self.add(stream_id, event, Instant::now()))
    }

    async fn replay_events_after(&self, _: &str) -> Result<EventStream, EventStoreError> {
        // A stream is resumed by its session alone, through `resume`: this call does not say who asks.
        Err(Box::new(UnknownEvent))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rmcp::model::{ServerJsonRpcMessage, ServerResult};

    use super::*;

    fn priming() -> ServerSseMessage {
        ServerSseMessage::priming("0", Duration::from_secs(3))
    }

    fn result() -> ServerSseMessage {
        let result = ServerResult::EmptyResult(rmcp::model::EmptyObject {});
        ServerSseMessage::from_message(ServerJsonRpcMessage::response(result, RequestId::Number(1)))
    }

    fn call(request: i64) -> Call {
        Call {
            session: "s".into(),
            request: Some(RequestId::Number(request)),
            fate: Fate::default(),
        }
    }

    #[test]
    fn a_stream_that_ended_without_a_result_leaves_nothing() {
        let events = Events::default();
        let id = events.add("a", &priming(), Instant::now());
        events.belongs(&id, &call(1));
        events.ended_without_result(&id);
        assert_eq!(events.kept_streams(), 0);
    }

    #[test]
    fn a_call_that_was_cancelled_while_its_client_was_away_goes_with_the_unread_results() {
        let now = Instant::now();
        let events = Events::default();
        for (name, request) in [("a", 1), ("b", 2)] {
            let id = events.add(name, &priming(), now);
            events.belongs(&id, &call(request));
        }
        events.cancelled("s", &RequestId::Number(1), now);
        events.cancelled("other", &RequestId::Number(2), now);
        // A heartbeat that was on its way.
        events.add("a", &priming(), now);
        events.forget_old(now + UNREAD_FOR);
        assert!(!events.kept().streams.contains_key("a"));
        assert!(events.kept().streams.contains_key("b"));
    }

    #[test]
    fn unread_results_are_bounded_as_they_come() {
        let now = Instant::now();
        let events = Events::default();
        for n in 0..=MAX_UNREAD {
            events.add(&format!("stream-{n}"), &result(), now);
        }
        assert_eq!(events.kept_streams(), MAX_UNREAD);
        assert!(!events.kept().streams.contains_key("stream-0"));
    }
}
