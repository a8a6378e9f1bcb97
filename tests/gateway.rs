//! The gateway end to end: what a caller may do, against a simulated T3 on a real socket.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

#[path = "gateway/asking.rs"]
mod asking;
#[path = "gateway/ceilings.rs"]
mod ceilings;
#[path = "gateway/dispatching.rs"]
mod dispatching;
#[path = "gateway/kept.rs"]
mod kept;
#[path = "gateway/many.rs"]
mod many;
#[path = "gateway/models.rs"]
mod models;
#[path = "gateway/older.rs"]
mod older;
#[path = "gateway/queue.rs"]
mod queue;
#[path = "gateway/quick.rs"]
mod quick;
#[path = "gateway/retries.rs"]
mod retries;
#[path = "gateway/several.rs"]
mod several;
#[path = "gateway/support.rs"]
mod support;
#[path = "gateway/told.rs"]
mod told;
#[path = "gateway/waiting.rs"]
mod waiting;
