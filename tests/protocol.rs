//! The generated types: against values that T3's own encoder made, frames of a real server, and what goes wrong; and the build
//! that generates them, against schemas that do not fit.

// A helper of a test is a test to us, not to clippy.
#![allow(clippy::unwrap_used, clippy::expect_used)]

// Compiled a second time, as a library: only a part of it is called here.
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub)]
#[path = "../build/mod.rs"]
mod build;

#[path = "protocol/generation.rs"]
mod generation;
#[path = "protocol/older.rs"]
mod older;
#[path = "protocol/reading.rs"]
mod reading;
#[path = "recordings/mod.rs"]
mod recorded;
#[path = "protocol/recordings.rs"]
mod recordings;
#[path = "protocol/round.rs"]
mod round;
#[path = "protocol/samples.rs"]
mod samples;
#[path = "protocol/sending.rs"]
mod sending;
