//! The thread lifecycle: a declared machine for runs, one for requests, and the fold that makes a thread's state of them.
//!
//! Pure: no I/O, no clock. The enums and transition functions are generated from `schemas/lifecycle.toml`; this module adds the
//! facts that go in ([`ThreadFacts`]), what they are observed as ([`observe()`], [`observe_request`]), the status that comes out
//! ([`fold()`]), and the driver that tells each event once ([`Driver`]). It must never conclude an end from anything but facts of
//! the run itself. `machine` fills the facts, `gateway` reads the status.

mod driver;
mod facts;
mod fold;
mod observe;

/// What `build/lifecycle.rs` makes of the table.
#[allow(clippy::match_same_arms, clippy::too_many_lines)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/lifecycle.rs"));
}

pub use driver::{Declared, Driver, RequestDriver, RunDriver};
pub use facts::*;
pub use fold::{Pending, ThreadStatus, fold, fold_presuming};
pub use generated::protocol_2::{capability, classify_request, observe_run};
pub use generated::*;
pub use observe::{observe, observe_request};
