//! The simulator against the recordings and the rules of the wire.
//!
//! `fixtures/replay` holds frames of a real server, cut: uuids have short names, capabilities and repeated lists are left out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

#[path = "simulator/client.rs"]
mod client;
#[path = "simulator/repeats.rs"]
mod repeats;
#[path = "simulator/replay.rs"]
mod replay;
#[path = "simulator/rules.rs"]
mod rules;
#[path = "simulator/shape.rs"]
mod shape;
