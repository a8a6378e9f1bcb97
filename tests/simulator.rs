//! The simulator against the recordings and the rules of the wire.

#[path = "simulator/client.rs"]
mod client;
#[path = "simulator/rules.rs"]
mod rules;
