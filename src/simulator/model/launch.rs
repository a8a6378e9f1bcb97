//! Launches: a thread with its first message in one command. Its run shows `preparing` until its workspace is ready.

use serde_json::{Value, json};

use super::agent::{Script, Work};
use super::commands::{Receipt, Refusal, previously_rejected};
use super::dispatch::{Beginning, NewMessage};
use super::entities::{Run, RunStatus};
use super::events::{Place, Source};
use super::items::ItemBody;
use super::names;
use super::stamp::Stamp;
use super::{Model, Next, text};

impl Model {
    /// A thread with its first message in one command. A known command id is answered from its receipt, whatever made it: with
    /// `resumed` and its thread where it was done, with a refusal where it was refused.
    pub(crate) fn handle_launch(&mut self, now: Stamp, launch: &Value) -> Result<(usize, bool), Value> {
        let id = text(launch, "commandId").to_owned();
        match self.receipts.get(&id) {
            Some(Receipt::Done { thread, .. }) => {
                if let Some(ix) = self.find(thread) {
                    return Ok((ix, true));
                }
            }
            Some(Receipt::Refused(remembered)) => {
                let message = previously_rejected(&id, remembered);
                let cause = json!({"name": "OrchestratorCommandPreviouslyRejectedError", "message": message});
                return Err(refused(launch, &cause));
            }
            // A project mutation made no thread to answer with.
            Some(Receipt::Project { .. }) | None => {}
        }
        if self.live_project(text(launch, "projectId")).is_none() {
            let message = format!("Thread launch {id} failed during resolve-project.");
            let cause = json!({"name": "ThreadLaunchError", "message": message, "cause": "Project not found."});
            self.receipts.insert(id, Receipt::Refused(message));
            return Err(refused(launch, &cause));
        }
        let mut command = launch.clone();
        if text(&command, "threadId").is_empty() {
            command["threadId"] = Value::from(format!("thread-{}", self.uuids.next()));
        }
        let workspace = launch.get("workspaceStrategy").cloned().unwrap_or_default();
        if text(&workspace, "type") == "existing_worktree" {
            command["worktreePath"] = workspace.get("worktreePath").cloned().unwrap_or_default();
        }
        let branch = workspace.get("branch").and_then(Value::as_str);
        let source = Source::Command(id.clone());
        let ix = self.put_thread(now, &command, branch);
        let mut sequence = self.log_thread(ix, now, &source, "thread.created");
        if let Some(message) = launch.get("initialMessage").filter(|message| message.is_object()) {
            let message = NewMessage::of_launch(&command, message, &mut self.uuids);
            self.prepare_run(ix, now, &message, workspace, &source);
            sequence = self.head();
        }
        let thread = text(&command, "threadId").to_owned();
        self.receipts.insert(id, Receipt::Done { sequence, thread });
        Ok((ix, false))
    }

