//! A read of a thread.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::{self, Items};
use super::{BadTime, maybe_time, read, selection, shell, time};
use crate::lifecycle::{RequestFacts, RunFacts, ThreadFacts};
use crate::machine::domain::{
    BackgroundTask, Checkpoint, FileChange, Item, ItemKind, Message, PlanStep, Thread, ThreadHead,
};
use crate::machine::error::MachineError;
use crate::protocol::{MessageId, RunId, RuntimeRequestId, v2};

/// `ThreadDetailSnapshot` and `ThreadBoundedSnapshot`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    snapshot_sequence: u64,
    #[serde(borrow)]
    projection: Projection<'a>,
    #[serde(default)]
    has_more_history: Option<bool>,
    #[serde(default)]
    payload_budget_exceeded: Option<bool>,
    /// Items of the thread itself stand in `visibleTurnItems` alone.
    #[serde(default)]
    turn_items_omit_local_visible: Option<bool>,
}

/// What is wanted of a `ThreadProjection`; everything else is skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Projection<'a> {
    thread: v2::AppThread,
    runs: Vec<v2::Run>,
    messages: Vec<v2::ConversationMessage>,
    runtime_requests: Vec<v2::RuntimeRequest>,
    #[serde(deserialize_with = "items::deserialize")]
    turn_items: Items,
    #[serde(borrow, default)]
    visible_turn_items: Option<&'a RawValue>,
    checkpoints: Vec<v2::Checkpoint>,
    plans: Vec<v2::PlanArtifact>,
    #[serde(default)]
    provider_threads: Vec<v2::ProviderThread>,
    #[serde(default)]
    provider_sessions: Vec<Session>,
    #[serde(default, deserialize_with = "runs_of_requests")]
    nodes: HashMap<RuntimeRequestId, RunId>,
    updated_at: v2::DateTimeUtc,
}

/// What is wanted of a provider session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    status: String,
    updated_at: String,
}

