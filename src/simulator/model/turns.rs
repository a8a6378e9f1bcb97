//! The agent at work: it says, runs tools, sleeps, and ends its turn.

use std::time::Duration;

use super::agent::{OpenTool, Script, Work, form, outcome, questions};
use super::entities::{BackgroundTask, Message, NativeRef, Node, Run, RunStatus, Turn};
use super::events::{Place, Source};
use super::items::{Item, ItemBody};
use super::names;
use super::requests::LATER_QUESTIONS;
use super::stamp::Stamp;
use super::{Model, Next};

/// How a turn ends.
#[derive(Clone, Debug)]
pub(crate) enum TurnEnd {
    Completed,
    Failed(String),
    Cancelled,
}

impl Model {
    pub(crate) fn work_mut(&mut self, ix: usize) -> Option<&mut Work> {
        self.threads.get_mut(ix).and_then(|thread| thread.work.as_mut())
    }

    pub(crate) fn begin_turn(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        let driver = self.driver(&run.provider_instance_id);
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        let ordinal = u64::try_from(thread.turns.len()).unwrap_or(u64::MAX).saturating_add(1);
        let native = format!("{}:turn:{ordinal}", thread.native);
        let turn = Turn {
            id: names::provider_turn(&driver, &native),
            provider_thread_id: run.provider_thread_id.clone(),
            node_id: run.root_node_id.clone(),
            run_attempt_id: run.active_attempt_id.clone(),
            native_turn_ref: NativeRef {
                driver,
                native_id: native,
                strength: "weak",
            },
            ordinal,
            status: "running",
            started_at: now,
            completed_at: None,
        };
        thread.changed.clear();
        if let Some(work) = thread.work.as_mut() {
            work.turn = Some(turn.id.clone());
        }
        self.log_turn(ix, now, &run.id, turn);
        self.touch_provider_thread(ix, now, &run);
        self.set_timer(ix, now.after(self.options.timing.act), Next::Act);
    }

    fn touch_provider_thread(&mut self, ix: usize, now: Stamp, run: &Run) {
        let place = Place {
            run: Some(&run.id),
            node: Some(&run.root_node_id),
            driver: true,
        };
        self.log_provider_thread(ix, now, &Source::Session, place, |it| it.status = "active");
    }

    /// The agent does what its prompt said.
    pub(crate) fn act(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        let Some(script) = self.work_mut(ix).map(|work| work.script.clone()) else {
            return;
        };
        let asks = self
            .threads
            .get(ix)
            .is_some_and(|thread| thread.app.runtime_mode == "approval-required");
        match script {
            Script::Empty => {}
            Script::Say(text) => self.say_and_end(ix, now, &run, text, TurnEnd::Completed),
            Script::Refuse => self.say_and_end(ix, now, &run, "I refuse".to_owned(), TurnEnd::Completed),
            Script::Fail(reason) => {
                self.say_and_end(ix, now, &run, "about to fail".to_owned(), TurnEnd::Failed(reason));
            }
            Script::Crash => {
                let reason = "ACP transport operation call-rpc failed for method session/prompt.".to_owned();
                self.say_and_end(ix, now, &run, "crashing now".to_owned(), TurnEnd::Failed(reason));
            }
            Script::Sleep(wait, seconds) => {
                if let Some(work) = self.work_mut(ix) {
                    work.partial = Some((format!("sleeping {seconds}s. "), now));
                }
                self.set_timer(ix, now.after(wait), Next::Wake);
            }
            Script::Tool => {
                let tool = self.open_tool(ix, now, &run, "ls -la");
                self.finish_tool(ix, now, &run, &tool, true);
                self.say_and_end(ix, now, &run, "permission: not-asked".to_owned(), TurnEnd::Completed);
            }
            Script::Approve(commands) if asks => {
                let tools: Vec<String> = commands
                    .iter()
                    .map(|command| self.open_tool(ix, now, &run, command))
                    .collect();
                for tool in &tools {
                    self.ask_approval(ix, now, &run, tool, "command");
                }
            }
            Script::Approve(commands) => {
                for command in &commands {
                    let tool = self.open_tool(ix, now, &run, command);
                    self.finish_tool(ix, now, &run, &tool, true);
                }
                let said = format!("permission: {}", outcome("allow-always"));
                self.say_and_end(ix, now, &run, said, TurnEnd::Completed);
            }
            Script::Edit { file, recorded, .. } => {
                let tool = self.open_tool(ix, now, &run, &file);
                if asks {
                    self.ask_approval(ix, now, &run, &tool, "file-change");
                } else {
                    self.finish_tool(ix, now, &run, &tool, true);
                    let said = if recorded {
                        format!("permission: {}", outcome("allow-always"))
                    } else {
                        format!("edited {file}")
                    };
                    self.say_and_end(ix, now, &run, said, TurnEnd::Completed);
                }
            }
            Script::Ask(count) => self.ask_questions(ix, now, &run, questions(count), false),
            Script::AskForm => self.ask_questions(ix, now, &run, form(), false),
            Script::Login => self.ask_login(ix, now, &run),
            Script::AskLater => {
                self.ask_questions(ix, now, &run, questions(LATER_QUESTIONS), true);
                self.say_and_end(ix, now, &run, "asked for later".to_owned(), TurnEnd::Completed);
            }
            Script::Background(wait) => {
                self.begin_background(ix, now, &run, wait);
                self.say_and_end(ix, now, &run, "left in the background".to_owned(), TurnEnd::Completed);
            }
        }
    }

