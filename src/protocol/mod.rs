//! What goes over the wire: generated types (one module a protocol version), Effect RPC frames, and what the versions share.

mod ids;

pub use ids::*;
