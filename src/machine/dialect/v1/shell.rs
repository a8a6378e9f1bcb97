//! Items of the shell stream, the snapshot of archived threads, and the word of when the server began.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::memory::Memory;
use super::{BadTime, maybe_time, selection, time, v2::read};
use crate::lifecycle::RunObservation;
use crate::machine::dialect::rows::{id_of, readable};
use crate::machine::domain::{BackgroundTask, PendingRow, Project, ThreadRow};
use crate::machine::error::MachineError;
use crate::machine::mirror::{ArchiveItem, ShellItem, ShellSnapshot};
use crate::protocol::{ProjectId, RunId, RuntimeRequestId, ThreadId, v1};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    sequence: Option<u64>,
    #[serde(borrow)]
    thread: Option<&'a RawValue>,
    thread_id: Option<ThreadId>,
    #[serde(borrow)]
    project: Option<&'a RawValue>,
    project_id: Option<ProjectId>,
    #[serde(borrow)]
    snapshot: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshot<'a> {
    #[serde(rename = "snapshotSequence")]
    pub(super) sequence: u64,
    #[serde(borrow)]
    pub(super) threads: Vec<&'a RawValue>,
    #[serde(borrow)]
    projects: Vec<&'a RawValue>,
}

/// An item of `subscribeShell`.
pub(super) fn read_item(value: &RawValue, memory: &Memory) -> Result<ShellItem, MachineError> {
    let item: Item<'_> = read("an item of the shell", value.get().as_bytes())?;
    Ok(match item.kind.as_ref() {
        "synchronized" => ShellItem::Synchronized,
        "snapshot" => ShellItem::Snapshot(snapshot(item.need(item.snapshot, "snapshot")?, memory)?),
        "thread-upserted" => {
            let sequence = item.need(item.sequence, "sequence")?;
            let thread = item.need(item.thread, "thread")?;
            match row(thread, sequence, memory) {
                Ok(row) => ShellItem::ThreadUpdated(Box::new(row)),
                Err(error) => ShellItem::ThreadUnreadable {
                    sequence,
                    problem: error.to_string(),
                    thread: id_of(thread).ok_or(error)?,
                },
            }
        }
        "thread-removed" => ShellItem::ThreadRemoved {
            sequence: item.need(item.sequence, "sequence")?,
            thread: item.need(item.thread_id.clone(), "threadId")?,
        },
        "project-upserted" => ShellItem::ProjectUpdated {
            sequence: item.need(item.sequence, "sequence")?,
            project: project(item.need(item.project, "project")?)?,
        },
        "project-removed" => ShellItem::ProjectRemoved {
            sequence: item.need(item.sequence, "sequence")?,
            project: item.need(item.project_id.clone(), "projectId")?,
        },
        kind => ShellItem::Unknown { kind: kind.to_owned() },
    })
}

/// The answer of `getArchivedShellSnapshot`.
pub(super) fn read_archived(value: &RawValue, memory: &Memory) -> Result<ArchiveItem, MachineError> {
    let snapshot = snapshot(value, memory)?;
    let mut threads = snapshot.threads;
    for row in &mut threads {
        row.archived = true;
    }
    Ok(ArchiveItem::Snapshot {
        sequence: snapshot.sequence,
        threads,
        unread: snapshot.unread.into_iter().filter(|row| row.thread.is_some()).collect(),
    })
}

/// When the server process began, if the item of `subscribeServerLifecycle` says so.
pub(super) fn read_start(value: &RawValue) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Start {
        #[serde(alias = "kind")]
        r#type: Option<String>,
        at: Option<Timestamp>,
        payload: Option<Payload>,
    }
    #[derive(Deserialize)]
    struct Payload {
        at: Option<Timestamp>,
    }
    let item: Start = serde_json::from_str(value.get()).ok()?;
    let is_ready = item.r#type.as_deref() == Some("ready");
    item.at
        .or(item.payload.and_then(|payload| payload.at))
        .filter(|_| is_ready)
}

impl Item<'_> {
    /// A field that items of this kind always have.
    fn need<T>(&self, field: Option<T>, name: &str) -> Result<T, MachineError> {
        field.ok_or_else(|| MachineError::Decode(format!("an item `{}` of the shell has no `{name}`", self.kind)))
    }
}

fn snapshot(value: &RawValue, memory: &Memory) -> Result<ShellSnapshot, MachineError> {
    let snapshot: Snapshot<'_> = read("a snapshot of the shell", value.get().as_bytes())?;
    let sequence = snapshot.sequence;
    let mut unread = Vec::new();
    let threads = readable(&snapshot.threads, &mut unread, id_of, |thread| {
        row(thread, sequence, memory)
    });
    let projects = readable(&snapshot.projects, &mut unread, |_| None, project);
    Ok(ShellSnapshot {
        sequence,
        schema: None,
        threads,
        projects,
        unread,
    })
}

