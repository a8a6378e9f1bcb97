//! What the shell, the streams and reads show.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Older, Subject, Thread, text};
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
        let mut projects = self.projects.clone();
        for project in projects.iter_mut().filter(|_| self.spoils_projects) {
            project["workspaceRoot"] = Value::Null;
        }
        json!({
            "snapshotSequence": self.head(), "projects": projects, "threads": threads, "updatedAt": self.started_at,
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

    /// What the checkpoints after one turn, up to another, changed; none where one of the two was not captured.
    pub(crate) fn diff(&self, id: &str, from: u64, to: u64) -> Option<String> {
        let thread = self.threads.get(self.find(id)?)?;
        let turn = |checkpoint: &Value| checkpoint["checkpointTurnCount"].as_u64().unwrap_or_default();
        let ready = || thread.checkpoints.iter().filter(|known| known["status"] == "ready");
        let has = |wanted: u64| wanted == 0 || ready().any(|known| turn(known) == wanted);
        if !has(from) || !has(to) {
            return None;
        }
        let mut diff = String::new();
        for checkpoint in ready().filter(|known| (from + 1..=to).contains(&turn(known))) {
            for file in checkpoint["files"].as_array().into_iter().flatten() {
                let (path, added) = (text(file, "path"), file["additions"].as_u64().unwrap_or_default());
                let _ = writeln!(
                    diff,
                    "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{added} @@"
                );
                for line in 1..=added {
                    let _ = writeln!(diff, "+line {line} of turn {}", turn(checkpoint));
                }
            }
        }
        Some(diff)
    }

    /// When the process began.
    pub(crate) fn started_at(&self) -> Stamp {
        self.started_at
    }
}
