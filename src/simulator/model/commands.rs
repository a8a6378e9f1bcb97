//! Commands: receipts, refusals, and the commands that change a thread's head.

use serde_json::{Value, json};

use super::entities::{AppThread, Lineage, Rewritten};
use super::events::{Place, Source};
use super::stamp::Stamp;
use super::thread::Thread;
use super::{Model, text};

/// What became of a command id. It is never forgotten.
#[derive(Clone, Debug)]
pub(crate) enum Receipt {
    /// Done: its last sequence, and the thread that it was about or that it launched.
    Done {
        /// What a repetition is answered with.
        sequence: u64,
        /// The thread.
        thread: String,
    },
    /// Refused, with the words that a repetition hears.
    Refused(String),
    /// A project mutation, with its last sequence and its answer.
    Project {
        /// What a command with the same id is answered with.
        sequence: u64,
        /// What a repetition is answered with.
        answer: Value,
    },
}

/// A refused command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal(Box<Words>);

#[derive(Clone, Debug, PartialEq)]
struct Words {
    command: String,
    kind: String,
    message: String,
    cause: Value,
    /// What a repetition of the command id hears.
    remembered: String,
}

impl Refusal {
    /// A command that the thread's state does not allow.
    pub(crate) fn dispatch(command: &Value, message: String) -> Self {
        let (id, kind) = (text(command, "commandId"), text(command, "type"));
        let failed = format!("Failed to dispatch orchestration command {kind} ({id}).");
        Self(Box::new(Words {
            command: id.to_owned(),
            kind: kind.to_owned(),
            cause: json!({"name": "OrchestratorDispatchError", "message": failed, "cause": message}),
            message,
            remembered: failed,
        }))
    }

    /// A thread that was never there.
    fn projection(command: &Value, thread: &str) -> Self {
        let message = format!("Failed to load orchestration projection for thread {thread}.");
        Self(Box::new(Words {
            command: text(command, "commandId").to_owned(),
            kind: text(command, "type").to_owned(),
            cause: json!({"name": "OrchestratorProjectionError", "message": message}),
            remembered: message.clone(),
            message,
        }))
    }

    fn repeated(command: &Value, remembered: &str) -> Self {
        let id = text(command, "commandId");
        let message = previously_rejected(id, remembered);
        Self(Box::new(Words {
            command: id.to_owned(),
            kind: text(command, "type").to_owned(),
            cause: json!({"name": "OrchestratorCommandPreviouslyRejectedError", "message": message}),
            remembered: remembered.to_owned(),
            message,
        }))
    }

    /// The error as it travels.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "_tag": "OrchestrationV2DispatchCommandError",
            "commandId": self.0.command,
            "commandType": self.0.kind,
            "message": self.0.message,
            "detail": self.0.message,
            "cause": self.0.cause,
        })
    }
}

/// What a repetition of a refused command id hears.
pub(crate) fn previously_rejected(id: &str, remembered: &str) -> String {
    format!("Command {id} was previously rejected: {remembered}")
}

impl Model {
    /// A command that its schema has accepted. A repeated id is answered from its receipt, whatever else it says.
    pub(crate) fn handle_command(&mut self, now: Stamp, command: &Value) -> Result<u64, Refusal> {
        let id = text(command, "commandId").to_owned();
        match self.receipts.get(&id) {
            Some(Receipt::Done { sequence, .. } | Receipt::Project { sequence, .. }) => return Ok(*sequence),
            Some(Receipt::Refused(remembered)) => return Err(Refusal::repeated(command, remembered)),
            None => {}
        }
        let outcome = self.carry_out(now, command, &Source::Command(id.clone()));
        let receipt = match &outcome {
            Ok(sequence) => Receipt::Done {
                sequence: *sequence,
                thread: text(command, "threadId").to_owned(),
            },
            Err(refusal) => Receipt::Refused(refusal.0.remembered.clone()),
        };
        self.receipts.insert(id, receipt);
        outcome
    }

