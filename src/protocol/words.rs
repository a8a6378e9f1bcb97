//! Reads the word of a string enum: what the generated enums share.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// The word that stands in the place of an enum; `name` is the enum's, for the error.
pub(super) fn word<'de, D: Deserializer<'de>>(deserializer: D, name: &'static str) -> Result<Cow<'de, str>, D::Error> {
    deserializer.deserialize_str(Word(name))
}

struct Word(&'static str);

impl<'de> Visitor<'de> for Word {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a word of `{}`", self.0)
    }

    fn visit_borrowed_str<E: Error>(self, word: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(word))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(word.to_owned()))
    }

    fn visit_string<E: Error>(self, word: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(word))
    }
}
