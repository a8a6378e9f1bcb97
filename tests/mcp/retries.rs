//! Clients whose connection breaks and who call again instead of coming back, with the clocks as they are by default.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use t3code_mcp::gateway::Delivered;
use t3code_mcp::mcp::sessions::SessionSettings;
use t3code_mcp::simulator::Simulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    ALICE, PATIENCE, Running, delivered, first_bytes, result, seen, settings, simulator, start, start_over, until,
};

#[tokio::test]
async fn a_dispatch_sent_again_over_a_new_connection_starts_nothing_twice() {
    let simulator = simulator().await;
    let mut settings = settings();
    settings.sessions = SessionSettings::default();
    let endpoint = start_over(&simulator, settings).await;
    let session = endpoint.session(ALICE).await;
    let arguments = json!({"project": "t3-smoke", "prompt": "say hello"});
    let call = endpoint.legacy_call(&session, 1, "t3_dispatch", &arguments);
    let (_, connection) = first_bytes(call.send().await.unwrap()).await;
    drop(connection);
    until("the first call's thread is there", || simulator.thread_count() == 1).await;
    let again = result(endpoint.legacy_call(&session, 2, "t3_dispatch", &arguments)).await;
    assert_eq!(again["structuredContent"]["existing"], true, "{again}");
    assert_eq!(again["structuredContent"]["matched"], "implicit");
    assert_eq!(simulator.thread_count(), 1);
    // That answer was read: a third call is meant.
    let third = result(endpoint.legacy_call(&session, 3, "t3_dispatch", &arguments)).await;
    assert_eq!(third["structuredContent"].get("existing"), None, "{third}");
    assert_eq!(simulator.thread_count(), 2);
}

#[tokio::test]
async fn a_client_that_is_away_is_known_to_be_at_once_and_until_it_is_back() {
    let mut settings = settings();
    settings.sessions = SessionSettings::default();
    let endpoint = start(settings).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(
        &session,
        1,
        "trial_change",
        &json!({"key": "gone-a-while", "hold": true}),
    );
    let (priming, connection) = first_bytes(call.send().await.unwrap()).await;
    let event = priming.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let seen = seen("gone-a-while");
    seen.began.notified().await;
    assert_eq!(delivered(&seen), None);
    drop(connection);
    until("it is away", || matches!(delivered(&seen), Some(Delivered::Away(_)))).await;
    let back = endpoint
        .http
        .get(format!("{}/mcp", endpoint.url))
        .bearer_auth(ALICE)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .header("last-event-id", event)
        .send()
        .await
        .unwrap();
    until("it is back", || delivered(&seen).is_none()).await;
    seen.release.notify_one();
    let _ = back.text().await.unwrap();
    until("it has read", || delivered(&seen) == Some(Delivered::Answered)).await;
}

