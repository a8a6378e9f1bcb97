//! Commands: accepted or refused once and for all by their id, and what follows.

use serde_json::{Value, json};

use super::turns::flag;
use super::{Next, Older, Subject, Thread, text};
use crate::simulator::model::{Stamp, heard, option_of, outcome};

impl Older {
    /// A command that its schema has accepted; T3's words where a rule is broken.
    pub(crate) fn handle_command(&mut self, now: Stamp, command: &Value) -> Result<u64, String> {
        let id = text(command, "commandId").to_owned();
        match self.receipts.get(&id) {
            Some(Ok(sequence)) => {
                let sequence = *sequence;
                // Whoever archives over the socket has the agent stopped, even where the command counts for nothing.
                if text(command, "type") == "thread.archive"
                    && let Some(ix) = self.find(text(command, "threadId"))
                    && !self.is_archived(ix)
                {
                    self.set_timer(ix, now.after(self.options.timing.cold_start), Next::Dismissed);
                }
                return Ok(sequence);
            }
            Some(Err(words)) => return Err(format!("Command previously rejected ({id}): {words}")),
            None => {}
        }
        let done = self.carry_out(now, command).map(|()| self.head());
        let done = done.map_err(|words| {
            format!(
                "Orchestration command invariant failed ({}): {words}",
                text(command, "type")
            )
        });
        self.receipts.insert(id, done.clone());
        done
    }

    fn carry_out(&mut self, now: Stamp, command: &Value) -> Result<(), String> {
        let kind = text(command, "type");
        if kind == "project.create" {
            return self.create_project(now, command);
        }
        if self.refusals.next.as_deref() == Some(kind) {
            self.refusals.next = None;
            return Err("Something broke.".to_owned());
        }
        let thread = text(command, "threadId");
        if kind == "thread.create" {
            return self.create_thread(now, command);
        }
        let ix = self
            .find(thread)
            .ok_or_else(|| format!("Thread '{thread}' does not exist for command '{kind}'."))?;
        // Accepted, and nothing happens any more.
        if self.wedged && kind != "thread.turn.start" {
            self.log.push(Subject::Thread(ix));
            return Ok(());
        }
        match kind {
            "thread.turn.start" => self.start_turn(ix, now, command),
            "thread.turn.interrupt" => {
                self.wake_orphan(ix, now);
                self.interrupt(ix, now, command.get("turnId").and_then(Value::as_str));
            }
            "thread.approval.respond" => self.respond(ix, now, command, false),
            "thread.user-input.respond" => self.respond(ix, now, command, true),
            "thread.session.stop" => self.stop_session(ix, now),
            "thread.archive" => {
                if self.is_archived(ix) {
                    return Err(format!(
                        "Thread '{thread}' is already archived and cannot handle command '{kind}'."
                    ));
                }
                if self.is_at_work(ix) {
                    self.stop_session(ix, now);
                }
                self.change(ix, now, |thread| {
                    thread.archived = true;
                    thread.head["archivedAt"] = json!(now);
                });
            }
            "thread.unarchive" => {
                if !self.is_archived(ix) {
                    return Err(format!("Thread '{thread}' is not archived for command '{kind}'."));
                }
                self.change(ix, now, |thread| {
                    thread.archived = false;
                    thread.head["archivedAt"] = Value::Null;
                });
            }
            "thread.delete" => self.change(ix, now, |thread| {
                thread.deleted = true;
                thread.work = None;
                thread.generation += 1;
            }),
            "thread.runtime-mode.set" => {
                let mode = command["runtimeMode"].clone();
                self.change(ix, now, |thread| thread.head["runtimeMode"] = mode);
                self.replace_session(ix, now);
            }
            "thread.interaction-mode.set" => {
                let mode = command["interactionMode"].clone();
                self.change(ix, now, |thread| thread.head["interactionMode"] = mode);
            }
            other => return Err(format!("{other} is not simulated.")),
        }
        Ok(())
    }

    fn create_project(&mut self, now: Stamp, command: &Value) -> Result<(), String> {
        let (id, root) = (text(command, "projectId"), text(command, "workspaceRoot"));
        if self.projects.iter().any(|project| project["id"] == id) {
            return Err(format!("Project '{id}' already exists and cannot be created twice."));
        }
        if let Some(known) = self.projects.iter().find(|project| project["workspaceRoot"] == root) {
            let known = text(known, "id");
            return Err(format!(
                "Active project '{known}' already exists for workspace root '{root}'."
            ));
        }
        let place = self.projects.len();
        self.projects.push(json!({
            "id": command["projectId"], "title": command["title"], "workspaceRoot": root, "repositoryIdentity": null,
            "defaultModelSelection": command["defaultModelSelection"], "scripts": [], "createdAt": now, "updatedAt": now,
        }));
        self.log.push(Subject::Project(place));
        Ok(())
    }

