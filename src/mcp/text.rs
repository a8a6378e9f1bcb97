//! Writes an answer as short text: the same facts as its structured content, for clients that read only text.
//!
//! One line a fact, nested ones indented, in the order in which the answer's type declares its fields. It never adds a fact, and leaves none out:
//! layout costs a little more here than in JSON, so where the text would grow beyond its bound, its longest texts are shortened and say so.
//! `tool` calls it for every result.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use crate::gateway::ANSWER_CHARS;

/// How often a text is shortened before the end of the whole is cut off. Once is enough but for answers of very many long texts.
const MOST_CUTS: usize = 64;

/// What stands for what was cut takes at most so many characters.
const MARK_CHARS: usize = 80;

/// A JSON value that keeps the order of its keys. It is made for every answer: what the JSON has as it is, is not copied.
#[derive(Debug)]
enum Node<'j> {
    Map(Vec<(Key<'j>, Node<'j>)>),
    List(Vec<Node<'j>>),
    Text(Cow<'j, str>),
    Word(Cow<'static, str>),
}

/// The name of a field.
#[derive(Debug, Deserialize)]
struct Key<'j>(#[serde(borrow)] Cow<'j, str>);

/// The whole text of a result: a line that sums it up, then the facts. It has at most as many characters as answers are cut to, or as the
/// JSON itself where that is more.
pub(super) fn told(summary: &str, json: &str) -> String {
    let bound = json.chars().count().max(ANSWER_CHARS);
    let summary_chars = summary.chars().count() + 1;
    let facts = facts(json, bound.saturating_sub(summary_chars));
    [summary, &facts].join("\n")
}

/// The answer, rendered from its JSON, in at most `bound` characters.
fn facts(json: &str, bound: usize) -> String {
    // Only what we serialised ourselves comes here; were it no JSON, it would still be the facts.
    let Ok(mut node) = serde_json::from_str::<Node<'_>>(json) else {
        return head(json, bound).to_owned();
    };
    let mut out = render(&node);
    for _ in 0..MOST_CUTS {
        let excess = out.chars().count().saturating_sub(bound);
        if excess == 0 || !node.shorten_longest(excess) {
            break;
        }
        out = render(&node);
    }
    let kept = head(&out, bound).len();
    out.truncate(kept);
    out
}

fn render(node: &Node<'_>) -> String {
    let mut out = String::new();
    if let Node::Map(entries) = node {
        write_entries(&mut out, entries, 0);
    } else {
        write_value(&mut out, node, 0);
    }
    out.truncate(out.trim_end().len());
    out
}

fn head(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((at, _)) => text.get(..at).unwrap_or(text),
        None => text,
    }
}

fn write_entries(out: &mut String, entries: &[(Key<'_>, Node<'_>)], depth: usize) {
    for (position, (Key(key), node)) in entries.iter().enumerate() {
        if position > 0 || depth == 0 {
            indent(out, depth);
        }
        out.push_str(key);
        out.push(':');
        write_value(out, node, depth);
    }
}

