//! What goes over the wire: generated types (one module a protocol version), Effect RPC frames, and what the versions share.

mod change;
mod contract;
mod decode;
mod ids;
mod modes;
mod place;
pub mod rpc;
mod tagged;
mod untrusted;
pub mod v1;
pub mod v2;
mod words;

pub use change::Change;
pub use contract::Contract;
pub use decode::{DecodeError, decode};
pub(crate) use decode::{Fault, read};
pub use ids::*;
pub use modes::{InteractionMode, OptionValue, RuntimeMode};
pub use untrusted::{Escaped, Untrusted, escape_json};
