//! Where in a JSON text a reading failed: the path of the place that `serde_json` names by line and column.
//!
//! Following the path while reading would make each of T3's types a second time, wrapped, and every read slower; a text that cannot be read is
//! rare, so its path is looked up afterwards. It never judges the text: what follows the place is not looked at. `decode` calls it.

use super::decode::WHOLE;

/// Which value an error speaks of, seen from where the reader stood when it arose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Blame {
    /// The value that was read last.
    Value,
    /// The value that begins there, of which nothing was read yet.
    Next,
    /// The object or list around what was read last: it lacks something, or is not written as one.
    Holder,
}

impl Blame {
    /// By serde's and `serde_json`'s words; `is_syntax` if the text is no JSON.
    pub(super) fn of(message: &str, is_syntax: bool) -> Self {
        let begins = |words: &[&str]| words.iter().any(|word| message.starts_with(word));
        let around = if is_syntax {
            begins(&[
                "EOF while parsing an object",
                "EOF while parsing a list",
                "expected `",
                "trailing ",
                "key must be",
            ])
        } else {
            begins(&["missing field", "duplicate field", "invalid length"])
        };
        if around {
            Self::Holder
        } else if begins(&[
            "invalid type: map",
            "invalid type: sequence",
            "expected value",
            "EOF while parsing a value",
        ]) {
            Self::Next
        } else {
            Self::Value
        }
    }
}

/// An object or list that is open.
#[derive(Clone, Copy)]
enum Open<'t> {
    /// With the key read last, between its quotes.
    Object(Option<&'t [u8]>),
    /// With the position of its element.
    List(usize),
}

/// What was read last.
#[derive(Clone, Copy)]
enum Last<'t> {
    /// `[` or `{`, or nothing at all.
    Open,
    Colon,
    Comma,
    Key,
    /// A text, number or word.
    Scalar,
    /// The end of an object or list, with its last key or position if it has any.
    Close(Option<Open<'t>>),
}

/// The path of what an error is about, like `snapshot.threads[2].status`; `.` is the whole. `column` counts the bytes of the line that were
/// read, as `serde_json` does.
pub(super) fn path_at(text: &[u8], line: usize, column: usize, blame: Blame) -> String {
    let mut scan = Scan {
        rest: text.get(..index(text, line, column)).unwrap_or(text),
        open: Vec::new(),
        last: Last::Open,
    };
    while scan.step() {}
    scan.path(blame)
}

/// How many bytes lie before a place.
fn index(text: &[u8], line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        Some(lines) => {
            let mut ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            ends.nth(lines).map_or(text.len(), |(at, _)| at + 1)
        }
        None => 0,
    };
    start.saturating_add(column).min(text.len())
}

struct Scan<'t> {
    rest: &'t [u8],
    open: Vec<Open<'t>>,
    last: Last<'t>,
}

impl<'t> Scan<'t> {
    /// Reads a token; false at the end.
    fn step(&mut self) -> bool {
        let Some((first, rest)) = self.rest.split_first() else {
            return false;
        };
        self.rest = rest;
        match first {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' => self.opens(Open::Object(None)),
            b'[' => self.opens(Open::List(0)),
            b'}' | b']' => {
                let closed = self.open.pop();
                self.last = Last::Close(closed.filter(|_| !matches!(self.last, Last::Open)));
            }
            b':' => self.last = Last::Colon,
            b',' => {
                if let Some(Open::List(position)) = self.open.last_mut() {
                    *position += 1;
                }
                self.last = Last::Comma;
            }
            b'"' => self.text(),
            _ => {
                let end = rest.iter().position(|byte| b" \t\r\n{}[]:,\"".contains(byte));
                self.rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
                self.last = Last::Scalar;
            }
        }
        true
    }

    fn opens(&mut self, open: Open<'t>) {
        self.open.push(open);
        self.last = Last::Open;
    }

    /// Reads a text after its first quote.
    fn text(&mut self) {
        let mut escaped = false;
        let end = self.rest.iter().position(|byte| {
            let ends = !escaped && *byte == b'"';
            escaped = !escaped && *byte == b'\\';
            ends
        });
        let content = end.and_then(|end| self.rest.get(..end)).unwrap_or(self.rest);
        self.rest = end.and_then(|end| self.rest.get(end + 1..)).unwrap_or_default();
        self.last = match (self.open.last_mut(), self.last) {
            (Some(Open::Object(key)), Last::Open | Last::Comma) => {
                *key = Some(content);
                Last::Key
            }
            _ => Last::Scalar,
        };
    }

    fn path(mut self, blame: Blame) -> String {
        match (self.last, blame) {
            (Last::Close(closed), Blame::Value) => self.open.extend(closed),
            (Last::Close(_), Blame::Next | Blame::Holder) => {}
            (_, Blame::Holder) | (Last::Key, _) => drop(self.open.pop()),
            (Last::Comma, Blame::Value) => {
                if let Some(Open::List(position)) = self.open.last_mut() {
                    *position = position.saturating_sub(1);
                }
            }
            (Last::Open | Last::Colon | Last::Comma | Last::Scalar, Blame::Value | Blame::Next) => {}
        }
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::Object(Some(key)) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&unescaped(key));
                }
                Open::Object(None) => {}
                Open::List(position) => {
                    path.push('[');
                    path.push_str(&position.to_string());
                    path.push(']');
                }
            }
        }
        if path.is_empty() { WHOLE.to_owned() } else { path }
    }
}

