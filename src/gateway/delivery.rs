//! Whether the answer of a call got to its caller. The edge (`mcp`, `cli`) knows, the receipts need it: only a call whose answer was
//! *lost* may be found again by an equal call without a request id. An answer that was written or lost stays so; a caller that is away counts
//! as gone until it comes back, since its retry may come before its patience ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::watch;

/// Shared by a call and its receipt. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Delivery(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: watch::Sender<Option<Delivered>>,
    /// The edge says what becomes of the answer, whatever happens.
    reported: bool,
    to_be_sure: AtomicBool,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Delivered {
    /// It was written to the caller in full.
    Answered,
    /// The caller's connection broke then; it may still come back for the answer.
    Away(Instant),
    /// The caller hung up or cancelled before it was written.
    Lost(Instant),
}

impl Delivery {
    /// That of a call whose edge will say what became of its answer: an equal call may wait for it.
    pub fn reported() -> Self {
        Self(Arc::new(Shared {
            reported: true,
            ..Shared::default()
        }))
    }

    /// The edge will say what becomes of the answer.
    pub fn is_reported(&self) -> bool {
        self.0.reported
    }

    /// Something rests on it: the edge is to look twice before it says "answered".
    pub fn ask_to_be_sure(&self) {
        self.0.to_be_sure.store(true, Ordering::Relaxed);
    }

    /// The edge is to look twice.
    pub fn is_to_be_sure(&self) -> bool {
        self.0.to_be_sure.load(Ordering::Relaxed)
    }

    /// The answer was written to the caller in full.
    pub fn answered(&self) {
        self.change(|state| match state {
            // A call that was lost before stays lost: the first report is the one that the caller could see.
            Some(Delivered::Lost(since)) => Some(Delivered::Lost(since)),
            None | Some(Delivered::Away(_) | Delivered::Answered) => Some(Delivered::Answered),
        });
    }

    /// The caller's connection broke, and it may come back.
    pub fn away(&self) {
        self.change(|state| state.or_else(|| Some(Delivered::Away(Instant::now()))));
    }

    /// The caller came back.
    pub fn back(&self) {
        self.change(|state| state.filter(|state| !matches!(state, Delivered::Away(_))));
    }

    /// The caller hung up or cancelled; one that was away has been gone since then.
    pub fn lost(&self) {
        self.change(|state| match state {
            None => Some(Delivered::Lost(Instant::now())),
            Some(Delivered::Away(since)) => Some(Delivered::Lost(since)),
            Some(decided @ (Delivered::Answered | Delivered::Lost(_))) => Some(decided),
        });
    }

    /// What is known; none while the call runs or its answer is being written.
    pub fn state(&self) -> Option<Delivered> {
        *self.0.state.borrow()
    }

    /// Waits until something is known.
    pub async fn known(&self) {
        // It cannot fail: the sender lives as long as `self`.
        let _ = self.0.state.subscribe().wait_for(Option::is_some).await;
    }

    fn change(&self, next: impl FnOnce(Option<Delivered>) -> Option<Delivered>) {
        self.0.state.send_modify(|state| *state = next(*state));
    }
}
