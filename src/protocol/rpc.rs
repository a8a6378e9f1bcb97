//! Effect RPC frames as T3 speaks them over its WebSocket: JSON, one frame or an array of frames in one text message.
//!
//! Both sides live here: the session writes [`ClientFrame`] and reads [`ServerFrame`], the simulator does the opposite. Payloads
//! stay raw JSON, so that a value of many megabytes is decoded once, into its final type, by whoever knows that type. Frames
//! with a tag that a newer T3 may have added are kept as unknown when read; what is written is exact. No I/O happens here.

mod wire;
mod write;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use wire::{CLIENT_TAGS, ClientWire, ExitWire, SERVER_TAGS, ServerWire, missing, owned, read_each, unreadable};

/// The most characters of a defect or an unreadable frame that an error repeats.
const EXCERPT_CHARS: usize = 500;

/// The id of a request. The server echoes it with the JSON type that it came with.
#[derive(Clone, Debug, Eq, PartialEq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// Digits or any other text.
    Text(String),
    /// A JSON number.
    Number(serde_json::Number),
}

impl RequestId {
    /// The id of a request that we numbered: ours are decimal text, and a server that echoes a number is understood too.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Text(text) => text.parse().ok().filter(|n: &u64| n.to_string() == *text),
            Self::Number(number) => number.as_u64(),
        }
    }
}

