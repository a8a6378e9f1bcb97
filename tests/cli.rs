//! The real binary, as people, shells and MCP clients start it; and what the README says about it.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "cli/asking.rs"]
mod asking;
#[path = "cli/bearers.rs"]
mod bearers;
#[path = "cli/dispatching.rs"]
mod dispatching;
#[path = "cli/events.rs"]
mod events;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/killed.rs"]
mod killed;
#[path = "cli/moving_in.rs"]
mod moving_in;
#[path = "cli/older.rs"]
mod older;
#[path = "cli/owning.rs"]
mod owning;
#[path = "cli/pairing.rs"]
mod pairing;
#[path = "cli/pty.rs"]
mod pty;
#[path = "cli/readme.rs"]
mod readme;
#[path = "cli/receiver.rs"]
mod receiver;
#[path = "cli/schema.rs"]
mod schema;
#[path = "cli/serve.rs"]
mod serve;
#[path = "cli/sessions.rs"]
mod sessions;
#[path = "cli/stdio.rs"]
mod stdio;
#[path = "cli/stopping.rs"]
mod stopping;
#[path = "cli/support.rs"]
mod support;
#[path = "cli/watching.rs"]
mod watching;
