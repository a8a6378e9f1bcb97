//! One thread: everything that T3 keeps of it, the row that the shell shows of it and its whole projection.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::agent::Work;
use super::entities::{
    AppThread, Attempt, BackgroundTask, Checkpoint, Lineage, Message, Node, Null, ProviderThread, Request,
    RequestStatus, Run, RunStatus, Scope, Session, TitleRegeneration, Turn,
};
use super::items::Item;
use super::stamp::Stamp;

/// Turn items count from here within their run: run 2 has 2000001, 2000002, …
pub(crate) const ITEMS_PER_RUN: u64 = 1_000_000;

/// An event as it travels, with its place in the database's order.
#[derive(Clone, Debug)]
pub(crate) struct LoggedEvent {
    pub sequence: u64,
    /// The whole stream item, as JSON text.
    pub item: Arc<str>,
}

/// One thread and everything in it.
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub app: AppThread,
    pub runs: Vec<Run>,
    pub attempts: Vec<Attempt>,
    pub nodes: Vec<Node>,
    pub session: Option<Session>,
    pub provider_thread: Option<ProviderThread>,
    /// The id that the next provider session takes: T3 names it before it is attached.
    pub session_id: Option<String>,
    pub turns: Vec<Turn>,
    pub requests: Vec<Request>,
    pub messages: Vec<Message>,
    pub items: Vec<Item>,
    pub scope: Option<Scope>,
    pub checkpoints: Vec<Checkpoint>,
    pub events: Vec<LoggedEvent>,
    /// What the agent does now.
    pub work: Option<Work>,
    /// Outdated timers of the thread carry a lower number.
    pub generation: u64,
    /// The provider's name for the conversation.
    pub native: String,
    /// How many tools and questions the agent has used, for their names.
    pub tools: u64,
    pub asks: u64,
    /// The queue does not move by itself.
    pub held: bool,
    /// Where a launched run is to work, until it is ready.
    pub workspace: Option<serde_json::Value>,
    /// The ids of background commands with their ends, the next first.
    pub background: Vec<(Stamp, String)>,
    /// Files that the running turn has changed.
    pub changed: Vec<super::entities::ChangedFile>,
}

impl Thread {
    pub(crate) fn new(app: AppThread, native: String) -> Self {
        Self {
            app,
            runs: Vec::new(),
            attempts: Vec::new(),
            nodes: Vec::new(),
            session: None,
            provider_thread: None,
            session_id: None,
            turns: Vec::new(),
            requests: Vec::new(),
            messages: Vec::new(),
            items: Vec::new(),
            scope: None,
            checkpoints: Vec::new(),
            events: Vec::new(),
            work: None,
            generation: 0,
            native,
            tools: 0,
            asks: 0,
            held: false,
            workspace: None,
            background: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// The run that holds the thread: the lowest that is active.
    pub(crate) fn active(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.status.is_active())
    }

    pub(crate) fn run(&self, id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub(crate) fn by_ordinal(&self, ordinal: u64) -> Option<&Run> {
        self.runs.iter().find(|run| run.ordinal == ordinal)
    }

    pub(crate) fn by_ordinal_mut(&mut self, ordinal: u64) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.ordinal == ordinal)
    }

    /// The queued runs, next first.
    pub(crate) fn queue(&self) -> Vec<u64> {
        let mut queued: Vec<_> = self
            .runs
            .iter()
            .filter(|run| run.status == RunStatus::Queued)
            .map(|run| (run.queue_position, run.ordinal))
            .collect();
        queued.sort_unstable();
        queued.into_iter().map(|(_, ordinal)| ordinal).collect()
    }

    pub(crate) fn next_item_ordinal(&self, run: u64) -> u64 {
        let from = run * ITEMS_PER_RUN;
        self.items
            .iter()
            .map(|item| item.ordinal)
            .filter(|ordinal| (from..from + ITEMS_PER_RUN).contains(ordinal))
            .max()
            .unwrap_or(from)
            + 1
    }

    /// Puts a new version of an item in its place; a repeated one keeps its ordinal.
    pub(crate) fn put_item(&mut self, mut item: Item) -> Item {
        if let Some(old) = self.items.iter_mut().find(|old| old.id == item.id) {
            item.ordinal = old.ordinal;
            *old = item.clone();
        } else {
            self.items.push(item.clone());
        }
        item
    }

    pub(crate) fn put_message(&mut self, message: Message) {
        if let Some(old) = self.messages.iter_mut().find(|old| old.id == message.id) {
            *old = message;
        } else {
            self.messages.push(message);
        }
    }

    pub(crate) fn put_node(&mut self, node: Node) {
        if let Some(old) = self.nodes.iter_mut().find(|old| old.id == node.id) {
            *old = node;
        } else {
            self.nodes.push(node);
        }
    }

