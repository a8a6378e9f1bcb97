//! An upgrade in place: what a server of protocol 1 held, taken over. Runs get ids of their own, and what was at work is over.

use serde_json::{Value, json};

use super::dispatch::{Beginning, NewMessage};
use super::entities::{Message, RunStatus};
use super::events::Source;
use super::{Model, ModelOptions, Stamp};
use crate::simulator::older::Older;

/// The word for threads that were taken over.
const IMPORTED: &str = "v1_import";

impl Model {
    /// The database of an older server as it is after its upgrade. Its sequences begin anew.
    pub(crate) fn import(options: ModelOptions, older: &Older, now: Stamp) -> Self {
        let mut model = Self::new(options);
        for project in older.projects() {
            let create = json!({
                "type": "project.create", "commandId": format!("import:{}", project["id"]), "projectId": project["id"],
                "title": project["title"], "workspaceRoot": project["workspaceRoot"], "createWorkspaceRootIfMissing": true,
                "defaultModelSelection": project["defaultModelSelection"],
            });
            // The database is empty: nothing is in its way.
            let _ = model.handle_project(now, &create, true);
        }
        for thread in older.threads.iter().filter(|thread| !thread.deleted) {
            model.import_thread(thread, now);
        }
        model
    }

    fn import_thread(&mut self, thread: &crate::simulator::older::Thread, now: Stamp) {
        let mut create = thread.head.clone();
        create["threadId"] = create["id"].clone();
        let ix = self.put_thread(now, &create, None);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.app.history_origin = Some(IMPORTED);
        }
        self.log_thread(ix, now, &Source::Server, "thread.created");
        for (place, was) in thread.turns.iter().enumerate() {
            let message = thread
                .messages
                .iter()
                .find(|message| message["id"] == was.message.as_str());
            let prompt = message.and_then(|message| message["text"].as_str()).unwrap_or_default();
            let new = NewMessage {
                id: was.message.clone(),
                text: prompt.to_owned(),
                attachments: json!([]),
                creation_source: "web".to_owned(),
                continues: None,
            };
            self.add_run(ix, was.asked_at, &new, Beginning::Prepare, &Source::Server);
            let ordinal = u64::try_from(place + 1).unwrap_or(u64::MAX);
            let newest = &thread.head["latestTurn"];
            let state = if newest["turnId"] == was.turn.as_str() {
                newest["state"].as_str()
            } else {
                None
            };
            let status = match state {
                // Nothing outlives the process that it ran in.
                Some("running" | "interrupted") => RunStatus::Interrupted,
                Some("error") => RunStatus::Failed,
                _ => RunStatus::Completed,
            };
            self.change_run(ix, now, ordinal, &Source::Server, |run| {
                run.status = status;
                run.started_at = Some(was.asked_at);
                run.completed_at = Some(now);
            });
            let run = self
                .threads
                .get(ix)
                .and_then(|thread| thread.by_ordinal(ordinal).cloned());
            let Some(run) = run else { continue };
            let said = thread
                .messages
                .iter()
                .filter(|message| message["turnId"] == was.turn.as_str());
            for message in said {
                let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
                let message = Message {
                    created_by: "agent",
                    creation_source: "provider".to_owned(),
                    id: text("id"),
                    thread_id: run.thread_id.clone(),
                    run_id: run.id.clone(),
                    node_id: run.root_node_id.clone(),
                    role: "assistant",
                    text: text("text"),
                    attachments: Value::Array(Vec::new()),
                    streaming: false,
                    created_at: now,
                    updated_at: now,
                };
                self.log_message(ix, now, &Source::Server, false, message);
            }
        }
    }
}
