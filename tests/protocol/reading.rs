//! What T3 sends is read tolerantly, and what cannot be read is an error that says where.

use serde_json::{Value, json};
use t3code_mcp::protocol::{DecodeError, decode, v2};

use super::round::round;

/// Reads a type from a JSON value.
fn decode_json<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    decode(value.to_string().as_bytes())
}

/// A turn item with the tag where T3 puts it: after the fields that all items have.
fn error_item(status: &str, failure: &Value) -> String {
    let text = r#"{"id":"i","threadId":"t","runId":"r","nodeId":null,"providerThreadId":null,"providerTurnId":null,
        "nativeItemRef":null,"parentItemId":null,"ordinal":3,"status":STATUS,"title":null,"startedAt":null,"completedAt":null,
        "updatedAt":"2026-11-30T00:00:00.000Z","type":"error","failure":FAILURE}"#;
    text.replace("STATUS", status).replace("FAILURE", &failure.to_string())
}

fn failure() -> Value {
    json!({ "class": "provider_error", "message": "m", "code": null, "retryable": false })
}

fn refused<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> DecodeError {
    decode::<T>(text.as_bytes()).unwrap_err()
}

#[test]
fn an_unknown_field_is_ignored() {
    let result: v2::DispatchCommandResult = decode(br#"{"sequence":7,"news":{"deep":[1]}}"#).unwrap();
    assert_eq!(result.sequence, 7);
}

#[test]
fn an_unknown_word_is_kept_and_printed_back() {
    let item: v2::TurnItem = decode(error_item("\"dreaming\"", &failure()).as_bytes()).unwrap();
    assert_eq!(item.status(), Some(&v2::TurnItemStatus::Unknown("dreaming".into())));
    assert_eq!(serde_json::to_value(&item).unwrap()["status"], "dreaming");
}

#[test]
fn a_word_named_unknown_is_a_word_like_others() {
    let class: v2::ProviderFailureClass = decode(b"\"unknown\"").unwrap();
    assert_eq!(
        (class.as_str(), serde_json::to_value(&class).unwrap()),
        ("unknown", json!("unknown"))
    );
}

#[test]
fn an_unknown_member_is_kept_as_its_tag() {
    let item: v2::ShellStreamItem = decode(br#"{"kind":"weather.updated","sequence":9,"sky":"blue"}"#).unwrap();
    assert_eq!(
        item,
        v2::ShellStreamItem::Unknown {
            tag: "weather.updated".into()
        }
    );
    assert_eq!(
        serde_json::to_value(&item).unwrap(),
        json!({ "kind": "weather.updated" })
    );
}

#[test]
fn an_unknown_event_among_known_ones_loses_none() {
    let text = br#"[{"kind":"event","sequence":1,"event":{"id":"e","type":"moon.rose","payload":{"phase":1}}},{"kind":"synchronized"}]"#;
    let items: Vec<v2::ThreadStreamItem> = decode(text).unwrap();
    let v2::ThreadStreamItem::Event(first) = &items[0] else {
        panic!("{items:?}")
    };
    assert_eq!(
        first.event,
        v2::DomainEvent::Unknown {
            tag: "moon.rose".into()
        }
    );
    assert_eq!(items[1], v2::ThreadStreamItem::Synchronized);
}

#[test]
fn a_known_tag_with_wrong_content_is_an_error_with_its_path() {
    let error = refused::<Vec<v2::ShellStreamItem>>(
        r#"[{"kind":"synchronized"},{"kind":"thread.removed","sequence":"x","location":"active","threadId":"t"}]"#,
    );
    assert_eq!(error.path, "[1].sequence");
    assert!(
        error.message.contains("invalid type: string \"x\", expected u64"),
        "{error}"
    );
}

#[test]
fn the_path_goes_through_unions_whose_tag_comes_late() {
    let mut failure = failure();
    failure["retryable"] = json!("maybe");
    let event = format!(
        r#"{{"id":"e","threadId":"t","occurredAt":"z","type":"turn-item.updated","payload":{}}}"#,
        error_item("\"failed\"", &failure)
    );
    let error = refused::<v2::ThreadStreamItem>(&format!(r#"{{"kind":"event","sequence":1,"event":{event}}}"#));
    assert_eq!(error.path, "event.payload.failure.retryable");
    assert_eq!(error.type_name, "ThreadStreamItem");
}

#[test]
fn the_path_goes_into_fields_that_came_before_the_tag() {
    let error = refused::<v2::TurnItem>(&error_item("{}", &failure()));
    assert_eq!(error.path, "status");
    // The event's type comes after its payload: all of the payload was kept back until then.
    let mut failure = failure();
    failure["message"] = json!(5);
    let event = format!(
        r#"{{"payload":{},"id":"e","threadId":"t","occurredAt":"z","type":"turn-item.updated"}}"#,
        error_item("\"failed\"", &failure)
    );
    let error = refused::<v2::ThreadStreamItem>(&format!(r#"{{"sequence":1,"event":{event},"kind":"event"}}"#));
    assert_eq!(error.path, "event.payload.failure.message");
    assert!(error.message.starts_with("invalid type"), "{error}");
}

#[test]
fn a_union_without_its_tag_is_an_error() {
    let error = refused::<v2::ShellStreamItem>(r#"{"sequence":1}"#);
    assert!(error.message.starts_with("missing field `kind`"), "{error}");
}

#[test]
fn a_missing_required_field_is_an_error_with_its_path() {
    let error = decode_json::<v2::ShellStreamItem>(
        &json!({ "kind": "snapshot", "snapshot": { "schemaVersion": 2, "snapshotSequence": 1, "threads": [], "projects": [] } }),
    );
    let error = error.unwrap_err();
    assert_eq!(error.path, "snapshot");
    assert!(error.message.starts_with("missing field `archivedThreads`"), "{error}");
}

#[test]
fn null_and_absent_are_equal_where_a_key_is_optional() {
    let bare = json!({ "instanceId": "codex", "model": "m" });
    let absent: v2::ModelSelection = decode_json(&bare).unwrap();
    let mut with_null = bare.clone();
    with_null["options"] = Value::Null;
    let null: v2::ModelSelection = decode_json(&with_null).unwrap();
    assert_eq!(absent, null);
    assert_eq!(serde_json::to_value(&null).unwrap(), bare);
}

#[test]
fn an_empty_list_is_not_an_absent_one() {
    assert_eq!(
        round::<v2::ModelSelection>(&json!({ "instanceId": "codex", "model": "m", "options": [] })),
        Ok(())
    );
}

#[test]
fn numbers_print_as_they_came() {
    for number in [json!(5), json!(0.25)] {
        let cost: v2::AuthAccessTokenResult = decode_json(&json!({
            "access_token": "a", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer",
            "expires_in": number, "scope": "s",
        }))
        .unwrap();
        assert_eq!(serde_json::to_value(&cost).unwrap()["expires_in"], number);
    }
}

#[test]
fn text_after_the_value_is_an_error() {
    assert_eq!(refused::<v2::DispatchCommandResult>(r#"{"sequence":1} {}"#).path, ".");
}

#[test]
fn ids_are_newtypes_that_print_as_their_text() {
    let id: t3code_mcp::protocol::ThreadId = decode(b"\"thread-1\"").unwrap();
    assert_eq!(
        (id.to_string().as_str(), serde_json::to_value(&id).unwrap()),
        ("thread-1", json!("thread-1"))
    );
}
