//! The MCP face: what clients call, what they read, and how their calls get to `gateway`.
//!
//! `tools` holds one file a tool; `tool` what they have in common; `server` the list and the way to each. `schema`, `errors`, `text` and
//! `instructions` are what clients see, `caller`, `fate` and `progress` what a call carries, `sessions` what the older revisions need. It
//! decides nothing about threads: that is the gateway's. `http` and `stdio` serve it.

mod caller;
mod errors;
mod fate;
mod forward;
mod instructions;
mod lengths;
mod log;
mod one_id;
mod owner;
mod progress;
pub mod schema;
mod server;
pub mod sessions;
mod stdio;
mod tally;
mod text;
mod tool;
pub mod tools;

pub use caller::{Client, ORIGIN_HEADER, Trusted};
pub use fate::{Fate, Reader};
pub use forward::Place;
pub use instructions::TEXT as INSTRUCTIONS;
pub use log::WithoutHangUps;
pub use owner::{About, Owner, TELLS_HEADER, Unanswered};
pub use progress::Progress;
pub use server::Server;
pub use stdio::{StdioError, serve_pipes, serve_stdio};
pub use tally::CallCounts;
pub use tool::{Again, Call, Effect, Tool};
