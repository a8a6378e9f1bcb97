//! What clients read: the shell, projections, replays, searches; and what tests ask about.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::stamp::Stamp;
use super::{Model, RunStatus, Subject};

/// A search shows so much around what it found.
const SNIPPET_CHARS: usize = 120;

/// A run as tests see it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutline {
    /// Its id.
    pub id: String,
    /// The thread's id.
    pub thread: String,
    /// Its status.
    pub status: RunStatus,
    /// The message that it has now.
    pub message: String,
}

/// What a replay covers, and what a live window shows: at most one item for each subject.
pub(crate) type Items = Vec<Box<RawValue>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadUpdated<'a> {
    kind: &'static str,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'static str>,
    thread: &'a RawValue,
}

impl Model {
    /// The live threads' rows, oldest change first.
    fn rows(&self, archived: bool) -> Vec<Box<RawValue>> {
        let mut threads: Vec<_> = self
            .threads
            .iter()
            .filter(|thread| thread.app.deleted_at.is_none() && thread.app.archived_at.is_some() == archived)
            .collect();
        threads.sort_by_key(|thread| thread.app.updated_at);
        threads
            .iter()
            .filter_map(|thread| to_raw_value(&thread.row(&self.words)).ok())
            .collect()
    }

    fn project_rows(&self) -> Vec<Value> {
        self.projects
            .iter()
            .filter(|project| project.deleted_at.is_none())
            .map(super::Project::to_shell)
            .collect()
    }

