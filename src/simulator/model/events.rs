//! The event log: each change of an entity is one event with the next sequence of the whole database.

use std::sync::Arc;

use serde::Serialize;

use super::entities::{Attempt, Message, Node, ProviderThread, Request, Run, Scope, Session, Turn};
use super::items::Item;
use super::names::encode;
use super::stamp::Stamp;
use super::thread::LoggedEvent;
use super::{Model, Subject};

/// What made an event; its id tells.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A command of a client, or an effect of the server that counts as one.
    Command(String),
    /// The provider's session.
    Session,
    /// The server by itself.
    Server,
}

impl Source {
    /// The checkpoint of a run.
    pub(crate) fn checkpoint(run: &str) -> Self {
        Self::Command(format!("command:effect:checkpoint.capture:{run}"))
    }
}

#[derive(Serialize)]
struct StreamItem<'a, P> {
    kind: &'static str,
    sequence: u64,
    event: Event<'a, P>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a, P> {
    id: String,
    thread_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<&'a str>,
    provider_instance_id: &'a str,
    occurred_at: Stamp,
    #[serde(rename = "type")]
    kind: &'static str,
    payload: &'a P,
}

/// Where an event belongs: the run and node that its head names, and whether it names the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place<'a> {
    pub run: Option<&'a str>,
    pub node: Option<&'a str>,
    pub driver: bool,
}

impl Model {
    /// Logs an event of a thread and tells its sequence.
    pub(crate) fn log_event<P: Serialize>(
        &mut self,
        ix: usize,
        now: Stamp,
        source: &Source,
        kind: &'static str,
        place: Place<'_>,
        payload: &P,
    ) -> u64 {
        let unique = self.uuids.next();
        let driver = self
            .threads
            .get(ix)
            .map(|thread| self.driver(&thread.app.provider_instance_id));
        let sequence = self.head + 1;
        let Some(thread) = self.threads.get_mut(ix) else {
            return self.head;
        };
        thread.app.updated_at = now;
        let id = match source {
            Source::Command(command) => {
                format!("event:thread:{}:command:{}:{unique}", thread.app.id, encode(command))
            }
            Source::Session => format!(
                "event:thread:{}:provider-session:{}:{unique}",
                thread.app.id,
                encode(thread.session_id.as_deref().unwrap_or_default())
            ),
            Source::Server => format!("event:thread:{}:{unique}", thread.app.id),
        };
        let item = StreamItem {
            kind: "event",
            sequence,
            event: Event {
                id,
                thread_id: &thread.app.id,
                run_id: place.run,
                node_id: place.node,
                driver: driver.as_deref().filter(|_| place.driver),
                provider_instance_id: &thread.app.provider_instance_id,
                occurred_at: now,
                kind,
                payload,
            },
        };
        // Our own structs of text, numbers and maps with text keys: they always serialise.
        let text = serde_json::to_string(&item).unwrap_or_default();
        thread.events.push(LoggedEvent {
            sequence,
            item: Arc::from(text),
        });
        self.advance(Subject::Thread(ix))
    }

    /// Takes the next sequence.
    pub(crate) fn advance(&mut self, subject: Subject) -> u64 {
        self.head += 1;
        self.log.push(subject);
        self.head
    }

    pub(crate) fn log_thread(&mut self, ix: usize, now: Stamp, source: &Source, kind: &'static str) -> u64 {
        let Some(thread) = self.threads.get_mut(ix) else {
            return self.head;
        };
        thread.app.updated_at = now;
        let app = thread.app.clone();
        self.log_event(ix, now, source, kind, Place::default(), &app)
    }

    pub(crate) fn log_run(&mut self, ix: usize, now: Stamp, source: &Source, kind: &'static str, run: &Run) -> u64 {
        let place = Place {
            run: Some(&run.id),
            node: Some(&run.root_node_id),
            driver: false,
        };
        self.log_event(ix, now, source, kind, place, run)
    }

