//! One machine against a simulated T3 server, over real sockets.

// In a test a failed unwrap is a failed test; what the modules share is nobody else's.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "machine/connection.rs"]
mod connection;
#[path = "machine/newer.rs"]
mod newer;
#[path = "machine/reading.rs"]
mod reading;
#[path = "machine/sending.rs"]
mod sending;
#[path = "machine/stranger.rs"]
mod stranger;
#[path = "machine/support.rs"]
mod support;
