//! Clients that leave: their waits end and leave nothing behind, their mutations go on, and the gateway learns that the answer was lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use t3code_mcp::gateway::Delivered;

use crate::support::{ALICE, Running, delivered, seen, settings, start, until};

/// A running endpoint whose clients may be away for no time at all.
async fn impatient() -> Running {
    let mut settings = settings();
    settings.sessions.away = Duration::ZERO;
    start(settings).await
}

#[tokio::test]
async fn a_wait_ends_when_its_client_hangs_up_in_both_eras() {
    let endpoint = impatient().await;
    let session = endpoint.session(ALICE).await;
    for (key, request) in [
        (
            "gone-modern",
            endpoint.modern_call("trial_read", &json!({"key": "gone-modern", "hold": true})),
        ),
        (
            "gone-legacy",
            endpoint.legacy_call(&session, 1, "trial_read", &json!({"key": "gone-legacy", "hold": true})),
        ),
    ] {
        let call = tokio::spawn(async move { request.send().await.unwrap().text().await });
        let seen = seen(key);
        seen.began.notified().await;
        call.abort();
        until(key, || {
            seen.unheard.load(Ordering::SeqCst) == 1 && matches!(delivered(&seen), Some(Delivered::Lost(_)))
        })
        .await;
    }
}

#[tokio::test]
async fn a_mutation_goes_on_when_its_client_hangs_up_and_its_answer_counts_as_lost() {
    let endpoint = impatient().await;
    let session = endpoint.session(ALICE).await;
    for (key, request) in [
        (
            "on-modern",
            endpoint.modern_call("trial_change", &json!({"key": "on-modern", "hold": true})),
        ),
        (
            "on-legacy",
            endpoint.legacy_call(&session, 1, "trial_change", &json!({"key": "on-legacy", "hold": true})),
        ),
    ] {
        let call = tokio::spawn(async move { request.send().await.unwrap().text().await });
        let seen = seen(key);
        seen.began.notified().await;
        call.abort();
        until("it is known to be lost", || {
            matches!(delivered(&seen), Some(Delivered::Lost(_)))
        })
        .await;
        assert_eq!(seen.unheard.load(Ordering::SeqCst), 0);
        seen.release.notify_one();
        until(key, || seen.committed.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_and_its_answer_counts_as_lost() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    let call = endpoint.legacy_call(&session, 9, "trial_read", &json!({"key": "cancelled", "hold": true}));
    let call = tokio::spawn(async move { call.send().await.unwrap().text().await.unwrap() });
    let seen = seen("cancelled");
    seen.began.notified().await;
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    endpoint
        .post(ALICE)
        .header("mcp-session-id", &session)
        .json(&body)
        .send()
        .await
        .unwrap();
    until("the wait ends", || seen.unheard.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(delivered(&seen), Some(Delivered::Lost(_))));
    assert!(!call.await.unwrap().contains("structuredContent"));
    // Its id is free again.
    let again = endpoint.legacy_call(&session, 9, "trial_read", &json!({"key": "cancelled-again"}));
    assert!(
        again
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
            .contains("cancelled-again")
    );
}

#[tokio::test]
async fn an_answer_that_was_read_counts_as_answered_in_both_eras() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(ALICE).await;
    for (key, request) in [
        (
            "read-modern",
            endpoint.modern_call("trial_change", &json!({"key": "read-modern"})),
        ),
        (
            "read-legacy",
            endpoint.legacy_call(&session, 1, "trial_change", &json!({"key": "read-legacy"})),
        ),
    ] {
        let _ = request.send().await.unwrap().text().await.unwrap();
        until(key, || delivered(&seen(key)) == Some(Delivered::Answered)).await;
    }
}

/// Counts the runtime's tasks, so it stands alone in its runtime.
#[tokio::test]
async fn waits_of_clients_that_hung_up_leave_no_task_behind() {
    let endpoint = impatient().await;
    let session = endpoint.session(ALICE).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let round = async |tag: &str| {
        let mut calls = Vec::new();
        for n in 0..20_u64 {
            let key = format!("tasks-{tag}-{n}");
            let arguments = json!({"key": key, "hold": true});
            let request = if n % 2 == 0 {
                endpoint.modern_call("trial_read", &arguments)
            } else {
                endpoint.legacy_call(&session, n, "trial_read", &arguments)
            };
            calls.push(tokio::spawn(async move { request.send().await.unwrap().text().await }));
            seen(&key).began.notified().await;
        }
        for call in calls {
            call.abort();
            let _ = call.await;
        }
        for n in 0..20 {
            let seen = seen(&format!("tasks-{tag}-{n}"));
            until("a wait ends", || seen.unheard.load(Ordering::SeqCst) == 1).await;
        }
    };
    let before = tasks();
    round("a").await;
    until("the tasks are gone", || tasks() <= before).await;
    round("b").await;
    until("the tasks are gone again", || tasks() <= before).await;
}
