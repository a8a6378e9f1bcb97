//! A stream that is to survive its socket: what to ask for, and from where to go on.
//!
//! Data only. Whoever applies the values says how far it came ([`Subscription::resume_after`]); after a reconnect the same
//! subscription asks for what came later.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// A stream to subscribe to, now and after each reconnect.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    tag: String,
    fields: Map<String, Value>,
    after: Option<u64>,
}

impl Subscription {
    /// A stream of the procedure `tag`, from its beginning.
    pub fn new(tag: impl Into<String>) -> Self {
        Self {
            tag: tag.into(),
            fields: Map::new(),
            after: None,
        }
    }

    /// With a field of the payload, such as `threadId`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// The procedure.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The sequence that the next subscription goes on after.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    /// What to send now: always with the completion marker, with `afterSequence` only where there is one (T3 refuses `null`).
    pub fn payload(&self) -> Box<RawValue> {
        let mut fields = self.fields.clone();
        fields.insert("requestCompletionMarker".into(), true.into());
        if let Some(after) = self.after {
            fields.insert("afterSequence".into(), after.into());
        }
        // A map with text keys has a JSON form; an empty object is what a bug here would send.
        to_raw_value(&fields).unwrap_or_else(|_| empty_object())
    }

    /// Everything up to this sequence was applied. `None` starts over with a whole snapshot. It may go back: a restored database
    /// counts from lower again.
    pub fn resume_after(&mut self, sequence: Option<u64>) {
        self.after = sequence;
    }
}

/// `{}`: the payload of a procedure that takes none (T3 refuses `null`).
pub fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".into()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