    fn carry_out(&mut self, now: Stamp, command: &Value, source: &Source) -> Result<u64, Refusal> {
        let kind = text(command, "type");
        if kind == "thread.create" {
            return Ok(self.create_thread(now, command, source));
        }
        let thread = text(command, "threadId");
        let ix = self.find(thread).ok_or_else(|| Refusal::projection(command, thread))?;
        match kind {
            "message.dispatch" => self.dispatch_message(ix, now, command, source),
            "prepared-run.release" => self.release_prepared(ix, now, command, source),
            "run.interrupt" => self.interrupt(ix, now, command, source),
            "runtime-request.respond" => self.respond(ix, now, command, source),
            "thread.user-input.dismiss" => self.dismiss(ix, now, command, source),
            "queued-run.edit" => self.edit_queued(ix, now, command, source),
            "queued-run.cancel" => self.cancel_queued(ix, now, command, source),
            "queued-run.reorder" => self.reorder_queued(ix, now, command, source),
            "queued-message.promote-to-steer" => self.promote(ix, now, command, source),
            "queue.resume" => self.resume_queue(ix, now, command, source),
            _ => self.change_head(ix, now, command, source),
        }
    }

    fn create_thread(&mut self, now: Stamp, command: &Value, source: &Source) -> u64 {
        let ix = self.put_thread(now, command, None);
        self.log_thread(ix, now, source, "thread.created")
    }

    /// Makes a thread, or makes the head of one that is there anew: T3 does not check.
    pub(crate) fn put_thread(&mut self, now: Stamp, command: &Value, branch: Option<&str>) -> usize {
        let id = text(command, "threadId");
        let model = command.get("modelSelection").cloned().unwrap_or_default();
        let optional = |field: &str| command.get(field).and_then(Value::as_str).map(str::to_owned);
        let app = AppThread {
            // The server overwrites what the client says.
            created_by: "user",
            creation_source: optional("creationSource").unwrap_or_else(|| "web".to_owned()),
            id: id.to_owned(),
            project_id: text(command, "projectId").to_owned(),
            title: text(command, "title").trim().to_owned(),
            provider_instance_id: text(&model, "instanceId").to_owned(),
            model_selection: model,
            runtime_mode: text(command, "runtimeMode").to_owned(),
            interaction_mode: text(command, "interactionMode").to_owned(),
            branch: branch.map(str::to_owned).or_else(|| optional("branch")),
            worktree_path: optional("worktreePath"),
            active_provider_thread_id: None,
            lineage: Lineage {
                parent_thread_id: None,
                relationship_to_parent: None,
                root_thread_id: id.to_owned(),
            },
            forked_from: None,
            created_at: now,
            updated_at: now,
            archived_at: None,
            settled_override: None,
            settled_at: None,
            snoozed_until: None,
            snoozed_at: None,
            rewritten: None,
            last_visited_at: None,
            deleted_at: None,
            history_origin: None,
        };
        if let Some(ix) = self.find(id) {
            if let Some(thread) = self.threads.get_mut(ix) {
                let active = thread.app.active_provider_thread_id.take();
                thread.app = AppThread {
                    active_provider_thread_id: active,
                    ..app
                };
            }
            return ix;
        }
        let ix = self.threads.len();
        self.by_id.insert(id.to_owned(), ix);
        self.threads
            .push(Thread::new(app, format!("fake-session-{}-1", 1000 + ix)));
        ix
    }

