//! T3's protocol 2: types generated from `schemas/t3/protocol-2` by `schemas/selection.toml`.
//!
//! **What T3 sends** stands here in its tolerant form. Fields that the contract lacks are ignored; an optional field may be
//! null or absent; an enum keeps a word that it does not know (`Unknown(word)`, printed back as it came); a union keeps the tag
//! of a member that it does not know (`Unknown { tag }`). A missing required field, or a known tag with wrong content, is an
//! error: `decode` says where.
//!
//! **What we send** (`Command`, `ThreadLaunchInput`, the inputs of subscriptions …) stands here under its own name, in its
//! exact form: its enums and unions have no `Unknown`, so that a word which the contract lacks cannot be sent. Types that go
//! both ways exist twice where the forms differ: `RuntimeMode` is what T3 said, [`sent::RuntimeMode`] what we may say (the
//! second becomes the first by `From`; the other way is a decision, by `sent::RuntimeMode::parse`). An optional field that is
//! `None` is left out, never null; where null means something of its own, the field is a [`Change`](super::Change).

// Generated: these are matters of taste there.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

mod archived;
mod queries;

pub use archived::{
    ArchivedShellStreamItem, ArchivedShellStreamItemSnapshot, ArchivedShellStreamItemThreadRemoved,
    ArchivedShellStreamItemThreadUpdated,
};
pub use queries::{
    EnsureScratchResult, FullThreadDiffInput, SearchThreadsInput, SearchThreadsMatch, SearchThreadsResult,
    TurnDiffInput, TurnDiffResult,
};

include!(concat!(env!("OUT_DIR"), "/protocol_v2.rs"));