/// The bytes of a request, for a client that hangs up as it likes.
fn bytes_of(request: reqwest::RequestBuilder) -> Vec<u8> {
    let request = request.build().unwrap();
    let mut bytes = format!("POST {} HTTP/1.1\r\nhost: localhost\r\n", request.url().path()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend_from_slice(format!("{name}: {}\r\n", value.to_str().unwrap()).as_bytes());
    }
    let body = request.body().unwrap().as_bytes().unwrap();
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

async fn connect(endpoint: &Running) -> TcpStream {
    TcpStream::connect(endpoint.url.strip_prefix("http://").unwrap())
        .await
        .unwrap()
}

fn thread_of(result: &Value) -> String {
    let thread = result["structuredContent"]["thread_id"].as_str();
    thread.unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// Waits a while that is too short for a timer.
fn pause(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::thread::yield_now();
    }
}

/// A client that hung up after some time, at any moment of the call, and calls again after some more.
async fn hang_up_and_call_again(
    simulator: &Simulator,
    endpoint: &Running,
    call: impl Fn(&Value) -> reqwest::RequestBuilder,
) {
    for n in 0..60_u32 {
        let (open, gap) = (n % 10, n % 6);
        let arguments = json!({"project": "t3-smoke", "prompt": format!("say try {n}")});
        let mut first = connect(endpoint).await;
        first.write_all(&bytes_of(call(&arguments))).await.unwrap();
        tokio::task::spawn_blocking(move || {
            pause(Duration::from_millis(open.into()));
            drop(first);
            pause(Duration::from_millis(gap.into()));
        })
        .await
        .unwrap();
        let again = result(call(&arguments)).await;
        // Of a client that is fast enough the first call was never seen.
        let count = simulator.thread_count();
        assert_eq!(count, n as usize + 1, "open {open} ms, gap {gap} ms: {again}");
    }
}

#[tokio::test]
async fn an_answer_that_is_left_unread_is_lost_however_late_its_client_leaves() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let call = || endpoint.modern_call("t3_dispatch", &json!({"project": "t3-smoke", "prompt": "say once"}));
    let mut hung = connect(&endpoint).await;
    hung.write_all(&bytes_of(call())).await.unwrap();
    hung.readable().await.unwrap();
    // It looks answered, so that an equal call is work of its own; to know so much, that call waits.
    let second = result(call()).await;
    assert_eq!(second["structuredContent"]["existing"], Value::Null, "{second}");
    assert_eq!(simulator.thread_count(), 2);

    drop(hung);
    // Until it is seen that it has left, each call is work of its own.
    let mut own = BTreeSet::from([thread_of(&second)]);
    let found = async {
        loop {
            let next = result(call()).await;
            if next["structuredContent"]["existing"] == true {
                return thread_of(&next);
            }
            own.insert(thread_of(&next));
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await.expect("it is found");
    assert!(!own.contains(&found), "{found}");
    assert_eq!(simulator.thread_count(), own.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatch_repeated_right_after_hanging_up_starts_nothing_twice_in_the_newest_revision() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let call = |arguments: &Value| endpoint.modern_call("t3_dispatch", arguments);
    hang_up_and_call_again(&simulator, &endpoint, call).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatch_repeated_right_after_hanging_up_starts_nothing_twice_in_a_session() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let session = endpoint.session(ALICE).await;
    let id = AtomicU64::new(1);
    let call = |arguments: &Value| {
        let id = id.fetch_add(1, Ordering::Relaxed);
        endpoint.legacy_call(&session, id, "t3_dispatch", arguments)
    };
    hang_up_and_call_again(&simulator, &endpoint, call).await;
}

#[tokio::test]
async fn equal_dispatches_at_the_same_time_are_all_meant_and_all_answered() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let session = endpoint.session(ALICE).await;
    let arguments = json!({"project": "t3-smoke", "prompt": "say the same"});
    let answers = futures_util::future::join_all([
        result(endpoint.modern_call("t3_dispatch", &arguments)),
        result(endpoint.legacy_call(&session, 1, "t3_dispatch", &arguments)),
        result(endpoint.modern_call("t3_dispatch", &arguments)),
        result(endpoint.legacy_call(&session, 2, "t3_dispatch", &arguments)),
    ])
    .await;
    let threads: BTreeSet<&str> = answers
        .iter()
        .map(|answer| answer["structuredContent"]["thread_id"].as_str().unwrap())
        .collect();
    assert_eq!((threads.len(), simulator.thread_count()), (4, 4), "{answers:?}");
}

/// Clients close a stream as soon as they have its result, without having seen its end.
#[tokio::test]
async fn a_client_that_closes_right_after_the_result_has_read_it() {
    let simulator = simulator().await;
    let endpoint = start_over(&simulator, settings()).await;
    let session = endpoint.session(ALICE).await;
    let arguments = json!({"project": "t3-smoke", "prompt": "say again"});
    for n in 1..=20 {
        let mut client = connect(&endpoint).await;
        let call = endpoint.legacy_call(&session, n, "t3_dispatch", &arguments);
        client.write_all(&bytes_of(call)).await.unwrap();
        let (mut heard, mut buffer) = (String::new(), vec![0; 64 << 10]);
        while !heard.contains("structuredContent") {
            let read = client.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "{heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        drop(client);
        assert!(!heard.contains("implicit"), "{n}: {heard}");
    }
    assert_eq!(simulator.thread_count(), 20);
}
