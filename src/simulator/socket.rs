//! One WebSocket: frames in, frames out, one chunk of a stream until it is acknowledged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::protocol::rpc::{ClientFrame, FrameError, RequestId, ServerFrame};

use super::auth::Session;
use super::calls::{Outcome, call, interrupted};
use super::host::Host;
use super::streams::Stream;

/// Why the reading side ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The client closed, or the server was cut off: no close frame.
    Gone,
    /// The client broke the framing: a close frame without a code.
    Close,
}

/// What the writing side is told.
#[derive(Debug)]
enum Out {
    Frame(ServerFrame),
    Pong(axum::body::Bytes),
    Close,
}

/// Whether a stream's last chunk was acknowledged. An acknowledgement counts only for a chunk that is out.
#[derive(Debug, Default)]
struct Acks {
    outstanding: AtomicBool,
    came: Notify,
}

impl Acks {
    /// A chunk goes out.
    fn expect(&self) {
        self.outstanding.store(true, Ordering::Release);
    }

    /// An acknowledgement came; false where none was due.
    fn take(&self) -> bool {
        let was_due = self.outstanding.swap(false, Ordering::AcqRel);
        if was_due {
            self.came.notify_one();
        }
        was_due
    }
}

/// A stream that goes on.
#[derive(Debug)]
struct OpenStream {
    acks: Arc<Acks>,
    task: JoinHandle<()>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a socket until one side ends it.
pub(crate) async fn serve(host: Arc<Host>, session: Session, socket: WebSocket) {
    host.change(|state, now| state.auth.count_socket(&session.id, true, now));
    let cut = host.socket_token();
    let (mut sink, incoming) = socket.split();
    let (out, mut frames) = mpsc::unbounded_channel::<Out>();
    let writer = {
        let cut = cut.clone();
        async move {
            loop {
                let next = tokio::select! {
                    () = cut.cancelled() => None,
                    next = frames.recv() => next,
                };
                let sent = match next {
                    None => break,
                    Some(Out::Close) => {
                        let _ = sink.send(Message::Close(None)).await;
                        break;
                    }
                    Some(Out::Pong(data)) => sink.send(Message::Pong(data)).await,
                    Some(Out::Frame(frame)) => {
                        let text = serde_json::to_string(&frame).unwrap_or_default();
                        sink.send(Message::text(text)).await
                    }
                };
                if sent.is_err() {
                    break;
                }
            }
        }
    };
    let reader = Reader {
        host: host.clone(),
        session: session.clone(),
        out,
        cut,
        streams: HashMap::new(),
    };
    // The reader drops its sender when it ends; the writer then ends as well, and with it the connection.
    tokio::join!(writer, reader.run(incoming));
    host.change(|state, now| state.auth.count_socket(&session.id, false, now));
}

struct Reader {
    host: Arc<Host>,
    session: Session,
    out: mpsc::UnboundedSender<Out>,
    cut: CancellationToken,
    /// Those of one id in the order of their requests: T3 runs them all.
    streams: HashMap<RequestId, Vec<OpenStream>>,
}

impl Reader {
    async fn run(mut self, mut incoming: SplitStream<WebSocket>) {
        loop {
            let message = tokio::select! {
                () = self.cut.cancelled() => return,
                message = incoming.next() => message,
            };
            let end = match message {
                Some(Ok(Message::Text(text))) => self.message(text.as_str()).await,
                Some(Ok(Message::Binary(data))) => match std::str::from_utf8(&data) {
                    Ok(text) => self.message(text).await,
                    Err(_) => Some(End::Close),
                },
                Some(Ok(Message::Ping(data))) => {
                    let _ = self.out.send(Out::Pong(data));
                    None
                }
                Some(Ok(Message::Pong(_))) => None,
                Some(Ok(Message::Close(_)) | Err(_)) | None => Some(End::Gone),
            };
            match end {
                None => {}
                Some(End::Gone) => {
                    self.cut.cancel();
                    return;
                }
                Some(End::Close) => {
                    let _ = self.out.send(Out::Close);
                    return;
                }
            }
        }
    }

    async fn message(&mut self, text: &str) -> Option<End> {
        self.host.hold().await;
        for frame in ClientFrame::read(text) {
            let end = match frame {
                Ok(frame) => self.frame(frame),
                Err(error) => self.bad_frame(text, &error),
            };
            if end.is_some() {
                return end;
            }
        }
        None
    }

