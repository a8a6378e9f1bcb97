//! Tells a waiting client that its call is alive.
//!
//! The gateway's wait drives it from its own task: the first notification at once, then one every 15 seconds, each awaited to its end, so that
//! none can follow the result (clients drop the connection over a late one). `tools::wait` makes it for calls that gave a progress token.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};

use crate::gateway::{ProgressSink, Tick};

/// Where the heartbeats of one call go.
#[derive(Clone, Debug)]
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// What the client was told before.
    before: u64,
}

impl Progress {
    /// To the client that gave this token, and was told so many before.
    pub fn new(peer: Peer<RoleServer>, token: ProgressToken, before: u64) -> Self {
        Self { peer, token, before }
    }

    /// Tells the heartbeat of that number.
    pub(super) async fn tell(&self, number: u64, message: String) {
        // Within f64's whole numbers for longer than any wait lasts.
        #[allow(clippy::cast_precision_loss)]
        let count = number as f64 + 1.0;
        let progress = ProgressNotificationParam::new(self.token.clone(), count).with_message(message);
        // A client that hung up is seen by the transport; here it must not end the work.
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress could not be told");
        }
    }
}

impl ProgressSink for Progress {
    fn tick(&self, tick: Tick) -> BoxFuture<'_, ()> {
        self.tell(self.before + tick.number, tick.message).boxed()
    }
}
