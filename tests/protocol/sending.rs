//! What we send is exact.

use serde_json::{Value, json};
use t3code_mcp::protocol::v2::{self, sent};
use t3code_mcp::protocol::{Change, DecodeError, decode};

/// Reads a type from a JSON value.
fn decode_json<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, DecodeError> {
    decode(value.to_string().as_bytes())
}

fn update() -> v2::CommandThreadMetadataUpdate {
    v2::CommandThreadMetadataUpdate {
        branch: Change::Keep,
        command_id: v2::CommandId("c".into()),
        expected_empty: None,
        expected_worktree_path: Change::Keep,
        limit_recovery: Change::Keep,
        linked_pull_request: Change::Keep,
        regenerate_title: None,
        thread_id: v2::ThreadId("t".into()),
        title: None,
        worktree_path: Change::Keep,
    }
}

fn printed(update: v2::CommandThreadMetadataUpdate) -> Value {
    serde_json::to_value(v2::Command::ThreadMetadataUpdate(update)).unwrap()
}

#[test]
fn optional_fields_that_are_none_are_left_out() {
    assert_eq!(
        printed(update()),
        json!({ "type": "thread.metadata.update", "commandId": "c", "threadId": "t" })
    );
}

#[test]
fn keep_clear_and_set_are_absent_null_and_a_value() {
    let update = v2::CommandThreadMetadataUpdate {
        branch: Change::Clear,
        worktree_path: Change::Set("/w".into()),
        ..update()
    };
    let printed = printed(update.clone());
    assert_eq!(
        printed,
        json!({ "type": "thread.metadata.update", "commandId": "c", "threadId": "t", "branch": null, "worktreePath": "/w" })
    );
    let read: v2::Command = decode_json(&printed).unwrap();
    assert_eq!(read, v2::Command::ThreadMetadataUpdate(update));
}

#[test]
fn every_tri_state_field_of_the_metadata_command_can_be_cleared() {
    let cleared = v2::CommandThreadMetadataUpdate {
        branch: Change::Clear,
        expected_worktree_path: Change::Clear,
        limit_recovery: Change::Clear,
        linked_pull_request: Change::Clear,
        worktree_path: Change::Clear,
        ..update()
    };
    let printed = printed(cleared);
    for field in [
        "branch",
        "expectedWorktreePath",
        "limitRecovery",
        "linkedPullRequest",
        "worktreePath",
    ] {
        assert_eq!(printed.get(field), Some(&Value::Null), "{field}");
    }
}

#[test]
fn a_required_field_that_may_be_null_is_sent_as_null() {
    let create = v2::Command::ThreadCreate(v2::CommandThreadCreate {
        branch: None,
        command_id: v2::CommandId("c".into()),
        created_by: sent::Actor::User,
        creation_source: sent::CreationSource::Mcp,
        interaction_mode: sent::ProviderInteractionMode::Default,
        model_selection: v2::ModelSelection {
            instance_id: v2::ProviderInstanceId("codex".into()),
            model: "m".into(),
            options: None,
        },
        project_id: v2::ProjectId("p".into()),
        runtime_mode: sent::RuntimeMode::FullAccess,
        thread_id: v2::ThreadId("t".into()),
        title: "T".into(),
        worktree_path: None,
    });
    let expected = json!({
        "type": "thread.create", "commandId": "c", "threadId": "t", "projectId": "p", "title": "T", "createdBy": "user",
        "creationSource": "mcp", "runtimeMode": "full-access", "interactionMode": "default", "branch": null,
        "worktreePath": null, "modelSelection": { "instanceId": "codex", "model": "m" },
    });
    assert_eq!(serde_json::to_value(create).unwrap(), expected);
}

#[test]
fn a_command_or_word_that_the_contract_lacks_is_no_command() {
    let unknown = decode_json::<v2::Command>(&json!({ "type": "nope.nope", "commandId": "c" })).unwrap_err();
    assert!(
        unknown
            .message
            .starts_with("unknown variant `nope.nope`, expected one of `thread.create`"),
        "{unknown}"
    );
    let word = json!({ "type": "thread.runtime-mode.set", "commandId": "c", "threadId": "t", "runtimeMode": "yolo" });
    let word = decode_json::<v2::Command>(&word).unwrap_err();
    assert_eq!(word.path, "runtimeMode");
}

#[test]
fn a_word_that_may_be_sent_is_one_that_can_be_read() {
    for word in sent::RuntimeMode::WORDS {
        let exact = sent::RuntimeMode::parse(word).unwrap();
        assert_eq!(v2::RuntimeMode::from(exact).as_str(), *word);
    }
    assert_eq!(sent::RuntimeMode::parse("yolo"), None);
}
