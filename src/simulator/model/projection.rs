//! What a read of a thread shows: everything in it, or its newest runs and what belongs to them, and its history in parts.

use std::collections::HashSet;

use serde::Serialize;

use super::entities::{
    AppThread, Attempt, Checkpoint, Message, Node, ProviderThread, Request, Run, Scope, Session, Turn,
};
use super::items::{Item, ItemBody};
use super::stamp::Stamp;
use super::thread::{ITEMS_PER_RUN, Thread};

impl Thread {
    /// Messages stand where their items stand; those that have none (yet) come last.
    fn place_of(&self, message: &Message) -> u64 {
        let own = |item: &&Item| match &item.body {
            ItemBody::UserMessage { message_id, .. } | ItemBody::AssistantMessage { message_id, .. } => {
                *message_id == message.id
            }
            _ => false,
        };
        self.items.iter().find(own).map_or(u64::MAX, |item| item.ordinal)
    }

    /// The visible history of the runs from one ordinal to below another.
    pub(crate) fn history(&self, from: u64, below: u64) -> Vec<VisibleItem<'_>> {
        let mut items: Vec<&Item> = self.items.iter().collect();
        items.sort_by_key(|item| item.ordinal);
        let within = from * ITEMS_PER_RUN..below.saturating_mul(ITEMS_PER_RUN);
        let placed = items.into_iter().enumerate();
        placed
            .filter(|(_, item)| within.contains(&item.ordinal))
            .map(|(position, item)| VisibleItem {
                position,
                visibility: "local",
                source_thread_id: &self.app.id,
                source_item_id: &item.id,
                item,
            })
            .collect()
    }

    /// Everything in the thread that does not belong to a run below this ordinal.
    pub(crate) fn projection(&self, first: u64) -> Projection<'_> {
        let left_out = self.runs.iter().take_while(|run| run.ordinal < first).count();
        let runs = self.runs.get(left_out..).unwrap_or_default();
        let kept: HashSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        let shows = |run: &str| left_out == 0 || kept.contains(run);
        let mut nodes: Vec<&Node> = self.nodes.iter().filter(|node| shows(&node.run_id)).collect();
        nodes.sort_by_key(|node| node.started_at);
        let mut items: Vec<&Item> = self.items.iter().filter(|item| shows(&item.run_id)).collect();
        items.sort_by_key(|item| item.ordinal);
        let mut attempts: Vec<&Attempt> = self.attempts.iter().filter(|attempt| shows(&attempt.run_id)).collect();
        // By the text of the run's id: run 10 comes before run 2.
        attempts.sort_by(|one, other| (&one.run_id, one.attempt_ordinal).cmp(&(&other.run_id, other.attempt_ordinal)));
        let mut messages: Vec<&Message> = self.messages.iter().filter(|message| shows(&message.run_id)).collect();
        messages.sort_by_key(|message| self.place_of(message));
        Projection {
            thread: &self.app,
            runs,
            provider_turns: self
                .turns
                .iter()
                .filter(|turn| attempts.iter().any(|attempt| attempt.id == turn.run_attempt_id))
                .collect(),
            attempts,
            nodes,
            subagents: [],
            provider_sessions: self.session.as_slice(),
            provider_threads: self.provider_thread.as_slice(),
            runtime_requests: self.requests.iter().filter(|request| request.run >= first).collect(),
            messages,
            plans: [],
            visible_turn_items: self.history(first, u64::MAX),
            turn_items: items,
            checkpoint_scopes: self.scope.as_slice(),
            checkpoints: self
                .checkpoints
                .iter()
                .filter(|checkpoint| checkpoint.run_id.as_deref().is_none_or(shows))
                .collect(),
            context_handoffs: [],
            context_transfers: [],
            updated_at: self.app.updated_at,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VisibleItem<'a> {
    position: usize,
    visibility: &'static str,
    source_thread_id: &'a str,
    source_item_id: &'a str,
    item: &'a Item,
}

/// A thread as a read shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Projection<'a> {
    thread: &'a AppThread,
    runs: &'a [Run],
    attempts: Vec<&'a Attempt>,
    nodes: Vec<&'a Node>,
    subagents: [&'static str; 0],
    provider_sessions: &'a [Session],
    provider_threads: &'a [ProviderThread],
    provider_turns: Vec<&'a Turn>,
    runtime_requests: Vec<&'a Request>,
    messages: Vec<&'a Message>,
    plans: [&'static str; 0],
    turn_items: Vec<&'a Item>,
    checkpoint_scopes: &'a [Scope],
    checkpoints: Vec<&'a Checkpoint>,
    context_handoffs: [&'static str; 0],
    context_transfers: [&'static str; 0],
    visible_turn_items: Vec<VisibleItem<'a>>,
    updated_at: Stamp,
}
