//! The generated types against values that T3's own encoder made, and frames of a real server.

#[path = "protocol/samples.rs"]
mod samples;