    fn create_thread(&mut self, now: Stamp, command: &Value) -> Result<(), String> {
        let (thread, project) = (text(command, "threadId"), &command["projectId"]);
        if self.find(thread).is_some() {
            return Err(format!("Thread '{thread}' already exists."));
        }
        if !self.projects.iter().any(|known| known["id"] == *project) {
            return Err(format!("Project {project} does not exist."));
        }
        let head = json!({
            "id": thread, "projectId": project, "title": command["title"], "modelSelection": command["modelSelection"],
            "runtimeMode": command["runtimeMode"],
            "interactionMode": command.get("interactionMode").cloned().unwrap_or_else(|| json!("default")),
            "branch": command["branch"], "worktreePath": command["worktreePath"], "latestTurn": null, "createdAt": now, "updatedAt": now,
            "archivedAt": null, "settledOverride": null, "settledAt": null, "snoozedUntil": null, "snoozedAt": null, "pinnedAt": null,
            "pinOrderKey": null, "titleRegeneration": null, "session": null, "latestUserMessageAt": null,
            "hasPendingApprovals": false, "hasPendingUserInput": false, "hasActionableProposedPlan": false,
        });
        self.log.push(Subject::Thread(self.threads.len()));
        self.threads.push(Thread {
            head,
            messages: Vec::new(),
            activities: Vec::new(),
            checkpoints: Vec::new(),
            turns: Vec::new(),
            archived: false,
            deleted: false,
            dead: false,
            work: None,
            generation: 0,
        });
        Ok(())
    }

    /// The message is stored whatever the thread is; only on an idle one a turn of its own follows.
    fn start_turn(&mut self, ix: usize, now: Stamp, command: &Value) {
        let message = &command["message"];
        let (id, prompt) = (text(message, "messageId").to_owned(), text(message, "text").to_owned());
        let stored = json!({
            "id": id, "role": "user", "text": prompt, "attachments": [], "turnId": null, "streaming": false, "createdAt": now,
            "updatedAt": now,
        });
        let model = command.get("modelSelection").cloned();
        self.change(ix, now, |thread| {
            thread.messages.retain(|known| known["id"] != stored["id"]);
            thread.messages.push(stored);
            thread.head["latestUserMessageAt"] = json!(now);
            if let Some(model) = model {
                thread.head["modelSelection"] = model;
            }
        });
        let runs = self
            .threads
            .get(ix)
            .is_some_and(|thread| !thread.archived && !thread.deleted);
        if !runs || self.wedged || self.is_at_work(ix) {
            return;
        }
        self.wake_orphan(ix, now);
        self.start_soon(ix, now, &id, &prompt);
    }

    /// A turn that died with an earlier process is shown as completed once the thread is touched.
    fn wake_orphan(&mut self, ix: usize, now: Stamp) {
        let is_orphan = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.work.is_none() && thread.head["session"]["status"] == "running");
        if is_orphan {
            self.change(ix, now, |thread| {
                thread.head["latestTurn"]["state"] = json!("completed");
                thread.head["latestTurn"]["completedAt"] = json!(now);
            });
            self.session(ix, now, "ready", None, None);
        }
    }

    fn respond(&mut self, ix: usize, now: Stamp, command: &Value, question: bool) {
        let id = text(command, "requestId").to_owned();
        let (what, failed) = if question {
            ("user-input", "provider.user-input.respond.failed")
        } else {
            ("approval", "provider.approval.respond.failed")
        };
        if !question {
            // At once, before anything is delivered.
            self.change(ix, now, |thread| thread.head[flag(false)] = json!(false));
        }
        if self.refusals.deaf {
            let detail = "No active provider session is bound to this thread.";
            let payload = json!({"requestId": id, "detail": detail});
            return self.activity(ix, now, ("error", failed), None, &payload);
        }
        let work = self.threads.get(ix).and_then(|thread| thread.work.clone());
        let Some((turn, open)) = work.and_then(|work| {
            let open = work
                .open
                .iter()
                .find(|open| open.id == id && open.question == question)?;
            Some((work.turn.clone(), open.clone()))
        }) else {
            let detail = format!("Stale pending {what} request: {id}");
            self.activity(
                ix,
                now,
                ("error", failed),
                None,
                &json!({"requestId": id, "detail": detail}),
            );
            return;
        };
        self.change(ix, now, |thread| {
            thread.head[flag(question)] = json!(false);
            if let Some(work) = &mut thread.work {
                work.open.retain(|open| open.id != id);
            }
        });
        let said = if question {
            self.activity(
                ix,
                now,
                ("info", "user-input.resolved"),
                Some(&turn),
                &json!({"requestId": id, "answers": command["answers"]}),
            );
            heard(&open.questions, &command["answers"])
        } else {
            let decision = text(command, "decision");
            self.activity(
                ix,
                now,
                ("approval", "approval.resolved"),
                Some(&turn),
                &json!({"requestId": id, "requestKind": open.kind, "decision": decision}),
            );
            match option_of(decision) {
                Some(option) => format!("permission: {}", outcome(option)),
                None => return self.cancel(ix, now),
            }
        };
        self.set_timer(ix, now.after(self.hears_after()), Next::Hear(said));
    }
}
