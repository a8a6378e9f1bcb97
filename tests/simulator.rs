//! The simulator against the recordings and the rules of the wire.
//!
//! `fixtures/replay` holds frames of a real server, cut: uuids have short names, ids are decoded, what is not compared is left out
//! (capabilities, repeated lists, rows of the shell that newer ones replaced before the client acted again).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

#[path = "simulator/client.rs"]
mod client;
#[path = "simulator/generated.rs"]
mod generated;
#[path = "simulator/newer.rs"]
mod newer;
#[path = "recordings/mod.rs"]
mod recordings;
#[path = "simulator/repeats.rs"]
mod repeats;
#[path = "simulator/replay.rs"]
mod replay;
#[path = "simulator/rules.rs"]
mod rules;
#[path = "simulator/shape.rs"]
mod shape;
