//! One machine against a simulated T3 server, over real sockets.

#[path = "machine/connection.rs"]
mod connection;
#[path = "machine/reading.rs"]
mod reading;
#[path = "machine/sending.rs"]
mod sending;
#[path = "machine/stranger.rs"]
mod stranger;
#[path = "machine/support.rs"]
mod support;
