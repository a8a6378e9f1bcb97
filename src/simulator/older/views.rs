//! What the shell, the streams and reads show.

use serde_json::{Value, json};

use super::{Older, Subject, Thread};
use crate::simulator::model::Stamp;

impl Older {
    /// The shell's snapshot: neither archived nor deleted threads.
    pub(crate) fn shell(&self) -> Value {
        self.shell_of(|thread| !thread.archived)
    }

    /// The archived threads, as a snapshot.
    pub(crate) fn archived_shell(&self) -> Value {
        self.shell_of(|thread| thread.archived)
    }

    fn shell_of(&self, shown: impl Fn(&Thread) -> bool) -> Value {
        let threads: Vec<&Value> = self
            .threads
            .iter()
            .filter(|thread| !thread.deleted && shown(thread))
            .map(|thread| &thread.head)
            .collect();
        json!({
            "snapshotSequence": self.head(), "projects": self.projects, "threads": threads, "updatedAt": self.started_at,
        })
    }

    /// What changed in between: each thing once, as it is now.
    pub(crate) fn items_between(&self, after: u64, to: u64) -> Vec<Value> {
        let mut items = Vec::new();
        let mut told = Vec::new();
        for sequence in (after + 1..=to).rev() {
            let place = usize::try_from(sequence - 1).unwrap_or(usize::MAX);
            let Some(subject) = self.log.get(place) else { continue };
            if told.contains(subject) {
                continue;
            }
            told.push(*subject);
            items.push(match *subject {
                Subject::Project(place) => {
                    json!({"kind": "project-upserted", "sequence": sequence, "project": self.projects.get(place)})
                }
                Subject::Thread(ix) => {
                    let Some(thread) = self.threads.get(ix) else { continue };
                    if thread.archived || thread.deleted {
                        json!({"kind": "thread-removed", "sequence": sequence, "threadId": thread.head["id"]})
                    } else {
                        json!({"kind": "thread-upserted", "sequence": sequence, "thread": thread.head})
                    }
                }
            });
        }
        items.reverse();
        items
    }

    /// A read of a thread; none for archived and deleted ones.
    pub(crate) fn thread(&self, id: &str) -> Option<Value> {
        let thread = self.threads.get(self.find(id)?)?;
        if thread.archived || thread.deleted {
            return None;
        }
        let mut shown = thread.head.clone();
        if let Some(fields) = shown.as_object_mut() {
            for flag in [
                "hasPendingApprovals",
                "hasPendingUserInput",
                "hasActionableProposedPlan",
                "latestUserMessageAt",
            ] {
                fields.remove(flag);
            }
        }
        shown["deletedAt"] = Value::Null;
        shown["messages"] = json!(thread.messages);
        shown["activities"] = json!(thread.activities);
        shown["checkpoints"] = json!(thread.checkpoints);
        shown["proposedPlans"] = json!([]);
        Some(json!({"snapshotSequence": self.head(), "thread": shown}))
    }

    /// When the process began.
    pub(crate) fn started_at(&self) -> Stamp {
        self.started_at
    }
}
