//! The generated types against values that T3's own encoder made, and frames of a real server.

#[path = "protocol/recordings.rs"]
mod recordings;
#[path = "protocol/round.rs"]
mod round;
#[path = "protocol/samples.rs"]
mod samples;