    /// The commands that change only the thread's head.
    #[expect(clippy::too_many_lines, reason = "one arm a command, each of a few lines")]
    fn change_head(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) -> Result<u64, Refusal> {
        let Some(thread) = self.threads.get_mut(ix) else {
            return Ok(self.head());
        };
        let app = &mut thread.app;
        let id = app.id.clone();
        let optional = |field: &str| command.get(field).and_then(Value::as_str).map(str::to_owned);
        let event = match text(command, "type") {
            "thread.archive" if app.archived_at.is_some() => {
                return Err(Refusal::dispatch(command, format!("Thread {id} is already archived.")));
            }
            "thread.unarchive" if app.archived_at.is_none() => {
                return Err(Refusal::dispatch(command, format!("Thread {id} is not archived.")));
            }
            "thread.archive" => {
                app.archived_at = Some(now);
                app.settled_override = None;
                app.settled_at = None;
                "thread.archived"
            }
            "thread.unarchive" => {
                app.archived_at = None;
                "thread.unarchived"
            }
            "thread.delete" => {
                app.deleted_at = Some(now);
                "thread.deleted"
            }
            "thread.settle" => {
                app.settled_override = Some("settled");
                app.settled_at = Some(now);
                "thread.settled"
            }
            "thread.unsettle" => {
                app.settled_override = Some("active");
                app.settled_at = None;
                "thread.unsettled"
            }
            "thread.snooze" => {
                app.snoozed_until = optional("snoozedUntil");
                app.snoozed_at = Some(now);
                "thread.snoozed"
            }
            "thread.unsnooze" => {
                app.snoozed_until = None;
                app.snoozed_at = None;
                "thread.unsnoozed"
            }
            "thread.visit" => {
                app.last_visited_at = optional("visitedAt");
                "thread.visited"
            }
            "thread.pin" => {
                app.rewritten.get_or_insert_default().pinned_at = Some(now);
                "thread.pinned"
            }
            "thread.unpin" => {
                app.rewritten = Some(Rewritten::default());
                "thread.unpinned"
            }
            "thread.mark-unread" => {
                let done = thread
                    .runs
                    .last()
                    .is_some_and(|run| run.status == super::RunStatus::Completed);
                if !done {
                    let words = format!("Thread {id} has no completed run to mark unread.");
                    return Err(Refusal::dispatch(command, words));
                }
                app.last_visited_at = None;
                "thread.marked-unread"
            }
            "thread.metadata.update" => {
                if let Some(title) = optional("title") {
                    app.title = title;
                }
                if let Some(branch) = command.get("branch") {
                    app.branch = branch.as_str().map(str::to_owned);
                }
                if let Some(path) = command.get("worktreePath") {
                    app.worktree_path = path.as_str().map(str::to_owned);
                }
                "thread.metadata-updated"
            }
            "thread.interaction-mode.set" => {
                text(command, "interactionMode").clone_into(&mut app.interaction_mode);
                "thread.interaction-mode-updated"
            }
            "thread.model-selection.set" => {
                app.model_selection = command.get("modelSelection").cloned().unwrap_or_default();
                app.provider_instance_id = text(&app.model_selection, "instanceId").to_owned();
                "thread.model-selection-updated"
            }
            "thread.runtime-mode.set" => {
                let mode = text(command, "runtimeMode");
                let same = app.runtime_mode == mode;
                mode.clone_into(&mut app.runtime_mode);
                app.rewritten.get_or_insert_default();
                let last = self.log_thread(ix, now, source, "thread.runtime-mode-updated");
                return Ok(if same {
                    last
                } else {
                    self.drop_session(ix, now, source, last)
                });
            }
            "provider-session.detach" => {
                let head = self.head();
                return Ok(self.drop_session(ix, now, source, head));
            }
            other => {
                return Err(Refusal::dispatch(command, format!("Command {other} is not simulated.")));
            }
        };
        app.rewritten.get_or_insert_default();
        let last = self.log_thread(ix, now, source, event);
        Ok(match event {
            "thread.archived" | "thread.deleted" => self.drop_session(ix, now, source, last),
            _ => last,
        })
    }

    /// Some providers cannot live through a change of their thread: the session is detached, and a run in it fails.
    fn drop_session(&mut self, ix: usize, now: Stamp, source: &Source, last: u64) -> u64 {
        let Some(thread) = self.threads.get_mut(ix) else {
            return last;
        };
        let restarts = self
            .options
            .provider(&thread.app.provider_instance_id)
            .is_none_or(|provider| provider.restarts_on_change);
        let Some(session) = thread.session.take().filter(|_| restarts) else {
            return last;
        };
        let detached =
            json!({"providerSessionId": session.id, "detachedAt": now.to_string(), "reason": "thread changed"});
        let place = Place {
            driver: true,
            ..Place::default()
        };
        let last = self.log_event(ix, now, source, "provider-session.detached", place, &detached);
        self.fail_ingesting(ix, now);
        last
    }
}
