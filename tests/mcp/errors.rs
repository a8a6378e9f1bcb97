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
async fn a_wrong_word_is_answered_with_the_words_that_are_taken() {
    let endpoint = start(settings()).await;
    for (tool, arguments, field, valid) in [
        (
            "t3_dispatch",
            json!({"prompt": "x", "when_busy": "later"}),
            "when_busy",
            json!(["reject", "queue", "steer", "restart"]),
        ),
        (
            "t3_dispatch_many",
            json!({"items": [{"prompt": "x", "interaction_mode": "think"}]}),
            "items[0].interaction_mode",
            json!(["default", "plan"]),
        ),
        (
            "t3_queue",
            json!({"thread_id": "t", "action": "drop"}),
            "action",
            json!(["list", "cancel", "steer", "resume"]),
        ),
    ] {
        let error = endpoint.error(tool, arguments).await;
        assert_eq!(
            (&error["code"], &error["field"], &error["valid"]),
            (&json!("invalid_request"), &json!(field), &valid),
            "{error}"
        );
        let hint = error["hint"].as_str().unwrap();
        assert!(
            hint.contains(field) && hint.contains(valid[0].as_str().unwrap()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_error_repeats_little_of_what_it_was_given_and_nothing_that_is_not_seen() {
    let endpoint = start(settings()).await;
    let long = "x\u{202e}".repeat(150_000);
    let mut as_name = serde_json::Map::new();
    as_name.insert(long.clone(), json!(1));
    for (tool, arguments) in [
        ("t3_dispatch", json!({"prompt": "x", "when_busy": long})),
        ("t3_dispatch", json!({"prompt": "x", "watch": long})),
        ("t3_dispatch", json!({"prompt": "x", "machine": long})),
        ("t3_dispatch", json!({"prompt": long.repeat(4)})),
        ("t3_thread", json!({"thread_id": "x", "turns": "\u{202e}7"})),
        ("t3_threads", json!({"state": "\u{202e}".repeat(3_000)})),
        ("t3_threads", as_name.into()),
        ("t3_threads", json!({"x\u{202e}".repeat(1_000): 1})),
    ] {
        let error = endpoint.error(tool, arguments).await;
        let told = error.to_string();
        assert_eq!(error["code"], "invalid_request", "{told:.300}");
        assert!(told.len() < 3_000 && !told.contains('\u{202e}'), "{told}");
    }
    let title = endpoint
        .error("t3_dispatch", json!({"prompt": "x", "title": "t".repeat(501)}))
        .await;
    assert_eq!(
        (&title["field"], &title["most"]),
        (&json!("title"), &json!(500)),
        "{title}"
    );
    let empty = endpoint
        .error("t3_dispatch", json!({"prompt": "x", "title": " \n"}))
        .await;
    assert!(
        empty["message"].as_str().unwrap().starts_with("title is empty"),
        "{empty}"
    );
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
