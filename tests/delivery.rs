//! Deliveries: a real ledger, real receivers on real sockets, and a clock that the test moves.
// In a test a failed unwrap is a failed test; what the modules share is nobody else's.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

#[path = "delivery/answers.rs"]
mod answers;
#[path = "delivery/order.rs"]
mod order;
#[path = "delivery/outages.rs"]
mod outages;
#[path = "outbound/mod.rs"]
mod outbound;
#[path = "delivery/proofs.rs"]
mod proofs;
#[path = "delivery/schedule.rs"]
mod schedule;
#[path = "delivery/secrets.rs"]
mod secrets;
#[path = "delivery/support.rs"]
mod support;
#[path = "delivery/tls.rs"]
mod tls;
