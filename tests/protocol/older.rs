//! The same of a real server of protocol 1 (T3 Code 0.0.32), of whose contract the types are.

use std::path::{Path, PathBuf};

use serde_json::Value;
use t3code_mcp::protocol::v1;

use super::recordings::{Tried, Types, assert_all_equal, read};
use super::round::round;

const PROTOCOL_1: Types = Types {
    unknown_fields: &["bogus", "acceptBoundedSnapshot", "acceptCompactTurnItems"],
    request,
    answer,
    http,
};

fn request(frame: &Value) -> Option<Tried> {
    let payload = &frame["payload"];
    Some(match frame["tag"].as_str()? {
        "orchestration.dispatchCommand" => ("Command", round::<v1::Command>(payload)),
        "orchestration.subscribeShell" => ("SubscribeShellInput", round::<v1::SubscribeShellInput>(payload)),
        "orchestration.subscribeThread" => ("SubscribeThreadInput", round::<v1::SubscribeThreadInput>(payload)),
        _ => return None,
    })
}

fn answer(tag: &str, frame: &Value) -> Vec<Tried> {
    if let Some(values) = frame["values"].as_array() {
        let item = |value| match tag {
            "orchestration.subscribeThread" => (of_thread(value), round::<v1::ThreadStreamItem>(value)),
            _ => ("ShellStreamItem", round::<v1::ShellStreamItem>(value)),
        };
        return values.iter().map(item).collect();
    }
    let value = &frame["exit"]["value"];
    let error = &frame["exit"]["cause"][0]["error"];
    if error["_tag"].is_string() {
        return vec![("RpcError", round::<v1::RpcError>(error))];
    }
    if frame["exit"]["_tag"] != "Success" {
        return Vec::new();
    }
    let found = match tag {
        "orchestration.dispatchCommand" => Some(("DispatchResult", round::<v1::DispatchResult>(value))),
        "orchestration.getArchivedShellSnapshot" => Some(("ShellSnapshot", round::<v1::ShellSnapshot>(value))),
        "server.getConfig" => Some(("ServerConfig", round::<v1::ServerConfig>(value))),
        _ => None,
    };
    found.into_iter().collect()
}

/// What an item of a thread's stream is of.
fn of_thread(item: &Value) -> &'static str {
    match item["event"]["type"].as_str() {
        Some("thread.activity-appended") => "ThreadActivityAppended",
        Some("thread.message-sent") => "ThreadMessageSent",
        Some("thread.session-set") => "ThreadSessionSet",
        Some("thread.turn-diff-completed") => "ThreadTurnDiffCompleted",
        _ => "ThreadStreamItem",
    }
}

fn http(asked: &Value, answer: &Value) -> Option<Tried> {
    let body = &answer["body"];
    if body["_tag"].is_string() {
        return Some((
            "EnvironmentHttpCommonError",
            round::<v1::EnvironmentHttpCommonError>(body),
        ));
    }
    if answer["status"] != 200 {
        return None;
    }
    let path = asked["path"].as_str()?.split('?').next()?;
    Some(match path {
        "/.well-known/t3/environment" => (
            "ExecutionEnvironmentDescriptor",
            round::<v1::ExecutionEnvironmentDescriptor>(body),
        ),
        "/api/auth/session" => ("AuthSessionState", round::<v1::AuthSessionState>(body)),
        "/api/auth/websocket-ticket" => (
            "AuthWebSocketTicketResult",
            round::<v1::AuthWebSocketTicketResult>(body),
        ),
        "/oauth/token" => ("AuthAccessTokenResult", round::<v1::AuthAccessTokenResult>(body)),
        "/api/orchestration/dispatch" => ("DispatchResult", round::<v1::DispatchResult>(body)),
        "/api/orchestration/shell" => ("ShellSnapshot", round::<v1::ShellSnapshot>(body)),
        "/api/orchestration/snapshot" => ("ReadModel", round::<v1::ReadModel>(body)),
        _ if path.starts_with("/api/orchestration/threads/") => {
            ("ThreadDetailSnapshot", round::<v1::ThreadDetailSnapshot>(body))
        }
        _ => return None,
    })
}

/// Types of which the selection must hold something, so that a recording that is cut shorter is noticed.
const CARRIED: [&str; 20] = [
    "AuthAccessTokenResult",
    "AuthSessionState",
    "AuthWebSocketTicketResult",
    "Command",
    "DispatchResult",
    "EnvironmentHttpCommonError",
    "ExecutionEnvironmentDescriptor",
    "ReadModel",
    "RpcError",
    "ServerConfig",
    "ShellSnapshot",
    "ShellStreamItem",
    "SubscribeShellInput",
    "SubscribeThreadInput",
    "ThreadActivityAppended",
    "ThreadDetailSnapshot",
    "ThreadMessageSent",
    "ThreadSessionSet",
    "ThreadStreamItem",
    "ThreadTurnDiffCompleted",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings-1")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn config() -> Value {
    let text = std::fs::read_to_string(folder().join("server-getConfig.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_recorded_frame_of_protocol_1_decodes_and_prints_back_equal() {
    let config = round::<v1::ServerConfig>(&config());
    let mut found = vec![("server-getConfig".to_owned(), "ServerConfig", config)];
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            found.extend(read(name, &lines(&path), &PROTOCOL_1));
        }
    }
    assert_all_equal(&found, &CARRIED);
}
