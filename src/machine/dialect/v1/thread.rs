//! A read of a thread.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::memory::Memory;
use super::requests::{requests, undelivered};
use super::turns::{self, Served};
use super::{BadTime, selection, time, v2::cut, v2::read};
use crate::lifecycle::ThreadFacts;
use crate::machine::domain::{
    Checkpoint, FileChange, Item, ItemKind, Message, NO_ANSWER, PlanStep, Thread, ThreadHead,
};
use crate::machine::error::MachineError;
use crate::protocol::{MessageId, ProjectId, RunId, ThreadId, v1};

/// How much of a command or a file name is kept.
const DETAIL_CHARS: usize = 2_000;
/// What is said of a turn that T3 shows as completed, and that nobody is known to have stopped.
const SILENT: &str = "the agent ended its turn without an answer, which T3 shows as completed: it may have refused, or have been stopped";
/// How much of an error is kept: of one that could not be started it may be a stack trace, of which the first line says it.
const ERROR_CHARS: usize = 2_000;

/// Reads the answer of the thread's route, or the first item of its stream.
pub(super) fn read_body(body: &[u8], memory: &Memory, now: jiff::Timestamp) -> Result<Thread, MachineError> {
    #[derive(Deserialize)]
    struct Streamed<'a> {
        #[serde(borrow)]
        snapshot: Option<&'a RawValue>,
    }
    let streamed: Streamed<'_> = read("the thread", body)?;
    let body = streamed.snapshot.map_or(body, |snapshot| snapshot.get().as_bytes());
    let detail: v1::ThreadDetailSnapshot = read("the thread", body)?;
    let id = detail.thread.id.0.clone();
    let partial = detail.page.as_ref().is_some_and(|page| page.has_more);
    thread(detail.thread, detail.snapshot_sequence, partial, memory, now)
        .map_err(|error| MachineError::Decode(format!("the thread {id} cannot be read: {error}")))
}

fn thread(
    thread: v1::Thread,
    sequence: u64,
    partial: bool,
    memory: &Memory,
    now: jiff::Timestamp,
) -> Result<Thread, BadTime> {
    let served = turns::runs(&thread, memory, now)?;
    let (requests, mut items) = requests(&thread, &served)?;
    items.extend(tools(&thread, &served)?);
    items.extend(failure(&thread, &served)?);
    items.sort_by_key(|item| item.ordinal);
    let model = selection(thread.model_selection.clone());
    Ok(Thread {
        sequence,
        facts: ThreadFacts {
            deleted: thread.deleted_at.is_some(),
            requests,
            runs: served.runs.clone(),
            imported: false,
        },
        messages: messages(&thread, &served)?,
        items,
        plan: plan(&thread),
        files: files(&thread, &served),
        checkpoints: thread
            .checkpoints
            .iter()
            .map(|checkpoint| Checkpoint {
                run: served.of_turn(&checkpoint.turn_id.0).map(|run| run.id.clone()),
                turn: Some(checkpoint.checkpoint_turn_count),
                status: checkpoint.status.as_str().to_owned(),
            })
            .collect(),
        background: Vec::new(),
        unknown_words: super::unknown::of_thread(&thread),
        active_turn: active_turn(&thread, &served),
        undelivered: undelivered(&thread),
        usage: thread
            .activities
            .iter()
            .rev()
            .find(|activity| activity.kind == "context-window.updated")
            .map(|activity| activity.payload.clone()),
        models: served.runs.iter().map(|run| (run.id.clone(), model.clone())).collect(),
        session: thread
            .session
            .as_ref()
            .map(|session| session.status.as_str().to_owned()),
        resumes_at: None,
        updated_at: time("updatedAt", &thread.updated_at)?,
        partial,
        head: ThreadHead {
            id: ThreadId(thread.id.0),
            project: ProjectId(thread.project_id.0),
            title: thread.title,
            model,
            runtime_mode: thread.runtime_mode.as_str().to_owned(),
            interaction_mode: thread
                .interaction_mode
                .map_or_else(|| "default".to_owned(), |mode| mode.as_str().to_owned()),
            branch: thread.branch,
            worktree: thread.worktree_path,
            archived: thread.archived_at.is_some(),
        },
    })
}

/// The turn that works, and its run.
fn active_turn(thread: &v1::Thread, served: &Served) -> Option<(RunId, String)> {
    let session = thread.session.as_ref().filter(|_| !served.orphaned)?;
    let turn = session.active_turn_id.as_ref()?;
    served.of_turn(&turn.0).map(|run| (run.id.clone(), turn.0.clone()))
}

