//! Messages: a message to an idle thread starts a run, to a busy one it queues or steers; a launched one waits for its workspace.

use serde_json::Value;

use super::agent::{Script, Work};
use super::commands::Refusal;
use super::entities::{Message, NativeRef, Run, TitleRegeneration};
use super::events::Source;
use super::items::{Item, ItemBody};
use super::names::{self, Uuids};
use super::stamp::Stamp;
use super::{Model, Next, text};

/// A message as a client sends it.
#[derive(Clone, Debug)]
pub(crate) struct NewMessage {
    pub id: String,
    pub text: String,
    pub attachments: Value,
    pub creation_source: String,
    /// The run that a restart cut off, where this message goes on with it.
    pub continues: Option<String>,
}

impl NewMessage {
    pub(crate) fn of_dispatch(command: &Value) -> Self {
        Self {
            id: text(command, "messageId").to_owned(),
            text: text(command, "text").to_owned(),
            attachments: command.get("attachments").cloned().unwrap_or_default(),
            creation_source: text(command, "creationSource").to_owned(),
            continues: command
                .get("restartContinuationOfRunId")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }

    pub(crate) fn of_launch(launch: &Value, message: &Value, uuids: &mut Uuids) -> Self {
        let id = match text(message, "messageId") {
            "" => format!("message:thread:{}:ordinal:1:{}", text(launch, "threadId"), uuids.next()),
            id => id.to_owned(),
        };
        let source = text(launch, "creationSource");
        Self {
            id,
            text: text(message, "text").to_owned(),
            attachments: message.get("attachments").cloned().unwrap_or_default(),
            creation_source: if source.is_empty() { "web" } else { source }.to_owned(),
            continues: None,
        }
    }
}

/// Where a new run begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Beginning {
    /// It starts.
    Start,
    /// It waits in the queue.
    Queue,
    /// It waits for its release or its workspace.
    Prepare,
}

impl Model {
    pub(crate) fn dispatch_message(
        &mut self,
        ix: usize,
        now: Stamp,
        command: &Value,
        source: &Source,
    ) -> Result<u64, Refusal> {
        let mode = command.get("dispatchMode").cloned().unwrap_or_default();
        let kind = text(&mode, "type");
        let message = NewMessage::of_dispatch(command);
        if kind == "steer_active" || kind == "restart_active" {
            let target = self.steerable(ix, text(&mode, "targetRunId"), command)?;
            return Ok(self.steer(ix, now, &target, &message, "steer", kind == "restart_active", source));
        }
        let Some(thread) = self.threads.get(ix) else {
            return Ok(self.head());
        };
        if self.live_project(&thread.app.project_id).is_none() {
            return Err(Refusal::dispatch(command, "Project not found.".to_owned()));
        }
        let busy = thread.active().is_some() || !thread.queue().is_empty();
        self.wake_thread(ix, now, source);
        self.take_title(ix, now, command, source);
        self.take_model(ix, now, command, source);
        let beginning = match (busy, kind) {
            (true, _) => Beginning::Queue,
            (false, "defer_start") => Beginning::Prepare,
            (false, _) => Beginning::Start,
        };
        Ok(self.add_run(ix, now, &message, beginning, source))
    }

    /// A message to a thread that was put aside takes it back.
    fn wake_thread(&mut self, ix: usize, now: Stamp, source: &Source) {
        let Some(app) = self.threads.get_mut(ix).map(|thread| &mut thread.app) else {
            return;
        };
        if app.settled_override.take().is_some() {
            app.settled_at = None;
            self.log_thread(ix, now, source, "thread.unsettled");
        }
    }

    /// A message may bring a title: the thread has it at once, and for a while says that a better one is being made.
    fn take_title(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) {
        let Some(title) = command.get("titleSeed").and_then(Value::as_str) else {
            return;
        };
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        title.clone_into(&mut thread.app.title);
        thread.app.rewritten.get_or_insert_default().title_regeneration = Some(TitleRegeneration {
            request_id: text(command, "commandId").to_owned(),
            started_at: now,
        });
        self.log_thread(ix, now, source, "thread.metadata-updated");
        self.set_timer(ix, now.after(self.options.timing.title), Next::Title);
    }

    /// No better title was made: the scripted agents make none.
    pub(crate) fn keep_title(&mut self, ix: usize, now: Stamp) {
        let rewritten = self
            .threads
            .get_mut(ix)
            .and_then(|thread| thread.app.rewritten.as_mut());
        if rewritten
            .and_then(|rewritten| rewritten.title_regeneration.take())
            .is_some()
        {
            self.log_thread(ix, now, &Source::Server, "thread.metadata-updated");
        }
    }