    /// The row that the shell shows.
    pub(crate) fn row<'a>(&'a self, words: &HashMap<String, String>) -> Row<'a> {
        let word = |status: RunStatus| {
            let own = status.as_str();
            words.get(own).cloned().unwrap_or_else(|| own.to_owned())
        };
        let latest = self.runs.last();
        let active = self.active();
        let app = &self.app;
        Row {
            created_by: app.created_by,
            creation_source: &app.creation_source,
            id: &app.id,
            project_id: &app.project_id,
            title: &app.title,
            provider_instance_id: &app.provider_instance_id,
            model_selection: &app.model_selection,
            runtime_mode: &app.runtime_mode,
            interaction_mode: &app.interaction_mode,
            branch: app.branch.as_deref(),
            worktree_path: app.worktree_path.as_deref(),
            lineage: &app.lineage,
            forked_from: None,
            active_provider_thread_id: app.active_provider_thread_id.as_deref(),
            latest_run_id: latest.map(|run| run.id.as_str()),
            latest_run_requested_at: latest.map(|run| run.requested_at),
            latest_run_started_at: latest.and_then(|run| run.started_at),
            latest_run_completed_at: latest.and_then(|run| run.completed_at),
            // Already null while the checkpoint is captured.
            active_run_id: active
                .filter(|run| run.status.is_interruptible())
                .map(|run| run.id.as_str()),
            activity_run_status: active.map(|run| word(run.status)),
            status: latest.map_or_else(|| "idle".to_owned(), |run| word(run.status)),
            last_error: None,
            pending_runtime_request: self.newest_pending(),
            latest_visible_message: self.latest_message(),
            latest_user_message_at: self
                .messages
                .iter()
                .filter(|message| message.role == "user")
                .map(|message| message.created_at)
                .max(),
            has_actionable_proposed_plan: false,
            pending_background_tasks: self
                .provider_thread
                .as_ref()
                .map_or(&[], |provider_thread| &provider_thread.pending_background_tasks),
            item_count: self.items.len(),
            visible_item_count: self.items.len(),
            created_at: app.created_at,
            updated_at: app.updated_at,
            archived_at: app.archived_at,
            settled_override: app.settled_override,
            settled_at: app.settled_at,
            snoozed_until: app.snoozed_until.as_deref(),
            snoozed_at: app.snoozed_at,
            pinned_at: app.rewritten.as_ref().and_then(|rewritten| rewritten.pinned_at),
            pin_order_key: app
                .rewritten
                .as_ref()
                .and_then(|rewritten| rewritten.pin_order_key.as_deref()),
            last_visited_at: app.last_visited_at.as_deref(),
            title_regeneration: app
                .rewritten
                .as_ref()
                .and_then(|rewritten| rewritten.title_regeneration.as_ref()),
            deleted_at: app.deleted_at,
        }
    }

    /// Only the newest pending request is shown; the others are in the projection alone.
    fn newest_pending(&self) -> Option<PendingRow<'_>> {
        self.requests
            .iter()
            .filter(|request| request.status == RequestStatus::Pending)
            .max_by_key(|request| request.created_at)
            .map(|request| PendingRow {
                id: &request.id,
                kind: request.kind,
                created_at: request.created_at,
            })
    }

    fn latest_message(&self) -> Option<MessageRow<'_>> {
        self.messages
            .iter()
            .max_by_key(|message| message.updated_at)
            .map(|message| MessageRow {
                id: &message.id,
                role: message.role,
                text: &message.text,
                updated_at: message.updated_at,
            })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingRow<'a> {
    id: &'a str,
    kind: &'static str,
    created_at: Stamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageRow<'a> {
    id: &'a str,
    role: &'static str,
    text: &'a str,
    updated_at: Stamp,
}

/// What the shell shows of a thread.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row<'a> {
    created_by: &'static str,
    creation_source: &'a str,
    id: &'a str,
    project_id: &'a str,
    title: &'a str,
    provider_instance_id: &'a str,
    model_selection: &'a serde_json::Value,
    runtime_mode: &'a str,
    interaction_mode: &'a str,
    branch: Option<&'a str>,
    worktree_path: Option<&'a str>,
    lineage: &'a Lineage,
    forked_from: Null,
    active_provider_thread_id: Option<&'a str>,
    latest_run_id: Option<&'a str>,
    latest_run_requested_at: Option<Stamp>,
    latest_run_started_at: Option<Stamp>,
    latest_run_completed_at: Option<Stamp>,
    active_run_id: Option<&'a str>,
    activity_run_status: Option<String>,
    status: String,
    last_error: Null,
    pending_runtime_request: Option<PendingRow<'a>>,
    latest_visible_message: Option<MessageRow<'a>>,
    latest_user_message_at: Option<Stamp>,
    has_actionable_proposed_plan: bool,
    pending_background_tasks: &'a [BackgroundTask],
    item_count: usize,
    visible_item_count: usize,
    created_at: Stamp,
    updated_at: Stamp,
    archived_at: Option<Stamp>,
    settled_override: Option<&'static str>,
    settled_at: Option<Stamp>,
    snoozed_until: Option<&'a str>,
    snoozed_at: Option<Stamp>,
    pinned_at: Option<Stamp>,
    pin_order_key: Option<&'a str>,
    last_visited_at: Option<&'a str>,
    title_regeneration: Option<&'a TitleRegeneration>,
    deleted_at: Option<Stamp>,
}
