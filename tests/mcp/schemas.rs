//! What clients see of the tools.

use serde_json::{Value, json};

use crate::support::{result, settings, start};

/// What some client cannot read.
const FORBIDDEN: [&str; 9] = [
    "anyOf", "oneOf", "allOf", "not", "if", "$ref", "$defs", "$schema", "format",
];

fn walk(schema: &Value, path: &str) {
    let Value::Object(object) = schema else {
        panic!("{path}: a schema is an object, not {schema}");
    };
    for key in FORBIDDEN {
        assert!(!object.contains_key(key), "{path}: has {key}");
    }
    assert!(
        object.get("type").is_none_or(Value::is_string),
        "{path}: has a union of types"
    );
    assert!(
        object.get("default") != Some(&Value::Null),
        "{path}: has a null default"
    );
    assert!(
        object
            .get("enum")
            .and_then(Value::as_array)
            .is_none_or(|words| words.iter().all(Value::is_string)),
        "{path}: has odd words"
    );
    for (key, property) in object
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        walk(property, &format!("{path}.{key}"));
    }
    if let Some(items) = object.get("items") {
        walk(items, &format!("{path}[]"));
    }
    if let Some(rest @ Value::Object(_)) = object.get("additionalProperties") {
        walk(rest, &format!("{path}.*"));
    }
}

async fn tools() -> Vec<Value> {
    let endpoint = start(settings()).await;
    let listed = result(endpoint.modern("tools/list", json!({}))).await;
    let tools = listed["tools"].as_array().unwrap().clone();
    tools
        .into_iter()
        .filter(|tool| tool["name"].as_str().unwrap().starts_with("t3_"))
        .collect()
}

#[tokio::test]
async fn every_schema_keeps_to_what_all_clients_read() {
    for tool in tools().await {
        let name = tool["name"].as_str().unwrap();
        for side in ["inputSchema", "outputSchema"] {
            let schema = &tool[side];
            assert_eq!(schema["type"], "object", "{name} {side}");
            walk(schema, &format!("{name} {side}"));
            jsonschema::draft202012::meta::validate(schema).expect(name);
        }
        for (key, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string(),
                "{name}: {key} says nothing about itself"
            );
        }
    }
}

#[tokio::test]
async fn every_tool_has_a_title_annotations_and_a_short_description() {
    let tools = tools().await;
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "t3_machines",
            "t3_projects",
            "t3_models",
            "t3_threads",
            "t3_dispatch",
            "t3_dispatch_many",
            "t3_wait",
            "t3_thread",
            "t3_diff",
            "t3_answer",
            "t3_interrupt",
            "t3_queue",
            "t3_watch",
            "t3_events",
            "t3_archive",
            "t3_add_project",
            "t3_status",
            "t3_pair"
        ]
    );
    for tool in &tools {
        let description = tool["description"].as_str().unwrap().chars().count();
        assert!((40..2_048).contains(&description), "{tool}");
        assert!(!tool["description"].as_str().unwrap().contains("  "), "{tool}");
        assert!(
            tool["title"].is_string() && tool["annotations"]["readOnlyHint"].is_boolean(),
            "{tool}"
        );
    }
}

#[tokio::test]
async fn what_clients_see_of_the_tools() {
    let tools = tools().await;
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_json_snapshot!("tools", tools);
    });
}

#[tokio::test]
async fn the_list_and_the_greeting_need_no_machine() {
    let endpoint = start(settings()).await;
    let told = result(endpoint.modern("server/discover", json!({}))).await;
    assert!(told["instructions"].as_str().unwrap().starts_with("Runs coding agents"));
    assert!(
        told["supportedVersions"]
            .as_array()
            .unwrap()
            .contains(&json!("2026-07-28"))
    );
}
