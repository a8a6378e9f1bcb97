//! Writes an answer as short text: the same facts as its structured content, for clients that read only text.
//!
//! One line a fact, nested ones indented, in the order in which the answer's type declares its fields, so that what a cut would take is what
//! matters least. It never adds or leaves out a fact. `tool` calls it for every result.

use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value that keeps the order of its keys.
#[derive(Debug)]
enum Node {
    Map(Vec<(String, Node)>),
    List(Vec<Node>),
    Text(String),
    Word(String),
}

/// The answer, rendered from its JSON.
pub(super) fn facts(json: &str) -> String {
    let mut out = String::new();
    // Only what we serialised ourselves comes here; were it no JSON, it would still be the facts.
    let Ok(node) = serde_json::from_str::<Node>(json) else {
        return json.to_owned();
    };
    if let Node::Map(entries) = &node {
        write_entries(&mut out, entries, 0);
    } else {
        write_value(&mut out, &node, 0);
    }
    out.truncate(out.trim_end().len());
    out
}

fn write_entries(out: &mut String, entries: &[(String, Node)], depth: usize) {
    for (position, (key, node)) in entries.iter().enumerate() {
        if position > 0 || depth == 0 {
            indent(out, depth);
        }
        out.push_str(key);
        out.push(':');
        write_value(out, node, depth);
    }
}

/// Writes what stands behind a key, its line's end included.
fn write_value(out: &mut String, node: &Node, depth: usize) {
    match node {
        Node::Word(word) => {
            let _ = writeln!(out, " {word}");
        }
        Node::Text(text) if text.contains('\n') => {
            out.push_str(" |\n");
            // Marked, not indented: a report of a thousand lines stays short, and no line of it can pass for a fact.
            for line in text.lines() {
                out.push_str("> ");
                out.push_str(line);
                out.push('\n');
            }
        }
        Node::Text(text) => {
            let _ = writeln!(out, " {text}");
        }
        Node::List(items) if items.is_empty() => out.push_str(" none\n"),
        Node::List(items) if items.iter().all(Node::is_short) => {
            let words: Vec<&str> = items.iter().filter_map(Node::word).collect();
            let _ = writeln!(out, " {}", words.join(", "));
        }
        Node::List(items) => {
            out.push('\n');
            for item in items {
                indent(out, depth);
                out.push('-');
                match item {
                    Node::Map(entries) => {
                        out.push(' ');
                        write_entries(out, entries, depth + 1);
                    }
                    Node::List(_) | Node::Text(_) | Node::Word(_) => write_value(out, item, depth + 1),
                }
            }
        }
        Node::Map(entries) if entries.is_empty() => out.push_str(" none\n"),
        Node::Map(entries) => {
            out.push('\n');
            indent(out, depth + 1);
            write_entries(out, entries, depth + 1);
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

impl Node {
    fn word(&self) -> Option<&str> {
        match self {
            Self::Text(word) | Self::Word(word) => Some(word),
            Self::Map(_) | Self::List(_) => None,
        }
    }

    /// Fits into a line with its neighbours.
    fn is_short(&self) -> bool {
        self.word()
            .is_some_and(|word| word.len() <= 80 && !word.contains(['\n', ',']))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Word(if value { "yes" } else { "no" }.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Word(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Word(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Word(value.to_string()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Word("none".into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_keep_the_order_of_the_fields_and_indent_what_is_nested() {
        let json = r#"{"z":"last first","a":3,"ok":true,"run":{"id":"r1","status":"done"},"tags":["x","y"],
            "messages":[{"role":"user","text":"one\ntwo"},{"role":"assistant","text":"ok"}],"nothing":[]}"#;
        assert_eq!(
            facts(json),
            "z: last first\na: 3\nok: yes\nrun:\n  id: r1\n  status: done\ntags: x, y\nmessages:\n- role: user\n  text: |\n> one\n> two\n\
             - role: assistant\n  text: ok\nnothing: none"
        );
    }
}
