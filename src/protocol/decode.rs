//! Reads JSON from T3 into a type, with errors that say where.

use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::value::RawValue;

use super::place::{Blame, path_at};

/// JSON from T3 that is not what the contract says.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("`{type_name}` at `{path}`: {message}")]
pub struct DecodeError {
    /// The type that was to be read.
    pub type_name: &'static str,
    /// Where in it, like `snapshot.threads[2].status`; `.` is the whole.
    pub path: String,
    /// What is wrong there. It can hold a piece of what T3 sent.
    pub message: String,
}

/// Reads a type from JSON text.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, DecodeError> {
    read(text).map_err(|Fault { path, message }| {
        let name = std::any::type_name::<T>();
        DecodeError {
            type_name: name.rsplit("::").next().unwrap_or(name),
            path,
            message,
        }
    })
}

/// What is wrong with a text, and where in it.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Where, like `snapshot.threads[2].status`; `.` is the whole.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// Reads a type that may borrow from JSON text.
pub(crate) fn read<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Fault> {
    serde_json::from_slice(text).map_err(|error| fault(text, &error))
}

/// The path of the whole.
pub(super) const WHOLE: &str = ".";
/// An error that arose in fields that were kept back carries its own path in front, since they are a text of their own: `located`.
const START: &str = "in `";
const END: &str = "`: ";

/// Reads a seed from JSON text that was kept back: or what is wrong in it, and where.
pub(super) fn seed<'de, S: DeserializeSeed<'de>>(seed: S, text: &'de RawValue) -> Result<S::Value, Fault> {
    let text = text.get().as_bytes();
    seed.deserialize(&mut serde_json::Deserializer::from_slice(text))
        .map_err(|error| {
            let Fault { path, mut message } = fault(text, &error);
            // serde_json would take it for the place in the whole text.
            message.truncate(message.len() - place_of(&error).len());
            Fault { path, message }
        })
}

/// A message that carries its path.
pub(super) fn located(path: &str, message: &str) -> String {
    format!("{START}{path}{END}{message}")
}

/// The path of the inner within the outer.
pub(super) fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        (outer, WHOLE) => outer.to_owned(),
        (WHOLE, inner) => inner.to_owned(),
        (outer, inner) if inner.starts_with('[') => format!("{outer}{inner}"),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

fn fault(text: &[u8], error: &serde_json::Error) -> Fault {
    let message = error.to_string();
    let path = |blame| {
        // The column of what is no JSON counts what should not be there.
        let column = error.column().saturating_sub(usize::from(error.is_syntax()));
        path_at(text, error.line(), column, blame)
    };
    match message.strip_prefix(START).and_then(|rest| rest.split_once(END)) {
        // The fields that were kept back are those of the object around the tag.
        Some((inner, message)) => Fault {
            path: join(&path(Blame::Holder), inner),
            message: message.to_owned(),
        },
        None => Fault {
            path: path(Blame::of(&message, error.is_syntax() || error.is_eof())),
            message,
        },
    }
}

/// How `serde_json` ends the message of an error.
fn place_of(error: &serde_json::Error) -> String {
    match error.line() {
        0 => String::new(),
        line => format!(" at line {line} column {}", error.column()),
    }
}
