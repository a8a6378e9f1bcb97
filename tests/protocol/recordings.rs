//! Frames of a real server, of August 2026: older than the contract that the types are of.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use t3code_mcp::protocol::v2;

use super::round::{Outcome, round};
use crate::recorded;

/// A value's type, and whether it came back equal.
pub(super) type Tried = (&'static str, Outcome);

/// How a protocol's values are tried: what a frame asks, what one answers to a call, and the answer to a request over HTTP.
pub(super) struct Types {
    /// Fields that no contract of the protocol has: they were sent to see that the server ignores them. So do we: they are not printed.
    pub(super) unknown_fields: &'static [&'static str],
    pub(super) request: fn(&Value) -> Option<Tried>,
    pub(super) answer: fn(&str, &Value) -> Vec<Tried>,
    pub(super) http: fn(&Value, &Value) -> Option<Tried>,
}

const PROTOCOL_2: Types = Types {
    unknown_fields: &["bogus"],
    request,
    answer,
    http,
};

/// What a recording's lines hold, each with its place.
pub(super) fn read(file: &str, lines: &[Value], types: &Types) -> Vec<(String, &'static str, Outcome)> {
    let undecodable = undecodable(lines);
    let mut requests = BTreeMap::new();
    let mut asked = Value::Null;
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let body = &line["body"];
        let from_server = line["dir"] == "s2c";
        if line["kind"] == "http" {
            if from_server {
                found.extend((types.http)(&asked, body).map(|(kind, outcome)| (place, kind, outcome)));
            } else {
                asked = body.clone();
            }
            continue;
        }
        for frame in frames(line) {
            let key = key(line, &frame);
            if from_server {
                let tag = requests.get(&key).map_or("", String::as_str);
                found.extend(
                    (types.answer)(tag, &frame)
                        .into_iter()
                        .map(|(kind, outcome)| (place.clone(), kind, outcome)),
                );
            } else if frame["_tag"] == "Request" {
                requests.insert(key.clone(), frame["tag"].as_str().unwrap().to_owned());
                if !undecodable.contains(&key) {
                    let frame = without_unknown_fields(frame, types.unknown_fields);
                    found.extend((types.request)(&frame).map(|(kind, outcome)| (place.clone(), kind, outcome)));
                }
            }
        }
    }
    found
}

/// The frames of a line: T3 takes arrays of them too. Text that is no JSON was sent to see what happens.
fn frames(line: &Value) -> Vec<Value> {
    let body = match &line["body"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        body => body.clone(),
    };
    match body {
        Value::Array(frames) => frames,
        frame => vec![frame],
    }
}

/// Connection and request id.
fn key(line: &Value, frame: &Value) -> (String, String) {
    let id = if frame["_tag"] == "Request" {
        &frame["id"]
    } else {
        &frame["requestId"]
    };
    (line["conn"].to_string(), id.to_string())
}

/// Requests that the recorded server could not decode: they were sent to see what it says.
fn undecodable(lines: &[Value]) -> BTreeSet<(String, String)> {
    let frames = lines
        .iter()
        .flat_map(|line| frames(line).into_iter().map(move |frame| (line, frame)));
    let refused = frames.filter(|(_, frame)| frame["exit"]["cause"][0]["_tag"] == "Die");
    refused.map(|(line, frame)| key(line, &frame)).collect()
}

fn without_unknown_fields(mut frame: Value, unknown: &[&str]) -> Value {
    if let Some(payload) = frame["payload"].as_object_mut() {
        payload.retain(|field, _| !unknown.contains(&field.as_str()));
    }
    frame
}

fn request(frame: &Value) -> Option<Tried> {
    let payload = &frame["payload"];
    Some(match frame["tag"].as_str()? {
        "orchestration.dispatchCommand" => ("Command", round::<v2::Command>(payload)),
        "orchestration.launchThread" => ("ThreadLaunchInput", round::<v2::ThreadLaunchInput>(payload)),
        "orchestration.subscribeShell" => ("SubscribeShellInput", round::<v2::SubscribeShellInput>(payload)),
        "orchestration.subscribeThread" => ("SubscribeThreadInput", round::<v2::SubscribeThreadInput>(payload)),
        "projects.mutate" => ("ProjectMutation", round::<v2::ProjectMutation>(payload)),
        _ => return None,
    })
}

fn answer(tag: &str, frame: &Value) -> Vec<Tried> {
    if let Some(values) = frame["values"].as_array() {
        let item = |value| match tag {
            "orchestration.subscribeThread" => ("ThreadStreamItem", round::<v2::ThreadStreamItem>(value)),
            "orchestration.subscribeArchivedShell" => {
                ("ArchivedShellStreamItem", round::<v2::ArchivedShellStreamItem>(value))
            }
            _ => ("ShellStreamItem", round::<v2::ShellStreamItem>(value)),
        };
        return values.iter().map(item).collect();
    }
    let value = &frame["exit"]["value"];
    let error = &frame["exit"]["cause"][0]["error"];
    if let Some(error_tag) = error["_tag"].as_str() {
        return vec![match error_tag {
            "EnvironmentAuthorizationError" => (
                "EnvironmentAuthorizationError",
                round::<v2::EnvironmentAuthorizationError>(error),
            ),
            _ => ("RpcError", round::<v2::RpcError>(error)),
        }];
    }
    if frame["exit"]["_tag"] != "Success" {
        return Vec::new();
    }
    let found = match tag {
        "orchestration.dispatchCommand" => Some(("DispatchCommandResult", round::<v2::DispatchCommandResult>(value))),
        "orchestration.launchThread" => Some(("ThreadLaunchResult", round::<v2::ThreadLaunchResult>(value))),
        "orchestration.getThreadProjection" => Some(("ThreadProjection", round::<v2::ThreadProjection>(value))),
        "orchestration.getArchivedShellSnapshot" => {
            Some(("ArchivedShellSnapshot", round::<v2::ArchivedShellSnapshot>(value)))
        }
        "projects.mutate" => Some(("Project", round::<v2::Project>(value))),
        "server.getConfig" => Some(("ServerConfig", round::<v2::ServerConfig>(value))),
        _ => None,
    };
    found.into_iter().collect()
}

