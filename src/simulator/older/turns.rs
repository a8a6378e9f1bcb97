//! The life of a turn: asked for, begun, acting, ended, captured; and what stops it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Next, Older, Open, Was, Work};
use crate::simulator::model::{Script, Stamp, questions};

/// What the checkpoint of a turn that was cut short is told as first.
const MISSING: &str = "missing";
/// What the adapter of an agent says that was stopped at work.
const LOST: &str = "ProviderAdapterSessionNotFoundError: Unknown grok adapter thread";

impl Older {
    /// The agent is started, or is there.
    pub(super) fn start_soon(&mut self, ix: usize, now: Stamp, message: &str, prompt: &str) {
        self.session(ix, now, "starting", None, None);
        let cold = self.threads.get(ix).is_some_and(|thread| thread.turns.is_empty());
        let timing = self.options.timing;
        let wait = if cold { timing.cold_start } else { timing.warm_start };
        let next = Next::Begin {
            message: message.to_owned(),
            asked_at: now,
            prompt: prompt.to_owned(),
        };
        self.set_timer(ix, now.after(wait), next);
    }

    pub(super) fn begin(&mut self, ix: usize, message: &str, asked_at: Stamp, prompt: &str, now: Stamp) {
        let script = Script::of(prompt);
        if script == Script::Empty {
            let error = "ProviderValidationError: the input is empty\n    at validate (server.ts:1:1)";
            return self.start_failed(ix, now, error);
        }
        if let Some(error) = self.cannot_run(ix) {
            return self.start_failed(ix, now, &error);
        }
        let turn = self.fresh("turn");
        let left = match &script {
            Script::Approve(commands) => commands.clone(),
            _ => Vec::new(),
        };
        let newest = json!({
            "turnId": turn, "state": "running", "requestedAt": asked_at, "startedAt": asked_at, "completedAt": null,
            "assistantMessageId": null,
        });
        let was = Was {
            turn: turn.clone(),
            message: message.to_owned(),
            asked_at,
        };
        let work = Work {
            turn: turn.clone(),
            script,
            open: Vec::new(),
            left,
            said: 0,
        };
        self.change(ix, now, |thread| {
            thread.head["latestTurn"] = newest;
            thread.turns.push(was);
            thread.work = Some(work);
        });
        self.session(ix, now, "running", Some(&turn), None);
        let hangs = self.threads.get(ix).is_some_and(|thread| thread.dead);
        if !hangs {
            self.set_timer(ix, now.after(self.options.timing.act), Next::Act);
        }
    }

    /// The message was taken, and no turn begins.
    fn start_failed(&mut self, ix: usize, now: Stamp, error: &str) {
        self.session(ix, now, "error", None, Some(error));
        self.activity(
            ix,
            now,
            ("error", "provider.turn.start.failed"),
            None,
            &json!({ "detail": error }),
        );
    }

    /// Why the thread's provider instance runs nothing.
    fn cannot_run(&self, ix: usize) -> Option<String> {
        let instance = self.threads.get(ix)?.head["modelSelection"]["instanceId"].as_str()?;
        match self.options.provider(instance) {
            None => Some(format!(
                "The thread refers to an unknown provider instance '{instance}'."
            )),
            Some(provider) if !provider.enabled => Some(format!(
                "ProviderValidationError: the provider instance '{instance}' is disabled."
            )),
            Some(_) => None,
        }
    }

