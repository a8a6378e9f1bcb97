//! How failed calls reach the client, in both eras.

use serde_json::json;

use crate::support::{failure, result, settings, start};

#[tokio::test]
async fn a_tool_that_panics_still_answers_internal_in_both_eras() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(crate::support::ALICE).await;
    let arguments = json!({"key": "panic", "panic": true});
    for request in [
        endpoint.modern_call("trial_read", &arguments),
        endpoint.legacy_call(&session, 1, "trial_change", &arguments),
    ] {
        assert_eq!(failure(&result(request).await)["code"], "internal");
    }
    // The session lives on.
    let fine = result(endpoint.legacy_call(&session, 2, "trial_read", &json!({"key": "after"}))).await;
    assert_eq!(fine["structuredContent"], json!({"key": "after"}));
}

#[tokio::test]
async fn wrong_arguments_name_the_field_and_the_valid_ones() {
    let endpoint = start(settings()).await;
    for (arguments, field) in [
        (json!({"thread_id": "t", "nonsense": 1}), "nonsense"),
        (json!({}), "thread_id"),
        (json!({"thread_id": "t", "turns": "two"}), "turns"),
        (json!({"thread_id": null}), "thread_id"),
    ] {
        let error = failure(&result(endpoint.modern_call("t3_thread", &arguments)).await);
        assert_eq!(
            (&error["code"], &error["field"]),
            (&json!("invalid_request"), &json!(field)),
            "{error}"
        );
        assert_eq!(error["valid"], json!(["thread_id", "turns"]), "{error}");
        assert!(error["message"].as_str().unwrap().contains(field), "{error}");
    }
}

#[tokio::test]
async fn arguments_that_are_no_object_are_told_so() {
    let endpoint = start(settings()).await;
    let session = endpoint.session(crate::support::ALICE).await;
    let params = json!({"name": "t3_machines", "arguments": [1]});
    for request in [
        endpoint.modern("tools/call", params.clone()),
        endpoint.legacy(&session, 1, "tools/call", &params),
    ] {
        let error = failure(&result(request).await);
        assert_eq!(error["code"], "invalid_request");
        assert!(error["message"].as_str().unwrap().contains("object"));
    }
}

#[tokio::test]
async fn an_unknown_tool_is_a_failed_call_that_lists_the_tools() {
    let endpoint = start(settings()).await;
    let error = failure(&result(endpoint.modern_call("t3_wait_for", &json!({}))).await);
    assert_eq!(error["code"], "invalid_request");
    assert_eq!(error["hint"], "Did you mean t3_wait?");
    assert!(error["tools"].as_array().unwrap().contains(&json!("t3_dispatch")));
}
