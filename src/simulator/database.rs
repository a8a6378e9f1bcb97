//! A T3 database without its server: what the simulated server decides, for who keeps the clock himself.
//!
//! No sockets, no tasks, no clock. It shows what the server would send (the shell's items, the answer to a thread's read) and the
//! events that it keeps of each thread, so that a test can follow a history through days in no time. Commands are taken as they
//! come: nothing holds them against T3's schemas here.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::model::{Model, ModelOptions, Stamp};

/// A T3 database and its scripted agents.
#[derive(Clone, Debug)]
pub struct Database(Model);

// What is there.
impl Database {
    /// A database with one project in it.
    pub fn new(options: ModelOptions, now: Timestamp, project: &str) -> Self {
        let mut model = Model::new(options);
        let create = json!({
            "type": "project.create",
            "commandId": format!("simulator:{project}"),
            "projectId": project,
            "title": project,
            "workspaceRoot": format!("/home/dev/{project}"),
            "createWorkspaceRootIfMissing": true,
            "defaultModelSelection": {"instanceId": "grok", "model": "grok-build"},
        });
        // The database is empty: nothing is in its way.
        let _ = model.handle_project(Stamp::new(now), &create, true);
        Self(model)
    }

    /// The newest sequence.
    pub fn head(&self) -> u64 {
        self.0.head()
    }

    /// The shell stream's first item.
    pub fn shell(&self) -> Option<Box<RawValue>> {
        let snapshot = self.0.shell()?;
        RawValue::from_string(format!(r#"{{"kind":"snapshot","snapshot":{snapshot}}}"#)).ok()
    }

    /// The first item of the archive's stream.
    pub fn archive(&self) -> Option<Box<RawValue>> {
        let snapshot = self.0.archived_shell()?;
        RawValue::from_string(format!(r#"{{"kind":"snapshot","snapshot":{snapshot}}}"#)).ok()
    }

    /// The shell's items for everything that happened after one sequence up to another.
    pub fn shell_items(&self, after: u64, to: u64) -> Vec<Box<RawValue>> {
        self.0.items_between(after, to)
    }

    /// The answer to a read of a thread, of its newest `runs` or whole; none where T3 does not know it.
    pub fn thread(&self, id: &str, runs: Option<usize>) -> Option<String> {
        let ix = self.0.find(id)?;
        let first = runs.and_then(|runs| self.0.first_of(ix, u64::MAX, runs)).unwrap_or(0);
        let (sequence, projection) = self.0.projection_from(ix, first)?;
        let more = first > 1;
        Some(format!(
            r#"{{"snapshotSequence":{sequence},"projection":{projection},"hasMoreHistory":{more}}}"#
        ))
    }

    /// What happened to a thread after a sequence, each event as it travels.
    pub fn events(&self, id: &str, after: u64) -> Vec<(u64, Arc<str>)> {
        let ix = self.0.find(id);
        ix.map(|ix| self.0.events_after(ix, after)).unwrap_or_default()
    }
}

// What happens.
impl Database {
    /// A client's command; the error is what T3 says of it.
    pub fn handle_command(&mut self, now: Timestamp, command: &Value) -> Result<u64, Value> {
        let outcome = self.0.handle_command(Stamp::new(now), command);
        outcome.map_err(|refusal| refusal.to_json())
    }

    /// A thread with its first message.
    pub fn handle_launch(&mut self, now: Timestamp, launch: &Value) -> Result<(), Value> {
        self.0.handle_launch(Stamp::new(now), launch).map(drop)
    }

    /// Everything that was due by now happens.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.0.handle_timeout(Stamp::new(now));
    }

    /// The server comes up again.
    pub fn handle_restart(&mut self, now: Timestamp) {
        self.0.handle_restart(Stamp::new(now));
    }

    /// When something happens by itself next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.0.poll_timeout().map(Stamp::time)
    }
}