fn messages(thread: &v1::Thread, served: &Served) -> Result<Vec<Message>, BadTime> {
    let mut messages = Vec::new();
    for message in &thread.messages {
        let at = time("messages.createdAt", &message.created_at)?;
        let run = if message.role.as_str() == "user" {
            served.of_message(&message.id.0)
        } else {
            served.of_answer(message.turn_id.as_ref().map(|turn| turn.0.as_str()), at)
        };
        messages.push(Message {
            id: MessageId(message.id.0.clone()),
            run,
            role: message.role.as_str().to_owned(),
            text: message.text.clone(),
            streaming: message.streaming,
            at,
        });
    }
    messages.sort_by_key(|message| message.at);
    Ok(messages)
}

/// Tool calls: the last activity of each says most.
fn tools(thread: &v1::Thread, served: &Served) -> Result<Vec<Item>, BadTime> {
    let mut tools: Vec<Item> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, activity) in thread.activities.iter().enumerate() {
        if !activity.kind.starts_with("tool.") {
            continue;
        }
        let payload = &activity.payload;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let data = payload.get("data");
        let of_data = |field: &str| text(data.and_then(|data| data.get(field)));
        let detail = of_data("command")
            .or_else(|| text(payload.get("detail")))
            .unwrap_or_default();
        let item = Item {
            run: activity
                .turn_id
                .as_ref()
                .and_then(|turn| served.of_turn(&turn.0))
                .map(|run| run.id.clone()),
            ordinal: u64::try_from(place).unwrap_or(u64::MAX),
            status: match activity.kind.as_str() {
                "tool.completed" => "completed".to_owned(),
                "tool.denied" => "cancelled".to_owned(),
                _ => "running".to_owned(),
            },
            title: Some(activity.summary.clone()),
            at: time("activities.createdAt", &activity.created_at)?,
            kind: ItemKind::Tool {
                kind: text(payload.get("itemType")).unwrap_or_else(|| "dynamic_tool".to_owned()),
                detail: cut(&detail, DETAIL_CHARS),
                exit_code: None,
            },
        };
        let known = of_data("toolCallId").and_then(|call| {
            let known = places.get(&call).copied();
            places.entry(call).or_insert(tools.len());
            known
        });
        match known.and_then(|known| tools.get_mut(known)) {
            Some(known) => *known = item,
            None => tools.push(item),
        }
    }
    Ok(tools)
}

/// Why the newest run failed, or ended without an answer: the session says it, in the first line of what may be a stack trace.
fn failure(thread: &v1::Thread, served: &Served) -> Result<Option<Item>, BadTime> {
    if let Some(run) = served.runs.last().filter(|_| served.silent) {
        return Ok(Some(Item {
            run: Some(run.id.clone()),
            ordinal: u64::MAX,
            status: run.status.clone(),
            title: None,
            at: run.completed_at.unwrap_or(run.requested_at),
            kind: ItemKind::Failure {
                class: NO_ANSWER.to_owned(),
                message: SILENT.to_owned(),
                resets_at: None,
            },
        }));
    }
    let Some(run) = served.runs.last().filter(|run| run.status == "failed") else {
        return Ok(None);
    };
    let Some(session) = &thread.session else {
        return Ok(None);
    };
    let Some(error) = &session.last_error else {
        return Ok(None);
    };
    Ok(Some(Item {
        run: Some(run.id.clone()),
        ordinal: u64::MAX,
        status: "failed".to_owned(),
        title: None,
        at: time("session.updatedAt", &session.updated_at)?,
        kind: ItemKind::Failure {
            class: "provider_error".to_owned(),
            message: cut(
                error.lines().find(|line| !line.trim().is_empty()).unwrap_or_default(),
                ERROR_CHARS,
            ),
            resets_at: None,
        },
    }))
}

/// The newest proposed plan.
fn plan(thread: &v1::Thread) -> Vec<PlanStep> {
    let plans = thread.proposed_plans.as_ref();
    let newest = plans.and_then(|plans| plans.last());
    newest
        .map(|plan| PlanStep {
            text: plan.plan_markdown.clone(),
            status: "proposed".to_owned(),
        })
        .into_iter()
        .collect()
}

/// What the checkpoints say was changed; a later one of a run tells all that an earlier one did.
fn files(thread: &v1::Thread, served: &Served) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    for checkpoint in &thread.checkpoints {
        let run = served.of_turn(&checkpoint.turn_id.0).map(|run| run.id.clone());
        for file in &checkpoint.files {
            let change = FileChange {
                run: run.clone(),
                path: file.path.clone(),
                change: file.kind.clone(),
                additions: file.additions,
                deletions: file.deletions,
            };
            match files
                .iter_mut()
                .find(|known| known.run == run && known.path == file.path)
            {
                Some(known) => *known = change,
                None => files.push(change),
            }
        }
    }
    files
}
