//! The dialect on what a real server sent, and on what a newer one may send.

use serde_json::Value;
use serde_json::value::RawValue;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

mod commands;
mod shell;
mod thread;
