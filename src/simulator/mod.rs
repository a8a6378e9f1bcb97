//! A T3 server in memory, on a real socket: for tests, for trials and for the demo.
//!
//! It speaks protocol 2 as it was recorded from a real server, or, with the version gate on, as later servers do. Commands are
//! held against T3's own schemas, and a scripted agent obeys the last line of each prompt: `say X`, `sleep N`, `fail X`, `ask`,
//! `ask1`, `ask form`, `ask message`, `login`, `background N`, `approve CMD`, `approve2`, `approveedit`, `edit FILE`, `tool`, `refuse`, `crash`, `big KB`. It must never differ from
//! the recordings in anything that a client can see, keeps nothing on disk, and runs no command of anybody.
//!
//! It also speaks protocol 1 (`older`), and can be upgraded from it while it runs.
//!
//! One thing that a client can see is other than recorded: T3 accepts `permessage-deflate` from a client that offers it. This server
//! declines, which every client that offers must take; the sockets of this crate never offer it, since tungstenite has no extensions,
//! and to one that does not offer T3's answer is the same.
//!
//! Tests of every part start one in their own process ([`Simulator::start`] on port 0), `simulate` and `demo` serve it.
//!
//! ```text
//! server ─▶ http ─▶ socket ─▶ calls ─▶ model   (pure: commands, time → events)
//!                      │         └──▶ validate (T3's schemas)
//!                      └──▶ streams ──▶ model  (windows, replays)
//! ```

mod auth;
mod calls;
mod database;
mod describe;
mod faults;
mod host;
mod http;
mod model;
mod older;
mod server;
mod socket;
mod streams;
mod validate;

pub use database::Database;
pub use faults::{Backup, Faults};
pub use host::ThreadReads;
pub use model::{ModelOptions, Provider, ProviderModel, RunOutline, RunStatus, Timing};
pub use server::{Simulator, SimulatorError, SimulatorOptions};
