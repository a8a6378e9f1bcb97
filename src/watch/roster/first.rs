//! Threads that were there before they are followed: their first read says where to begin.

use jiff::{SignedDuration, Timestamp};

use super::{Outcome, Roster, note_head};
use crate::protocol::ThreadId;
use crate::watch::facts::{messages, read_facts};

/// How long after a read that came to nothing a thread that is not followed yet is read again.
const BEGIN_AGAIN: SignedDuration = SignedDuration::from_secs(5);

impl Roster {
    /// The first whole read of a thread that was there before.
    pub(super) fn handle_first_read(
        &mut self,
        id: &ThreadId,
        outcome: Outcome<'_>,
        project: Option<&str>,
        now: Timestamp,
    ) {
        let Some(begin) = self.beginning.get_mut(id) else {
            return;
        };
        let again = now.saturating_add(BEGIN_AGAIN).unwrap_or(now);
        // What was wanted before the machine answered did not know where.
        begin.environment = begin.environment.take().or_else(|| self.environment.clone());
        match outcome {
            Outcome::Read(thread) => {
                let messages = messages(thread);
                match begin.begin(id, &read_facts(thread, &messages), self.settings.limits, now) {
                    Ok(mut entry) => {
                        self.stop_beginning(id);
                        let head = &thread.head;
                        note_head(
                            &mut entry,
                            &mut self.places,
                            &mut self.changed,
                            id,
                            (&head.title, &head.project, project),
                        );
                        self.threads.insert(id.clone(), Box::new(entry));
                        self.changed.insert(id.clone());
                    }
                    Err(_) => begin.handle_failure(again),
                }
            }
            Outcome::NotFound if !begin.waits_for_message() || begin.orphaned => self.stop_beginning(id),
            Outcome::NotFound | Outcome::Failed => begin.handle_failure(again),
        }
    }

    pub(super) fn stop_beginning(&mut self, id: &ThreadId) {
        let Some(begin) = self.beginning.remove(id) else { return };
        if begin.is_taken_over() {
            self.batch.taken_over.push((self.machine.clone(), id.clone()));
        }
        for (client, request, opened) in begin.receipts {
            self.take_receipt(client, request, opened);
        }
    }
}
