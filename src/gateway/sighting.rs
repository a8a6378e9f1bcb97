//! What a list may say about a thread's state. Pure but for the memory of what was read.
//!
//! A thread's state is the fold of what a read shows. Its row alone proves two things: that no run ever was, and that one is at work. The row
//! of a thread whose newest run has ended proves nothing, so such a thread is read, once: what has ended stays as it is until its row changes.
//! Where it cannot be read its state is `unknown`; no end is told of it.

use jiff::Timestamp;

use crate::fleet::Member;
use crate::gateway::Gateway;
use crate::gateway::compose::state_of_row;
use crate::gateway::standing::Standing;
use crate::lifecycle::{RequestClass, ThreadState, classify_request};
use crate::machine::ThreadRow;
use crate::protocol::EnvironmentId;

/// The state of a thread that nobody could read.
pub(super) const UNKNOWN: &str = "unknown";

/// What is known of a thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sighting {
    /// Its state; none where it was not read and its row does not prove one.
    pub(super) state: Option<ThreadState>,
    /// T3 holds its queue.
    pub(super) held: bool,
    /// It is at work, or waits for something.
    pub(super) busy: bool,
    /// Requests that wait for somebody.
    pub(super) pending: Vec<Asked>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) question: bool,
    pub(super) id: String,
    /// None where only the row was seen.
    pub(super) answerable: Option<bool>,
}

/// Which reading of a thread is meant: as long as this stays, what has ended stays.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edition {
    environment: Option<EnvironmentId>,
    sequence: u64,
    updated_at: Timestamp,
}

impl Sighting {
    /// As a read shows it.
    pub(super) fn of(standing: &Standing<'_>) -> Self {
        let asked = standing.status.pending.iter();
        Self {
            state: Some(standing.state()),
            held: standing.status.held,
            busy: standing.is_busy(),
            pending: asked
                // A tool call that a client answers by itself asks nobody.
                .filter(|request| request.class != RequestClass::None)
                .map(|request| Asked {
                    question: request.class == RequestClass::Question,
                    id: request.id.to_string(),
                    answerable: Some(request.answerable),
                })
                .collect(),
        }
    }

    /// As far as the row alone shows it.
    pub(super) fn of_row(row: &ThreadRow) -> Self {
        let at_work = row.active_run.is_some() || row.activity.is_some();
        let word = state_of_row(row);
        // The newest run waits: whatever else goes on, the thread is busy. Otherwise a busy word is the row's way not to tell an end.
        let proven = at_work || row.status == ThreadState::Queued.as_str();
        let pending = row.pending.iter().filter_map(|asked| {
            let class = classify_request(&asked.kind);
            (class != RequestClass::None).then(|| Asked {
                question: class == RequestClass::Question,
                id: asked.id.to_string(),
                answerable: None,
            })
        });
        let pending: Vec<Asked> = pending.collect();
        Self {
            // Whether the run waits for what is asked, the row does not say.
            state: (word == ThreadState::Idle || proven && pending.is_empty()).then_some(word),
            held: false,
            busy: proven,
            pending,
        }
    }

    /// It waits for a person: something is asked, or T3 holds its queue.
    pub(super) fn wants_attention(&self) -> bool {
        self.held || !self.pending.is_empty()
    }

    /// Nothing of it changes unless T3 says so.
    fn is_at_rest(&self) -> bool {
        !self.busy && self.pending.is_empty()
    }
}

/// The row proves that no run ever was.
pub(super) fn never_ran(row: &ThreadRow) -> bool {
    row.latest_run.is_none() && row.active_run.is_none() && row.activity.is_none() && row.pending.is_none()
}

impl Gateway {
    /// What is known of the thread without asking T3.
    pub(super) fn sighting(&self, member: &Member, row: &ThreadRow) -> Option<Sighting> {
        if never_ran(row) {
            return Some(Sighting::of_row(row));
        }
        self.memory
            .at_rest(&(member.name().to_owned(), row.id.clone()), &edition(member, row))
    }

    /// Reads the thread for a list; without an answer, what its row shows.
    pub(super) async fn look_at(&self, member: &Member, row: &ThreadRow) -> (Sighting, bool) {
        // As it stands before the read: what changes after that is another edition.
        let edition = edition(member, row);
        let Ok(thread) = self.read_and_show(member, &row.id).await else {
            return (Sighting::of_row(row), false);
        };
        let sighting = Sighting::of(&self.standing(member, &thread));
        if sighting.is_at_rest() {
            let key = (member.name().to_owned(), row.id.clone());
            self.memory.rests(key, edition, sighting.clone());
        }
        (sighting, true)
    }
}

fn edition(member: &Member, row: &ThreadRow) -> Edition {
    Edition {
        environment: member.machine.status().environment,
        sequence: row.sequence,
        updated_at: row.updated_at,
    }
}
