//! Sessions of the older revisions: whose they are, how they sleep, and what a client whose connection broke gets back.

use std::time::Duration;

use serde_json::{Value, json};
use t3code_mcp::gateway::Delivered;

use crate::support::{
    ALICE, BOB, delivered, first_bytes, initialize, messages, result, seen, settings, simulator, start, start_over,
    until,
};

#[tokio::test]
async fn a_request_of_an_older_revision_without_a_session_is_told_what_to_do() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let response = endpoint.post(ALICE).json(&list).send().await.unwrap();
    assert_eq!(response.status(), 400);
    let refused: Value = response.json().await.unwrap();
    assert!(refused["hint"].as_str().unwrap().contains("initialize"), "{refused}");
}

#[tokio::test]
async fn a_session_is_its_owners_alone_and_an_unknown_one_is_exactly_404() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let send = |token: &str, id: &str| {
        endpoint
            .post(token)
            .header("mcp-session-id", id.to_owned())
            .json(&body)
            .send()
    };
    assert_eq!(send(ALICE, &session).await.unwrap().status(), 200);
    for (token, id) in [
        (BOB, session.clone()),
        (ALICE, "67e55044-10b1-426f-9247-bb680e5fe0c8".into()),
        (ALICE, session.to_uppercase()),
        (ALICE, session.replace('-', "")),
        (ALICE, "../../etc/passwd".into()),
        (ALICE, String::new()),
    ] {
        let response = send(token, &id).await.unwrap();
        assert_eq!(response.status(), 404, "{id}");
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], -32001);
    }
    for request in [
        endpoint.http.get(format!("{}/mcp", endpoint.url)),
        endpoint.http.delete(format!("{}/mcp", endpoint.url)),
    ] {
        let request = request
            .bearer_auth(BOB)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session);
        assert_eq!(request.send().await.unwrap().status(), 404);
    }
    // Bob's attempt to end it did nothing.
    assert_eq!(send(ALICE, &session).await.unwrap().status(), 200);
}

#[tokio::test]
async fn initialize_with_a_stale_session_id_is_a_fresh_start() {
    let endpoint = start(settings()).await;
    let first = endpoint.session(ALICE).await;
    for stale in [first.as_str(), "67e55044-10b1-426f-9247-bb680e5fe0c8", "nonsense"] {
        let response = endpoint
            .post(ALICE)
            .header("mcp-session-id", stale)
            .json(&initialize())
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_ne!(response.headers()["mcp-session-id"], first);
    }
}

#[tokio::test]
async fn an_ended_session_is_gone() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let ended = endpoint
        .http
        .delete(format!("{}/mcp", endpoint.url))
        .bearer_auth(ALICE)
        .header("mcp-session-id", &session);
    assert_eq!(ended.send().await.unwrap().status(), 204);
    let call = endpoint.legacy(&session, 1, "tools/list", &json!({}));
    assert_eq!(call.send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn an_idle_session_sleeps_and_wakes_unseen_but_never_with_a_call_open() {
    let mut settings = settings();
    settings.sessions.idle = Duration::from_millis(30);
    settings.sessions.look_every = Duration::from_millis(5);
    let endpoint = start(settings).await;
    let sessions = endpoint.sessions.clone();
    let session = endpoint.session(ALICE).await;
    let held = endpoint
        .legacy_call(&session, 1, "trial_read", &json!({"key": "no-sleep", "hold": true}))
        .send();
    let held = tokio::spawn(held);
    let seen = seen("no-sleep");
    seen.began.notified().await;
    // Another session falls asleep meanwhile, so the reaper did look.
    let other = endpoint.session(ALICE).await;
    until("the other session sleeps", || sessions.count() == (2, 1)).await;
    seen.release.notify_one();
    let answer = messages(held.await.unwrap().unwrap()).await;
    assert_eq!(answer[0]["result"]["structuredContent"]["key"], "no-sleep");
    until("both sleep", || sessions.count() == (2, 0)).await;
    for (round, session) in [&session, &other, &session].into_iter().enumerate() {
        let woken = result(endpoint.legacy_call(session, 7, "trial_read", &json!({"key": "woken"}))).await;
        assert_eq!(woken["structuredContent"]["key"], "woken", "{round}");
        until("they sleep again", || sessions.count().1 == 0).await;
    }
}

#[tokio::test]
async fn a_result_that_came_while_the_client_was_away_is_there_when_it_comes_back() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(&session, 1, "trial_read", &json!({"key": "away", "hold": true}));
    let (priming, connection) = first_bytes(call.send().await.unwrap()).await;
    let event = priming
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap()
        .to_owned();
    let seen = seen("away");
    seen.began.notified().await;
    drop(connection);
    seen.release.notify_one();
    until("the call is done", || {
        seen.committed.load(std::sync::atomic::Ordering::SeqCst) == 1
    })
    .await;

    let resume = |token: &str, session: &str, event: &str| {
        endpoint
            .http
            .get(format!("{}/mcp", endpoint.url))
            .bearer_auth(token)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .header("last-event-id", event)
            .send()
    };
    let other = endpoint.session(ALICE).await;
    assert_eq!(resume(ALICE, &other, &event).await.unwrap().status(), 400);
    assert_eq!(resume(ALICE, &session, "9_nonsense").await.unwrap().status(), 400);
    let back = messages(resume(ALICE, &session, &event).await.unwrap()).await;
    assert_eq!(back[0]["result"]["structuredContent"]["key"], "away");
    until("the answer counts as read", || {
        delivered(&seen) == Some(Delivered::Answered)
    })
    .await;
}

