//! Effect RPC frames as T3 speaks them over its WebSocket: JSON, one frame or an array of frames in one text message.
//!
//! Both sides live here: the session writes [`ClientFrame`] and reads [`ServerFrame`], the simulator does the opposite. Payloads
//! stay raw JSON, so that a value of many megabytes is decoded once, into its final type, by whoever knows that type. Frames
//! with a tag that a newer T3 may have added are kept as unknown when read; what is written is exact. No I/O happens here.

use std::borrow::Cow;
use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

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

/// The client's tags: an unreadable frame with one of them is malformed, with any other unknown.
const CLIENT_TAGS: &[&str] = &["Request", "Ack", "Interrupt", "Ping", "Eof"];
/// The server's.
const SERVER_TAGS: &[&str] = &["Chunk", "Exit", "Pong", "Defect", "ClientProtocolError"];

#[derive(Deserialize)]
struct ClientWire<'a> {
    #[serde(rename = "_tag", borrow, default)]
    tag: Option<Cow<'a, str>>,
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(rename = "tag", borrow, default)]
    procedure: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    headers: Option<Vec<(String, String)>>,
    #[serde(rename = "requestId", default)]
    request_id: Option<RequestId>,
}

#[derive(Deserialize)]
struct ServerWire<'a> {
    #[serde(rename = "_tag", borrow, default)]
    tag: Option<Cow<'a, str>>,
    #[serde(rename = "requestId", default)]
    request_id: Option<RequestId>,
    #[serde(borrow, default)]
    values: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    exit: Option<ExitWire<'a>>,
    #[serde(borrow, default)]
    defect: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ExitWire<'a> {
    #[serde(rename = "_tag", borrow)]
    tag: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cause: Option<CausesWire<'a>>,
}

#[derive(Default)]
struct CausesWire<'a>(Vec<CauseWire<'a>>);

/// A list of causes; a lone one counts as a list of one.
impl<'de: 'a, 'a> Deserialize<'de> for CausesWire<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('[') {
            serde_json::from_str(raw.get()).map(Self)
        } else {
            serde_json::from_str(raw.get()).map(|cause| Self(vec![cause]))
        }
        .map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
struct CauseWire<'a> {
    #[serde(rename = "_tag", borrow, default)]
    tag: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    defect: Option<&'a RawValue>,
    #[serde(rename = "fiberId", borrow, default)]
    fiber_id: Option<&'a RawValue>,
}

/// Reads the tag and the call of a frame whose rest cannot be read.
#[derive(Deserialize)]
struct Label<'a> {
    #[serde(rename = "_tag", borrow, default)]
    tag: Option<&'a RawValue>,
    #[serde(rename = "requestId", borrow, default)]
    request_id: Option<&'a RawValue>,
}

impl ExitWire<'_> {
    fn into_exit(self) -> Option<Exit> {
        match self.tag.as_ref() {
            "Success" => Some(Exit::Success(owned(self.value))),
            "Failure" => Some(Exit::Failure(
                self.cause
                    .unwrap_or_default()
                    .0
                    .into_iter()
                    .map(CauseWire::into_cause)
                    .collect(),
            )),
            _ => None,
        }
    }
}

impl CauseWire<'_> {
    fn into_cause(self) -> Cause {
        match self.tag.as_deref() {
            Some("Fail") => Cause::Fail(owned(self.error)),
            Some("Die") => Cause::Die(owned(self.defect)),
            Some("Interrupt") => Cause::Interrupt {
                fiber_id: self.fiber_id.and_then(|raw| raw.get().parse().ok()),
            },
            _ => Cause::Unknown {
                tag: self.tag.map(Cow::into_owned),
            },
        }
    }
}

fn read_each<T>(message: &str, one: impl Fn(&str) -> Result<T, FrameError>) -> Vec<Result<T, FrameError>> {
    if !message.trim_start().starts_with('[') {
        return vec![one(message)];
    }
    match serde_json::from_str::<Vec<&RawValue>>(message) {
        Ok(frames) => frames.into_iter().map(|frame| one(frame.get())).collect(),
        Err(error) => vec![Err(FrameError::NotJson(error.to_string()))],
    }
}

/// What a text is that does not have a frame's shape: not JSON, a known frame that is broken, or an unknown one (`Ok`).
fn unreadable(text: &str, error: &serde_json::Error, known: &[&str]) -> Result<Option<String>, FrameError> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(FrameError::NotJson(error.to_string()));
    }
    let Ok(label) = serde_json::from_str::<Label<'_>>(text) else {
        // A number, a string: T3 itself calls it a frame with an undefined tag.
        return Ok(None);
    };
    let tag = label.tag.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    match tag {
        Some(tag) if known.contains(&tag.as_str()) => Err(FrameError::Malformed {
            tag,
            request_id: label.request_id.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            problem: excerpt(&error.to_string()),
        }),
        other => Ok(other),
    }
}

fn missing(tag: &str, field: &str, request_id: Option<RequestId>) -> FrameError {
    FrameError::Malformed {
        tag: tag.to_owned(),
        request_id,
        problem: format!("no usable `{field}`"),
    }
}

fn owned(raw: Option<&RawValue>) -> Box<RawValue> {
    raw.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)
}

impl Serialize for ClientFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Request {
                id,
                tag,
                payload,
                headers,
            } => {
                map.serialize_entry("_tag", "Request")?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("tag", tag)?;
                map.serialize_entry("payload", payload)?;
                map.serialize_entry("headers", headers)?;
            }
            Self::Ack { request_id } => {
                map.serialize_entry("_tag", "Ack")?;
                map.serialize_entry("requestId", request_id)?;
            }
            Self::Interrupt { request_id } => {
                map.serialize_entry("_tag", "Interrupt")?;
                map.serialize_entry("requestId", request_id)?;
            }
            Self::Ping => map.serialize_entry("_tag", "Ping")?,
            Self::Eof => map.serialize_entry("_tag", "Eof")?,
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}

impl Serialize for ServerFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Chunk { request_id, values } => {
                map.serialize_entry("_tag", "Chunk")?;
                map.serialize_entry("requestId", request_id)?;
                map.serialize_entry("values", values)?;
            }
            Self::Exit { request_id, exit } => {
                map.serialize_entry("_tag", "Exit")?;
                map.serialize_entry("requestId", request_id)?;
                map.serialize_entry("exit", exit)?;
            }
            Self::Pong => map.serialize_entry("_tag", "Pong")?,
            Self::Defect { defect } => {
                map.serialize_entry("_tag", "Defect")?;
                map.serialize_entry("defect", defect)?;
            }
            Self::ClientProtocolError { error } => {
                map.serialize_entry("_tag", "ClientProtocolError")?;
                map.serialize_entry("error", error)?;
            }
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Success(value) => {
                map.serialize_entry("_tag", "Success")?;
                map.serialize_entry("value", value)?;
            }
            Self::Failure(causes) => {
                map.serialize_entry("_tag", "Failure")?;
                map.serialize_entry("cause", causes)?;
            }
        }
        map.end()
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Fail(error) => {
                map.serialize_entry("_tag", "Fail")?;
                map.serialize_entry("error", error)?;
            }
            Self::Die(defect) => {
                map.serialize_entry("_tag", "Die")?;
                map.serialize_entry("defect", defect)?;
            }
            Self::Interrupt { fiber_id } => {
                map.serialize_entry("_tag", "Interrupt")?;
                map.serialize_entry("fiberId", fiber_id)?;
            }
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
