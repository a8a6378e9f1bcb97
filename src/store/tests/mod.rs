//! The ledger on a real file.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod deliveries;
mod events;
mod receipts;
mod support;
mod tracked;
