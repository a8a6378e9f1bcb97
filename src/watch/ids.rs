//! The id of an event: derived from what it tells, so that the same observation, made any number of times, is the same event.

use uuid::Uuid;

use crate::lifecycle::Told;
use crate::machine::expiry::Mark;
use crate::protocol::{EnvironmentId, ThreadId};

/// The namespace of all event ids. Never change it: receivers know events by their ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x7433_636f_6465_4d43_5000_6576_656e_7473);

/// The id of an event of a thread.
pub(super) fn event_id(environment: Option<&EnvironmentId>, thread: &ThreadId, told: &Told) -> String {
    let [run, requested_at, kind, about] = told.parts();
    let environment = environment.map_or("", |environment| environment.0.as_str());
    id(&[environment, &thread.0, &run, &requested_at, &kind, &about])
}

/// The id of an event of a credential: whose, which one, and what is said of it.
pub(super) fn credential_id(environment: Option<&EnvironmentId>, machine: &str, of: Mark, about: &str) -> String {
    let environment = environment.map_or("", |environment| environment.0.as_str());
    let of = Uuid::from_bytes(of.0).simple().to_string();
    id(&["credential", environment, machine, &of, about])
}

fn id(parts: &[&str]) -> String {
    let mut name = Vec::new();
    // With its length before each part, no two events read alike.
    for part in parts {
        name.extend_from_slice(&(part.len() as u64).to_be_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    format!("evt_{}", Uuid::new_v5(&NAMESPACE, &name).simple())
}
