//! What somebody else read of a thread that is followed.

use jiff::Timestamp;

use super::{Roster, note_head};
use crate::machine::Thread;
use crate::protocol::{EnvironmentId, ThreadId};
use crate::watch::entry::Edition;
use crate::watch::facts::{messages, read_facts};

impl Roster {
    /// Somebody read a thread, in that environment, for a reason of his own, and what it asks there may be over at the next read. False while
    /// nothing can be made of it: the machine was not looked at yet, or the thread not since a gap.
    pub fn handle_sight(
        &mut self,
        id: &ThreadId,
        thread: &Thread,
        environment: Option<&EnvironmentId>,
        project: Option<&str>,
        now: Timestamp,
    ) -> bool {
        if self.online_since.is_none() || environment != self.environment.as_ref() || self.begins(id) {
            return false;
        }
        let Some(entry) = self.threads.get_mut(id) else {
            return true;
        };
        let edition = Edition::of(thread);
        // Who has seen a later state knows that this one is over.
        if edition < entry.newest || entry.tracker.knows_what_is_asked(&thread.facts) {
            return true;
        }
        let messages = messages(thread);
        if !entry.tracker.handle_sight(&read_facts(thread, &messages), now) {
            return false;
        }
        entry.newest = edition;
        entry.overtaken_by = Some(edition);
        let head = &thread.head;
        note_head(
            entry,
            &mut self.places,
            &mut self.changed,
            id,
            (&head.title, &head.project, project),
        );
        self.look_after(id, Some(thread), now);
        true
    }
}
