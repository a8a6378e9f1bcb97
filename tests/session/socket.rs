//! The session over real sockets, against servers that each do one thing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{Response, header};
use axum::routing::get;
use serde_json::{Value, json};
use t3code_mcp::machine::MachineError;
use t3code_mcp::machine::session::{CallError, Subscription, empty_object};
use t3code_mcp::machine::socket::{SessionHandle, SocketOptions};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::support::{Wire, answer, client, connect, connect_with, impatient, scripted, serve, session, tickets};

const SHELL: &str = "orchestration.subscribeShell";
const DISPATCH: &str = "orchestration.dispatchCommand";
const COMMAND_LIMIT: Duration = Duration::from_secs(15);

/// Hands what a server saw to the test.
fn report() -> (mpsc::UnboundedSender<Value>, mpsc::UnboundedReceiver<Value>) {
    mpsc::unbounded_channel()
}

#[tokio::test]
async fn a_call_gets_its_own_answer_though_answers_come_out_of_order_in_one_array_with_numbers_for_ids() {
    let handle = session(|mut wire: Wire| async move {
        let (one, two) = (wire.next().await.unwrap(), wire.next().await.unwrap());
        let number = |frame: &Value| frame["id"].as_str().unwrap().parse::<u64>().unwrap();
        let exit = |frame: &Value| {
            json!({"_tag": "Exit", "requestId": number(frame), "exit": {"_tag": "Success", "value": frame["payload"]}})
        };
        wire.send(&json!([exit(&two), {"_tag": "Pong"}, exit(&one)])).await;
        wire.next().await;
    })
    .await;
    let payload = |n: u8| serde_json::value::to_raw_value(&json!({ "n": n })).unwrap();
    let (one, two) = tokio::join!(handle.call("a", payload(1)), handle.call("b", payload(2)));
    assert_eq!((one.unwrap().get(), two.unwrap().get()), (r#"{"n":1}"#, r#"{"n":2}"#));
}

#[tokio::test]
async fn the_upgrade_asks_for_the_protocol_in_url_and_header() {
    let seen = Arc::new(Mutex::new(None));
    let log = Arc::clone(&seen);
    let upgrade = get(move |request: axum::extract::Request| async move {
        // Extensions are not in tungstenite: what is not offered must not be answered with.
        assert!(!request.headers().contains_key("sec-websocket-extensions"));
        let header = request.headers().get("x-t3-orchestration-protocol").cloned();
        *log.lock().unwrap() = Some((request.uri().query().map(str::to_owned), header));
        answer(401, "application/json", "{}")()
    });
    let url = serve(tickets().route("/ws", upgrade)).await;
    connect(url).await.unwrap_err();
    let (query, header) = seen.lock().unwrap().take().unwrap();
    let query = query.unwrap();
    assert!(query.starts_with("orchestrationProtocol=2&wsTicket="), "{query}");
    assert_eq!(header.unwrap(), "2");
}

#[tokio::test]
async fn each_chunk_is_acked_once_it_was_taken_and_before_the_next_comes() {
    let (saw, mut seen) = report();
    let handle = session(move |mut wire: Wire| {
        let saw = saw.clone();
        async move {
            let id = wire.next().await.unwrap()["id"].clone();
            for n in 0..3 {
                wire.chunk(&id, &[n, n + 10]).await;
                saw.send(wire.next().await.unwrap()).unwrap();
            }
            wire.success(&id, Value::Null).await;
            wire.next().await;
        }
    })
    .await;
    let mut stream = handle.subscribe(Subscription::new(SHELL)).await.unwrap();
    for n in 0..3_u32 {
        let values = stream.next_chunk().await.unwrap();
        let values: Vec<_> = values.iter().map(|value| value.get().parse::<u32>().unwrap()).collect();
        assert_eq!(values, [n, n + 10]);
        assert_eq!(seen.recv().await.unwrap(), json!({"_tag": "Ack", "requestId": "1"}));
    }
    let end = stream.next_chunk().await.unwrap_err();
    assert!(end.error.is_none());
    assert!(stream.next_chunk().await.is_err());
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_sent_nothing_and_calls_go_on_beside_it() {
    let (saw, mut seen) = report();
    let handle = session(move |mut wire: Wire| {
        let saw = saw.clone();
        async move {
            let id = wire.next().await.unwrap()["id"].clone();
            wire.chunk(&id, &[1]).await;
            while let Some(frame) = wire.next().await {
                saw.send(frame.clone()).unwrap();
                if frame["_tag"] == "Request" {
                    wire.success(&frame["id"], json!(1)).await;
                }
            }
        }
    })
    .await;
    let mut stream = handle.subscribe(Subscription::new(SHELL)).await.unwrap();
    handle.call("server.probe", empty_object()).await.unwrap();
    // The answer came after the chunk, so the chunk lies there: the call is all that the server has seen.
    assert_eq!(seen.recv().await.unwrap()["_tag"], "Request");
    assert!(seen.try_recv().is_err());
    stream.next_chunk().await.unwrap();
    assert_eq!(seen.recv().await.unwrap()["_tag"], "Ack");
}

#[tokio::test]
async fn a_server_that_closes_without_a_number_loses_what_was_sent_as_unknown() {
    let handle = session(|mut wire: Wire| async move {
        wire.next().await;
        wire.0.send(axum::extract::ws::Message::Close(None)).await.unwrap();
    })
    .await;
    let error = handle
        .command(DISPATCH, empty_object(), COMMAND_LIMIT)
        .await
        .unwrap_err();
    let MachineError::AnswerLost { reason } = error.for_command() else {
        panic!("it may have happened")
    };
    assert_eq!(reason, "the connection to mac was lost: the server closed it (1005)");
    assert_eq!(handle.closed().await.reason, reason);

    let error = handle
        .command(DISPATCH, empty_object(), COMMAND_LIMIT)
        .await
        .unwrap_err();
    assert!(
        matches!(error.for_command(), MachineError::Unreachable { .. }),
        "nothing was sent"
    );
    let error = handle.subscribe(Subscription::new(SHELL)).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { sent: false, .. }));
}

#[tokio::test]
async fn a_server_that_vanishes_ends_the_session() {
    let handle = session(|mut wire: Wire| async move {
        wire.next().await;
        // Dropped without a goodbye, as a killed process does.
    })
    .await;
    let error = handle.call("server.probe", empty_object()).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { sent: true, .. }), "{error:?}");
    assert_eq!(
        handle.closed().await.reason,
        "the connection to mac was lost: the connection ended without a goodbye (1006)"
    );
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_session_and_names_the_setting() {
    let url = scripted(|mut wire: Wire| async move {
        let id = wire.next().await.unwrap()["id"].clone();
        wire.success(&id, json!("x".repeat(2000))).await;
        wire.next().await;
    })
    .await;
    let handle = connect_with(url, &SocketOptions { frame_limit: 1024 }).await.unwrap();
    handle.call("server.probe", empty_object()).await.unwrap_err();
    let reason = handle.closed().await.reason;
    assert!(
        reason.contains("over the limit of 1024 bytes: raise frame_limit"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_message_of_many_megabytes_is_taken_whole() {
    let handle = session(|mut wire: Wire| async move {
        let id = wire.next().await.unwrap()["id"].clone();
        wire.success(&id, json!("x".repeat(20 * 1024 * 1024))).await;
        wire.next().await;
    })
    .await;
    let value = handle.call("server.probe", empty_object()).await.unwrap();
    assert_eq!(value.get().len(), 20 * 1024 * 1024 + 2);
}

#[tokio::test]
async fn text_that_is_no_frame_ends_the_session() {
    let handle = session(|mut wire: Wire| async move {
        wire.say("<html>").await;
        wire.next().await;
    })
    .await;
    let reason = handle.closed().await.reason;
    assert!(
        reason.starts_with("the server sent a message that is not JSON"),
        "{reason}"
    );
}

#[tokio::test]
async fn frames_in_binary_messages_are_read_too() {
    let handle = session(|mut wire: Wire| async move {
        wire.next().await;
        let exit = json!({"_tag": "Exit", "requestId": "1", "exit": {"_tag": "Success", "value": 5}});
        let message = axum::extract::ws::Message::binary(exit.to_string());
        wire.0.send(message).await.unwrap();
        wire.next().await;
    })
    .await;
    assert_eq!(handle.call("server.probe", empty_object()).await.unwrap().get(), "5");
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_is_interrupted_and_a_command_is_not() {
    let (saw, mut seen) = report();
    let handle = session(move |mut wire: Wire| {
        let saw = saw.clone();
        async move {
            while let Some(frame) = wire.next().await {
                saw.send(frame).unwrap();
            }
        }
    })
    .await;
    let command = tokio::spawn({
        let handle = handle.clone();
        async move { handle.command(DISPATCH, empty_object(), COMMAND_LIMIT).await }
    });
    assert_eq!(seen.recv().await.unwrap()["id"], "1");
    let read = tokio::spawn({
        let handle = handle.clone();
        async move { handle.call("server.getConfig", empty_object()).await }
    });
    assert_eq!(seen.recv().await.unwrap()["id"], "2");
    command.abort();
    read.abort();
    assert_eq!(
        seen.recv().await.unwrap(),
        json!({"_tag": "Interrupt", "requestId": "2"})
    );

    let stream = handle.subscribe(Subscription::new(SHELL)).await.unwrap();
    assert_eq!(seen.recv().await.unwrap()["id"], "3");
    drop(stream);
    assert_eq!(
        seen.recv().await.unwrap(),
        json!({"_tag": "Interrupt", "requestId": "3"})
    );
}

#[tokio::test]
async fn the_session_says_goodbye_when_nobody_holds_it_or_it_is_stopped() {
    for stopped in [false, true] {
        let (said, heard) = oneshot::channel();
        let said = Arc::new(Mutex::new(Some(said)));
        let url = scripted(move |mut wire: Wire| {
            let said = Arc::clone(&said);
            async move {
                let goodbye = wire.0.recv().await.unwrap().unwrap();
                said.lock().unwrap().take().unwrap().send(goodbye).unwrap();
            }
        })
        .await;
        let http = client(url);
        let ticket = http.ticket().await.unwrap();
        let stop = CancellationToken::new();
        let handle = SessionHandle::connect(&http, &ticket, &SocketOptions::default(), stop.clone())
            .await
            .unwrap();
        if stopped {
            stop.cancel();
            assert_eq!(handle.closed().await.reason, "it was closed on our side");
        } else {
            drop(handle);
        }
        let axum::extract::ws::Message::Close(Some(frame)) = heard.await.unwrap() else {
            panic!("no goodbye")
        };
        assert_eq!(frame.code, 1000);
    }
}

#[tokio::test]
async fn a_stream_holds_the_session_open_until_it_is_dropped() {
    let handle = session(|mut wire: Wire| async move {
        let id = wire.next().await.unwrap()["id"].clone();
        for n in 0..3 {
            wire.chunk(&id, &[n]).await;
            wire.next().await;
        }
    })
    .await;
    let mut stream = handle.subscribe(Subscription::new(SHELL)).await.unwrap();
    drop(handle);
    for _ in 0..3 {
        stream.next_chunk().await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_upgrade_is_taken_for_what_it_is() {
    let refused = async |status: u16, content_type: &str, body: Value| {
        let refuse = answer(status, content_type, &body.to_string());
        let url = serve(tickets().route("/ws", get(move || async move { refuse() }))).await;
        connect(url).await.unwrap_err()
    };
    let json = "application/json";
    let invalid =
        json!({"_tag": "EnvironmentAuthInvalidError", "code": "auth_invalid", "reason": "invalid_credential"});
    assert!(matches!(
        refused(401, json, invalid).await,
        MachineError::NeedsPairing { .. }
    ));
    let scope = json!({"_tag": "EnvironmentScopeRequiredError", "code": "insufficient_scope", "requiredScope": "orchestration:read"});
    assert!(
        matches!(refused(403, json, scope).await, MachineError::InsufficientScope { scope } if scope == "orchestration:read")
    );
    let gate =
        json!({"code": "orchestration_protocol_incompatible", "message": "Update", "orchestrationProtocolVersion": 3});
    let MachineError::ProtocolUnsupported { message } = refused(426, json, gate).await else {
        panic!("the gate was not understood")
    };
    assert_eq!(
        message,
        "mac speaks orchestration protocol 3, t3code-mcp speaks 1 and 2: update t3code-mcp"
    );
    assert!(matches!(
        refused(200, "text/html", json!("<html>")).await,
        MachineError::NotT3 { .. }
    ));
    assert!(matches!(
        refused(404, "text/html", json!("<html>")).await,
        MachineError::NotT3 { .. }
    ));
    assert!(matches!(
        refused(502, "text/html", json!("<html>")).await,
        MachineError::Unreachable { .. }
    ));
}

#[tokio::test]
async fn a_redirected_upgrade_is_not_followed_and_its_ticket_not_repeated() {
    let redirect = get(|request: axum::extract::Request| async move {
        let there = format!("https://elsewhere.example{}", request.uri());
        Response::builder()
            .status(302)
            .header(header::LOCATION, there)
            .body(axum::body::Body::empty())
            .unwrap()
    });
    let url = serve(tickets().route("/ws", redirect)).await;
    let MachineError::NotT3 { reason } = connect(url).await.unwrap_err() else {
        panic!("a redirect is not T3")
    };
    assert!(
        reason.starts_with("mac redirects to https://elsewhere.example/ws, and"),
        "{reason}"
    );
}

#[tokio::test]
async fn an_upgrade_that_hangs_is_given_up() {
    let (asked, was_asked) = oneshot::channel();
    let asked = Arc::new(Mutex::new(Some(asked)));
    let hang = get(move || {
        let asked = asked.lock().unwrap().take().unwrap();
        async move {
            asked.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    let url = serve(tickets().route("/ws", hang)).await;
    let ticket = client(url.clone()).ticket().await.unwrap();
    let options = SocketOptions::default();
    let connecting = SessionHandle::connect(&impatient(url), &ticket, &options, CancellationToken::new()).await;
    assert!(matches!(connecting.unwrap_err(), MachineError::Timeout(_)));
    was_asked.await.unwrap();
}

#[tokio::test]
async fn a_machine_without_a_server_or_with_another_is_told_apart() {
    let url = serve(tickets()).await;
    let http = client(url);
    let ticket = http.ticket().await.unwrap();
    let gone = client("http://127.0.0.1:1".parse().unwrap());
    let connect = async |http| {
        SessionHandle::connect(http, &ticket, &SocketOptions::default(), CancellationToken::new())
            .await
            .unwrap_err()
    };
    let MachineError::Unreachable { reason } = connect(&gone).await else {
        panic!("nothing listens there")
    };
    assert_eq!(
        reason,
        "nothing listens at ws://127.0.0.1:1/ws: is T3 Code running on mac, and is the port right?"
    );
    let plain = client(serve(Router::new()).await);
    assert!(matches!(connect(&plain).await, MachineError::NotT3 { .. }));
}
