//! The simulator against the recordings and the rules of the wire.

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
#[path = "simulator/handshake.rs"]
mod handshake;
#[path = "simulator/newer.rs"]
mod newer;
#[path = "simulator/older.rs"]
mod older;
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