/// A key as it is meant.
fn unescaped(key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    serde_json::from_str(&format!("\"{key}\"")).unwrap_or_else(|_| key.into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Deserializer};
    use serde_json::{Value, json};

    use super::super::decode::decode;
    use super::*;

    /// A word that a type refuses after it was read, as the enums of what is sent do.
    #[derive(Debug)]
    struct Word;

    impl<'de> Deserialize<'de> for Word {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let word = String::deserialize(deserializer)?;
            if word == "known" {
                return Ok(Self);
            }
            Err(serde::de::Error::unknown_variant(&word, &["known"]))
        }
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Sample {
        id: String,
        word: Word,
        small: u8,
        inner: Option<Box<Sample>>,
        words: Vec<Word>,
        samples: Vec<Sample>,
        lists: BTreeMap<String, Vec<u8>>,
    }

    fn tracked<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| error.path().to_string())
    }

    fn sample() -> impl Strategy<Value = Value> {
        let flat = (any::<u8>(), "[a-z\"\\\\{}\\[\\],: \n]{0,6}", 0usize..3).prop_map(|(small, id, words)| {
            json!({"id": id, "small": small, "word": "known", "words": vec!["known"; words], "inner": null, "samples": [],
                "lists": {(id.as_str()): [small]}})
        });
        flat.prop_recursive(3, 24, 3, |inner| {
            (inner.clone(), proptest::collection::vec(inner, 0..3)).prop_map(|(inner, samples)| {
                let mut sample = inner.clone();
                sample["inner"] = inner;
                sample["samples"] = Value::from(samples);
                sample
            })
        })
    }

    /// Every value in it, as JSON pointers.
    fn places(value: &Value, here: &str, found: &mut Vec<String>) {
        found.push(here.to_owned());
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    places(
                        value,
                        &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")),
                        found,
                    );
                }
            }
            Value::Array(items) => {
                for (position, value) in items.iter().enumerate() {
                    places(value, &format!("{here}/{position}"), found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn written(value: &Value, pretty: bool) -> String {
        if pretty {
            serde_json::to_string_pretty(value).unwrap()
        } else {
            value.to_string()
        }
    }

    proptest! {
        #[test]
        fn a_wrong_value_is_found_where_tracking_finds_it(
            mut value in sample(),
            at in any::<prop::sample::Index>(),
            wrong in prop_oneof![
                Just(json!(true)), Just(json!(-1)), Just(json!(300)), Just(json!("other")), Just(json!([[]])), Just(json!([])),
                Just(json!({})), Just(json!({"a": {"b": 1}})), Just(json!(null)),
            ],
            pretty in any::<bool>(),
        ) {
            let mut found = Vec::new();
            places(&value, "", &mut found);
            *value.pointer_mut(at.get::<String>(&found)).unwrap() = wrong;
            let text = written(&value, pretty);
            let expected = tracked::<Sample>(&text).err();
            let path = decode::<Sample>(text.as_bytes()).err().map(|error| error.path);
            prop_assert_eq!(path, expected, "{}", text);
        }

        #[test]
        fn a_missing_field_is_missed_where_tracking_misses_it(
            mut value in sample(), at in any::<prop::sample::Index>(), pretty in any::<bool>()
        ) {
            let mut found = Vec::new();
            places(&value, "", &mut found);
            found.retain(|place| place.contains('/'));
            let (holder, field) = at.get::<String>(&found).rsplit_once('/').unwrap();
            if let Some(Value::Object(fields)) = value.pointer_mut(holder) {
                fields.remove(field);
            }
            let text = written(&value, pretty);
            let expected = tracked::<Sample>(&text).err();
            let path = decode::<Sample>(text.as_bytes()).err().map(|error| error.path);
            prop_assert_eq!(path, expected, "{}", text);
        }

        #[test]
        fn no_text_and_no_place_is_too_odd(text in ".{0,60}", line in 0usize..5, column in 0usize..80) {
            for blame in [Blame::Value, Blame::Next, Blame::Holder] {
                path_at(text.as_bytes(), line, column, blame);
            }
        }
    }

    fn path<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        decode::<T>(text.as_bytes()).unwrap_err().path
    }

    #[test]
    fn a_text_that_breaks_off_is_told_where() {
        assert_eq!(path::<Value>(r#"{"a":[1,{"b":"#), "a[1].b");
        assert_eq!(path::<Value>(r#"{"a":[1,{"b":tru"#), "a[1].b");
        assert_eq!(path::<Value>(r#"{"a":[1,{"b":"te"#), "a[1].b");
        assert_eq!(path::<Value>(r#"{"a":[1,{"b":1"#), "a[1]");
        assert_eq!(path::<Value>(r#"{"a":[1,"#), "a[1]");
        assert_eq!(path::<Value>(r#"{"a":[1"#), "a");
        assert_eq!(path::<Value>(""), ".");
    }

    #[test]
    fn what_is_no_json_is_told_where() {
        assert_eq!(path::<Value>(r#"{"a":[1,{"b":1]}"#), "a[1]");
        assert_eq!(path::<Value>(r#"{"a":[1,x]}"#), "a[1]");
        assert_eq!(path::<Value>(r#"{"a":[1,]}"#), "a");
        assert_eq!(path::<Value>("{\"a\":\n1\n2}"), ".");
        assert_eq!(path::<Value>(r#"{"a":1} {}"#), ".");
    }
}
