//! The ledger, on real files.
// In a test a failed unwrap is a failed test; what the modules share is nobody else's.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

#[path = "store/claims.rs"]
mod claims;
#[path = "store/deliveries.rs"]
mod deliveries;
#[path = "store/events.rs"]
mod events;
#[path = "store/full.rs"]
mod full;
#[path = "store/killed.rs"]
mod killed;
#[path = "store/opening.rs"]
mod opening;
#[path = "store/pruning.rs"]
mod pruning;
#[path = "store/receipts.rs"]
mod receipts;
#[path = "store/sessions.rs"]
mod sessions;
#[path = "store/support.rs"]
mod support;
#[path = "store/taken_over.rs"]
mod taken_over;
#[path = "store/tracked.rs"]
mod tracked;
