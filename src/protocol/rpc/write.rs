//! How frames are written: exactly the keys that T3 demands, in the order in which it writes them itself.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Cause, ClientFrame, Exit, ServerFrame};

impl Serialize for ClientFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Request {
                id,
                tag,
                payload,
                headers,
            } => {
                map.serialize_entry("_tag", "Request")?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("tag", tag)?;
                map.serialize_entry("payload", payload)?;
                map.serialize_entry("headers", headers)?;
            }
            Self::Ack { request_id } => {
                map.serialize_entry("_tag", "Ack")?;
                map.serialize_entry("requestId", request_id)?;
            }
            Self::Interrupt { request_id } => {
                map.serialize_entry("_tag", "Interrupt")?;
                map.serialize_entry("requestId", request_id)?;
            }
            Self::Ping => map.serialize_entry("_tag", "Ping")?,
            Self::Eof => map.serialize_entry("_tag", "Eof")?,
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}

impl Serialize for ServerFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Chunk { request_id, values } => {
                map.serialize_entry("_tag", "Chunk")?;
                map.serialize_entry("requestId", request_id)?;
                map.serialize_entry("values", values)?;
            }
            Self::Exit { request_id, exit } => {
                map.serialize_entry("_tag", "Exit")?;
                map.serialize_entry("requestId", request_id)?;
                map.serialize_entry("exit", exit)?;
            }
            Self::Pong => map.serialize_entry("_tag", "Pong")?,
            Self::Defect { defect } => {
                map.serialize_entry("_tag", "Defect")?;
                map.serialize_entry("defect", defect)?;
            }
            Self::ClientProtocolError { error } => {
                map.serialize_entry("_tag", "ClientProtocolError")?;
                map.serialize_entry("error", error)?;
            }
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Success(value) => {
                map.serialize_entry("_tag", "Success")?;
                map.serialize_entry("value", value)?;
            }
            Self::Failure(causes) => {
                map.serialize_entry("_tag", "Failure")?;
                map.serialize_entry("cause", causes)?;
            }
        }
        map.end()
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Fail(error) => {
                map.serialize_entry("_tag", "Fail")?;
                map.serialize_entry("error", error)?;
            }
            Self::Die(defect) => {
                map.serialize_entry("_tag", "Die")?;
                map.serialize_entry("defect", defect)?;
            }
            Self::Interrupt { fiber_id } => {
                map.serialize_entry("_tag", "Interrupt")?;
                map.serialize_entry("fiberId", fiber_id)?;
            }
            Self::Unknown { tag } => map.serialize_entry("_tag", tag)?,
        }
        map.end()
    }
}
