//! Whether the answer of a call got to its caller. The edge (`mcp`, `cli`) knows, the receipts need it: only a call whose answer was
//! *lost* may be found again by an equal call without a request id. An answer that was written or lost stays so; a caller that is away counts
//! as gone until it comes back, since its retry may come before its patience ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long after the stop the edge may take to say what became of an answer.
const DECIDED_WITHIN: Duration = Duration::from_secs(3);

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

    /// That of a call whose answer is known to be written or lost.
    pub(super) fn settled(state: Delivered) -> Self {
        Self(Arc::new(Shared {
            state: watch::Sender::new(Some(state)),
            ..Shared::default()
        }))
    }

    /// Whether both speak of the same call.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    /// What was taken to be answered was not: the caller left it unread.
    pub fn missed(&self) {
        self.change(|state| match state {
            Some(Delivered::Answered) => Some(Delivered::Lost(Instant::now())),
            other @ (None | Some(Delivered::Away(_) | Delivered::Lost(_))) => other,
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

    /// Waits until the answer was written or lost for good. When the program stops, a caller that is away is gone, and none is the word
    /// where nobody says it.
    pub(super) async fn decided(&self, stop: &CancellationToken) -> Option<Delivered> {
        let mut state = self.0.state.subscribe();
        loop {
            let stopping = stop.is_cancelled();
            match *state.borrow_and_update() {
                Some(decided @ (Delivered::Answered | Delivered::Lost(_))) => return Some(decided),
                Some(Delivered::Away(since)) if stopping => return Some(Delivered::Lost(since)),
                None if stopping && !self.is_reported() => return None,
                Some(Delivered::Away(_)) | None => {}
            }
            tokio::select! {
                // It cannot fail: the sender lives as long as `self`.
                _ = state.changed() => {}
                () = stop.cancelled(), if !stopping => {}
                () = tokio::time::sleep(DECIDED_WITHIN), if stopping => return None,
            }
        }
    }

    fn change(&self, next: impl FnOnce(Option<Delivered>) -> Option<Delivered>) {
        self.0.state.send_modify(|state| *state = next(*state));
    }
}
