//! Items of the shell streams.
//!
//! The parts of an item stay text until its kind is known, and each thread of a snapshot becomes a row before the next is read: a
//! snapshot of ten thousand threads is never in memory as generated types.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{cut, maybe_time, read, selection, time};
use crate::machine::dialect::rows::{id_of, readable};
use crate::machine::domain::{BackgroundTask, LastMessage, PendingRow, Project, ThreadRow};
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, ShellItem, ShellSnapshot, UnreadRow};
use crate::protocol::{ProjectId, ThreadId, v2};

/// What T3 calls a place in the archive.
const ARCHIVE: &str = "archive";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    sequence: Option<u64>,
    #[serde(borrow)]
    location: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thread: Option<&'a RawValue>,
    thread_id: Option<ThreadId>,
    #[serde(borrow)]
    project: Option<&'a RawValue>,
    project_id: Option<ProjectId>,
    #[serde(borrow)]
    snapshot: Option<&'a RawValue>,
    resolved_repository_identity_roots: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot<'a> {
    #[serde(rename = "schemaVersion")]
    schema: Option<i64>,
    #[serde(rename = "snapshotSequence")]
    sequence: u64,
    #[serde(borrow)]
    threads: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    archived_threads: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    projects: Vec<&'a RawValue>,
}

/// An item of `subscribeShell`.
pub(super) fn read_item(value: &RawValue) -> Result<ShellItem, MachineError> {
    let item: Item<'_> = read("an item of the shell", value.get().as_bytes())?;
    Ok(match item.kind.as_ref() {
        "synchronized" => ShellItem::Synchronized,
        "snapshot" if item.resolved_repository_identity_roots.is_some() => ShellItem::Metadata,
        "snapshot" => ShellItem::Snapshot(snapshot(item.need(item.snapshot, "snapshot")?)?),
        "thread.updated" => {
            let archived = item.location.as_deref() == Some(ARCHIVE);
            let sequence = item.need(item.sequence, "sequence")?;
            let thread = item.need(item.thread, "thread")?;
            match row(thread, archived, sequence) {
                Ok(row) => ShellItem::ThreadUpdated(Box::new(row)),
                Err(error) => ShellItem::ThreadUnreadable {
                    sequence,
                    problem: error.to_string(),
                    thread: id_of(thread).ok_or(error)?,
                },
            }
        }
        "thread.removed" => ShellItem::ThreadRemoved {
            sequence: item.need(item.sequence, "sequence")?,
            thread: item.need(item.thread_id.clone(), "threadId")?,
        },
        "project.updated" => ShellItem::ProjectUpdated {
            sequence: item.need(item.sequence, "sequence")?,
            project: project(item.need(item.project, "project")?)?,
        },
        "project.removed" => ShellItem::ProjectRemoved {
            sequence: item.need(item.sequence, "sequence")?,
            project: item.need(item.project_id.clone(), "projectId")?,
        },
        kind => ShellItem::Unknown { kind: kind.to_owned() },
    })
}

/// An item of `subscribeArchivedShell`, whose items name no location.
pub(super) fn read_archive_item(value: &RawValue) -> Result<ArchiveItem, MachineError> {
    let item: Item<'_> = read("an item of the archive", value.get().as_bytes())?;
    Ok(match item.kind.as_ref() {
        "snapshot" => {
            let snapshot: Snapshot<'_> = read(
                "a snapshot of the archive",
                item.need(item.snapshot, "snapshot")?.get().as_bytes(),
            )?;
            let mut unread = Vec::new();
            ArchiveItem::Snapshot {
                sequence: snapshot.sequence,
                threads: rows(&snapshot.threads, true, snapshot.sequence, &mut unread),
                unread,
            }
        }
        "thread.updated" => {
            let sequence = item.need(item.sequence, "sequence")?;
            let thread = item.need(item.thread, "thread")?;
            match row(thread, true, sequence) {
                Ok(row) => ArchiveItem::Updated(Box::new(row)),
                Err(error) => ArchiveItem::Unreadable {
                    sequence,
                    problem: error.to_string(),
                    thread: id_of(thread).ok_or(error)?,
                },
            }
        }
        "thread.removed" => ArchiveItem::Removed {
            sequence: item.need(item.sequence, "sequence")?,
            thread: item.need(item.thread_id.clone(), "threadId")?,
        },
        kind => ArchiveItem::Unknown { kind: kind.to_owned() },
    })
}

impl Item<'_> {
    /// A field that items of this kind always have.
    fn need<T>(&self, field: Option<T>, name: &str) -> Result<T, MachineError> {
        field.ok_or_else(|| MachineError::Decode(format!("an item `{}` of the shell has no `{name}`", self.kind)))
    }
}

