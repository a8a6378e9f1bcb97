//! Good and bad payloads, and the words about them.

use super::*;

fn create() -> Value {
    json!({"type": "thread.create", "commandId": "c", "threadId": "t", "projectId": "p", "title": "x",
        "modelSelection": {"instanceId": "grok", "model": "grok-build"}, "runtimeMode": "auto",
        "interactionMode": "default", "branch": null, "worktreePath": null, "createdBy": "user", "creationSource": "web"})
}

fn words(change: impl FnOnce(&mut serde_json::Map<String, Value>)) -> String {
    let mut command = create();
    change(command.as_object_mut().unwrap());
    check(Shape::Tagged("Command"), &command, false).unwrap_err()
}

#[test]
fn a_good_command_passes_with_fields_that_nobody_knows() {
    let mut command = create();
    command["bogus"] = json!(1);
    assert_eq!(check(Shape::Tagged("Command"), &command, false), Ok(()));
}

#[test]
fn a_bad_command_is_told_in_the_recorded_words() {
    assert_eq!(
        words(|it| drop(it.remove("createdBy"))),
        "Missing key\n  at [\"createdBy\"]"
    );
    assert_eq!(
        words(|it| drop(it.insert("threadId".into(), json!(5)))),
        "Expected string\n  at [\"threadId\"]"
    );
    assert_eq!(
        words(|it| drop(it.insert("creationSource".into(), json!("cli")))),
        "Expected \"web\" | \"mobile\" | \"mcp\" | \"provider\" | \"server\"\n  at [\"creationSource\"]"
    );
    assert_eq!(
        words(|it| drop(it.insert("title".into(), json!("  ")))),
        "Expected a value with a length of at least 1\n  at [\"title\"]"
    );
}

#[test]
fn a_nested_field_is_named_by_its_whole_path() {
    let said = words(|it| drop(it.insert("modelSelection".into(), json!({"instanceId": "grok"}))));
    assert_eq!(said, "Missing key\n  at [\"modelSelection\"][\"model\"]");
}

#[test]
fn the_recorded_server_knows_no_later_word() {
    let respond = json!({"type": "runtime-request.respond", "commandId": "c", "threadId": "t", "requestId": "r",
        "decision": "acceptAlways"});
    assert_eq!(
        check(Shape::Tagged("Command"), &respond, false).unwrap_err(),
        "Expected \"accept\" | \"acceptForSession\" | \"decline\" | \"cancel\"\n  at [\"decision\"]"
    );
    assert_eq!(check(Shape::Tagged("Command"), &respond, true), Ok(()));
}

#[test]
fn a_negative_sequence_is_refused() {
    let payload = json!({"afterSequence": -1});
    assert_eq!(
        check(Shape::Definition("SubscribeShellInput"), &payload, false).unwrap_err(),
        "Expected a value greater than or equal to 0\n  at [\"afterSequence\"]"
    );
    let payload = json!({"afterSequence": null});
    assert_eq!(
        check(Shape::Definition("SubscribeShellInput"), &payload, false).unwrap_err(),
        "Expected number\n  at [\"afterSequence\"]"
    );
}
