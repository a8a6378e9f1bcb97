//! Frames and answers that were recorded between a client and a real T3 server.

use serde_json::Value;
use t3code_mcp::machine::descriptor::{self, Credential, Descriptor, Version};
use t3code_mcp::machine::session::{CallError, Subscription};
use t3code_mcp::machine::{MachineError, TokenFrom};
use t3code_mcp::protocol::ThreadId;
use t3code_mcp::protocol::rpc::{ClientFrame, FrameError, ServerFrame};

use crate::recordings::{answers, lines};

use super::support::{Wire, always, client, session};

/// The frames of both recordings of the framing.
fn frames() -> Vec<Value> {
    let both = lines("02-ws-framing").into_iter().chain(lines("02b-ws-framing-odd"));
    both.filter(|line| line["kind"].as_str().is_some_and(|kind| kind.starts_with("frame")))
        .collect()
}

#[test]
fn every_recorded_frame_of_the_server_prints_back_as_it_came() {
    let mut count = 0;
    for frame in frames().iter().filter(|frame| frame["dir"] == "s2c") {
        let read = ServerFrame::read(&frame["body"].to_string());
        let [Ok(known)] = read.as_slice() else {
            panic!("{frame}: {read:?}")
        };
        assert!(!matches!(known, ServerFrame::Unknown { .. }), "{frame}");
        assert_eq!(serde_json::to_value(known).unwrap(), frame["body"]);
        count += 1;
    }
    assert!(count > 30, "{count}");
}

#[test]
fn every_recorded_frame_of_the_client_is_read_and_the_one_that_t3_closes_on_is_an_error() {
    let mut closes = 0;
    for frame in frames().iter().filter(|frame| frame["dir"] == "c2s") {
        let text = frame["body"]
            .as_str()
            .map_or_else(|| frame["body"].to_string(), str::to_owned);
        for read in ClientFrame::read(&text) {
            match read {
                Ok(_) => {}
                Err(FrameError::MissingHeaders) => closes += 1,
                Err(FrameError::NotJson(_)) => assert_eq!(frame["conn"], "malformed-json"),
                Err(error @ FrameError::Malformed { .. }) => panic!("{frame}: {error}"),
            }
        }
    }
    assert_eq!(closes, 2);
}