fn project(value: &RawValue) -> Result<Project, MachineError> {
    let project: v1::ProjectShell = read("a project of the shell", value.get().as_bytes())?;
    Ok(Project {
        id: ProjectId(project.id.0),
        title: project.title,
        workspace_root: project.workspace_root,
        default_model: project.default_model_selection.map(selection),
    })
}

fn row(value: &RawValue, sequence: u64, memory: &Memory) -> Result<ThreadRow, MachineError> {
    let thread: v1::ThreadShell = read("a thread of the shell", value.get().as_bytes())?;
    let id = thread.id.0.clone();
    from_shell(thread, sequence, memory)
        .map_err(|error| MachineError::Decode(format!("the thread {id} of the shell cannot be read: {error}")))
}

/// The row as a hint: it names turns, since it does not show the messages that runs are known by.
fn from_shell(thread: v1::ThreadShell, sequence: u64, memory: &Memory) -> Result<ThreadRow, BadTime> {
    let updated_at = time("updatedAt", &thread.updated_at)?;
    let asked_at = maybe_time("latestUserMessageAt", thread.latest_user_message_at.as_ref())?;
    let mut row = ThreadRow {
        unknown_words: super::unknown::of_row(&thread),
        model: selection(thread.model_selection),
        runtime_mode: thread.runtime_mode.as_str().to_owned(),
        interaction_mode: thread
            .interaction_mode
            .map_or_else(|| "default".to_owned(), |mode| mode.as_str().to_owned()),
        branch: thread.branch,
        worktree: thread.worktree_path,
        archived: thread.archived_at.is_some(),
        deleted: false,
        subagent: false,
        status: "idle".to_owned(),
        active_run: None,
        activity: None,
        latest_run: None,
        latest_run_requested_at: asked_at,
        latest_run_completed_at: None,
        pending: None,
        last_message: None,
        background: thread
            .background_liveness
            .map(|liveness| BackgroundTask {
                kind: liveness.as_str().to_owned(),
                title: None,
            })
            .into_iter()
            .collect(),
        updated_at,
        sequence,
        project: ProjectId(thread.project_id.0),
        title: thread.title,
        id: ThreadId(thread.id.0),
    };
    let mut turn_at = None;
    if let Some(turn) = thread.latest_turn {
        let requested_at = time("latestTurn.requestedAt", &turn.requested_at)?;
        memory.handle_requested(&turn.turn_id.0, requested_at);
        if turn.state.as_str() == "interrupted" {
            memory.handle_turn_stopped(&turn.turn_id.0);
        }
        ended_as(&turn, memory).clone_into(&mut row.status);
        turn_at = Some(requested_at);
        row.latest_run_requested_at = asked_at.max(turn_at);
        row.latest_run_completed_at = maybe_time("latestTurn.completedAt", turn.completed_at.as_ref())?;
        row.latest_run = Some(RunId(turn.turn_id.0));
    } else if asked_at.is_some() {
        // A message waits for its turn: something is to come of it.
        row.latest_run = Some(RunId(format!("{}:first", row.id)));
        "starting".clone_into(&mut row.status);
    }
    let waits = asked_at.filter(|asked_at| turn_at.is_none_or(|turn_at| turn_at < *asked_at));
    let Some(session) = thread.session else {
        return Ok(row);
    };
    let session_at = time("session.updatedAt", &session.updated_at)?;
    // What died with an earlier server process is shown as it was for ever.
    let is_alive = memory.started_at().is_none_or(|started_at| session_at >= started_at);
    match session.status.as_str() {
        "running" if is_alive => {
            row.activity = Some("running".to_owned());
            row.active_run = session.active_turn_id.map(|turn| RunId(turn.0));
            // Which request it is, only a read shows; each change of the row may be another one.
            let kind = match (thread.has_pending_approvals, thread.has_pending_user_input) {
                (true, _) => Some("command"),
                (false, true) => Some("user_input"),
                (false, false) => None,
            };
            row.pending = kind.map(|kind| PendingRow {
                id: RuntimeRequestId(format!("{}:{kind}:{updated_at}", row.id)),
                kind: kind.to_owned(),
                created_at: updated_at,
            });
        }
        "starting" if is_alive => row.activity = Some("starting".to_owned()),
        "running" | "starting" => "interrupted".clone_into(&mut row.status),
        // The newest message came to nothing.
        "error" if waits.is_some_and(|asked_at| session_at >= asked_at) => "failed".clone_into(&mut row.status),
        _ => {}
    }
    Ok(row)
}

/// The status of the newest turn: as it is known of a read, where T3 shows another end a moment later.
fn ended_as(turn: &v1::LatestTurn, memory: &Memory) -> &'static str {
    let word = super::turns::word(turn.state.as_str());
    match memory.end(&turn.turn_id.0) {
        _ if word == RunObservation::Running.name() => word,
        Some(known) => known,
        None if memory.was_turn_stopped(&turn.turn_id.0) => RunObservation::Interrupted.name(),
        None => word,
    }
}
