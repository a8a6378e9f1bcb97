//! Sessions in a ledger: what outlives the endpoint that opened them, and what becomes of rows that are damaged, foreign or old.

use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use t3code_mcp::mcp::sessions::{Admission, SessionSettings};
use t3code_mcp::store::{LEDGER_FILE, SessionRecord, Store};
use tempfile::TempDir;

use crate::support::{ALICE, BOB, Running, first_bytes, initialize, messages, result, seen, settings, start};

/// How long a test waits for what must come.
const COMES_WITHIN: Duration = Duration::from_secs(30);

async fn gone(store: &Store, session: &str) {
    let gone = async {
        while store.session(session).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(COMES_WITHIN, gone).await.expect("never forgotten");
}

async fn ledger() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    (folder, store)
}

async fn start_with(store: &Store) -> Running {
    let endpoint = start(settings()).await;
    endpoint.sessions.attach(store.clone()).await;
    endpoint
}

async fn listed(endpoint: &Running, token: &str, session: &str) -> StatusCode {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let sent = endpoint.post(token).header("mcp-session-id", session).json(&body);
    let response = sent.send().await.unwrap();
    let status = response.status();
    if status == 200 {
        assert!(messages(response).await[0]["result"]["tools"].is_array());
    }
    status
}

async fn end(endpoint: &Running, session: &str) -> StatusCode {
    let ended = endpoint.http.delete(format!("{}/mcp", endpoint.url)).bearer_auth(ALICE);
    ended.header("mcp-session-id", session).send().await.unwrap().status()
}

#[tokio::test]
async fn a_session_that_was_opened_before_there_was_a_ledger_outlives_its_endpoint_too() {
    let (_folder, store) = ledger().await;
    let first = start(settings()).await;
    let before = first.session(ALICE).await;
    assert!(store.sessions().await.unwrap().is_empty());
    first.sessions.attach(store.clone()).await;
    let after = first.session(ALICE).await;
    drop(first);
    let second = start_with(&store).await;
    for session in [&before, &after] {
        assert_eq!(listed(&second, BOB, session).await, 404);
        assert_eq!(listed(&second, ALICE, session).await, 200);
        let answer = result(second.legacy_call(session, 2, "trial_read", &json!({"key": "carried"}))).await;
        assert_eq!(answer["structuredContent"]["key"], "carried");
        assert_eq!(listed(&second, BOB, session).await, 404);
    }
}