#[derive(Deserialize)]
struct Visible(#[serde(deserialize_with = "items::deserialize_visible")] Items);

/// Reads the answer of a thread route, whole or bounded.
pub(super) fn read_body(body: &[u8]) -> Result<Thread, MachineError> {
    let body: Body<'_> = read("the thread", body)?;
    let mut items = Items::default();
    let projection = body.projection;
    if body.turn_items_omit_local_visible == Some(true)
        && let Some(visible) = projection.visible_turn_items
    {
        items = read::<Visible>("the visible items of the thread", visible.get().as_bytes())?.0;
    }
    let id = projection.thread.id.clone();
    let partial = body.has_more_history == Some(true) || body.payload_budget_exceeded == Some(true);
    thread(projection, items, body.snapshot_sequence, partial)
        .map_err(|error| MachineError::Decode(format!("the thread {id} cannot be read: {error}")))
}

fn thread(projection: Projection<'_>, visible: Items, sequence: u64, partial: bool) -> Result<Thread, BadTime> {
    let Items {
        kept: mut items,
        plan,
        secrets,
        began,
        unknown: unknown_items,
    } = {
        let mut items = projection.turn_items;
        items.absorb(visible);
        items
    };
    items.sort_by_key(|item| item.ordinal);
    let messages = messages(projection.messages)?;
    let models = projection
        .runs
        .iter()
        .map(|run| (run.id.clone(), selection(run.model_selection.clone())))
        .collect();
    let mut requests = requests(projection.runtime_requests, &items, &projection.nodes)?;
    requests.extend(secrets);
    let facts = ThreadFacts {
        deleted: projection.thread.deleted_at.is_some(),
        imported: matches!(
            projection.thread.history_origin,
            Some(v2::ThreadHistoryOrigin::V1Import)
        ),
        runs: runs(projection.runs, &messages, &began)?,
        requests,
    };
    let resumes_at = projection
        .thread
        .limit_recovery
        .as_ref()
        .filter(|recovery| recovery.auto_resume)
        .and_then(|recovery| recovery.reset_at.parse().ok());
    let mut thread = Thread {
        unknown_words: Vec::new(),
        sequence,
        usage: usage(&projection.thread, &projection.provider_threads),
        head: head(projection.thread),
        facts,
        messages,
        items,
        plan: plan.map_or_else(|| plan_of(projection.plans), |(_, steps)| steps),
        checkpoints: checkpoints(&projection.checkpoints),
        files: files(projection.checkpoints),
        background: background(projection.provider_threads),
        models,
        active_turn: None,
        undelivered: Vec::new(),
        session: projection
            .provider_sessions
            .into_iter()
            .max_by(|one, other| one.updated_at.cmp(&other.updated_at))
            .map(|session| session.status),
        resumes_at,
        updated_at: time("updatedAt", &projection.updated_at)?,
        partial,
    };
    thread.unknown_words = super::unknown::of_thread(&thread, &unknown_items);
    Ok(thread)
}

fn head(thread: v2::AppThread) -> ThreadHead {
    ThreadHead {
        id: thread.id,
        project: thread.project_id,
        title: thread.title,
        model: selection(thread.model_selection),
        runtime_mode: thread.runtime_mode.as_str().to_owned(),
        interaction_mode: thread.interaction_mode.as_str().to_owned(),
        branch: thread.branch,
        worktree: thread.worktree_path,
        archived: thread.archived_at.is_some(),
    }
}

fn messages(messages: Vec<v2::ConversationMessage>) -> Result<Vec<Message>, BadTime> {
    let mut messages = messages
        .into_iter()
        .map(|message| {
            Ok(Message {
                at: time("messages.createdAt", &message.created_at)?,
                id: message.id,
                run: message.run_id,
                role: message.role.as_str().to_owned(),
                text: message.text,
                streaming: message.streaming,
            })
        })
        .collect::<Result<Vec<_>, BadTime>>()?;
    messages.sort_by_key(|message| message.at);
    Ok(messages)
}

/// A run that was ended while T3 still prepared it has no `startedAt` of its own, but it has turn items, and one that was taken out
/// of the queue has none: so the first of them counts where T3 says nothing.
fn runs(
    runs: Vec<v2::Run>,
    messages: &[Message],
    began: &HashMap<RunId, jiff::Timestamp>,
) -> Result<Vec<RunFacts>, BadTime> {
    let run_of: HashMap<&MessageId, Option<&RunId>> = messages
        .iter()
        .map(|message| (&message.id, message.run.as_ref()))
        .collect();
    runs.into_iter()
        .map(|run| {
            // Promoted while it was queued: T3 cancels the run and its message names the run that took it over.
            let taken_by = run_of.get(&run.user_message_id).copied().flatten();
            let started_at = maybe_time("runs.startedAt", run.started_at.as_ref())?
                .or(maybe_time("runs.workStartedAt", run.work_started_at.as_ref())?)
                .or_else(|| began.get(&run.id).copied());
            let cancelled_in_the_queue = matches!(run.status, v2::RunStatus::Cancelled) && started_at.is_none();
            let promoted_into = taken_by
                .filter(|other| cancelled_in_the_queue && **other != run.id)
                .cloned();
            Ok(RunFacts {
                ordinal: run.ordinal,
                status: run.status.as_str().to_owned(),
                requested_at: time("runs.requestedAt", &run.requested_at)?,
                started_at,
                completed_at: maybe_time("runs.completedAt", run.completed_at.as_ref())?,
                queue_held: run.queue_held.unwrap_or(false),
                queue_position: run.queue_position,
                promoted_into,
                continuation_of: run.restart_continuation_of_run_id,
                user_message: run.user_message_id,
                id: run.id,
            })
        })
        .collect()
}

fn requests(
    requests: Vec<v2::RuntimeRequest>,
    items: &[Item],
    nodes: &HashMap<RuntimeRequestId, RunId>,
) -> Result<Vec<RequestFacts>, BadTime> {
    let asked_in: HashMap<&RuntimeRequestId, &RunId> = items
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Approval { request, .. } | ItemKind::Question { request, .. } => {
                Some((request, item.run.as_ref()?))
            }
            ItemKind::Tool { .. } | ItemKind::Secret { .. } | ItemKind::Failure { .. } => None,
        })
        .collect();
    requests
        .into_iter()
        .map(|request| {
            let run = asked_in.get(&request.id).copied().or_else(|| nodes.get(&request.id));
            let capability = match request.response_capability {
                v2::ResponseCapability::Live(_) => "live".to_owned(),
                v2::ResponseCapability::Message => "message".to_owned(),
                v2::ResponseCapability::NotResumable(_) => "not_resumable".to_owned(),
                v2::ResponseCapability::Unknown { tag } => tag,
            };
            Ok(RequestFacts {
                run: run.cloned(),
                kind: request.kind.as_str().to_owned(),
                status: request.status.as_str().to_owned(),
                capability,
                created_at: time("runtimeRequests.createdAt", &request.created_at)?,
                id: request.id,
            })
        })
        .collect()
}