    pub(crate) fn log_attempt(
        &mut self,
        ix: usize,
        now: Stamp,
        source: &Source,
        kind: &'static str,
        attempt: &Attempt,
    ) -> u64 {
        let place = Place {
            run: Some(&attempt.run_id),
            node: Some(&attempt.root_node_id),
            driver: false,
        };
        self.log_event(ix, now, source, kind, place, attempt)
    }

    pub(crate) fn log_node(&mut self, ix: usize, now: Stamp, source: &Source, driver: bool, node: Node) -> u64 {
        let place = Place {
            run: Some(&node.run_id),
            node: Some(&node.id),
            driver,
        };
        let sequence = self.log_event(ix, now, source, "node.updated", place, &node);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.put_node(node);
        }
        sequence
    }

    pub(crate) fn log_item(&mut self, ix: usize, now: Stamp, source: &Source, driver: bool, item: Item) -> u64 {
        let Some(thread) = self.threads.get_mut(ix) else {
            return self.head;
        };
        let item = thread.put_item(item);
        let place = Place {
            run: Some(&item.run_id),
            node: Some(&item.node_id),
            driver,
        };
        self.log_event(ix, now, source, "turn-item.updated", place, &item)
    }

    pub(crate) fn log_message(
        &mut self,
        ix: usize,
        now: Stamp,
        source: &Source,
        driver: bool,
        message: Message,
    ) -> u64 {
        let place = Place {
            run: Some(&message.run_id),
            node: Some(&message.node_id),
            driver,
        };
        let sequence = self.log_event(ix, now, source, "message.updated", place, &message);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.put_message(message);
        }
        sequence
    }

    pub(crate) fn log_scope(&mut self, ix: usize, now: Stamp, source: &Source, scope: Scope) -> u64 {
        let place = Place {
            run: Some(&scope.run_id),
            node: Some(&scope.node_id),
            driver: false,
        };
        let sequence = self.log_event(ix, now, source, "checkpoint-scope.created", place, &scope);
        if let Some(thread) = self.threads.get_mut(ix) {
            thread.scope = Some(scope);
        }
        sequence
    }

    pub(crate) fn log_session(&mut self, ix: usize, now: Stamp, kind: &'static str, session: &Session) -> u64 {
        let place = Place {
            driver: true,
            ..Place::default()
        };
        self.log_event(ix, now, &Source::Session, kind, place, session)
    }

    /// Changes the provider thread and logs it.
    pub(crate) fn log_provider_thread(
        &mut self,
        ix: usize,
        now: Stamp,
        source: &Source,
        place: Place<'_>,
        change: impl FnOnce(&mut ProviderThread),
    ) -> u64 {
        let changed = self
            .threads
            .get_mut(ix)
            .and_then(|thread| thread.provider_thread.as_mut())
            .map(|provider_thread| {
                change(provider_thread);
                provider_thread.updated_at = now;
                provider_thread.clone()
            });
        match changed {
            Some(provider_thread) => {
                self.log_event(ix, now, source, "provider-thread.updated", place, &provider_thread)
            }
            None => self.head,
        }
    }

    pub(crate) fn log_turn(&mut self, ix: usize, now: Stamp, run: &str, turn: Turn) -> u64 {
        let place = Place {
            run: Some(run),
            node: Some(&turn.node_id),
            driver: true,
        };
        let sequence = self.log_event(ix, now, &Source::Session, "provider-turn.updated", place, &turn);
        if let Some(thread) = self.threads.get_mut(ix) {
            if let Some(old) = thread.turns.iter_mut().find(|old| old.id == turn.id) {
                *old = turn;
            } else {
                thread.turns.push(turn);
            }
        }
        sequence
    }

    pub(crate) fn log_request(&mut self, ix: usize, now: Stamp, source: &Source, run: &str, request: Request) -> u64 {
        let place = Place {
            run: Some(run),
            node: Some(&request.node_id),
            driver: true,
        };
        let sequence = self.log_event(ix, now, source, "runtime-request.updated", place, &request);
        if let Some(thread) = self.threads.get_mut(ix) {
            if let Some(old) = thread.requests.iter_mut().find(|old| old.id == request.id) {
                *old = request;
            } else {
                thread.requests.push(request);
            }
        }
        sequence
    }
}
