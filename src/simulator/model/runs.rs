//! The life of a run: starting, running, waiting for its checkpoint, ended; and who comes next.

use super::agent::Script;
use super::dispatch::native_thread;
use super::entities::{Attempt, Node, Run, RunStatus, Session};
use super::events::{Place, Source};
use super::items::{Failure, ItemBody};
use super::names;
use super::stamp::Stamp;
use super::views::capabilities;
use super::{Model, Next, text};

impl Model {
    pub(crate) fn change_run(
        &mut self,
        ix: usize,
        now: Stamp,
        ordinal: u64,
        source: &Source,
        change: impl FnOnce(&mut Run),
    ) -> u64 {
        let changed = self
            .threads
            .get_mut(ix)
            .and_then(|thread| thread.by_ordinal_mut(ordinal))
            .map(|run| {
                change(run);
                run.clone()
            });
        match changed {
            Some(run) => self.log_run(ix, now, source, "run.updated", &run),
            None => self.head(),
        }
    }

    /// Changes the active attempt of a run.
    pub(crate) fn change_attempt(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        source: &Source,
        change: impl FnOnce(&mut Attempt),
    ) -> u64 {
        let changed = self
            .threads
            .get_mut(ix)
            .and_then(|thread| {
                thread
                    .attempts
                    .iter_mut()
                    .find(|attempt| attempt.id == run.active_attempt_id)
            })
            .map(|attempt| {
                change(attempt);
                attempt.clone()
            });
        match changed {
            Some(attempt) => self.log_attempt(ix, now, source, "run-attempt.updated", &attempt),
            None => self.head(),
        }
    }

    /// Changes the root node of a run's active attempt.
    pub(crate) fn change_root(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        source: &Source,
        change: impl FnOnce(&mut Node, String),
    ) -> u64 {
        let Some(mut node) = self
            .threads
            .get(ix)
            .and_then(|thread| thread.nodes.iter().find(|node| node.id == run.root_node_id))
            .cloned()
        else {
            return self.head();
        };
        change(&mut node, names::scope(&run.thread_id));
        self.log_node(ix, now, source, false, node)
    }

    /// The run that the agent works on.
    pub(crate) fn working_run(&self, ix: usize) -> Option<Run> {
        let thread = self.threads.get(ix)?;
        let ordinal = thread.work.as_ref()?.run;
        thread.by_ordinal(ordinal).cloned()
    }

