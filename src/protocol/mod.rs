//! What goes over the wire: generated types (one module a protocol version), Effect RPC frames, and what the versions share.

mod ids;
mod modes;
pub mod rpc;
mod untrusted;

pub use ids::*;
pub use modes::{InteractionMode, OptionValue, RuntimeMode};
pub use untrusted::{Escaped, Untrusted, escape_json};
