//! The ids that a T3 server makes. They nest percent-encoded parts; clients treat them as opaque, but they see them, so they are
//! built as T3 builds them.

use std::fmt::Write as _;

use uuid::Uuid;

/// Encodes as JavaScript's `encodeURIComponent` does.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// Makes random-looking ids from a counter, so that a model that is run twice makes the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Uuids {
    namespace: Uuid,
    count: u64,
}

impl Uuids {
    pub(crate) fn new(seed: &str) -> Self {
        Self {
            namespace: Uuid::new_v5(&Uuid::NAMESPACE_OID, seed.as_bytes()),
            count: 0,
        }
    }

    pub(crate) fn next(&mut self) -> Uuid {
        self.count += 1;
        Uuid::new_v5(&self.namespace, &self.count.to_be_bytes())
    }
}

pub(crate) fn run(thread: &str, ordinal: u64) -> String {
    format!("run:thread:{thread}:ordinal:{ordinal}")
}

pub(crate) fn attempt(run: &str, attempt: u64) -> String {
    format!("run-attempt:run:{}:attempt:{attempt}", encode(run))
}

pub(crate) fn root_node(run: &str, attempt: u64) -> String {
    if attempt == 1 {
        format!("node:run:{}:root", encode(run))
    } else {
        format!("node:run:{}:attempt:{attempt}:root", encode(run))
    }
}

pub(crate) fn provider_thread(driver: &str, first_run: &str) -> String {
    format!(
        "provider-thread:provider:{driver}:native-thread:{}",
        encode(&format!("pending:{first_run}"))
    )
}

pub(crate) fn provider_session(instance: &str, thread: &str, unique: Uuid) -> String {
    format!("provider-session:provider-instance:{instance}:thread:{thread}:{unique}")
}

pub(crate) fn provider_turn(driver: &str, native: &str) -> String {
    format!("provider-turn:provider:{driver}:native-turn:{}", encode(native))
}

pub(crate) fn native_item(what: &str, driver: &str, native: &str) -> String {
    format!("{what}:provider:{driver}:native-item:{}", encode(native))
}

pub(crate) fn runtime_request(driver: &str, turn: &str, native: &str, unique: Uuid) -> String {
    format!(
        "runtime-request:provider:{driver}:provider-turn:{}:native-request:{native}:{unique}",
        encode(turn)
    )
}

pub(crate) fn scope(thread: &str) -> String {
    format!("checkpoint-scope:thread:{thread}:name:root")
}

pub(crate) fn checkpoint(scope: &str, ordinal: u64) -> String {
    format!("checkpoint:scope:{}:name:{ordinal}", encode(scope))
}

pub(crate) fn signal_item(run: &str, signal: &str) -> String {
    format!("turn-item:run:{}:signal:{signal}", encode(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_nest_as_recorded() {
        let run = run("thread-1", 1);
        assert_eq!(
            root_node(&run, 1),
            "node:run:run%3Athread%3Athread-1%3Aordinal%3A1:root"
        );
        assert_eq!(
            root_node(&run, 2),
            "node:run:run%3Athread%3Athread-1%3Aordinal%3A1:attempt:2:root"
        );
        assert_eq!(
            provider_thread("grok", &run),
            "provider-thread:provider:grok:native-thread:pending%3Arun%3Athread%3Athread-1%3Aordinal%3A1"
        );
        assert_eq!(
            checkpoint(&scope("thread-1"), 0),
            "checkpoint:scope:checkpoint-scope%3Athread%3Athread-1%3Aname%3Aroot:name:0"
        );
    }

    #[test]
    fn a_counter_makes_the_same_ids_again() {
        let (mut one, mut other) = (Uuids::new("a"), Uuids::new("a"));
        assert_eq!(one.next(), other.next());
        assert_ne!(one.next(), Uuids::new("a").next());
    }
}
