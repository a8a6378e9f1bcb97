//! T3's protocol 1: types generated from `schemas/t3/protocol-1` by `schemas/selection-protocol-1.toml`, in the forms of [`v2`](super::v2).
//!
//! Its ids are types of their own here; whoever reads them makes the shared ones of them.

// Generated: these are matters of taste there.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/protocol_v1.rs"));
