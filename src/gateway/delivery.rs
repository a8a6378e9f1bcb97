//! Whether the answer of a call got to its caller. The edge (`mcp`, `cli`) knows, the receipts need it: only a call whose answer was
//! *lost* may be found again by an equal call without a request id. An answer that was written or lost stays so; a caller that is away counts
//! as gone until it comes back, since its retry may come before its patience ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Shared by a call and its receipt. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Delivery(Arc<Mutex<Option<Delivered>>>);

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
    /// The answer was written to the caller in full.
    pub fn answered(&self) {
        let mut state = self.lock();
        *state = match *state {
            // A call that was lost before stays lost: the first report is the one that the caller could see.
            Some(Delivered::Lost(since)) => Some(Delivered::Lost(since)),
            None | Some(Delivered::Away(_) | Delivered::Answered) => Some(Delivered::Answered),
        };
    }

    /// The caller's connection broke, and it may come back.
    pub fn away(&self) {
        self.lock().get_or_insert_with(|| Delivered::Away(Instant::now()));
    }

    /// The caller came back.
    pub fn back(&self) {
        self.lock().take_if(|state| matches!(state, Delivered::Away(_)));
    }

    /// The caller hung up or cancelled; one that was away has been gone since then.
    pub fn lost(&self) {
        let mut state = self.lock();
        *state = match *state {
            None => Some(Delivered::Lost(Instant::now())),
            Some(Delivered::Away(since)) => Some(Delivered::Lost(since)),
            Some(decided @ (Delivered::Answered | Delivered::Lost(_))) => Some(decided),
        };
    }

    /// What is known; none while the call runs or its answer is being written.
    pub fn state(&self) -> Option<Delivered> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Delivered>> {
        // Nothing is half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