    /// The provider is there: the run runs.
    pub(crate) fn attach(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix) else {
            return;
        };
        self.close_cut_turn(ix, now);
        self.attach_session(ix, now);
        let driver = self.driver(&run.provider_instance_id);
        let native = self
            .threads
            .get(ix)
            .map(|thread| thread.native.clone())
            .unwrap_or_default();
        let place = Place {
            driver: true,
            ..Place::default()
        };
        self.log_provider_thread(ix, now, &Source::Server, place, |it| {
            it.status = "active";
            it.native_thread_ref = Some(native_thread(&driver, &native));
        });
        self.change_run(ix, now, run.ordinal, &Source::Server, |run| {
            run.status = RunStatus::Running;
            run.started_at.get_or_insert(now);
        });
        self.change_attempt(ix, now, &run, &Source::Server, |attempt| {
            attempt.status = "running";
            attempt.started_at = Some(now);
        });
        self.change_root(ix, now, &run, &Source::Server, |node, _| {
            node.status = "running";
            node.started_at = Some(now);
        });
        let nothing_said = self
            .threads
            .get(ix)
            .and_then(|thread| thread.work.as_ref())
            .is_some_and(|work| work.script == Script::Empty);
        if nothing_said {
            let message = format!(
                "Failed to start run {} on {driver} provider thread {}.",
                run.id, run.provider_thread_id
            );
            self.fail_run(ix, now, &run, "provider_error", &message, None, &Source::Server);
            self.settle_provider_thread(ix, now);
            self.next_in_queue(ix, now);
            return;
        }
        self.set_timer(ix, now.after(self.options.timing.turn), Next::Turn);
    }

    fn attach_session(&mut self, ix: usize, now: Stamp) {
        let unique = self.uuids.next();
        let cwd = self.folder_of(ix);
        let Some(instance) = self
            .threads
            .get(ix)
            .map(|thread| thread.app.provider_instance_id.clone())
        else {
            return;
        };
        let driver = self.driver(&instance);
        let steers = self
            .options
            .provider(&instance)
            .is_some_and(|provider| provider.steers_inside);
        let Some(thread) = self.threads.get_mut(ix) else {
            return;
        };
        let ready = thread.session.as_ref().is_some_and(|session| session.status == "ready");
        if !ready {
            let id = thread
                .session_id
                .get_or_insert_with(|| names::provider_session(&instance, &thread.app.id, unique))
                .clone();
            let session = Session {
                id,
                driver,
                provider_instance_id: instance,
                status: "ready",
                cwd,
                model: text(&thread.app.model_selection, "model").to_owned(),
                capabilities: capabilities(steers),
                created_at: now,
                updated_at: now,
                last_error: None,
            };
            thread.session = Some(session.clone());
            self.log_session(ix, now, "provider-session.attached", &session);
        }
        if let Some(session) = self.threads.get(ix).and_then(|thread| thread.session.clone()) {
            self.log_session(ix, now, "provider-session.updated", &session);
        }
    }

    /// The turn ended well: the run waits for its checkpoint.
    pub(crate) fn wait_for_checkpoint(&mut self, ix: usize, now: Stamp, run: &Run) {
        self.change_attempt(ix, now, run, &Source::Server, |attempt| {
            attempt.status = "completed";
            attempt.completed_at = Some(now);
        });
        self.change_run(ix, now, run.ordinal, &Source::Server, |run| {
            run.status = RunStatus::Waiting;
        });
        self.change_root(ix, now, run, &Source::Server, |node, _| node.status = "waiting");
        self.settle_provider_thread(ix, now);
        self.set_timer(ix, now.after(self.options.timing.checkpoint), Next::Checkpoint);
    }

    pub(crate) fn settle_provider_thread(&mut self, ix: usize, now: Stamp) {
        self.log_provider_thread(ix, now, &Source::Server, Place::default(), |it| it.status = "idle");
    }

    /// Ends a run that does not end well, with everything that its end shows.
    pub(crate) fn end_run(&mut self, ix: usize, now: Stamp, run: &Run, status: RunStatus, source: &Source) -> u64 {
        let word = status.as_str();
        self.change_attempt(ix, now, run, source, |attempt| {
            attempt.status = word;
            attempt.completed_at = Some(now);
        });
        if status == RunStatus::Interrupted {
            self.add_interrupt_result(ix, now, run, source);
        }
        self.change_run(ix, now, run.ordinal, source, |run| {
            run.status = status;
            run.queue_position = None;
            run.queue_held = None;
            run.completed_at = Some(now);
        });
        self.change_root(ix, now, run, source, |node, _| {
            node.status = word;
            node.completed_at = Some(now);
        })
    }

    /// Ends a run with an error that its history tells.
    #[expect(clippy::too_many_arguments, reason = "an error is told with all its circumstances")]
    pub(crate) fn fail_run(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        class: &'static str,
        message: &str,
        turn: Option<&str>,
        source: &Source,
    ) {
        let driver = self.driver(&run.provider_instance_id);
        // Without a turn of its own the failure is filed under a turn that is named after the attempt.
        let turn = turn.map_or_else(
            || names::provider_turn(&driver, &format!("failed:{}", run.active_attempt_id)),
            str::to_owned,
        );
        let id = names::native_item("turn-item", &driver, &format!("terminal-failure:{turn}"));
        let mut item = self.item(ix, now, run, id, "failed");
        item.provider_turn_id = Some(turn);
        item.title = Some("Provider error".to_owned());
        item.completed_at = Some(now);
        item.body = ItemBody::Error {
            failure: Failure {
                class,
                message: message.to_owned(),
                code: None,
                retryable: None,
            },
        };
        self.log_item(ix, now, &Source::Session, true, item);
        self.end_run(ix, now, run, RunStatus::Failed, source);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.work = None;
        }
    }

    /// The session went away under a run.
    pub(crate) fn fail_ingesting(&mut self, ix: usize, now: Stamp) {
        let Some(run) = self.working_run(ix).filter(|run| run.status.is_interruptible()) else {
            return;
        };
        self.drop_timers(ix);
        let message = format!("Failed while ingesting orchestration V2 run execution {}.", run.id);
        self.fail_run(ix, now, &run, "unknown", &message, None, &Source::Server);
        self.settle_provider_thread(ix, now);
        self.next_in_queue(ix, now);
    }

    /// The next queued run starts by itself, unless the queue is held.
    pub(crate) fn next_in_queue(&mut self, ix: usize, now: Stamp) {
        let Some(thread) = self.threads.get(ix) else {
            return;
        };
        if thread.held || thread.active().is_some() {
            return;
        }
        let Some(ordinal) = thread.queue().first().copied() else {
            return;
        };
        let Some(run) = thread.by_ordinal(ordinal).cloned() else {
            return;
        };
        let source = Source::Command(format!("command:effect:queue.advance:{}", run.id));
        self.log_provider_thread(ix, now, &source, Place::default(), |it| {
            it.status = "not_loaded";
            it.last_run_ordinal = ordinal;
        });
        let message = self
            .threads
            .get(ix)
            .and_then(|thread| thread.messages.iter().find(|message| message.id == run.user_message_id))
            .map(|message| super::dispatch::NewMessage {
                id: message.id.clone(),
                text: message.text.clone(),
                attachments: message.attachments.clone(),
                creation_source: message.creation_source.clone(),
                continues: None,
            });
        let prompt = message.as_ref().map(|message| message.text.clone()).unwrap_or_default();
        if let Some(message) = message {
            self.add_user_item(ix, now, &run, &message, "queued_turn", &source);
        }
        self.change_run(ix, now, ordinal, &source, |run| {
            run.status = RunStatus::Starting;
            run.queue_position = None;
            run.queue_held = None;
        });
        self.start_soon(ix, now, ordinal, &prompt);
    }
}