fn http(asked: &Value, answer: &Value) -> Option<Tried> {
    if answer["status"] != 200 {
        return None;
    }
    let body = &answer["body"];
    let path = asked["path"].as_str()?.split('?').next()?;
    Some(match path {
        "/.well-known/t3/environment" => (
            "ExecutionEnvironmentDescriptor",
            round::<v2::ExecutionEnvironmentDescriptor>(body),
        ),
        "/api/auth/session" => ("AuthSessionState", round::<v2::AuthSessionState>(body)),
        "/api/auth/websocket-ticket" => (
            "AuthWebSocketTicketResult",
            round::<v2::AuthWebSocketTicketResult>(body),
        ),
        "/oauth/token" => ("AuthAccessTokenResult", round::<v2::AuthAccessTokenResult>(body)),
        "/api/orchestration/shell" => ("ShellSnapshot", round::<v2::ShellSnapshot>(body)),
        "/api/projects/mutate" => ("Project", round::<v2::Project>(body)),
        _ if path.starts_with("/api/orchestration/threads/") => {
            ("ThreadDetailSnapshot", round::<v2::ThreadDetailSnapshot>(body))
        }
        _ => return None,
    })
}

fn files() -> Vec<String> {
    let paths = std::fs::read_dir(recorded::folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let recordings = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let mut names: Vec<String> = recordings
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Types of which the selection must hold something, so that a recording that is cut shorter is noticed.
const CARRIED: [&str; 20] = [
    "ArchivedShellStreamItem",
    "AuthAccessTokenResult",
    "AuthSessionState",
    "AuthWebSocketTicketResult",
    "Command",
    "DispatchCommandResult",
    "EnvironmentAuthorizationError",
    "ExecutionEnvironmentDescriptor",
    "Project",
    "ProjectMutation",
    "RpcError",
    "ServerConfig",
    "ShellSnapshot",
    "ShellStreamItem",
    "SubscribeShellInput",
    "SubscribeThreadInput",
    "ThreadDetailSnapshot",
    "ThreadLaunchInput",
    "ThreadLaunchResult",
    "ThreadStreamItem",
];

#[test]
fn every_recorded_frame_decodes_and_prints_back_equal() {
    let files = files();
    let found = files
        .iter()
        .flat_map(|file| read(file, &recorded::lines(file), &PROTOCOL_2));
    assert_all_equal(&found.collect::<Vec<_>>(), &CARRIED);
}

/// All came back equal, and of each of these types there was one.
pub(super) fn assert_all_equal(found: &[(String, &'static str, Outcome)], carried: &[&str]) {
    let failures: Vec<String> = found
        .iter()
        .filter_map(|(place, kind, outcome)| Some(format!("{place}: {kind}: {}", outcome.as_ref().err()?)))
        .collect();
    let kinds: BTreeSet<&str> = found.iter().map(|(_, kind, _)| *kind).collect();
    println!("{} values of {} types", found.len(), kinds.len());
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        found.len(),
        failures.join("\n")
    );
    let missing: Vec<&&str> = carried.iter().filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "no recording carries {missing:?}");
}

/// Whether a key holds a word somewhere, by itself or in a list.
fn note_words(value: &Value, key: &str, found: &mut BTreeSet<(String, String)>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| note_words(value, key, found)),
        Value::Array(list) => list.iter().for_each(|value| note_words(value, key, found)),
        Value::String(word) => drop(found.insert((key.to_owned(), word.clone()))),
        _ => {}
    }
}

/// The list was made of the whole recordings, by the contract: `fixtures/README.md`.
#[test]
fn each_tag_and_enum_word_that_was_ever_recorded_is_in_the_selection() {
    let text = std::fs::read_to_string(recorded::folder().join("words.json")).unwrap();
    let words: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).unwrap();
    let mut found = BTreeSet::new();
    for file in files() {
        for line in recorded::lines(&file) {
            note_words(&line["body"], "", &mut found);
        }
    }
    let recorded: Vec<_> = words
        .into_iter()
        .flat_map(|(key, words)| words.into_iter().map(move |word| (key.clone(), word)))
        .collect();
    let missing: Vec<_> = recorded.iter().filter(|word| !found.contains(*word)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(recorded.len() > 190);
}

#[test]
fn the_whole_configuration_of_a_server_comes_back_equal() {
    assert_eq!(round::<v2::ServerConfig>(&recorded::config()), Ok(()));
}
