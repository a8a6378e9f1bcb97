//! The time that deliveries go by: real, or a test's, so that three days pass in no time.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

/// A look at the real clock after so long at the latest: it goes on while the computer sleeps, which a timer does not see.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Returns when that time has come. Cancel-safe.
    async fn sleep_until(&self, at: Timestamp);
}

/// The system's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep_until(&self, at: Timestamp) {
        loop {
            // What is past is no unsigned duration.
            match Duration::try_from(at.duration_since(self.now())) {
                Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
                Ok(_) | Err(_) => return,
            }
        }
    }
}
