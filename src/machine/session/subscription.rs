//! What to subscribe to: a stream of T3's, asked for from its beginning.
//!
//! Data only, the same for every connection. T3 could go on after a sequence, but it begins with a whole snapshot whenever a gap is
//! too wide, so a reader has to take one anyway: each connection asks for it, and what was missed is in it.

use serde_json::value::RawValue;

use crate::protocol::ThreadId;

/// A stream to subscribe to, in each session anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    tag: String,
    marker: bool,
    thread: Option<ThreadId>,
}

impl Subscription {
    /// A stream of the procedure `tag`.
    pub fn new(tag: impl Into<String>) -> Self {
        Self {
            tag: tag.into(),
            marker: true,
            thread: None,
        }
    }

    /// The same of one that knows no completion marker.
    pub fn plain(tag: impl Into<String>) -> Self {
        Self {
            tag: tag.into(),
            marker: false,
            thread: None,
        }
    }

    /// The stream of a thread.
    pub fn of_thread(tag: impl Into<String>, thread: &ThreadId) -> Self {
        Self {
            tag: tag.into(),
            marker: false,
            thread: Some(thread.clone()),
        }
    }

    /// The procedure.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// What to send: the wish for the completion marker, and no `afterSequence` (T3 refuses `null`).
    pub fn payload(&self) -> Box<RawValue> {
        if let Some(thread) = &self.thread {
            let payload = serde_json::json!({ "threadId": thread.0 });
            return serde_json::value::to_raw_value(&payload).unwrap_or_else(|_| empty_object());
        }
        if !self.marker {
            return empty_object();
        }
        RawValue::from_string(r#"{"requestCompletionMarker":true}"#.into()).unwrap_or_else(|_| empty_object())
    }
}

/// `{}`: the payload of a procedure that takes none (T3 refuses `null`).
pub fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".into()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
