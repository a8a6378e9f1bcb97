//! The beginning of a run: the run itself, its provider thread, its attempt with root node and checkpoint scope.

use super::Model;
use super::dispatch::{Beginning, NewMessage};
use super::entities::{Attempt, Node, ProviderThread, Run, RunStatus, Scope};
use super::events::{Place, Source};
use super::names;
use super::stamp::Stamp;

impl Model {
    /// Adds a run with all that belongs to it and tells the last sequence.
    pub(crate) fn add_run(
        &mut self,
        ix: usize,
        now: Stamp,
        message: &NewMessage,
        beginning: Beginning,
        source: &Source,
    ) -> u64 {
        let Some(thread) = self.threads.get(ix) else {
            return self.head();
        };
        let ordinal = thread.runs.last().map_or(1, |run| run.ordinal + 1);
        let position = thread
            .runs
            .iter()
            .filter_map(|run| run.queue_position)
            .max()
            .unwrap_or(0)
            + 1;
        let thread_id = thread.app.id.clone();
        let run_id = names::run(&thread_id, ordinal);
        let provider_thread = self.ensure_provider_thread(ix, now, ordinal, &run_id);
        if beginning != Beginning::Queue {
            let place = Place {
                driver: true,
                ..Place::default()
            };
            self.log_provider_thread(ix, now, source, place, |it| it.last_run_ordinal = ordinal);
        }
        let Some(thread) = self.threads.get(ix) else {
            return self.head();
        };
        let run = Run {
            id: run_id.clone(),
            thread_id,
            ordinal,
            provider_instance_id: thread.app.provider_instance_id.clone(),
            model_selection: thread.app.model_selection.clone(),
            provider_thread_id: provider_thread,
            user_message_id: message.id.clone(),
            root_node_id: names::root_node(&run_id, 1),
            active_attempt_id: names::attempt(&run_id, 1),
            status: match beginning {
                Beginning::Start => RunStatus::Starting,
                Beginning::Queue => RunStatus::Queued,
                Beginning::Prepare => RunStatus::Preparing,
            },
            queue_position: (beginning == Beginning::Queue).then_some(position),
            requested_at: now,
            started_at: None,
            completed_at: None,
            checkpoint_id: None,
            context_handoff_id: None,
            queue_held: (beginning == Beginning::Queue && thread.held).then_some(true),
            restart_continuation_of_run_id: message.continues.clone(),
            attempt: 1,
        };
        self.log_run(ix, now, source, "run.created", &run);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.runs.push(run.clone());
        }
        self.add_attempt(ix, now, &run, "initial", beginning != Beginning::Prepare, source);
        let last = self.add_message(ix, now, &run, message, source);
        match beginning {
            Beginning::Queue => last,
            Beginning::Start => {
                let last = self.add_user_item(ix, now, &run, message, "turn_start", source);
                self.start_soon(ix, now, ordinal, &message.text);
                last
            }
            Beginning::Prepare => self.add_user_item(ix, now, &run, message, "turn_start", source),
        }
    }

    /// The provider thread is named before there is one.
    fn ensure_provider_thread(&mut self, ix: usize, now: Stamp, ordinal: u64, run_id: &str) -> String {
        let unique = self.uuids.next();
        let Some(instance) = self
            .threads
            .get(ix)
            .map(|thread| thread.app.provider_instance_id.clone())
        else {
            return String::new();
        };
        let driver = self.driver(&instance);
        let Some(thread) = self.threads.get_mut(ix) else {
            return String::new();
        };
        if let Some(provider_thread) = &thread.provider_thread {
            return provider_thread.id.clone();
        }
        let session = names::provider_session(&instance, &thread.app.id, unique);
        let id = names::provider_thread(&driver, run_id);
        thread.session_id = Some(session.clone());
        thread.app.active_provider_thread_id = Some(id.clone());
        thread.provider_thread = Some(ProviderThread {
            id: id.clone(),
            driver,
            provider_instance_id: instance,
            provider_session_id: session,
            app_thread_id: thread.app.id.clone(),
            owner_node_id: None,
            native_thread_ref: None,
            native_conversation_head_ref: None,
            status: "not_loaded",
            first_run_ordinal: ordinal,
            last_run_ordinal: ordinal,
            handoff_ids: [],
            forked_from: None,
            pending_background_tasks: Vec::new(),
            created_at: now,
            updated_at: now,
        });
        id
    }

    /// An attempt with its root node and checkpoint scope.
    pub(crate) fn add_attempt(
        &mut self,
        ix: usize,
        now: Stamp,
        run: &Run,
        reason: &'static str,
        scoped: bool,
        source: &Source,
    ) {
        let attempt = Attempt {
            id: run.active_attempt_id.clone(),
            run_id: run.id.clone(),
            attempt_ordinal: run.attempt,
            root_node_id: run.root_node_id.clone(),
            provider_instance_id: run.provider_instance_id.clone(),
            provider_thread_id: run.provider_thread_id.clone(),
            provider_turn_id: None,
            reason,
            status: "pending",
            started_at: None,
            completed_at: None,
        };
        self.log_attempt(ix, now, source, "run-attempt.created", &attempt);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.attempts.push(attempt);
        }
        let node = Node {
            id: run.root_node_id.clone(),
            thread_id: run.thread_id.clone(),
            run_id: run.id.clone(),
            parent_node_id: None,
            root_node_id: run.root_node_id.clone(),
            kind: "root_turn",
            status: "pending",
            counts_for_run: true,
            provider_thread_id: run.provider_thread_id.clone(),
            provider_turn_id: None,
            native_item_ref: None,
            runtime_request_id: None,
            checkpoint_scope_id: scoped.then(|| names::scope(&run.thread_id)),
            started_at: None,
            completed_at: None,
        };
        self.log_node(ix, now, source, false, node);
        if scoped {
            self.add_scope(ix, now, run, source);
        }
    }

    pub(crate) fn add_scope(&mut self, ix: usize, now: Stamp, run: &Run, source: &Source) {
        let scope = Scope {
            id: names::scope(&run.thread_id),
            thread_id: run.thread_id.clone(),
            run_id: run.id.clone(),
            node_id: run.root_node_id.clone(),
            parent_scope_id: None,
            provider_thread_id: run.provider_thread_id.clone(),
            kind: "root_run",
            ordinal_within_parent: 0,
            advances_app_run_count: true,
            cwd: self.folder_of(ix),
            created_at: now,
        };
        self.log_scope(ix, now, source, scope);
    }
}