    /// A command that goes on after its turn.
    fn begin_background(&mut self, ix: usize, now: Stamp, run: &Run, wait: Duration) {
        let task = BackgroundTask {
            task_id: format!("background-{}", self.uuids.next()),
            kind: "command",
            description: "npm run watch".to_owned(),
        };
        let place = Place {
            run: Some(&run.id),
            node: Some(&run.root_node_id),
            driver: true,
        };
        let id = task.task_id.clone();
        self.log_provider_thread(ix, now, &Source::Session, place, |it| {
            it.pending_background_tasks.push(task);
        });
        self.set_timer(ix, now.after(wait), Next::Background);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.background.push((now.after(wait), id));
            thread.background.sort_unstable();
        }
    }

    /// The background command that ends first has ended.
    pub(crate) fn end_background(&mut self, ix: usize, now: Stamp) {
        let background = self.threads.get_mut(ix).map(|thread| &mut thread.background);
        if let Some(background) = background.filter(|background| !background.is_empty()) {
            let (_, ended) = background.remove(0);
            let place = Place {
                driver: true,
                ..Place::default()
            };
            self.log_provider_thread(ix, now, &Source::Session, place, |it| {
                it.pending_background_tasks.retain(|task| task.task_id != ended);
            });
        }
    }

    pub(crate) fn wake(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        if let Some((text, _)) = self.work_mut(ix).and_then(|work| work.partial.as_mut()) {
            text.push_str("slept.");
        }
        self.flush_partial(ix, now, &run);
        self.end_turn(ix, now, &run, TurnEnd::Completed);
    }

    pub(crate) fn say_and_end(&mut self, ix: usize, now: Stamp, run: &Run, text: String, end: TurnEnd) {
        if let Some(work) = self.work_mut(ix) {
            work.partial = Some((text, now));
        }
        self.flush_partial(ix, now, run);
        self.end_turn(ix, now, run, end);
    }

    /// Text is buffered: one message when it is complete.
    pub(crate) fn flush_partial(&mut self, ix: usize, now: Stamp, run: &Run) {
        let driver = self.driver(&run.provider_instance_id);
        let Some((native_thread, turn)) = self.threads.get(ix).and_then(|thread| {
            let id = thread.work.as_ref()?.turn.clone()?;
            let turn = thread.turns.iter().find(|turn| turn.id == id)?.clone();
            Some((thread.native.clone(), turn))
        }) else {
            return;
        };
        let Some((text, said, since)) = self.work_mut(ix).and_then(|work| {
            let (text, since) = work.partial.take()?;
            let said = work.said;
            work.said += 1;
            Some((text, said, since))
        }) else {
            return;
        };
        let native = format!("{native_thread}:turn:{}:assistant:{said}", turn.ordinal);
        let native_ref = NativeRef {
            driver: driver.clone(),
            native_id: native.clone(),
            strength: "weak",
        };
        let node_id = names::native_item("node", &driver, &native);
        let message_id = names::native_item("message", &driver, &native);
        let node = Node {
            native_item_ref: Some(native_ref.clone()),
            ..agent_node(
                run,
                &turn,
                node_id.clone(),
                "assistant_message",
                "completed",
                since,
                Some(now),
            )
        };
        self.log_node(ix, now, &Source::Session, true, node);
        let message = Message {
            created_by: "agent",
            creation_source: "provider".to_owned(),
            id: message_id.clone(),
            thread_id: run.thread_id.clone(),
            run_id: run.id.clone(),
            node_id: node_id.clone(),
            role: "assistant",
            text: text.clone(),
            attachments: serde_json::json!([]),
            streaming: false,
            created_at: since,
            updated_at: now,
        };
        self.log_message(ix, now, &Source::Session, true, message);
        let mut item = self.item(
            ix,
            now,
            run,
            names::native_item("turn-item", &driver, &native),
            "completed",
        );
        item.node_id = node_id;
        item.provider_turn_id = Some(turn.id);
        item.native_item_ref = Some(native_ref);
        item.started_at = since;
        item.completed_at = Some(now);
        item.body = ItemBody::AssistantMessage {
            message_id,
            text,
            streaming: false,
        };
        self.log_item(ix, now, &Source::Session, true, item);
    }

    /// Logs the end of the provider's turn, if it had begun.
    pub(crate) fn finish_provider_turn(&mut self, ix: usize, now: Stamp, run: &Run, status: &'static str) {
        let turn = self.threads.get(ix).and_then(|thread| {
            let id = thread.work.as_ref()?.turn.as_deref()?;
            thread.turns.iter().find(|turn| turn.id == id).cloned()
        });
        if let Some(mut turn) = turn {
            turn.status = status;
            turn.completed_at = Some(now);
            self.log_turn(ix, now, &run.id, turn);
        }
    }

    pub(crate) fn end_turn(&mut self, ix: usize, now: Stamp, run: &Run, end: TurnEnd) {
        let status = match &end {
            TurnEnd::Completed => "completed",
            TurnEnd::Failed(_) => "failed",
            TurnEnd::Cancelled => "cancelled",
        };
        self.finish_provider_turn(ix, now, run, status);
        self.touch_provider_thread(ix, now, run);
        match end {
            TurnEnd::Completed => {
                self.wait_for_checkpoint(ix, now, run);
                return;
            }
            TurnEnd::Failed(reason) => {
                let turn = self.work_mut(ix).and_then(|work| work.turn.clone());
                self.fail_run(
                    ix,
                    now,
                    run,
                    "provider_error",
                    &reason,
                    turn.as_deref(),
                    &Source::Server,
                );
            }
            TurnEnd::Cancelled => {
                self.end_run(ix, now, run, RunStatus::Cancelled, &Source::Server);
            }
        }
        self.settle_provider_thread(ix, now);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = None;
        }
        self.next_in_queue(ix, now);
    }

    /// Closes a turn that was cut short: what was said is kept, what was asked and begun is closed with it.
    pub(crate) fn close_turn(&mut self, ix: usize, now: Stamp, status: &'static str) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        if self.work_mut(ix).is_none_or(|work| work.turn.is_none()) {
            return;
        }
        self.flush_partial(ix, now, &run);
        self.withdraw_requests(ix, now, &run);
        let open: Vec<OpenTool> = self
            .work_mut(ix)
            .map(|work| work.tools.iter().filter(|tool| !tool.done).cloned().collect())
            .unwrap_or_default();
        for tool in open {
            self.mark_tool(ix, now, &run, &tool.native, status, false);
        }
        self.finish_provider_turn(ix, now, &run, status);
        self.touch_provider_thread(ix, now, &run);
    }
}

/// A node of something that the agent does.
pub(crate) fn agent_node(
    run: &Run,
    turn: &Turn,
    id: String,
    kind: &'static str,
    status: &'static str,
    started_at: Stamp,
    completed_at: Option<Stamp>,
) -> Node {
    Node {
        id,
        thread_id: run.thread_id.clone(),
        run_id: run.id.clone(),
        // What an agent did before a steer stays with the attempt that it did it in.
        parent_node_id: Some(turn.node_id.clone()),
        root_node_id: turn.node_id.clone(),
        kind,
        status,
        counts_for_run: kind == "tool_call",
        provider_thread_id: run.provider_thread_id.clone(),
        provider_turn_id: Some(turn.id.clone()),
        native_item_ref: None,
        runtime_request_id: None,
        checkpoint_scope_id: None,
        started_at: Some(started_at),
        completed_at,
    }
}

/// An item of something that the agent does.
pub(crate) fn of_turn(item: &mut Item, node_id: &str, turn: &Turn, native: NativeRef) {
    node_id.clone_into(&mut item.node_id);
    item.provider_turn_id = Some(turn.id.clone());
    item.native_item_ref = Some(native);
}