    /// The whole shell.
    pub(crate) fn shell(&self) -> Option<Box<RawValue>> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shell {
            schema_version: u8,
            snapshot_sequence: u64,
            threads: Items,
            archived_threads: Items,
            projects: Vec<Value>,
        }
        to_raw_value(&Shell {
            schema_version: 2,
            snapshot_sequence: self.head(),
            threads: self.rows(false),
            archived_threads: if self.options.archive_apart {
                Items::new()
            } else {
                self.rows(true)
            },
            projects: self.project_rows(),
        })
        .ok()
    }

    /// The shell of the archive.
    pub(crate) fn archived_shell(&self) -> Option<Box<RawValue>> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shell {
            schema_version: u8,
            snapshot_sequence: u64,
            projects: Vec<Value>,
            threads: Items,
        }
        to_raw_value(&Shell {
            schema_version: 2,
            snapshot_sequence: self.head(),
            projects: self.project_rows(),
            threads: self.rows(true),
        })
        .ok()
    }

    /// A snapshot that tells repositories alone, as newer servers send it: never the full state.
    pub(crate) fn metadata_shell(&self) -> Value {
        json!({
            "schemaVersion": 2,
            "snapshotSequence": self.head(),
            "threads": [],
            "archivedThreads": [],
            "projects": self.project_rows(),
        })
    }

    /// The items for everything that happened after one sequence up to another: the newest state of each subject, in the order
    /// of its last event.
    pub(crate) fn items_between(&self, after: u64, to: u64) -> Items {
        self.touched_between(after, to)
            .into_iter()
            .filter_map(|(sequence, subject)| match subject {
                Subject::Thread(ix) => self.thread_item(ix, sequence),
                Subject::Project(ix) => self.project_item(ix, sequence),
            })
            .collect()
    }

    /// The same for the archive, which hears of a thread that left only if it was there: `shown` holds those that are.
    pub(crate) fn archive_items_between(&self, after: u64, to: u64, shown: &mut HashSet<usize>) -> Items {
        let mut items = Items::new();
        for (sequence, subject) in self.touched_between(after, to) {
            let item = match subject {
                Subject::Project(ix) => self.project_item(ix, sequence),
                Subject::Thread(ix) => self.archive_item(ix, sequence, shown),
            };
            items.extend(item);
        }
        items
    }

    /// The places of the threads that lie in the archive.
    pub(crate) fn archived(&self) -> HashSet<usize> {
        let is_archived = |thread: &super::Thread| thread.app.archived_at.is_some() && thread.app.deleted_at.is_none();
        (0..)
            .zip(&self.threads)
            .filter(|(_, thread)| is_archived(thread))
            .map(|(ix, _)| ix)
            .collect()
    }

    fn touched_between(&self, after: u64, to: u64) -> Vec<(u64, Subject)> {
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(self.log.len());
        let until = usize::try_from(to).unwrap_or(usize::MAX).min(self.log.len());
        let mut last: HashMap<Subject, u64> = HashMap::new();
        for (subject, sequence) in self.log.iter().take(until).skip(from).zip(after + 1..) {
            last.insert(*subject, sequence);
        }
        let mut order: Vec<(u64, Subject)> = last
            .into_iter()
            .map(|(subject, sequence)| (sequence, subject))
            .collect();
        order.sort_unstable_by_key(|(sequence, _)| *sequence);
        order
    }

    fn thread_item(&self, ix: usize, sequence: u64) -> Option<Box<RawValue>> {
        let thread = self.threads.get(ix)?;
        let location = if thread.app.archived_at.is_some() {
            "archive"
        } else {
            "active"
        };
        if thread.app.deleted_at.is_some() {
            let id = &thread.app.id;
            let removed = json!({"kind": "thread.removed", "sequence": sequence, "location": location, "threadId": id});
            return to_raw_value(&removed).ok();
        }
        self.updated_item(ix, sequence, Some(location))
    }

    fn archive_item(&self, ix: usize, sequence: u64, shown: &mut HashSet<usize>) -> Option<Box<RawValue>> {
        let thread = self.threads.get(ix)?;
        if thread.app.archived_at.is_some() && thread.app.deleted_at.is_none() {
            shown.insert(ix);
            return self.updated_item(ix, sequence, None);
        }
        let was_there = shown.remove(&ix);
        let removed = json!({"kind": "thread.removed", "sequence": sequence, "threadId": thread.app.id});
        was_there.then(|| to_raw_value(&removed).ok()).flatten()
    }

    fn updated_item(&self, ix: usize, sequence: u64, location: Option<&'static str>) -> Option<Box<RawValue>> {
        let row = to_raw_value(&self.threads.get(ix)?.row(&self.words)).ok()?;
        to_raw_value(&ThreadUpdated {
            kind: "thread.updated",
            sequence,
            location,
            thread: &row,
        })
        .ok()
    }

    fn project_item(&self, ix: usize, sequence: u64) -> Option<Box<RawValue>> {
        let project = self.projects.get(ix)?;
        let item = if project.deleted_at.is_some() {
            json!({"kind": "project.removed", "sequence": sequence, "projectId": project.id})
        } else {
            json!({"kind": "project.updated", "sequence": sequence, "project": project.to_shell()})
        };
        to_raw_value(&item).ok()
    }

    /// Whether a project changed in these sequences: its repository is then looked up again.
    pub(crate) fn project_changed_between(&self, after: u64, to: u64) -> Vec<String> {
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        let count = usize::try_from(to.saturating_sub(after)).unwrap_or(usize::MAX);
        self.log
            .iter()
            .skip(from)
            .take(count)
            .filter_map(|subject| match subject {
                Subject::Project(ix) => self.projects.get(*ix),
                Subject::Thread(_) => None,
            })
            .filter(|project| project.deleted_at.is_none())
            .map(|project| project.workspace_root.clone())
            .collect()
    }

    /// The events of a thread after a sequence.
    pub(crate) fn events_after(&self, ix: usize, after: u64) -> Vec<(u64, Arc<str>)> {
        let Some(thread) = self.threads.get(ix) else {
            return Vec::new();
        };
        let from = thread.events.partition_point(|event| event.sequence <= after);
        thread
            .events
            .iter()
            .skip(from)
            .map(|event| (event.sequence, event.item.clone()))
            .collect()
    }

    /// A thread's projection and the sequence of its last event.
    pub(crate) fn projection(&self, ix: usize) -> Option<(u64, Box<RawValue>)> {
        self.projection_from(ix, 0)
    }

    /// The same without the runs below an ordinal and what belongs to them.
    pub(crate) fn projection_from(&self, ix: usize, first: u64) -> Option<(u64, Box<RawValue>)> {
        let thread = self.threads.get(ix)?;
        let sequence = thread.events.last().map_or(self.head(), |event| event.sequence);
        let raw = if self.words.is_empty() {
            to_raw_value(&thread.projection(first)).ok()?
        } else {
            let mut value = serde_json::to_value(thread.projection(first)).ok()?;
            self.put_words(&mut value);
            to_raw_value(&value).ok()?
        };
        Some((sequence, raw))
    }

    fn put_words(&self, projection: &mut Value) {
        let runs = projection.get_mut("runs").and_then(Value::as_array_mut);
        for status in runs.into_iter().flatten().filter_map(|run| run.get_mut("status")) {
            if let Some(other) = status.as_str().and_then(|own| self.words.get(own)) {
                *status = Value::from(other.clone());
            }
        }
    }

    /// Where a read begins that shows at most so many runs, all of them below an ordinal.
    pub(crate) fn first_of(&self, ix: usize, below: u64, count: usize) -> Option<u64> {
        let runs = self.threads.get(ix)?.runs.iter().rev();
        let mut shown = runs.filter(|run| run.ordinal < below).take(count);
        shown.by_ref().last().map(|run| run.ordinal)
    }

    /// The history of the runs from one ordinal to below another, in order.
    pub(crate) fn history(&self, ix: usize, from: u64, below: u64) -> Option<Box<RawValue>> {
        to_raw_value(&self.threads.get(ix)?.history(from, below)).ok()
    }

    /// The ordinal of a thread's newest run.
    pub(crate) fn latest_ordinal(&self, ix: usize) -> Option<u64> {
        self.threads.get(ix)?.runs.last().map(|run| run.ordinal)
    }

    /// Threads whose title or messages hold a text, whatever its case; at most so many.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Value {
        let wanted = query.trim().to_lowercase();
        let mut matches = Vec::new();
        for thread in self.threads.iter().filter(|thread| thread.app.deleted_at.is_none()) {
            let title = &thread.app.title;
            let found = if title.to_lowercase().contains(&wanted) {
                Some(("title", title.clone(), None))
            } else {
                thread
                    .messages
                    .iter()
                    .find(|message| message.text.to_lowercase().contains(&wanted))
                    .map(|message| ("message", message.text.clone(), Some(message.created_at.to_string())))
            };
            if let Some((source, text, at)) = found
                && matches.len() < limit
            {
                matches.push(json!({
                    "threadId": thread.app.id,
                    "projectId": thread.app.project_id,
                    "source": source,
                    "snippet": text.chars().take(SNIPPET_CHARS).collect::<String>(),
                    "messageCreatedAt": at,
                }));
            }
        }
        json!({ "matches": matches })
    }

    /// The projects, as their list shows them.
    pub(crate) fn project_list(&self, now: Stamp) -> Value {
        let live = self.projects.iter().filter(|project| project.deleted_at.is_none());
        let updated = live.clone().map(|project| project.updated_at).max().unwrap_or(now);
        json!({
            "projects": live.map(super::Project::to_json).collect::<Vec<_>>(),
            "updatedAt": updated.to_string(),
        })
    }

    /// The id of a thread.
    pub(crate) fn thread_id(&self, ix: usize) -> Option<&str> {
        self.threads.get(ix).map(|thread| thread.app.id.as_str())
    }

    /// How many threads were ever made.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Every run, thread by thread.
    pub(crate) fn runs(&self) -> Vec<RunOutline> {
        self.threads
            .iter()
            .flat_map(|thread| &thread.runs)
            .map(|run| RunOutline {
                id: run.id.clone(),
                thread: run.thread_id.clone(),
                status: run.status,
                message: run.user_message_id.clone(),
            })
            .collect()
    }
}

/// What T3 says that a provider can do.
pub(crate) fn capabilities(steers_inside: bool) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("capabilities.json")).unwrap_or_default();
    if let Some(turns) = all.get_mut("turns") {
        turns["supportsActiveSteering"] = Value::from(steers_inside);
        turns["supportsSteeringByInterruptRestart"] = Value::from(!steers_inside);
    }
    all
}
