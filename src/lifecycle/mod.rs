//! The thread lifecycle: a declared machine for runs, one for requests, and the fold that makes a thread's state of them.
//!
//! Pure: no I/O, no clock. The enums and transition functions are generated from `schemas/lifecycle.toml`; this module adds the
//! facts that go in ([`ThreadFacts`]), what they are observed as ([`observe()`], [`observe_request`]), the status that comes out
//! ([`fold()`]), the driver that tells each event once ([`Driver`]), and who keeps an eye on a thread over days and restarts
//! ([`Tracker`], and an [`Outage`] a machine). It must never conclude an end from anything but facts of the run itself. `machine`
//! fills the facts, `gateway` reads the status, `watch` feeds the trackers.

mod driver;
mod facts;
mod fold;
mod observe;
mod outage;
mod tracked;
mod tracker;

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
pub use observe::{asks, observe, observe_request};
pub use outage::Outage;
pub use tracked::{Baseline, Dispatched, TrackedRequest, TrackedRun, TrackedThread, Watch};
pub use tracker::{EventKind, Limits, ReadFacts, ReadNeed, Reason, RowFacts, RunKey, Started, Told, Tracker};
