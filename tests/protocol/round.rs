//! There and back: JSON into a type and out again.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use t3code_mcp::protocol::decode;

/// It came back equal; or where it did not.
pub(super) type Outcome = Result<(), String>;

/// Decodes a value as a client does, from text, and compares what the type prints, null and absent being equal.
pub(super) fn round<T: DeserializeOwned + Serialize>(value: &Value) -> Outcome {
    let typed: T = decode(value.to_string().as_bytes()).map_err(|error| error.to_string())?;
    let back = serde_json::to_value(&typed).map_err(|error| error.to_string())?;
    same(value, &back).map_err(|difference| format!("at {difference}"))
}

fn same(one: &Value, other: &Value) -> Outcome {
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
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.try_for_each(|(index, (left, right))| same(left, right).map_err(|at| format!("[{index}].{at}")))
        }
        (one, other) if one == other => Ok(()),
        (one, other) => Err(format!(": {one} became {other}")),
    }
}
