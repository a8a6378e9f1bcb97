//! Compares an answer with a recorded one: keys, types, and the words that are the same on every server.

use serde_json::Value;

/// Values under these keys are compared as they are.
const WORDS: &[&str] = &[
    "_tag",
    "kind",
    "status",
    "type",
    "role",
    "inputIntent",
    "title",
    "requestKind",
    "ordinal",
    "queuePosition",
    "attemptOrdinal",
    "reason",
    "driver",
    "providerInstanceId",
    "location",
    "runtimeMode",
    "interactionMode",
    "countsForRun",
    "strength",
    "ordinalWithinScope",
    "appRunOrdinal",
    "streaming",
    "activityRunStatus",
    "createdBy",
    "creationSource",
    "prompt",
    "input",
    "output",
    "exitCode",
    "defect",
    "commandType",
    "name",
    "code",
    "requiredScope",
    "itemCount",
    "settledOverride",
    "class",
    "resumed",
    "branch",
    "worktreePath",
    "workspaceRoot",
    "authenticated",
    "token_type",
    "scope",
    "message",
    "detail",
    "cause",
];

/// Lists under these keys have the same length on every server.
const WHOLE_LISTS: &[&str] = &[
    "runs",
    "attempts",
    "nodes",
    "turnItems",
    "messages",
    "runtimeRequests",
    "providerTurns",
    "checkpoints",
    "questions",
    "options",
];

/// Objects under these keys are not compared: pruned from the recordings, or told elsewhere.
const APART: &[&str] = &[
    "capabilities",
    "keybindings",
    "settings",
    "providers",
    "models",
    "traceId",
    "visibleTurnItems",
    "threads",
    "archivedThreads",
];

/// What differs between a recorded value and ours, if anything, by path.
pub fn differences(recorded: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(recorded, ours, "", "", &mut found);
    found
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn compare(recorded: &Value, ours: &Value, path: &str, key: &str, found: &mut Vec<String>) {
    if APART.contains(&key) {
        return;
    }
    match (recorded, ours) {
        (Value::Object(recorded), Value::Object(ours)) => {
            // What was there before the first run is filed under whichever run was newest just then.
            let by_chance = recorded.contains_key("ordinalWithinScope") && recorded.get("runId") == Some(&Value::Null);
            for (name, value) in recorded.iter().filter(|(name, _)| !(by_chance && *name == "nodeId")) {
                match ours.get(name) {
                    Some(own) => compare(value, own, &format!("{path}.{name}"), name, found),
                    None if APART.contains(&name.as_str()) => {}
                    None => found.push(format!("{path}.{name} is missing")),
                }
            }
            for name in ours.keys() {
                if !recorded.contains_key(name) && !APART.contains(&name.as_str()) {
                    found.push(format!("{path}.{name} is too much"));
                }
            }
        }
        (Value::Array(recorded), Value::Array(ours)) => {
            if WHOLE_LISTS.contains(&key) && recorded.len() != ours.len() {
                found.push(format!(
                    "{path} has {} entries, recorded {}",
                    ours.len(),
                    recorded.len()
                ));
            }
            for (place, (value, own)) in recorded.iter().zip(ours).enumerate() {
                compare(value, own, &format!("{path}[{place}]"), key, found);
            }
        }
        _ if kind(recorded) != kind(ours) => {
            found.push(format!("{path} is {ours}, recorded {recorded}"));
        }
        (Value::String(recorded), Value::String(ours)) => {
            let is_id = key.ends_with("Id") || (key == "id" && !path.ends_with(".event.id"));
            if (WORDS.contains(&key) || is_id) && plain(recorded) != plain(ours) {
                found.push(format!("{path} is {ours:?}, recorded {recorded:?}"));
            }
        }
        _ => {
            if WORDS.contains(&key) && recorded != ours {
                found.push(format!("{path} is {ours}, recorded {recorded}"));
            }
        }
    }
}

/// A text without what is different in every run: uuids, their short names in the fixtures, session numbers.
fn plain(text: &str) -> String {
    let mut decoded = text.to_owned();
    while decoded.contains("%25") || decoded.contains("%3A") {
        decoded = decoded.replace("%25", "%").replace("%3A", ":");
    }
    let text = decoded.as_str();
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let is_short = word.starts_with('u') && word.len() > 1 && word.chars().skip(1).all(|c| c.is_ascii_digit());
        let is_uuid = word.len() == 36 && word.chars().filter(|c| *c == '-').count() == 4;
        if is_short || is_uuid {
            out.push('*');
        } else if word.starts_with("fake-session-") {
            out.push_str("fake-session");
        } else {
            out.push_str(word);
        }
        word.clear();
    };
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || letter == '-' {
            word.push(letter);
        } else {
            flush(&mut word, &mut out);
            out.push(letter);
        }
    }
    flush(&mut word, &mut out);
    out
}
