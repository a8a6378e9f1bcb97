//! How frames stand on the wire, for reading: every key may be missing, so that a broken frame can still be named.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Cause, Exit, FrameError, RequestId, excerpt};

/// The client's tags: an unreadable frame with one of them is malformed, with any other unknown.
pub(super) const CLIENT_TAGS: &[&str] = &["Request", "Ack", "Interrupt", "Ping", "Eof"];
/// The server's.
pub(super) const SERVER_TAGS: &[&str] = &["Chunk", "Exit", "Pong", "Defect", "ClientProtocolError"];

#[derive(Deserialize)]
pub(super) struct ClientWire<'a> {
    #[serde(rename = "_tag", borrow, default)]
    pub(super) tag: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) id: Option<RequestId>,
    #[serde(rename = "tag", borrow, default)]
    pub(super) procedure: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) payload: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) headers: Option<Vec<(String, String)>>,
    #[serde(rename = "requestId", default)]
    pub(super) request_id: Option<RequestId>,
}

#[derive(Deserialize)]
pub(super) struct ServerWire<'a> {
    #[serde(rename = "_tag", borrow, default)]
    pub(super) tag: Option<Cow<'a, str>>,
    #[serde(rename = "requestId", default)]
    pub(super) request_id: Option<RequestId>,
    #[serde(borrow, default)]
    pub(super) values: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) exit: Option<ExitWire<'a>>,
    #[serde(borrow, default)]
    pub(super) defect: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct ExitWire<'a> {
    #[serde(rename = "_tag", borrow)]
    pub(super) tag: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) cause: Option<CausesWire<'a>>,
}

#[derive(Default)]
pub(super) struct CausesWire<'a>(Vec<CauseWire<'a>>);

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
    pub(super) fn into_exit(self) -> Option<Exit> {
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

pub(super) fn read_each<T>(message: &str, one: impl Fn(&str) -> Result<T, FrameError>) -> Vec<Result<T, FrameError>> {
    if !message.trim_start().starts_with('[') {
        return vec![one(message)];
    }
    match serde_json::from_str::<Vec<&RawValue>>(message) {
        Ok(frames) => frames.into_iter().map(|frame| one(frame.get())).collect(),
        Err(error) => vec![Err(FrameError::NotJson(error.to_string()))],
    }
}

/// What a text is that does not have a frame's shape: not JSON, a known frame that is broken, or an unknown one (`Ok`).
pub(super) fn unreadable(text: &str, error: &serde_json::Error, known: &[&str]) -> Result<Option<String>, FrameError> {
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

pub(super) fn missing(tag: &str, field: &str, request_id: Option<RequestId>) -> FrameError {
    FrameError::Malformed {
        tag: tag.to_owned(),
        request_id,
        problem: format!("no usable `{field}`"),
    }
}

pub(super) fn owned(raw: Option<&RawValue>) -> Box<RawValue> {
    raw.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)
}
