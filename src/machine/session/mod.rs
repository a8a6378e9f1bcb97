//! The deterministic core of a socket session (stand-in while it is written).

mod call;
mod subscription;

pub use call::CallError;
pub use subscription::{Subscription, empty_object};