    /// A launched run shows `preparing` first.
    pub(crate) fn prepare_run(
        &mut self,
        ix: usize,
        now: Stamp,
        message: &NewMessage,
        workspace: Value,
        source: &Source,
    ) {
        let prompt = message.text.clone();
        self.add_run(ix, now, message, Beginning::Prepare, source);
        let Some(run) = self.threads.get(ix).and_then(|thread| thread.runs.last()).cloned() else {
            return;
        };
        let mut item = self.item(
            ix,
            now,
            &run,
            preparation_item(&self.driver(&run.provider_instance_id), &run.id),
            "running",
        );
        item.title = Some("Preparing workspace".to_owned());
        item.body = ItemBody::CommandExecution {
            input: "Preparing workspace".to_owned(),
            output: None,
            exit_code: None,
        };
        self.log_item(ix, now, source, false, item);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = Some(Work::new(run.ordinal, Script::of(&prompt)));
            thread.workspace = Some(workspace);
        }
        let at = now.after(self.options.timing.prepare);
        self.set_timer(ix, at, Next::Prepared);
    }

    /// The workspace is there, or cannot be made.
    pub(crate) fn finish_preparing(&mut self, ix: usize, now: Stamp) {
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        let workspace = thread.workspace.take().unwrap_or_default();
        let Some(run) = thread
            .active()
            .filter(|run| run.status == RunStatus::Preparing)
            .cloned()
        else {
            return;
        };
        let source = Source::Command(format!("command:effect:workspace.prepare:{}", run.id));
        let is_worktree = text(&workspace, "type") == "worktree";
        let known = self
            .options
            .branches
            .iter()
            .any(|branch| branch == text(&workspace, "baseRef"));
        let ready = !is_worktree || known;
        if is_worktree && known {
            let branch = match text(&workspace, "branch") {
                "" => format!("t3/{}", self.uuids.next()),
                branch => branch.to_owned(),
            };
            let path = format!("{}/worktrees/proj/{}", self.options.home, branch.replace('/', "-"));
            if let Some(thread) = self.threads.get_mut(ix) {
                thread.app.branch = Some(branch);
                thread.app.worktree_path = Some(path);
            }
            self.log_thread(ix, now, &source, "thread.metadata-updated");
        }
        self.close_preparation(ix, now, &run, ready, &source);
        if !ready {
            self.fail_run(ix, now, &run, "unknown", "Workspace preparation failed.", None, &source);
            return;
        }
        self.add_scope(ix, now, &run, &source);
        self.change_root(ix, now, &run, &source, |node, scope| {
            node.checkpoint_scope_id = Some(scope);
        });
        let prompt = self.prompt_of(ix, &run);
        self.leave_preparing(ix, now, &run, &source);
        self.start_soon(ix, now, run.ordinal, &prompt);
    }

    fn close_preparation(&mut self, ix: usize, now: Stamp, run: &Run, ready: bool, source: &Source) {
        let id = preparation_item(&self.driver(&run.provider_instance_id), &run.id);
        let Some(mut item) = self
            .threads
            .get(ix)
            .and_then(|thread| thread.items.iter().find(|item| item.id == id))
            .cloned()
        else {
            return;
        };
        item.status = if ready { "completed" } else { "failed" };
        item.title = Some(
            if ready {
                "Workspace ready"
            } else {
                "Workspace preparation failed"
            }
            .to_owned(),
        );
        item.completed_at = Some(now);
        item.updated_at = now;
        item.body = ItemBody::CommandExecution {
            input: "Preparing workspace".to_owned(),
            output: Some(if ready {
                "Workspace preparation completed."
            } else {
                "Workspace preparation failed."
            }),
            exit_code: Some(i64::from(!ready)),
        };
        self.log_item(ix, now, source, false, item);
    }

    fn leave_preparing(&mut self, ix: usize, now: Stamp, run: &Run, source: &Source) -> u64 {
        self.log_provider_thread(ix, now, source, Place::default(), |_| {});
        self.change_attempt(ix, now, run, source, |_| {});
        self.change_run(ix, now, run.ordinal, source, |run| run.status = RunStatus::Starting)
    }

    pub(crate) fn release_prepared(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let is_preparing = |run: &Run| run.status == RunStatus::Preparing;
        let run = self.named_run(ix, command, "runId", is_preparing, "is not preparing.")?;
        self.add_scope(ix, now, &run, source);
        self.change_root(ix, now, &run, source, |node, scope| {
            node.checkpoint_scope_id = Some(scope);
        });
        let last = self.leave_preparing(ix, now, &run, source);
        let prompt = self.prompt_of(ix, &run);
        self.start_soon(ix, now, run.ordinal, &prompt);
        Ok(last)
    }
}

/// A refused launch, as it travels.
fn refused(launch: &Value, cause: &Value) -> Value {
    json!({
        "_tag": "OrchestrationV2ThreadLaunchError",
        "commandId": text(launch, "commandId"),
        "projectId": text(launch, "projectId"),
        "message": "Failed to launch thread",
        "cause": cause,
    })
}

fn preparation_item(driver: &str, run: &str) -> String {
    names::native_item("turn-item", driver, &format!("workspace-preparation:{run}"))
}
