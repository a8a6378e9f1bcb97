//! Archived threads, of which protocol 1 shows the row alone: with what was last read of one, it tells what became of its newest run.

use serde_json::value::RawValue;

use super::commands::lacks;
use super::memory::{LastRead, Memory};
use super::session::Session;
use super::shell::Snapshot;
use super::{BadTime, maybe_time, selection, time, v2::read};
use crate::lifecycle::{RunFacts, RunObservation, ThreadFacts, observe_run};
use crate::machine::dialect::rows::id_of;
use crate::machine::domain::{Thread, ThreadHead};
use crate::machine::error::MachineError;
use crate::protocol::{ProjectId, ThreadId, v1};

/// Why such a thread is not read.
pub(in crate::machine) fn unreadable() -> MachineError {
    lacks("an archived thread is not shown: t3_archive with archived: false restores it, then it can be read")
}

/// The thread, if the answer of `getArchivedShellSnapshot` lists it: its head, and the runs that were last read of it, or, where none was read yet,
/// those that the caller knows of. It holds no messages, so it is for whoever follows runs, not for views.
pub(super) fn read_archived_thread(
    value: &RawValue,
    id: &ThreadId,
    known: &[RunFacts],
    memory: &Memory,
) -> Result<Option<Thread>, MachineError> {
    let snapshot: Snapshot<'_> = read("the archived threads", value.get().as_bytes())?;
    let mut rows = snapshot.threads.into_iter();
    let Some(row) = rows.find(|row| id_of(row).as_ref() == Some(id)) else {
        return Ok(None);
    };
    let row: v1::ThreadShell = read("an archived thread", row.get().as_bytes())?;
    thread(row, snapshot.sequence, known, memory)
        .map(Some)
        .map_err(|error| MachineError::Decode(format!("the archived thread {id} cannot be read: {error}")))
}

fn thread(row: v1::ThreadShell, sequence: u64, known: &[RunFacts], memory: &Memory) -> Result<Thread, BadTime> {
    let id = ThreadId(row.id.0.clone());
    let LastRead { mut runs, turn } = memory.last_read(&id).unwrap_or_else(|| LastRead {
        runs: known.to_vec(),
        turn: None,
    });
    let session = Session::of(row.latest_turn.as_ref(), row.session.as_ref(), memory)?;
    let newest = runs.last_mut().filter(|run| {
        let observed = observe_run(&run.status);
        matches!(observed, RunObservation::Running | RunObservation::Starting)
    });
    if let Some(run) = newest {
        if turn.is_none() && has_later_turn(run, &row)? {
            // What became of it is shown nowhere.
            runs.pop();
        } else {
            conclude(run, turn.as_deref(), &row, &session, memory)?;
        }
    }
    let unknown_words = super::unknown::of_row(&row);
    let model = selection(row.model_selection);
    Ok(Thread {
        sequence,
        facts: ThreadFacts {
            runs,
            ..ThreadFacts::default()
        },
        messages: Vec::new(),
        items: Vec::new(),
        plan: Vec::new(),
        files: Vec::new(),
        checkpoints: Vec::new(),
        background: Vec::new(),
        usage: None,
        models: Vec::new(),
        unknown_words,
        active_turn: None,
        undelivered: Vec::new(),
        session: row.session.map(|session| session.status.as_str().to_owned()),
        resumes_at: None,
        updated_at: time("updatedAt", &row.updated_at)?,
        partial: true,
        head: ThreadHead {
            id,
            project: ProjectId(row.project_id.0),
            title: row.title,
            model,
            runtime_mode: row.runtime_mode.as_str().to_owned(),
            interaction_mode: row
                .interaction_mode
                .map_or_else(|| "default".to_owned(), |mode| mode.as_str().to_owned()),
            branch: row.branch,
            worktree: row.worktree_path,
            archived: true,
        },
    })
}

/// Whether the turn that the row shows may be of a message that came after the run's.
fn has_later_turn(run: &RunFacts, row: &v1::ThreadShell) -> Result<bool, BadTime> {
    let asked_at = maybe_time("latestUserMessageAt", row.latest_user_message_at.as_ref())?;
    let is_own = match &row.latest_turn {
        Some(newest) => time("latestTurn.requestedAt", &newest.requested_at)? == run.requested_at,
        None => false,
    };
    Ok(!is_own && asked_at.is_some_and(|at| at > run.requested_at))
}

/// What became of the run since the thread was read.
fn conclude(
    run: &mut RunFacts,
    turn: Option<&str>,
    row: &v1::ThreadShell,
    session: &Session,
    memory: &Memory,
) -> Result<(), BadTime> {
    let mut own = None;
    if let Some(newest) = &row.latest_turn {
        let began_after = time("latestTurn.requestedAt", &newest.requested_at)? >= run.requested_at;
        own = Some(newest).filter(|newest| turn.map_or(began_after, |turn| turn == newest.turn_id.0));
    }
    let id = ThreadId(row.id.0.clone());
    let stopped = memory.was_stopped(&id, &run.id, own.map(|turn| turn.turn_id.0.as_str()));
    let (status, ended_at) = match own {
        // The row does not show what was said, only that something was.
        Some(own) => session.outcome(&own.turn_id.0, stopped, own.assistant_message_id.is_some()),
        None => session.without_turn(run.requested_at, stopped, true, false),
    };
    status.clone_into(&mut run.status);
    run.completed_at = ended_at;
    if own.is_some() {
        run.started_at = run.started_at.or(Some(run.requested_at));
    }
    Ok(())
}
