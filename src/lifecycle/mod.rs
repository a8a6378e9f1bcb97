//! The thread lifecycle: a declared machine for runs, one for requests, and the fold that makes a thread's state of them.
//!
//! Pure: no I/O, no clock. The enums and transition functions are generated from `schemas/lifecycle.toml`; this module adds the
//! facts that go in and the status that comes out.

mod facts;

pub use facts::*;
