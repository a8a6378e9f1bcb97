//! What comes out of a tracker: events, and which run each message of ours became.

use jiff::Timestamp;

use crate::lifecycle::{HookEvent, Watch};
use crate::protocol::{MessageId, RunId, RuntimeRequestId};

/// What an event tells.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EventKind {
    /// A run came to its end.
    Completed,
    /// A run was stopped, or can no longer end.
    Interrupted,
    /// A run failed.
    Failed,
    /// An agent asks something.
    Question,
    /// An agent needs a decision.
    Approval,
    /// A run works, and nothing changes.
    Stalled,
    /// The machine of a run is away.
    Unreachable,
}

impl EventKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Completed,
        Self::Interrupted,
        Self::Failed,
        Self::Question,
        Self::Approval,
        Self::Stalled,
        Self::Unreachable,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => HookEvent::Completed.as_str(),
            Self::Interrupted => HookEvent::Interrupted.as_str(),
            Self::Failed => HookEvent::Failed.as_str(),
            Self::Question => HookEvent::Question.as_str(),
            Self::Approval => HookEvent::Approval.as_str(),
            Self::Stalled => "stalled",
            Self::Unreachable => "unreachable",
        }
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}

impl From<HookEvent> for EventKind {
    fn from(event: HookEvent) -> Self {
        match event {
            HookEvent::Completed => Self::Completed,
            HookEvent::Interrupted => Self::Interrupted,
            HookEvent::Failed => Self::Failed,
            HookEvent::Question => Self::Question,
            HookEvent::Approval => Self::Approval,
        }
    }
}

/// A run, named for ever: a restored database may use its id again.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RunKey {
    /// T3's id.
    pub id: RunId,
    /// When it was asked for.
    pub requested_at: Timestamp,
}

/// Why a run can no longer end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// Its thread was deleted, or the database replaced.
    Gone,
    /// Its project was hidden, or its machine removed.
    NotVisible,
}

impl Reason {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::NotVisible => "not_visible",
        }
    }
}

/// An event, told once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// What it tells.
    pub kind: EventKind,
    /// The run that it is about; none for a message of ours that was lost before its run was seen.
    pub run: Option<RunKey>,
    /// The request that it is about.
    pub request: Option<RuntimeRequestId>,
    /// The message of ours that was lost before its run was seen.
    pub message: Option<MessageId>,
    /// Since when the machine is away, for `unreachable`.
    pub away_since: Option<Timestamp>,
    /// The word for the state that it tells of.
    pub state: &'static str,
    /// Whom it is reported to.
    pub watch: Watch,
    /// When it happened: T3's time where T3 says it, else when it was seen.
    pub at: Timestamp,
    /// Why the run can no longer end.
    pub reason: Option<Reason>,
    /// T3 has not said that the run is over.
    pub unconfirmed: bool,
    /// The run in which T3 goes on with this one.
    pub continues_in: Option<RunId>,
}

impl Told {
    /// What makes it this event and no other within its thread: run, the run's `requestedAt`, kind, and what of the run it is
    /// about. The id of the event derives from these, so their form never changes.
    pub fn parts(&self) -> [String; 4] {
        let (run, requested_at) = self
            .run
            .as_ref()
            .map_or_else(Default::default, |run| (run.id.0.clone(), run.requested_at.to_string()));
        let about = match (&self.request, &self.message, self.away_since) {
            (Some(request), _, _) => request.0.clone(),
            (None, Some(message), _) => format!("message {}", message.0),
            (None, None, Some(since)) => format!("away since {since}"),
            (None, None, None) => String::new(),
        };
        [run, requested_at, self.kind.as_str().to_owned(), about]
    }
}

/// A message of ours was found in a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Started {
    /// The message.
    pub message: MessageId,
    /// The run that it belongs to.
    pub run: RunKey,
}