#[tokio::test]
async fn a_recorded_stream_runs_as_it_did() {
    let script: Vec<_> = frames()
        .into_iter()
        .filter(|frame| frame["conn"] == "stream-no-ack")
        .take_while(|frame| frame["body"]["id"] != "2")
        .collect();
    let (saw, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let expected: Vec<Value> = script
        .iter()
        .filter(|frame| frame["dir"] == "c2s")
        .map(|frame| frame["body"].clone())
        .collect();
    let handle = session(move |mut wire: Wire| {
        let (script, saw) = (script.clone(), saw.clone());
        async move {
            for frame in script {
                if frame["dir"] == "s2c" {
                    wire.send(&frame["body"]).await;
                } else {
                    saw.send(wire.next().await.unwrap()).unwrap();
                }
            }
            wire.next().await;
        }
    })
    .await;
    let mut stream = handle
        .subscribe(Subscription::new("orchestration.subscribeShell"))
        .await
        .unwrap();
    let mut kinds = Vec::new();
    for _ in 0..2 {
        for value in stream.next_chunk().await.unwrap() {
            let value: Value = serde_json::from_str(value.get()).unwrap();
            kinds.push(value["kind"].as_str().unwrap().to_owned());
        }
    }
    drop(stream);
    assert_eq!(kinds, ["snapshot", "synchronized"]);
    for mut frame in expected {
        // The recording's client named interruptors, which T3 does not need.
        frame.as_object_mut().unwrap().remove("interruptors");
        assert_eq!(seen.recv().await.unwrap(), frame);
    }
}

#[test]
fn the_recorded_failures_are_understood() {
    let ends: Vec<_> = frames()
        .iter()
        .filter(|frame| frame["conn"] == "main" && frame["body"]["exit"]["_tag"] == "Failure")
        .flat_map(|frame| ServerFrame::read(&frame["body"].to_string()))
        .map(|frame| match frame.unwrap() {
            ServerFrame::Exit {
                exit: t3code_mcp::protocol::rpc::Exit::Failure(causes),
                ..
            } => CallError::from_causes(&causes),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(ends[0].is_unknown_request());
    assert!(!ends[1].is_unknown_request());
    assert_eq!(ends[1].to_string(), "Expected string\n  at [\"threadId\"]");
    assert!(
        ends.into_iter()
            .all(|end| matches!(end.for_command(), MachineError::Defect { .. }))
    );
}

#[tokio::test]
async fn the_recorded_answers_over_http_are_understood() {
    let mut told = Vec::new();
    for it in answers("01-http-auth") {
        let Some(content_type) = it.answer["headers"]["content-type"].as_str() else {
            continue;
        };
        let body = it.answer["body"]
            .as_str()
            .map_or_else(|| it.answer["body"].to_string(), str::to_owned);
        let status = u16::try_from(it.answer["status"].as_u64().unwrap()).unwrap();
        let http = client(always(status, content_type, &body).await);
        let path = it.asked["path"].as_str().unwrap();
        let thread = ThreadId("thread-unknown".into());
        let result = match path {
            "/.well-known/t3/environment" => http.descriptor().await.map(drop),
            "/api/auth/session" => http.credential().await.map(drop),
            "/api/auth/websocket-ticket" if it.asked["method"] == "POST" => http.ticket().await.map(drop),
            "/api/orchestration/shell" => http.shell().await.map(drop),
            "/api/orchestration/threads/thread-unknown" => http.thread(&thread).await.map(drop),
            "/api/orchestration/threads/thread-unknown/bounded" => {
                http.thread_bounded(&thread).await.map(|body| assert!(body.is_none()))
            }
            _ => continue,
        };
        let word = match result {
            Ok(()) => "ok",
            Err(MachineError::NeedsPairing { .. }) => "needs pairing",
            Err(MachineError::ThreadNotFound) => "no such thread",
            Err(error) => panic!("{it:?}: {error:?}"),
        };
        told.push(format!("{path} {}: {word}", it.note.as_str().unwrap_or("-")));
    }
    assert_eq!(
        told,
        [
            "/.well-known/t3/environment -: ok",
            "/api/auth/session no credentials: needs pairing",
            "/api/auth/session good bearer: ok",
            "/api/auth/session bad bearer: needs pairing",
            "/api/auth/websocket-ticket no credentials: needs pairing",
            "/api/auth/websocket-ticket bad bearer: needs pairing",
            "/api/auth/websocket-ticket bearer with broken signature: needs pairing",
            "/api/auth/websocket-ticket good: ok",
            "/api/orchestration/shell -: ok",
            "/api/orchestration/shell no credentials: needs pairing",
            "/api/orchestration/shell bad bearer: needs pairing",
            "/api/orchestration/threads/thread-unknown unknown thread: no such thread",
            "/api/orchestration/threads/thread-unknown/bounded route newer servers may have: ok",
        ]
    );
}

#[test]
fn the_recorded_server_says_nothing_of_its_protocol_and_its_shell_does() {
    let body = |path: &str, note: Value| {
        let found = answers("01-http-auth")
            .into_iter()
            .find(|it| it.asked["path"] == path && it.note == note);
        found.unwrap().answer["body"].to_string().into_bytes()
    };
    let said = Descriptor::read("mac", &body("/.well-known/t3/environment", Value::Null)).unwrap();
    assert_eq!(said.version("mac").unwrap(), Version::AskShell);
    descriptor::check_shell("mac", &body("/api/orchestration/shell", Value::Null)).unwrap();
    let credential = Credential::read(
        "mac",
        TokenFrom::Variable,
        &body("/api/auth/session", "good bearer".into()),
    )
    .unwrap();
    credential.require("orchestration:operate").unwrap();
    assert!(credential.expires_at.is_some());
}