    /// A message may bring another model for its thread.
    fn take_model(&mut self, ix: usize, now: Stamp, command: &Value, source: &Source) {
        let Some(model) = command.get("modelSelection").filter(|model| model.is_object()) else {
            return;
        };
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        if thread.app.model_selection == *model {
            return;
        }
        let instance = text(model, "instanceId");
        if thread.app.provider_instance_id != instance {
            instance.clone_into(&mut thread.app.provider_instance_id);
            thread.provider_thread = None;
            thread.session = None;
            thread.session_id = None;
        }
        thread.app.model_selection = model.clone();
        thread.app.rewritten.get_or_insert_default();
        self.log_thread(ix, now, source, "thread.model-selection-updated");
    }

    /// Where the thread's agent works.
    pub(crate) fn folder_of(&self, ix: usize) -> String {
        let Some(thread) = self.threads.get(ix) else {
            return String::new();
        };
        thread.app.worktree_path.clone().unwrap_or_else(|| {
            self.live_project(&thread.app.project_id)
                .map(|project| project.workspace_root.clone())
                .unwrap_or_default()
        })
    }

    pub(crate) fn add_message(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        message: &NewMessage,
        source: &Source,
    ) -> u64 {
        let message = Message {
            created_by: "user",
            creation_source: message.creation_source.clone(),
            id: message.id.clone(),
            thread_id: run.thread_id.clone(),
            run_id: run.id.clone(),
            node_id: run.root_node_id.clone(),
            role: "user",
            text: message.text.clone(),
            attachments: message.attachments.clone(),
            streaming: false,
            created_at: now,
            updated_at: now,
        };
        self.log_message(ix, now, source, false, message)
    }

    pub(crate) fn add_user_item(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        message: &NewMessage,
        intent: &'static str,
        source: &Source,
    ) -> u64 {
        let mut item = self.item(
            ix,
            now,
            run,
            format!("turn-item:message:{}", names::encode(&message.id)),
            "completed",
        );
        item.completed_at = Some(now);
        item.body = ItemBody::UserMessage {
            created_by: "user",
            creation_source: message.creation_source.clone(),
            message_id: message.id.clone(),
            input_intent: intent,
            text: message.text.clone(),
            attachments: message.attachments.clone(),
        };
        self.log_item(ix, now, source, false, item)
    }

    /// An item of a run that is not of its provider; the body is the caller's.
    pub(crate) fn item(&self, ix: usize, now: Stamp, run: &Run, id: String, status: &'static str) -> Item {
        Item {
            id,
            thread_id: run.thread_id.clone(),
            run_id: run.id.clone(),
            node_id: run.root_node_id.clone(),
            provider_thread_id: run.provider_thread_id.clone(),
            provider_turn_id: None,
            native_item_ref: None,
            parent_item_id: None,
            ordinal: self
                .threads
                .get(ix)
                .map_or(0, |thread| thread.next_item_ordinal(run.ordinal)),
            status,
            title: None,
            started_at: now,
            completed_at: None,
            updated_at: now,
            body: ItemBody::RunInterruptRequest { message: String::new() },
        }
    }

    /// Lets the run's provider start; a disabled one never does.
    pub(crate) fn start_soon(&mut self, ix: usize, now: Stamp, ordinal: u64, prompt: &str) {
        self.drop_timers(ix);
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        thread.work = Some(Work::new(ordinal, Script::of(prompt)));
        let warm = thread.session.as_ref().is_some_and(|session| session.status == "ready");
        let instance = thread.app.provider_instance_id.clone();
        if !self.options.is_ready(&instance) {
            return;
        }
        let wait = if warm {
            self.options.timing.warm_start
        } else {
            self.options.timing.cold_start
        };
        self.set_timer(ix, now.after(wait), Next::Attach);
    }

    /// The text that a run was asked with.
    pub(crate) fn prompt_of(&self, ix: usize, run: &Run) -> String {
        self.message_of(ix, run)
            .map(|message| message.text.clone())
            .unwrap_or_default()
    }
}

/// The provider's name for the conversation of a thread.
pub(crate) fn native_thread(driver: &str, native: &str) -> NativeRef {
    NativeRef {
        driver: driver.to_owned(),
        native_id: native.to_owned(),
        strength: "strong",
    }
}
