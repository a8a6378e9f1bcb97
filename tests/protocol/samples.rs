//! Values that T3's own encoder made.

use serde_json::Value;
use t3code_mcp::protocol::v2;

use super::round::round;

/// The one member in the samples that the contract does not have: reading keeps its tag alone.
const NEWER_MEMBER: &str = "brand_new_item";

fn tag_alone(value: &mut Value) -> usize {
    match value {
        Value::Object(map) if map.get("type").is_some_and(|tag| tag == NEWER_MEMBER) => {
            map.retain(|key, _| key == "type");
            1
        }
        Value::Object(map) => map.values_mut().map(tag_alone).sum(),
        Value::Array(list) => list.iter_mut().map(tag_alone).sum(),
        _ => 0,
    }
}

#[test]
fn every_sample_decodes_and_prints_back_equal() {
    let text = include_str!("../fixtures/samples.json");
    let mut samples: std::collections::BTreeMap<String, Vec<Value>> = serde_json::from_str(text).unwrap();
    let newer: usize = samples.values_mut().flatten().map(tag_alone).sum();
    assert_eq!(newer, 1);
    let mut failures = Vec::new();
    let mut count = 0;
    for (kind, values) in &samples {
        for value in values {
            count += 1;
            let result = match kind.as_str() {
                "command" => round::<v2::Command>(value),
                "descriptor" => round::<v2::ExecutionEnvironmentDescriptor>(value),
                "domainEvent" => round::<v2::DomainEvent>(value),
                "notification" => round::<v2::Notification>(value),
                "projectMutation" => round::<v2::ProjectMutation>(value),
                "provider" => round::<v2::ServerProvider>(value),
                "run" => round::<v2::Run>(value),
                "runtimeRequest" => round::<v2::RuntimeRequest>(value),
                "session" => round::<v2::AuthSessionState>(value),
                "shellSnapshot" => round::<v2::ShellSnapshot>(value),
                "shellStreamItem" => round::<v2::ShellStreamItem>(value),
                "threadDetailSnapshot" => round::<v2::ThreadDetailSnapshot>(value),
                "threadStreamItem" => round::<v2::ThreadStreamItem>(value),
                "turnItem" => round::<v2::TurnItem>(value),
                _ => Err("no type is known for it".to_owned()),
            };
            failures.extend(result.err().map(|error| format!("{kind}: {error}")));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(count > 400, "{count}");
}
