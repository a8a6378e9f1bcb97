//! Tells a waiting client that its call is alive: one notification at once, then one every 15 seconds.
//!
//! The ticker and the work share one task and every notification is awaited to its end, so that none can follow the result: clients drop the
//! connection over such a late one. `tool` drives it for calls that gave a progress token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::time::{Instant, MissedTickBehavior};

/// How often progress is told: half of the shortest idle clock seen in a client (30 s).
pub const EVERY: Duration = Duration::from_secs(15);

/// What a call says about how far it is; a tool writes it, the ticker reads it.
#[derive(Clone, Debug, Default)]
pub struct Note(Arc<Mutex<String>>);

impl Note {
    /// Says something new.
    pub fn set(&self, text: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs `work` and tells its progress to `peer` until it is done.
pub async fn told<T>(
    peer: &Peer<RoleServer>,
    token: ProgressToken,
    every: Duration,
    note: &Note,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    // The first tick is due at once: without a first message the client gets not even a status line.
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    let mut count = 0_u32;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = ticks.tick() => {}
        }
        count = count.saturating_add(1);
        let seconds = started.elapsed().as_secs();
        let message = match note.get() {
            said if said.is_empty() => format!("{seconds} s"),
            said => format!("{said}, {seconds} s"),
        };
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(message);
        // A client that is gone is noticed by the transport; here it must not end the work.
        if let Err(error) = peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress could not be told");
        }
    }
}
