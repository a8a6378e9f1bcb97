//! Tells what becomes of the answer to one call: written to the client, or lost since it hung up.
//!
//! The transport holds a [`Reader`] while somebody is there to read; a tool looks at [`Fate::lost`] to end a wait that nobody hears; and the
//! gateway's [`Delivery`] learns it, since a repeated call is merged only with one whose client is away or whose answer was lost. It cancels
//! nothing itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::gateway::Delivery;

/// What becomes of one call's answer. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    lost: CancellationToken,
    written: CancellationToken,
    delivery: Delivery,
    state: Mutex<State>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            lost: CancellationToken::new(),
            written: CancellationToken::new(),
            delivery: Delivery::reported(),
            state: Mutex::default(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    readers: usize,
    /// How long a client may be away; none where it cannot come back to this answer.
    grace: Option<Duration>,
    /// Ends the clock that runs while the client is away.
    away: Option<CancellationToken>,
}

impl Fate {
    /// What the gateway's receipt looks at.
    pub fn delivery(&self) -> &Delivery {
        &self.inner.delivery
    }

    /// Fires when nobody will read the answer.
    pub fn lost(&self) -> &CancellationToken {
        &self.inner.lost
    }

    /// Waits until the answer was written (true) or is lost (false).
    pub async fn settled(&self) -> bool {
        tokio::select! {
            biased;
            () = self.inner.written.cancelled() => true,
            () = self.inner.lost.cancelled() => false,
        }
    }

    /// The client can come back for the answer: it is lost only when the client stays away for `grace`.
    pub fn keep_for(&self, grace: Duration) {
        self.state().grace = Some(grace);
    }

    /// The client withdrew the call: nobody waits for its answer.
    pub fn withdraw(&self) {
        self.inner.lose();
    }

    /// Somebody reads the answer from now on.
    pub fn reader(&self) -> Reader {
        let mut state = self.state();
        state.readers += 1;
        if let Some(away) = state.away.take() {
            away.cancel();
            self.inner.delivery.back();
        }
        drop(state);
        Reader {
            fate: self.clone(),
            finished: false,
        }
    }

    fn left(&self) {
        let mut state = self.state();
        state.readers = state.readers.saturating_sub(1);
        if state.readers > 0 || self.inner.written.is_cancelled() {
            return;
        }
        let runtime = tokio::runtime::Handle::try_current();
        let (Some(grace), Ok(runtime)) = (state.grace, runtime) else {
            drop(state);
            self.inner.lose();
            return;
        };
        let back = CancellationToken::new();
        state.away = Some(back.clone());
        // A client that calls again instead of coming back is not to start its work twice.
        self.inner.delivery.away();
        let inner = Arc::clone(&self.inner);
        runtime.spawn(async move {
            tokio::select! {
                () = back.cancelled() => {}
                () = tokio::time::sleep(grace) => inner.lose(),
            }
        });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn lose(&self) {
        if !self.written.is_cancelled() {
            self.delivery.lost();
            self.lost.cancel();
        }
    }

    fn write(&self) {
        if !self.lost.is_cancelled() {
            self.delivery.answered();
            self.written.cancel();
        }
    }
}

/// Somebody who reads a call's answer; dropped before [`Reader::finished`], it has hung up.
#[derive(Debug)]
pub struct Reader {
    fate: Fate,
    finished: bool,
}

impl Reader {
    /// Something rests on whether the answer was read: "written" is to be said only of one that the client had the time to read.
    pub fn is_to_be_sure(&self) -> bool {
        self.fate.inner.delivery.is_to_be_sure()
    }

    /// The whole answer went out.
    pub fn finished(&mut self) {
        self.finished = true;
        self.fate.inner.write();
    }

    /// The client left without having read it after all.
    pub fn missed(&self) {
        self.fate.inner.delivery.missed();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.finished {
            self.fate.left();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Delivered;

    #[tokio::test]
    async fn an_answer_is_lost_when_its_only_reader_leaves_early() {
        let fate = Fate::default();
        drop(fate.reader());
        assert!(!fate.settled().await);
    }

    #[tokio::test]
    async fn an_answer_that_went_out_stays_written() {
        let fate = Fate::default();
        let mut reader = fate.reader();
        reader.finished();
        drop(reader);
        fate.withdraw();
        assert!(fate.settled().await && !fate.lost().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_comes_back_in_time_has_lost_nothing() {
        let fate = Fate::default();
        fate.keep_for(Duration::from_secs(15));
        drop(fate.reader());
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert!(matches!(fate.delivery().state(), Some(Delivered::Away(_))));
        let mut back = fate.reader();
        assert_eq!(fate.delivery().state(), None);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!fate.lost().is_cancelled());
        back.finished();
        assert!(fate.settled().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stays_away_has_lost_the_answer() {
        let fate = Fate::default();
        fate.keep_for(Duration::from_secs(15));
        drop(fate.reader());
        assert!(!fate.settled().await);
    }
}