#[tokio::test]
async fn an_ended_session_is_gone_from_the_ledger_awake_or_asleep() {
    let (_folder, store) = ledger().await;
    let first = start_with(&store).await;
    let (awake, asleep) = (first.session(ALICE).await, first.session(ALICE).await);
    assert_eq!(end(&first, &awake).await, 204);
    drop(first);
    let second = start_with(&store).await;
    assert_eq!(end(&second, &asleep).await, 204);
    assert_eq!(listed(&second, ALICE, &asleep).await, 404);
    let third = start_with(&store).await;
    for session in [&awake, &asleep] {
        assert_eq!(listed(&third, ALICE, session).await, 404);
    }
    assert!(store.sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn who_wakes_a_session_has_a_turn_of_its_own() {
    let (_folder, store) = ledger().await;
    let session = start_with(&store).await.session(ALICE).await;
    let endpoint = start_with(&store).await;
    let Admission::Asleep(turn) = endpoint.sessions.admit(&session, "alice").await else {
        panic!("it is not asleep");
    };
    let second = endpoint.sessions.admit(&session, "alice");
    let mut second = std::pin::pin!(second);
    assert!(futures_util::poll!(second.as_mut()).is_pending());
    drop(turn);
    assert!(
        matches!(second.await, Admission::Asleep(_)),
        "the first one did not wake it"
    );
    assert_eq!(listed(&endpoint, ALICE, &session).await, 200);
    assert!(matches!(
        endpoint.sessions.admit(&session, "alice").await,
        Admission::Awake
    ));
}

/// Clients send several requests at once when they come back, and some hang up at once.
#[tokio::test(flavor = "multi_thread")]
async fn first_requests_at_once_all_find_the_session_whoever_hangs_up() {
    let (_folder, store) = ledger().await;
    let mut endpoint = start_with(&store).await;
    let session = endpoint.session(ALICE).await;
    for round in 0..60_u64 {
        endpoint = start_with(&store).await;
        let call = |id: u64| endpoint.legacy(&session, id, "tools/list", &json!({})).send();
        // It leaves while its request wakes the session, or before, or after.
        let hasty = tokio::time::timeout(Duration::from_micros(round * 50), call(99));
        let (_, answers) = tokio::join!(hasty, join_all((0..4).map(call)));
        for answer in answers {
            let answer = answer.unwrap();
            assert_eq!(answer.status(), 200, "{round}");
            assert!(messages(answer).await[0]["result"]["tools"].is_array());
        }
    }
}

#[tokio::test]
async fn a_standing_stream_begins_anew_after_a_restart_whatever_its_client_saw_last() {
    let (_folder, store) = ledger().await;
    let first = start_with(&store).await;
    let session = first.session(ALICE).await;
    let stream = |endpoint: &Running, last: Option<String>| {
        let url = format!("{}/mcp", endpoint.url);
        let mut request = endpoint.http.get(url).bearer_auth(ALICE);
        request = request
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        request.send()
    };
    let (began, open) = first_bytes(stream(&first, None).await.unwrap()).await;
    let id = began
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .map(str::to_owned);
    assert!(id.is_some(), "{began}");
    drop((first, open));
    for last in [None, id, Some(format!("7_{session}:common"))] {
        let second = start_with(&store).await;
        let response = stream(&second, last).await.unwrap();
        assert_eq!(response.status(), 200);
        // An empty one would be asked for again each second.
        let (_, open) = first_bytes(response).await;
        drop(open);
    }
    let second = start_with(&store).await;
    let other = format!("7_{}:common", uuid::Uuid::new_v4());
    assert_eq!(stream(&second, Some(other)).await.unwrap().status(), 400);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_no_session_and_nothing_worse() {
    let (folder, store) = ledger().await;
    let first = start_with(&store).await;
    let session = first.session(ALICE).await;
    drop(first);
    store.close().await;
    let path = folder.path().join(LEDGER_FILE);
    for damage in [
        "state = 'no JSON'",
        "state = '{\"initialize_params\": {\"protocolVersion\": 7}}'",
        "state = '{\"a_newer_form\": 2}'",
        "last_used_at = 9223372036854775807",
    ] {
        let mut raw = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
        let sql = format!("UPDATE sessions SET {damage}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut raw).await.unwrap();
        raw.close().await.unwrap();
        let store = Store::open(&path).await.unwrap();
        let endpoint = start_with(&store).await;
        assert_eq!(listed(&endpoint, ALICE, &session).await, 404, "{damage}");
        let fresh = endpoint.session(ALICE).await;
        assert_eq!(listed(&endpoint, ALICE, &fresh).await, 200);
        assert_eq!(end(&endpoint, &fresh).await, 204);
        drop(endpoint);
        store.close().await;
    }
}

/// As with a full disk: it takes nothing, and says so.
#[tokio::test]
async fn a_ledger_that_takes_nothing_opens_no_session_and_loses_none() {
    let (folder, store) = ledger().await;
    let endpoint = start_with(&store).await;
    let session = endpoint.session(ALICE).await;
    let asleep = start_with(&store).await.session(ALICE).await;
    store.close().await;
    let refused = endpoint.post(ALICE).json(&initialize()).send().await.unwrap();
    assert!(refused.headers().get("mcp-session-id").is_none(), "it names a session");
    let error = messages(refused).await.pop().unwrap()["error"].clone();
    assert_eq!(error["code"], -32603);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("could not be written down") && message.contains("The ledger is closed"),
        "{message}"
    );
    assert_eq!(endpoint.sessions.count(), (1, 1), "nothing is left of it");
    assert_eq!(
        listed(&endpoint, ALICE, &session).await,
        200,
        "what is in memory works on"
    );
    assert_eq!(
        listed(&endpoint, ALICE, &asleep).await,
        503,
        "its client must not be told that it is gone"
    );
    assert_eq!(end(&endpoint, &session).await, 503);
    let store = Store::open(&folder.path().join(LEDGER_FILE)).await.unwrap();
    endpoint.sessions.attach(store.clone()).await;
    for session in [&session, &asleep] {
        assert_eq!(listed(&endpoint, ALICE, session).await, 200);
        assert_eq!(end(&endpoint, session).await, 204);
    }
    assert!(store.sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_says_too_much_of_itself_is_refused() {
    let (_folder, store) = ledger().await;
    let endpoint = start_with(&store).await;
    let mut hello = initialize();
    hello["params"]["clientInfo"]["title"] = Value::from("x".repeat(2 << 20));
    let refused = endpoint.post(ALICE).json(&hello).send().await.unwrap();
    let error = messages(refused).await.pop().unwrap()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("KiB"), "{error}");
    assert!(store.sessions().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_forgotten_on_disk_but_never_with_a_call_open() {
    let (_folder, store) = ledger().await;
    let mut settings = settings();
    settings.sessions = SessionSettings {
        idle: Duration::from_millis(20),
        look_every: Duration::from_millis(5),
        // What the disk says of their use stays as old as they are.
        note_every: Duration::from_hours(1),
        // Long enough that the call begins before, however busy this computer is.
        forget_after: Duration::from_secs(3),
        forget_every: Duration::from_millis(5),
        ..settings.sessions
    };
    let endpoint = start(settings).await;
    endpoint.sessions.attach(store.clone()).await;
    let (held, unused) = (endpoint.session(ALICE).await, endpoint.session(ALICE).await);
    let call = endpoint.legacy_call(&held, 1, "trial_read", &json!({"key": "kept-open", "hold": true}));
    let call = tokio::spawn(async move { call.send().await.unwrap() });
    let open = seen("kept-open");
    open.began.notified().await;
    gone(&store, &unused).await;
    assert_eq!(listed(&endpoint, ALICE, &unused).await, 404);
    assert!(store.session(&held).await.unwrap().is_some());
    open.release.notify_one();
    let answer = messages(call.await.unwrap()).await;
    assert_eq!(answer[0]["result"]["structuredContent"]["key"], "kept-open");
    gone(&store, &held).await;
    assert_eq!(endpoint.sessions.count(), (0, 0));
}

#[tokio::test]
async fn a_session_that_is_too_old_is_none_whoever_looks_first() {
    let (_folder, store) = ledger().await;
    let endpoint = start_with(&store).await;
    let session = endpoint.session(ALICE).await;
    let mut row = store.session(&session).await.unwrap().unwrap();
    for (days, status) in [(29, 200), (31, 404)] {
        row = SessionRecord {
            id: uuid::Uuid::new_v4().to_string(),
            last_used_at: Timestamp::now() - SignedDuration::from_hours(24 * days),
            ..row
        };
        assert!(store.put_session(&row).await.unwrap());
        assert_eq!(listed(&endpoint, ALICE, &row.id).await, status, "{days}");
    }
}

#[tokio::test]
async fn that_a_session_is_used_is_noted() {
    let (_folder, store) = ledger().await;
    let mut settings = settings();
    settings.sessions.look_every = Duration::from_millis(5);
    settings.sessions.note_every = Duration::from_millis(5);
    let endpoint = start(settings).await;
    endpoint.sessions.attach(store.clone()).await;
    let session = endpoint.session(ALICE).await;
    let first = store.session(&session).await.unwrap().unwrap();
    let noted = async {
        while store.session(&session).await.unwrap().unwrap().last_used_at <= first.last_used_at {
            assert_eq!(listed(&endpoint, ALICE, &session).await, 200);
        }
    };
    tokio::time::timeout(COMES_WITHIN, noted).await.expect("never noted");
}
