//! Reads JSON from T3 into a type, with errors that say where.

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::value::RawValue;
use serde_path_to_error::{Deserializer, Track};

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
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let mut track = Track::new();
    let value = T::deserialize(Deserializer::new(&mut deserializer, &mut track))
        .map_err(|error| failure::<T>(&track.path().to_string(), &error.to_string()))?;
    deserializer
        .end()
        .map_err(|error| failure::<T>(WHOLE, &error.to_string()))?;
    Ok(value)
}

/// The path of the whole.
const WHOLE: &str = ".";
/// An error that arose in fields that were kept back carries its own path in front, since nothing tracked it: `located`.
const START: &str = "in `";
const END: &str = "`: ";

/// Reads a seed from JSON text that was kept back: or where it failed, and why.
pub(super) fn seed<'de, S: DeserializeSeed<'de>>(seed: S, text: &'de RawValue) -> Result<S::Value, (String, String)> {
    let mut deserializer = serde_json::Deserializer::from_slice(text.get().as_bytes());
    let mut track = Track::new();
    seed.deserialize(Deserializer::new(&mut deserializer, &mut track))
        .map_err(|error| {
            let message = error.to_string();
            let (path, message) = locate(&track.path().to_string(), &message);
            (path, message.to_owned())
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

fn locate<'m>(path: &str, message: &'m str) -> (String, &'m str) {
    match message.strip_prefix(START).and_then(|rest| rest.split_once(END)) {
        Some((inner, message)) => (join(path, inner), message),
        None => (path.to_owned(), message),
    }
}

fn failure<T>(path: &str, message: &str) -> DecodeError {
    let (path, message) = locate(path, message);
    let name = std::any::type_name::<T>();
    DecodeError {
        type_name: name.rsplit("::").next().unwrap_or(name),
        path,
        message: message.to_owned(),
    }
}
