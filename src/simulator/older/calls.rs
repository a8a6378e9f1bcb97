//! The remote procedures of protocol 1.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{OlderStream, text};
use crate::protocol::decode;
use crate::protocol::v1::sent;
use crate::simulator::auth::{OPERATE, READ, Session};
use crate::simulator::calls::{Outcome, die, fail, success};
use crate::simulator::host::Host;
use crate::simulator::streams::{ConfigStream, Stream};

/// Calls a procedure.
pub(crate) fn call(host: &Arc<Host>, session: &Session, tag: &str, payload: &Value) -> Outcome {
    let scope = match tag {
        "orchestration.dispatchCommand" => Some(OPERATE),
        "server.getConfig" | "server.probe" => None,
        _ => Some(READ),
    };
    if let Some(scope) = scope.filter(|scope| !session.may(scope)) {
        return Outcome::Done(fail(&json!({
            "_tag": "EnvironmentAuthorizationError",
            "message": format!("The authenticated token is missing required scope: {scope}."),
            "requiredScope": scope,
        })));
    }
    let state = host.read();
    let Some(older) = &state.older else {
        return Outcome::Done(die("The server is being upgraded."));
    };
    match tag {
        "orchestration.dispatchCommand" => {
            drop(state);
            dispatch(host, payload)
        }
        "orchestration.subscribeShell" => {
            let marker = payload["requestCompletionMarker"] == true && !older.routeless;
            Outcome::Stream(Stream::Older(OlderStream::shell(
                host,
                &older.shell(),
                older.head(),
                marker,
            )))
        }
        "orchestration.subscribeThread" => match older.thread(text(payload, "threadId")) {
            Some(thread) => Outcome::Stream(Stream::Older(OlderStream::thread(host, &thread))),
            None => Outcome::Done(fail(&json!({
                "_tag": "OrchestrationGetSnapshotError",
                "message": format!("Thread {} was not found", text(payload, "threadId")),
                "cause": text(payload, "threadId"),
            }))),
        },
        "orchestration.getArchivedShellSnapshot" => Outcome::Done(success(&older.archived_shell())),
        "orchestration.getTurnDiff" | "orchestration.getFullThreadDiff" => {
            let number = |field: &str| payload.get(field).and_then(Value::as_u64).unwrap_or_default();
            let (from, to) = (number("fromTurnCount"), number("toTurnCount"));
            Outcome::Done(match older.diff(text(payload, "threadId"), from, to) {
                Some(diff) => success(&json!({
                    "threadId": payload["threadId"], "fromTurnCount": from, "toTurnCount": to, "diff": diff,
                })),
                None => fail(&json!({
                    "_tag": "OrchestrationGetTurnDiffError",
                    "message": format!("Checkpoint ref is unavailable for turn {to}."),
                })),
            })
        }
        "subscribeServerLifecycle" => {
            Outcome::Stream(Stream::Older(OlderStream::start(host, &json!(older.started_at()))))
        }
        "server.getConfig" => {
            drop(state);
            Outcome::Done(success(&host.config()))
        }
        "subscribeServerConfig" => {
            drop(state);
            Outcome::Stream(Stream::Config(ConfigStream::open(host)))
        }
        "server.probe" => Outcome::Done(success(&json!({}))),
        _ => Outcome::Done(die(&format!("Unknown request tag: {tag}"))),
    }
}

fn dispatch(host: &Arc<Host>, command: &Value) -> Outcome {
    if let Err(error) = decode::<sent::Command>(command.to_string().as_bytes()) {
        return Outcome::Done(die(&error.to_string()));
    }
    let done = host.change(|state, now| {
        state.received.push(command.clone());
        state.older.as_mut().map(|older| older.handle_command(now, command))
    });
    Outcome::Command(match done {
        Some(Ok(sequence)) => success(&json!({ "sequence": sequence })),
        Some(Err(words)) => fail(&json!({"_tag": "OrchestrationDispatchCommandError", "message": words})),
        None => die("The server is being upgraded."),
    })
}