/// Writes what stands behind a key, its line's end included.
fn write_value(out: &mut String, node: &Node<'_>, depth: usize) {
    match node {
        Node::Word(word) => {
            let _ = writeln!(out, " {word}");
        }
        Node::Text(text) if text.contains('\n') => {
            out.push_str(" |\n");
            // Marked, not indented: a report of a thousand lines stays short, and no line of it can pass for a fact.
            for line in text.lines() {
                out.push('>');
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

impl<'j> Node<'j> {
    /// Takes so many characters, or as many as there are, from the end of the longest text; false if no text is long enough to be worth it.
    fn shorten_longest(&mut self, excess: usize) -> bool {
        let Some((chars, text)) = self.longest() else {
            return false;
        };
        if chars <= 2 * MARK_CHARS {
            return false;
        }
        let kept = chars.saturating_sub(excess + MARK_CHARS).max(MARK_CHARS);
        let at = head(text, kept).len();
        let text = text.to_mut();
        text.truncate(at);
        let _ = write!(text, "… ({} characters more in the structured content)", chars - kept);
        true
    }

    fn longest(&mut self) -> Option<(usize, &mut Cow<'j, str>)> {
        match self {
            Self::Text(text) => Some((text.chars().count(), text)),
            Self::Word(_) => None,
            Self::List(items) => items
                .iter_mut()
                .filter_map(Self::longest)
                .max_by_key(|(chars, _)| *chars),
            Self::Map(entries) => entries
                .iter_mut()
                .filter_map(|(_, node)| node.longest())
                .max_by_key(|(chars, _)| *chars),
        }
    }

    fn word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Word(word) => Some(word),
            Self::Map(_) | Self::List(_) => None,
        }
    }

    /// Fits into a line with its neighbours.
    fn is_short(&self) -> bool {
        self.word()
            .is_some_and(|word| word.len() <= 80 && !word.contains(['\n', ',']))
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Node<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
                Ok(Node::Word(if value { "yes" } else { "no" }.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
                Ok(Node::Word(value.to_string().into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
                Ok(Node::Word(value.to_string().into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
                Ok(Node::Word(value.to_string().into()))
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Node<'de>, E> {
                Ok(Node::Text(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Node<'de>, E> {
                Ok(Node::Text(value.to_owned().into()))
            }

            fn visit_unit<E>(self) -> Result<Node<'de>, E> {
                Ok(Node::Word("none".into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
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
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn facts_keep_the_order_of_the_fields_and_indent_what_is_nested() {
        let json = r#"{"z":"last first","a":3,"ok":true,"run":{"id":"r1","status":"done"},"tags":["x","y"],
            "messages":[{"role":"user","text":"one\ntwo"},{"role":"assistant","text":"ok"}],"nothing":[]}"#;
        assert_eq!(
            facts(json, 1_000),
            "z: last first\na: 3\nok: yes\nrun:\n  id: r1\n  status: done\ntags: x, y\nmessages:\n- role: user\n  text: |\n>one\n>two\n\
             - role: assistant\n  text: ok\nnothing: none"
        );
    }

    #[test]
    fn what_is_too_long_loses_the_end_of_its_longest_text_and_no_other_fact() {
        let view = json!({"a": "first", "report": "line\n\n".repeat(400), "z": {"pending": ["yes"]}}).to_string();
        let text = facts(&view, 1_000);
        assert!(text.chars().count() <= 1_000, "{text}");
        assert!(text.starts_with("a: first\nreport: |\n>line\n>\n>line\n"), "{text}");
        assert!(
            text.ends_with(" characters more in the structured content)\nz:\n  pending: yes"),
            "{text}"
        );
    }

    #[test]
    fn an_answer_within_its_bound_as_json_is_within_it_as_text() {
        // Layout takes most where much is nested and little is said.
        let question = json!({"id": "1", "options": (0..30).map(|_| json!({"a": 1, "b": 2})).collect::<Vec<_>>()});
        let view = json!({"pending": (0..45).map(|_| json!({"questions": [question]})).collect::<Vec<_>>(), "text": "x".repeat(3_000)});
        let view = view.to_string();
        assert!(view.len() <= ANSWER_CHARS && facts(&view, usize::MAX).len() > ANSWER_CHARS);
        assert!(told("Done.", &view).chars().count() <= ANSWER_CHARS);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            "[a-z\n ]{0,300}".prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::vec(("[a-z]{1,8}", inner), 0..8)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_is_longer_than_its_bound(value in value(), bound in 0usize..2_000) {
            prop_assert!(facts(&value.to_string(), bound).chars().count() <= bound);
        }

        #[test]
        fn a_text_of_lines_is_hardly_longer_than_its_json(text in "[a\n]{0,2000}") {
            let json = json!({"report": text}).to_string();
            prop_assert!(facts(&json, usize::MAX).chars().count() <= json.chars().count());
        }
    }
}
