//! Whether the answer of a call got to its caller. The edge (`mcp`, `cli`) knows, the receipts need it: only a call whose answer was
//! *lost* may be found again by an equal call without a request id. Whatever is reported first counts.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Shared by a call and its receipt. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct Delivery(Arc<OnceLock<Delivered>>);

/// What became of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Delivered {
    /// It was written to the caller in full.
    Answered,
    /// The caller hung up or cancelled before it was written.
    Lost(Instant),
}

impl Delivery {
    /// The answer was written to the caller in full.
    pub fn answered(&self) {
        // A call that was lost before stays lost: the first report is the one that the caller could see.
        let _ = self.0.set(Delivered::Answered);
    }

    /// The caller hung up or cancelled.
    pub fn lost(&self) {
        let _ = self.0.set(Delivered::Lost(Instant::now()));
    }

    /// A guard that reports the answer as lost when it is dropped, unless [`Delivery::answered`] came first. Put it where the answer's
    /// last byte is written.
    pub fn lost_on_drop(&self) -> LostOnDrop {
        LostOnDrop(self.clone())
    }

    /// What is known; none while the call runs or its answer is being written.
    pub fn state(&self) -> Option<Delivered> {
        self.0.get().copied()
    }
}

/// See [`Delivery::lost_on_drop`].
#[derive(Debug)]
pub struct LostOnDrop(Delivery);

impl LostOnDrop {
    /// The answer was written in full.
    pub fn answered(self) {
        self.0.answered();
    }
}

impl Drop for LostOnDrop {
    fn drop(&mut self) {
        self.0.lost();
    }
}
