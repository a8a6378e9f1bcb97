//! Tells what becomes of the answer to one call: written to the client, or lost since it hung up.
//!
//! The transport holds a [`Reader`] while somebody is there to read; a tool looks at [`Fate::lost`] to end a wait that nobody hears, and hands
//! [`Fate::settled`] to the gateway, which merges a repeated call only with one whose answer was lost. It cancels nothing itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// What becomes of one call's answer. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    lost: CancellationToken,
    written: CancellationToken,
    state: Mutex<State>,
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
        if !self.inner.written.is_cancelled() {
            self.inner.lost.cancel();
        }
    }

    /// Somebody reads the answer from now on.
    pub fn reader(&self) -> Reader {
        let mut state = self.state();
        state.readers += 1;
        if let Some(away) = state.away.take() {
            away.cancel();
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
            self.inner.lost.cancel();
            return;
        };
        let back = CancellationToken::new();
        state.away = Some(back.clone());
        let lost = self.inner.lost.clone();
        runtime.spawn(async move {
            tokio::select! {
                () = back.cancelled() => {}
                () = tokio::time::sleep(grace) => lost.cancel(),
            }
        });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who reads a call's answer; dropped before [`Reader::finished`], it has hung up.
#[derive(Debug)]
pub struct Reader {
    fate: Fate,
    finished: bool,
}

impl Reader {
    /// The whole answer went out.
    pub fn finished(&mut self) {
        self.finished = true;
        if !self.fate.inner.lost.is_cancelled() {
            self.fate.inner.written.cancel();
        }
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
        let mut back = fate.reader();
        tokio::time::sleep(Duration::from_secs(60)).await;
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
