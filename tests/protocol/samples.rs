//! Values that T3's own encoder made.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use t3code_mcp::protocol::{decode_value, v2};

/// The two values are equal, if null and absent are.
fn same(one: &Value, other: &Value) -> Result<(), String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()) {
                let (left, right) = (
                    one.get(key).unwrap_or(&Value::Null),
                    other.get(key).unwrap_or(&Value::Null),
                );
                same(left, right).map_err(|at| format!("{key}.{at}"))?;
            }
            Ok(())
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .try_for_each(|(index, (left, right))| same(left, right).map_err(|at| format!("{index}.{at}"))),
        (one, other) if one == other => Ok(()),
        (one, other) => Err(format!(": {one} became {other}")),
    }
}

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

fn round<T: DeserializeOwned + Serialize>(kind: &str, value: &Value) -> Result<(), String> {
    let typed: T = decode_value(value.clone()).map_err(|error| format!("{kind}: {error}"))?;
    let back = serde_json::to_value(&typed).map_err(|error| format!("{kind}: {error}"))?;
    same(value, &back).map_err(|at| format!("{kind}: {at}"))
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
                "command" => round::<v2::Command>(kind, value),
                "descriptor" => round::<v2::ExecutionEnvironmentDescriptor>(kind, value),
                "domainEvent" => round::<v2::DomainEvent>(kind, value),
                "notification" => round::<v2::Notification>(kind, value),
                "projectMutation" => round::<v2::ProjectMutation>(kind, value),
                "provider" => round::<v2::ServerProvider>(kind, value),
                "run" => round::<v2::Run>(kind, value),
                "runtimeRequest" => round::<v2::RuntimeRequest>(kind, value),
                "session" => round::<v2::AuthSessionState>(kind, value),
                "shellSnapshot" => round::<v2::ShellSnapshot>(kind, value),
                "shellStreamItem" => round::<v2::ShellStreamItem>(kind, value),
                "threadDetailSnapshot" => round::<v2::ThreadDetailSnapshot>(kind, value),
                "threadStreamItem" => round::<v2::ThreadStreamItem>(kind, value),
                "turnItem" => round::<v2::TurnItem>(kind, value),
                other => Err(format!("`{other}`: no type is known for it")),
            };
            failures.extend(result.err());
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