    fn send(&self, frame: ServerFrame) {
        let _ = self.out.send(Out::Frame(frame));
    }

    fn defect(&self, defect: &Value) {
        if let Ok(defect) = to_raw_value(defect) {
            self.send(ServerFrame::Defect { defect });
        }
    }

    fn bad_frame(&self, text: &str, error: &FrameError) -> Option<End> {
        match error {
            FrameError::NotJson(_) => {
                let message = syntax_error(text);
                self.defect(&serde_json::json!({"name": "SyntaxError", "message": message}));
                None
            }
            FrameError::MissingHeaders | FrameError::Malformed { .. } => Some(End::Close),
        }
    }

    fn frame(&mut self, frame: ClientFrame) -> Option<End> {
        match frame {
            ClientFrame::Request { id, tag, payload, .. } => {
                let payload: Value = serde_json::from_str(payload.get()).unwrap_or_default();
                return self.request(id, &tag, &payload);
            }
            ClientFrame::Ack { request_id } => {
                // The first that waits for one has it.
                let streams = self.streams.get(&request_id).into_iter().flatten();
                let _ = streams.map(|stream| &stream.acks).find(|acks| acks.take());
            }
            ClientFrame::Interrupt { request_id } => {
                let streams = self.streams.get_mut(&request_id);
                if streams.and_then(Vec::pop).is_some() {
                    let exit = interrupted(self.host.fiber());
                    self.send(ServerFrame::Exit { request_id, exit });
                }
            }
            ClientFrame::Ping => self.send(ServerFrame::Pong),
            ClientFrame::Eof => {}
            ClientFrame::Unknown { tag } => {
                let tag = tag.unwrap_or_else(|| "undefined".to_owned());
                self.defect(&Value::from(format!("Unknown request tag: {tag}")));
            }
        }
        None
    }

    fn request(&mut self, request_id: RequestId, tag: &str, payload: &Value) -> Option<End> {
        match call(&self.host, &self.session, tag, payload) {
            Outcome::Done(exit) => self.send(ServerFrame::Exit { request_id, exit }),
            Outcome::Command(exit) => match self.host.loses_answer() {
                None if *self.host.switches.hold_answers.borrow() => {
                    let (host, out) = (self.host.clone(), self.out.clone());
                    tokio::spawn(async move {
                        // It cannot fail: the sender lives in the host.
                        let _ = host.switches.hold_answers.subscribe().wait_for(|on| !on).await;
                        let _ = out.send(Out::Frame(ServerFrame::Exit { request_id, exit }));
                    });
                }
                None => self.send(ServerFrame::Exit { request_id, exit }),
                Some(true) => return Some(End::Gone),
                Some(false) => {}
            },
            Outcome::Stream(stream) => {
                let acks = Arc::new(Acks::default());
                let task = tokio::spawn(pump(
                    self.host.clone(),
                    stream,
                    request_id.clone(),
                    acks.clone(),
                    self.out.clone(),
                ));
                self.streams
                    .entry(request_id)
                    .or_default()
                    .push(OpenStream { acks, task });
            }
        }
        None
    }
}

/// Sends a stream's chunks, each after the acknowledgement of the one before.
async fn pump(
    host: Arc<Host>,
    mut stream: Stream,
    request_id: RequestId,
    acks: Arc<Acks>,
    out: mpsc::UnboundedSender<Out>,
) {
    loop {
        let values = stream.next().await;
        host.hold().await;
        let frame = ServerFrame::Chunk {
            request_id: request_id.clone(),
            values,
        };
        acks.expect();
        if out.send(Out::Frame(frame)).is_err() {
            return;
        }
        acks.came.notified().await;
    }
}

/// The words of a JavaScript engine for text that is no JSON.
fn syntax_error(text: &str) -> String {
    let Err(error) = serde_json::from_str::<Value>(text) else {
        return "Unexpected token in JSON".to_owned();
    };
    let position = error.column().saturating_sub(1);
    let place = format!(
        "at position {position} (line {} column {})",
        error.line(),
        error.column()
    );
    if text.trim_start().starts_with('{') && position <= 1 {
        format!("Expected property name or '}}' in JSON {place}")
    } else if error.is_eof() {
        "Unexpected end of JSON input".to_owned()
    } else {
        format!("Unexpected token in JSON {place}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_object_is_told_as_recorded() {
        assert_eq!(
            syntax_error("{not json"),
            "Expected property name or '}' in JSON at position 1 (line 1 column 2)"
        );
    }
}