impl From<u64> for RequestId {
    fn from(id: u64) -> Self {
        Self::Text(id.to_string())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// What a client sends.
#[derive(Clone, Debug)]
pub enum ClientFrame {
    /// Calls a procedure. `headers` always travels: T3 closes the socket on a request without it.
    Request {
        /// The client's number for the call.
        id: RequestId,
        /// The procedure, such as `orchestration.subscribeShell`.
        tag: String,
        /// Its argument. An absent one is read as `null`, since T3 answers both alike.
        payload: Box<RawValue>,
        /// Pairs of names and values; ours are always empty.
        headers: Vec<(String, String)>,
    },
    /// Takes a chunk as delivered, so that the server sends the next.
    Ack {
        /// The stream.
        request_id: RequestId,
    },
    /// Ends a call.
    Interrupt {
        /// The call.
        request_id: RequestId,
    },
    /// Asks for a `Pong`.
    Ping,
    /// Nothing more will be sent.
    Eof,
    /// A frame that nobody knows; the server answers it with a `Defect`.
    Unknown {
        /// Its tag, if it had one.
        tag: Option<String>,
    },
}

/// What a server sends.
#[derive(Clone, Debug)]
pub enum ServerFrame {
    /// Values of a stream. The next chunk comes after its `Ack`.
    Chunk {
        /// The stream.
        request_id: RequestId,
        /// The values, in order.
        values: Vec<Box<RawValue>>,
    },
    /// The end of a call.
    Exit {
        /// The call.
        request_id: RequestId,
        /// How it ended.
        exit: Exit,
    },
    /// Answers a `Ping`.
    Pong,
    /// The server could not make sense of a frame, or broke; names no call.
    Defect {
        /// What it says.
        defect: Box<RawValue>,
    },
    /// The server's half says that the client broke the protocol.
    ClientProtocolError {
        /// What it says.
        error: Box<RawValue>,
    },
    /// A frame of a newer server.
    Unknown {
        /// Its tag, if it had one.
        tag: Option<String>,
    },
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Exit {
    /// With a value; `null` where there is none, as at the end of a stream.
    Success(Box<RawValue>),
    /// Without.
    Failure(Vec<Cause>),
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub enum Cause {
    /// An error that the procedure declares: `{_tag, message, …}`.
    Fail(Box<RawValue>),
    /// A payload that fits no schema, an unknown procedure, a bug.
    Die(Box<RawValue>),
    /// Somebody interrupted it.
    Interrupt {
        /// The server's number for whoever did.
        fiber_id: Option<u64>,
    },
    /// A cause of a newer server.
    Unknown {
        /// Its tag, if it had one.
        tag: Option<String>,
    },
}

/// A message that is no frame.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FrameError {
    /// Not JSON at all.
    #[error("a message that is not JSON: {0}")]
    NotJson(String),
    /// A known frame without what it must carry. Only that call is hurt, where its id can be read.
    #[error("a {tag} frame that cannot be read: {problem}")]
    Malformed {
        /// The frame's tag.
        tag: String,
        /// The call that it speaks of.
        request_id: Option<RequestId>,
        /// What is wrong.
        problem: String,
    },
    /// A `Request` without `headers`: T3 drops the socket without a word.
    #[error("a request without headers")]
    MissingHeaders,
}

impl ClientFrame {
    /// A request as the connector sends it.
    pub fn request(id: RequestId, tag: impl Into<String>, payload: Box<RawValue>) -> Self {
        Self::Request {
            id,
            tag: tag.into(),
            payload,
            headers: Vec::new(),
        }
    }

    /// Reads every frame of one message; each frame is good or bad by itself.
    pub fn read(message: &str) -> Vec<Result<Self, FrameError>> {
        read_each(message, Self::read_one)
    }

    fn read_one(text: &str) -> Result<Self, FrameError> {
        let frame = match serde_json::from_str::<ClientWire<'_>>(text) {
            Ok(frame) => frame,
            Err(error) => return unreadable(text, &error, CLIENT_TAGS).map(|tag| Self::Unknown { tag }),
        };
        let tag = frame.tag.as_deref().unwrap_or_default();
        let named = |field: Option<RequestId>, name: &str| field.ok_or_else(|| missing(tag, name, None));
        Ok(match tag {
            "Request" => Self::Request {
                id: named(frame.id, "id")?,
                tag: frame.procedure.ok_or_else(|| missing(tag, "tag", None))?.into_owned(),
                payload: owned(frame.payload),
                headers: frame.headers.ok_or(FrameError::MissingHeaders)?,
            },
            "Ack" => Self::Ack {
                request_id: named(frame.request_id, "requestId")?,
            },
            "Interrupt" => Self::Interrupt {
                request_id: named(frame.request_id, "requestId")?,
            },
            "Ping" => Self::Ping,
            "Eof" => Self::Eof,
            _ => Self::Unknown {
                tag: frame.tag.map(Cow::into_owned),
            },
        })
    }
}

impl ServerFrame {
    /// Reads every frame of one message; each frame is good or bad by itself.
    pub fn read(message: &str) -> Vec<Result<Self, FrameError>> {
        read_each(message, Self::read_one)
    }

    fn read_one(text: &str) -> Result<Self, FrameError> {
        let frame = match serde_json::from_str::<ServerWire<'_>>(text) {
            Ok(frame) => frame,
            Err(error) => return unreadable(text, &error, SERVER_TAGS).map(|tag| Self::Unknown { tag }),
        };
        let tag = frame.tag.as_deref().unwrap_or_default();
        Ok(match tag {
            "Chunk" => {
                let request_id = frame.request_id.ok_or_else(|| missing(tag, "requestId", None))?;
                let Some(values) = frame.values else {
                    return Err(missing(tag, "values", Some(request_id)));
                };
                Self::Chunk {
                    request_id,
                    values: values.into_iter().map(ToOwned::to_owned).collect(),
                }
            }
            "Exit" => {
                let request_id = frame.request_id.ok_or_else(|| missing(tag, "requestId", None))?;
                let exit = frame.exit.and_then(ExitWire::into_exit);
                let Some(exit) = exit else {
                    return Err(missing(tag, "exit", Some(request_id)));
                };
                Self::Exit { request_id, exit }
            }
            "Pong" => Self::Pong,
            "Defect" => Self::Defect {
                defect: owned(frame.defect),
            },
            "ClientProtocolError" => Self::ClientProtocolError {
                error: owned(frame.error),
            },
            _ => Self::Unknown {
                tag: frame.tag.map(Cow::into_owned),
            },
        })
    }
}

impl Exit {
    /// A success with this value.
    pub fn success<T: Serialize>(value: &T) -> serde_json::Result<Self> {
        to_raw_value(value).map(Self::Success)
    }

    /// A failure with an error that the procedure declares.
    pub fn fail<T: Serialize>(error: &T) -> serde_json::Result<Self> {
        Ok(Self::Failure(vec![Cause::Fail(to_raw_value(error)?)]))
    }

    /// A failure that the procedure does not declare.
    pub fn die(defect: &str) -> serde_json::Result<Self> {
        Ok(Self::Failure(vec![Cause::Die(to_raw_value(defect)?)]))
    }
}

/// A defect in words: text as it is, an error object by its name and message, anything else as JSON; never longer than a few lines.
pub fn defect_text(defect: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
        message: String,
    }
    let text = serde_json::from_str::<String>(defect.get())
        .or_else(|_| {
            serde_json::from_str::<Named>(defect.get()).map(|named| match named.name {
                Some(name) => format!("{name}: {}", named.message),
                None => named.message,
            })
        })
        .unwrap_or_else(|_| defect.get().to_owned());
    excerpt(&text)
}

/// The beginning of a text, fit for an error.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