#[tokio::test]
async fn a_client_that_comes_back_before_the_end_reads_on() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(&session, 1, "trial_read", &json!({"key": "back", "hold": true}));
    let (priming, connection) = first_bytes(call.send().await.unwrap()).await;
    let event = priming
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap()
        .to_owned();
    let seen = seen("back");
    seen.began.notified().await;
    drop(connection);
    let resumed = endpoint
        .http
        .get(format!("{}/mcp", endpoint.url))
        .bearer_auth(ALICE)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("last-event-id", &event)
        .send()
        .await
        .unwrap();
    assert_eq!(resumed.status(), 200);
    seen.release.notify_one();
    assert_eq!(messages(resumed).await[0]["result"]["structuredContent"]["key"], "back");
}

#[tokio::test]
async fn equal_request_ids_in_flight_never_get_each_others_results() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let first = endpoint
        .legacy_call(&session, 5, "trial_read", &json!({"key": "first", "hold": true}))
        .send();
    let first = tokio::spawn(first);
    let held = seen("first");
    held.began.notified().await;
    let second = endpoint
        .legacy_call(&session, 5, "trial_read", &json!({"key": "second"}))
        .send()
        .await
        .unwrap();
    assert_eq!(messages(second).await[0]["error"]["code"], -32600);
    held.release.notify_one();
    let first = messages(first.await.unwrap().unwrap()).await;
    assert_eq!(first[0]["result"]["structuredContent"]["key"], "first");
    // Once it is answered, the id is free.
    let again = result(endpoint.legacy_call(&session, 5, "trial_read", &json!({"key": "again"}))).await;
    assert_eq!(again["structuredContent"]["key"], "again");
}

#[tokio::test]
async fn cancelled_calls_leave_nothing_to_come_back_for() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let before = endpoint.sessions.kept_streams();
    for id in 1..20_u64 {
        let key = format!("cancelled-{id}");
        let call = endpoint.legacy_call(&session, id, "trial_read", &json!({"key": key, "hold": true}));
        let call = tokio::spawn(async move { call.send().await.unwrap().text().await.unwrap() });
        seen(&key).began.notified().await;
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let cancel = endpoint.post(ALICE).header("mcp-session-id", &session).json(&body);
        assert_eq!(cancel.send().await.unwrap().status(), 202);
        call.await.unwrap();
    }
    until("nothing is kept", || endpoint.sessions.kept_streams() <= before).await;
}

#[tokio::test]
async fn discovery_and_listing_grow_no_sessions() {
    let endpoint = start(settings()).await;
    let sessions = endpoint.sessions.clone();
    for _ in 0..50 {
        for method in ["server/discover", "tools/list"] {
            assert_eq!(endpoint.modern(method, json!({})).send().await.unwrap().status(), 200);
        }
    }
    assert_eq!((sessions.count(), sessions.kept_streams()), ((0, 0), 0));
}

#[tokio::test]
async fn what_is_kept_for_clients_that_may_come_back_is_bounded() {
    let endpoint = start(settings()).await;
    let sessions = endpoint.sessions.clone();
    let session = endpoint.session(ALICE).await;
    for id in 1..400 {
        let _ = result(endpoint.legacy(&session, id, "ping", &json!({}))).await;
    }
    assert!(sessions.kept_streams() <= 300, "{}", sessions.kept_streams());
}