fn snapshot(value: &RawValue) -> Result<ShellSnapshot, MachineError> {
    let snapshot: Snapshot<'_> = read("a snapshot of the shell", value.get().as_bytes())?;
    let sequence = snapshot.sequence;
    let mut unread = Vec::new();
    let mut threads = rows(&snapshot.threads, false, sequence, &mut unread);
    let archived = snapshot.archived_threads.unwrap_or_default();
    threads.extend(rows(&archived, true, sequence, &mut unread));
    let projects = readable(&snapshot.projects, &mut unread, |_| None, project);
    Ok(ShellSnapshot {
        sequence,
        schema: snapshot.schema,
        threads,
        projects,
        unread,
    })
}

/// The rows that can be read; one that cannot must not take the others away.
fn rows(threads: &[&RawValue], archived: bool, sequence: u64, unread: &mut Vec<UnreadRow>) -> Vec<ThreadRow> {
    readable(threads, unread, id_of, |thread| row(thread, archived, sequence))
}

fn project(value: &RawValue) -> Result<Project, MachineError> {
    let project: v2::OrchestrationProjectShell = read("a project of the shell", value.get().as_bytes())?;
    Ok(Project {
        id: project.id,
        title: project.title,
        workspace_root: project.workspace_root,
        default_model: project.default_model_selection.map(selection),
    })
}

fn row(value: &RawValue, archived: bool, sequence: u64) -> Result<ThreadRow, MachineError> {
    let thread: v2::ThreadShell = read("a thread of the shell", value.get().as_bytes())?;
    let id = thread.id.clone();
    from_shell(thread, archived, sequence)
        .map_err(|error| MachineError::Decode(format!("the thread {id} of the shell cannot be read: {error}")))
}

fn from_shell(thread: v2::ThreadShell, archived: bool, sequence: u64) -> Result<ThreadRow, super::BadTime> {
    let pending = match thread.pending_runtime_request {
        Some(pending) => Some(PendingRow {
            created_at: time("pendingRuntimeRequest.createdAt", &pending.created_at)?,
            kind: pending.kind.as_str().to_owned(),
            id: pending.id,
        }),
        None => None,
    };
    let last_message = match thread.latest_visible_message {
        Some(message) => Some(LastMessage {
            role: message.role.as_str().to_owned(),
            text: cut(&message.text, ThreadRow::MESSAGE_CHARS),
            at: time("latestVisibleMessage.updatedAt", &message.updated_at)?,
        }),
        None => None,
    };
    let mut row = ThreadRow {
        unknown_words: Vec::new(),
        model: selection(thread.model_selection),
        runtime_mode: thread.runtime_mode.as_str().to_owned(),
        interaction_mode: thread.interaction_mode.as_str().to_owned(),
        branch: thread.branch,
        worktree: thread.worktree_path,
        archived,
        deleted: thread.deleted_at.is_some(),
        subagent: matches!(
            thread.lineage.relationship_to_parent,
            Some(v2::AppThreadLineageRelationshipToParent::Subagent)
        ),
        status: thread.status.as_str().to_owned(),
        active_run: thread.active_run_id,
        activity: thread.activity_run_status.map(|status| status.as_str().to_owned()),
        latest_run: thread.latest_run_id,
        latest_run_requested_at: maybe_time("latestRunRequestedAt", thread.latest_run_requested_at.as_ref())?,
        latest_run_completed_at: maybe_time("latestRunCompletedAt", thread.latest_run_completed_at.as_ref())?,
        pending,
        last_message,
        background: thread
            .pending_background_tasks
            .unwrap_or_default()
            .into_iter()
            .map(|task| background(task).1)
            .collect(),
        updated_at: time("updatedAt", &thread.updated_at)?,
        sequence,
        project: thread.project_id,
        title: thread.title,
        id: thread.id,
    };
    row.unknown_words = super::unknown::of_row(&row);
    Ok(row)
}

/// A background task, with its id where it has one.
pub(super) fn background(task: v2::PendingBackgroundTask) -> (Option<String>, BackgroundTask) {
    let (kind, id, title) = match task {
        v2::PendingBackgroundTask::Subagent(task) => ("subagent".to_owned(), Some(task.task_id), task.description),
        v2::PendingBackgroundTask::Command(task) => ("command".to_owned(), Some(task.task_id), task.description),
        v2::PendingBackgroundTask::Monitor(task) => ("monitor".to_owned(), Some(task.task_id), task.description),
        v2::PendingBackgroundTask::BackgroundTask(task) => {
            ("background_task".to_owned(), Some(task.task_id), task.description)
        }
        v2::PendingBackgroundTask::Unknown { tag } => (tag, None, None),
    };
    (id, BackgroundTask { kind, title })
}