    pub(super) fn act(&mut self, ix: usize, now: Stamp) {
        let Some(work) = self.threads.get(ix).and_then(|thread| thread.work.clone()) else {
            return;
        };
        match &work.script {
            Script::Empty | Script::Refuse => self.end(ix, now),
            Script::Say(text) => self.say_and_end(ix, text, now),
            Script::AskLater | Script::AskForm | Script::Login | Script::Background(_) => {
                self.say_and_end(ix, "done.", now);
            }
            Script::Sleep(wait, _) => self.set_timer(ix, now.after(*wait), Next::Wake),
            Script::Fail(reason) => self.fail(ix, reason, now),
            Script::Crash if self.is_codex(ix) => self.stop_session(ix, now),
            Script::Crash => {
                self.fail(ix, "the agent process ended", now);
                self.change(ix, now, |thread| thread.dead = true);
            }
            Script::Tool => {
                let payload = json!({"itemType": "command_execution", "detail": "tool output",
                    "data": {"command": "echo tool", "toolCallId": "fake-tool-1"}});
                self.activity(ix, now, ("tool", "tool.completed"), Some(&work.turn), &payload);
                self.say_and_end(ix, "tool done.", now);
            }
            // What may do everything is not asked, but for codex's stand-in, which asks all the same.
            Script::Approve(_) if !self.is_codex(ix) && self.may_all(ix) => {
                self.say_and_end(ix, "permission: not-asked", now);
            }
            Script::Approve(commands) => {
                // Only codex asks one after the other.
                let at_once = if self.is_codex(ix) { 1 } else { commands.len() };
                for _ in 0..at_once {
                    self.ask_approval(ix, now);
                }
            }
            // The recorded agents asked before they edited.
            Script::Edit { recorded: true, .. } => {
                self.ask(ix, now, "file-change", "file_change_approval", "Changed files");
            }
            Script::Edit { file, lines, .. } => {
                let (turn, file, lines) = (work.turn.clone(), file.clone(), *lines);
                self.change(ix, now, |thread| {
                    let count = thread.checkpoints.len() + 1;
                    thread.checkpoints.push(json!({
                        "turnId": turn, "checkpointTurnCount": count, "checkpointRef": format!("refs/t3/{count}"), "status": "ready",
                        "files": [{"path": file, "kind": "modified", "additions": lines, "deletions": 0}],
                        "assistantMessageId": null, "completedAt": now,
                    }));
                    // A diff in the middle of a turn sets its end before its time.
                    thread.head["latestTurn"]["completedAt"] = json!(now);
                });
                self.say_and_end(ix, "edited.", now);
            }
            Script::Ask(count) => {
                let asked = questions(*count);
                let id = self.fresh("request");
                let payload = json!({"requestId": id, "questions": asked});
                self.open(ix, now, id, None, asked);
                self.activity(ix, now, ("info", "user-input.requested"), Some(&work.turn), &payload);
            }
        }
    }

    pub(super) fn ask_approval(&mut self, ix: usize, now: Stamp) {
        let Some(work) = self.threads.get_mut(ix).and_then(|thread| thread.work.as_mut()) else {
            return;
        };
        if work.left.is_empty() {
            return;
        }
        let command = work.left.remove(0);
        self.ask(ix, now, "command", "exec_command_approval", &command);
    }

    fn ask(&mut self, ix: usize, now: Stamp, kind: &'static str, of: &str, detail: &str) {
        let id = self.fresh("request");
        let Some(turn) = self
            .threads
            .get(ix)
            .and_then(|thread| thread.work.as_ref())
            .map(|work| work.turn.clone())
        else {
            return;
        };
        let payload = json!({"requestId": id, "requestKind": kind, "requestType": of, "detail": detail});
        self.open(ix, now, id, Some(kind), Vec::new());
        self.activity(ix, now, ("approval", "approval.requested"), Some(&turn), &payload);
    }

    /// Opens an approval of this kind, or a question.
    fn open(&mut self, ix: usize, now: Stamp, id: String, kind: Option<&'static str>, questions: Vec<Value>) {
        let question = kind.is_none();
        let flag = flag(question);
        self.change(ix, now, |thread| {
            thread.head[flag] = json!(true);
            if let Some(work) = &mut thread.work {
                work.open.push(Open {
                    id,
                    kind: kind.unwrap_or_default(),
                    question,
                    questions,
                });
            }
        });
    }

    /// The agent heard a decision or answers.
    pub(super) fn heard(&mut self, ix: usize, text: &str, now: Stamp) {
        let work = self.threads.get(ix).and_then(|thread| thread.work.as_ref());
        let (asks_more, waits) = work.map_or((false, false), |work| (!work.left.is_empty(), !work.open.is_empty()));
        self.say(ix, text, now);
        if asks_more {
            self.ask_approval(ix, now);
        } else if !waits {
            self.set_timer(ix, now.after(self.options.timing.act), Next::End);
        }
    }

    fn say(&mut self, ix: usize, text: &str, now: Stamp) {
        let segment = self.fresh("assistant");
        self.change(ix, now, |thread| {
            let Some(work) = &mut thread.work else { return };
            work.said += 1;
            thread.messages.push(json!({
                "id": segment, "role": "assistant", "text": text, "attachments": [], "turnId": work.turn, "streaming": false,
                "createdAt": now, "updatedAt": now,
            }));
            thread.head["latestTurn"]["assistantMessageId"] = json!(segment);
        });
    }

