//! How long the texts of a call may be. Looked at before anything reads them, alike for every tool: T3 keeps titles and messages for ever, and sends
//! them to everybody who looks.

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::gateway::ToolError;
use crate::mcp::errors;

/// A prompt: more than any model reads at once.
const PROMPT: usize = 1_000_000;

/// A title stands in one line of a list.
const TITLE: usize = 500;

/// An answer in one's own words.
const ANSWER: usize = 100_000;

/// Everything else is a name, an id, a path, a search or a cursor.
const OTHER: usize = 8_192;

/// Refuses the first text that is too long.
pub(super) fn check(tool: &str, arguments: &JsonObject) -> Result<(), ToolError> {
    arguments
        .iter()
        .try_for_each(|(name, value)| entry(tool, "", name, value, None))
}

/// `most` is what an argument above says of all that is in it.
fn entry(tool: &str, above: &str, name: &str, value: &Value, most: Option<usize>) -> Result<(), ToolError> {
    if longer(name, OTHER) {
        return Err(errors::too_long(
            tool,
            "the name of an argument",
            name.chars().count(),
            OTHER,
        ));
    }
    let most = most.or(match name {
        "prompt" => Some(PROMPT),
        "title" => Some(TITLE),
        "answers" => Some(ANSWER),
        _ => None,
    });
    let path = if above.is_empty() {
        name.to_owned()
    } else {
        format!("{above}.{name}")
    };
    look(tool, &path, value, most)
}

fn look(tool: &str, path: &str, value: &Value, most: Option<usize>) -> Result<(), ToolError> {
    match value {
        Value::String(text) => {
            let most = most.unwrap_or(OTHER);
            if longer(text, most) {
                return Err(errors::too_long(tool, path, text.chars().count(), most));
            }
            Ok(())
        }
        Value::Array(items) => (0..)
            .zip(items)
            .try_for_each(|(at, item)| look(tool, &format!("{path}[{at}]"), item, most)),
        Value::Object(entries) => entries
            .iter()
            .try_for_each(|(name, value)| entry(tool, path, name, value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Counts only what might be too long.
fn longer(text: &str, chars: usize) -> bool {
    text.len() > chars && text.chars().nth(chars).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn checked(arguments: &Value) -> Result<(), ToolError> {
        check("t3_dispatch", arguments.as_object().unwrap())
    }

    #[test]
    fn each_text_has_its_bound_wherever_it_stands() {
        let text = |chars: usize| "ä".repeat(chars);
        assert!(checked(&json!({"title": text(500), "prompt": text(1_000_000), "project": text(8_192)})).is_ok());
        assert!(checked(&json!({"answers": {"q": [text(100_000)]}, "items": [{"title": text(500)}]})).is_ok());
        for (arguments, field, most) in [
            (json!({"title": text(501)}), "title", 500),
            (json!({"prompt": text(1_000_001)}), "prompt", 1_000_000),
            (json!({"machine": text(8_193)}), "machine", 8_192),
            (json!({"items": [{}, {"title": text(501)}]}), "items[1].title", 500),
            (json!({"answers": {"q": [text(100_001)]}}), "answers.q[0]", 100_000),
            (
                json!({"options": {text(8_193): true}}),
                "the name of an argument",
                8_192,
            ),
        ] {
            let error = checked(&arguments).unwrap_err();
            assert_eq!(
                (error.extra["field"].as_str(), error.extra["most"].as_u64()),
                (Some(field), Some(most))
            );
            assert!(error.message.contains(&most.to_string()), "{error}");
        }
    }
}