/// The newest todo list or plan, where no turn item has one.
fn plan_of(plans: Vec<v2::PlanArtifact>) -> Vec<PlanStep> {
    plans
        .into_iter()
        .filter_map(|plan| match plan {
            v2::PlanArtifact::TodoList(list) => Some(items::steps(list.steps)),
            v2::PlanArtifact::ProposedPlan(plan) => Some(vec![PlanStep {
                text: plan.markdown,
                status: plan.status.as_str().to_owned(),
            }]),
            v2::PlanArtifact::Unknown { .. } => None,
        })
        .next_back()
        .unwrap_or_default()
}

fn checkpoints(checkpoints: &[v2::Checkpoint]) -> Vec<Checkpoint> {
    checkpoints
        .iter()
        .map(|checkpoint| Checkpoint {
            run: checkpoint.run_id.clone(),
            turn: checkpoint.app_run_ordinal,
            status: checkpoint.status.as_str().to_owned(),
        })
        .collect()
}

/// What the checkpoints of each run say was changed; a later checkpoint of a run tells all that an earlier one did.
fn files(checkpoints: Vec<v2::Checkpoint>) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    let mut places: HashMap<(Option<RunId>, String), usize> = HashMap::new();
    for checkpoint in checkpoints {
        for file in checkpoint.files {
            let change = FileChange {
                run: checkpoint.run_id.clone(),
                path: file.path.clone(),
                change: file.kind,
                additions: file.additions,
                deletions: file.deletions,
            };
            let place = (checkpoint.run_id.clone(), file.path);
            if let Some(known) = places.get(&place).and_then(|at| files.get_mut(*at)) {
                *known = change;
            } else {
                places.insert(place, files.len());
                files.push(change);
            }
        }
    }
    files
}

fn background(provider_threads: Vec<v2::ProviderThread>) -> Vec<BackgroundTask> {
    let mut seen = HashSet::new();
    provider_threads
        .into_iter()
        .flat_map(|thread| thread.pending_background_tasks.unwrap_or_default())
        .map(shell::background)
        .filter(|(id, _)| id.as_ref().is_none_or(|id| seen.insert(id.clone())))
        .map(|(_, task)| task)
        .collect()
}

/// The token counts of the provider thread that the thread works with, else of the one that counted last.
fn usage(thread: &v2::AppThread, provider_threads: &[v2::ProviderThread]) -> Option<Value> {
    let active = thread.active_provider_thread_id.as_ref();
    let counted = provider_threads.iter().filter(|thread| thread.context_usage.is_some());
    let newest = counted.max_by_key(|thread| (Some(&thread.id) == active, &thread.updated_at.0));
    serde_json::to_value(newest?.context_usage.as_ref()?).ok()
}

/// `nodes`, of which only those of requests are kept: the run of a request whose turn item is not there.
fn runs_of_requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HashMap<RuntimeRequestId, RunId>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Node {
        runtime_request_id: Option<RuntimeRequestId>,
        run_id: Option<RunId>,
    }
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = HashMap<RuntimeRequestId, RunId>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of nodes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut runs = HashMap::new();
            while let Some(node) = list.next_element::<Node>()? {
                if let (Some(request), Some(run)) = (node.runtime_request_id, node.run_id) {
                    runs.insert(request, run);
                }
            }
            Ok(runs)
        }
    }
    deserializer.deserialize_seq(Each)
}