    pub(super) fn say_and_end(&mut self, ix: usize, text: &str, now: Stamp) {
        self.say(ix, text, now);
        self.set_timer(ix, now.after(self.options.timing.act), Next::End);
    }

    /// The turn is over, as far as the agent tells.
    pub(super) fn end(&mut self, ix: usize, now: Stamp) {
        self.finish(ix, now, "ready", "completed", None, Some("ready"));
    }

    fn fail(&mut self, ix: usize, reason: &str, now: Stamp) {
        self.finish(ix, now, "error", "error", Some(reason), Some("error"));
        self.activity(
            ix,
            now,
            ("error", "provider.turn.start.failed"),
            None,
            &json!({ "detail": format!("Error: {reason}") }),
        );
    }

    /// A decision cancelled the turn: it is shown as completed, and its checkpoint as missing.
    pub(super) fn cancel(&mut self, ix: usize, now: Stamp) {
        self.finish(ix, now, "ready", "completed", None, Some(MISSING));
    }

    /// Only the session's end is certain: the turn is interrupted and stays so. The flags of open requests stay, too.
    pub(super) fn stop_session(&mut self, ix: usize, now: Stamp) {
        let was_running = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.head["latestTurn"]["state"] == "running");
        let open = self.open_requests(ix);
        self.change(ix, now, |thread| {
            thread.work = None;
            thread.dead = false;
            thread.generation += 1;
            if was_running {
                thread.head["latestTurn"]["state"] = json!("interrupted");
                thread.head["latestTurn"]["completedAt"] = json!(now);
            }
        });
        if was_running && !self.is_codex(ix) {
            if open.is_empty() {
                self.set_timer(ix, now.after(self.options.timing.act), Next::Lost);
            } else {
                self.start_failed(ix, now, LOST);
            }
        }
        self.session(ix, now, "stopped", None, None);
        self.cancel_requests(ix, now, &open);
    }

    fn open_requests(&self, ix: usize) -> Vec<(String, Open)> {
        let work = self.threads.get(ix).and_then(|thread| thread.work.as_ref());
        work.map(|work| work.open.iter().map(|open| (work.turn.clone(), open.clone())).collect())
            .unwrap_or_default()
    }

    /// An agent that is stopped takes back what it asked; codex's stand-in does not say so.
    fn cancel_requests(&mut self, ix: usize, now: Stamp, open: &[(String, Open)]) {
        if self.is_codex(ix) {
            return;
        }
        for (turn, open) in open {
            let (kind, payload) = if open.question {
                ("user-input.resolved", json!({"requestId": open.id, "answers": {}}))
            } else {
                (
                    "approval.resolved",
                    json!({"requestId": open.id, "requestKind": open.kind, "decision": "cancel"}),
                )
            };
            self.activity(ix, now, ("info", kind), Some(turn), &payload);
        }
    }

    /// The turn stays interrupted, though the session goes on to an error.
    pub(super) fn lost(&mut self, ix: usize, now: Stamp) {
        self.start_failed(ix, now, LOST);
    }

    /// An agent that is there begins anew for another mode; the end of the one before is told after that.
    pub(super) fn replace_session(&mut self, ix: usize, now: Stamp) {
        let is_there = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.work.is_none() && thread.head["session"]["status"] == "ready");
        if is_there {
            self.session(ix, now, "starting", None, None);
            self.set_timer(ix, now.after(self.options.timing.warm_start), Next::Replaced);
        }
    }

    pub(super) fn replaced(&mut self, ix: usize, now: Stamp) {
        self.session(ix, now, "stopped", None, None);
    }

    /// An interrupt: with the right turn it is shown as interrupted at once, and as completed once its checkpoint is captured.
    pub(super) fn interrupt(&mut self, ix: usize, now: Stamp, turn: Option<&str>) {
        let Some(work) = self.threads.get(ix).and_then(|thread| thread.work.clone()) else {
            let never_ran = self
                .threads
                .get(ix)
                .is_some_and(|thread| thread.head["session"].is_null());
            if never_ran {
                let detail = json!({"detail": "No active provider session is bound to this thread."});
                self.activity(ix, now, ("error", "provider.turn.interrupt.failed"), None, &detail);
            }
            return;
        };
        if self.is_codex(ix) && !work.open.is_empty() {
            self.wedged = true;
            return;
        }
        let is_right = turn == Some(work.turn.as_str());
        self.change(ix, now, |thread| {
            thread.generation += 1;
            if is_right {
                thread.head["latestTurn"]["state"] = json!("interrupted");
                thread.head["latestTurn"]["completedAt"] = json!(now);
            }
        });
        self.set_timer(ix, now.after(self.options.timing.interrupt), Next::Stopped);
    }

    pub(super) fn stopped(&mut self, ix: usize, now: Stamp) {
        let open = self.open_requests(ix);
        self.cancel_requests(ix, now, &open);
        let interrupted = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.head["latestTurn"]["state"] == "interrupted");
        let state = if interrupted { "interrupted" } else { "completed" };
        self.finish(ix, now, "ready", state, None, Some(MISSING));
    }

    fn finish(
        &mut self,
        ix: usize,
        now: Stamp,
        session: &str,
        state: &str,
        error: Option<&str>,
        captured: Option<&'static str>,
    ) {
        let mut turn = None;
        self.change(ix, now, |thread| {
            turn = thread.work.take().map(|work| work.turn);
            thread.generation += 1;
            thread.head["latestTurn"]["state"] = json!(state);
            thread.head["latestTurn"]["completedAt"] = json!(now);
            thread.head["hasPendingApprovals"] = json!(false);
            thread.head["hasPendingUserInput"] = json!(false);
        });
        self.session(ix, now, session, None, error);
        if let (Some(status), Some(turn)) = (captured, turn)
            && self.in_repository(ix)
        {
            let wait = self.options.timing.checkpoint;
            self.set_timer(ix, now.after(wait), Next::Checkpoint { turn, status });
        }
    }

    /// The checkpoint of a turn: it shows the turn as completed, whatever it was shown as before.
    pub(super) fn capture(&mut self, ix: usize, turn: &str, status: &str, now: Stamp) {
        let captured = |status: &str| json!({ "status": status });
        let kind = ("info", "checkpoint.captured");
        if status == MISSING {
            self.activity(ix, now, kind, Some(turn), &captured(MISSING));
        }
        let status = if status == MISSING { "ready" } else { status };
        self.change(ix, now, |thread| {
            if thread.head["latestTurn"]["turnId"] == turn && status != "error" {
                thread.head["latestTurn"]["state"] = json!("completed");
            }
            if thread.checkpoints.iter().any(|checkpoint| checkpoint["turnId"] == turn) {
                return;
            }
            let count = thread.checkpoints.len() + 1;
            thread.checkpoints.push(json!({
                "turnId": turn, "checkpointTurnCount": count, "checkpointRef": format!("refs/t3/{count}"), "status": status,
                "files": [], "assistantMessageId": null, "completedAt": now,
            }));
        });
        self.activity(ix, now, kind, Some(turn), &captured(status));
    }

    fn may_all(&self, ix: usize) -> bool {
        self.threads
            .get(ix)
            .is_some_and(|thread| thread.head["runtimeMode"] == "full-access")
    }

    fn is_codex(&self, ix: usize) -> bool {
        let instance = self
            .threads
            .get(ix)
            .map(|thread| thread.head["modelSelection"]["instanceId"].clone());
        let instance = instance.as_ref().and_then(Value::as_str).unwrap_or_default();
        self.options
            .provider(instance)
            .is_some_and(|provider| provider.driver == "codex")
    }

    fn in_repository(&self, ix: usize) -> bool {
        let project = self.threads.get(ix).map(|thread| thread.head["projectId"].clone());
        let project = self
            .projects
            .iter()
            .find(|known| Some(&known["id"]) == project.as_ref());
        let root = project
            .and_then(|project| project["workspaceRoot"].as_str())
            .unwrap_or_default();
        self.options.repositories.iter().any(|known| known == root)
    }

    /// How long the agent takes to hear of something.
    pub(super) fn hears_after(&self) -> Duration {
        self.options.timing.act
    }
}

/// The shell's flag for open requests of a kind.
pub(super) fn flag(question: bool) -> &'static str {
    if question {
        "hasPendingUserInput"
    } else {
        "hasPendingApprovals"
    }
}
