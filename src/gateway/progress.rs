//! How a wait tells that it still waits.

use std::time::Duration;

use futures_util::future::BoxFuture;

/// What a heartbeat says.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Counts up from 0 within one call.
    pub number: u64,
    /// How long the call has waited.
    pub elapsed: Duration,
    /// One short line: state, elapsed time, last activity.
    pub message: String,
}

/// Where heartbeats go: implemented by the edge for a caller that gave a progress token. The wait drives it from its own task and
/// awaits each tick to its end, so none can follow the result. The first comes at once, then one every 15 s.
pub trait ProgressSink: Send + Sync {
    /// Sends one heartbeat; a failure to send is the sink's own matter (a client that hung up is seen elsewhere).
    fn tick(&self, tick: Tick) -> BoxFuture<'_, ()>;
}
