//! Makes the view of a thread that was read. Pure: only what is known is said, and cutting to size is `budget`'s job.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::gateway::standing::Standing;
use crate::gateway::text;
use crate::gateway::view::{
    ApprovalView, BackgroundView, FailureView, FileView, MessageView, OptionView, PendingView, PlanView, QuestionView,
    QueueView, RunView, ThreadView, ToolView,
};
use crate::lifecycle::{Pending, RequestClass, RunFacts, RunState, ThreadState};
use crate::machine::{
    BackgroundTask, DecisionOption, Item, ItemKind, Message, NO_ANSWER, Question, RuntimeMode, Thread, ThreadRow,
};
use crate::protocol::RunId;

/// T3's word for the agent as the author of a message.
const ASSISTANT: &str = "assistant";

/// How much of a queued prompt the view shows.
const QUEUED_CHARS: usize = 400;

/// What the view needs besides the thread.
#[derive(Clone, Debug)]
pub(super) struct Scene<'a> {
    pub(super) machine: &'a str,
    pub(super) project: &'a str,
    /// How many of the newest runs are shown in full.
    pub(super) turns: usize,
    pub(super) now: Timestamp,
    /// The ceiling: what an approval may be answered with.
    pub(super) ceiling: RuntimeMode,
    pub(super) unreachable_since: Option<Timestamp>,
    /// The run to show instead of the one that the state speaks of.
    pub(super) run: Option<&'a RunId>,
}

/// The view of a thread.
pub(super) fn view(scene: &Scene<'_>, standing: &Standing<'_>) -> ThreadView {
    let (thread, status) = (standing.thread, &standing.status);
    let shown = scene.run.or(status.run.as_ref()).and_then(|id| standing.run(id));
    let turns = turns(standing, scene.turns, shown);
    let of_turns = |run: Option<&RunId>| run.is_none_or(|run| turns.contains(run));
    let model = shown
        .and_then(|run| thread.models.iter().find(|(id, _)| *id == run.id))
        .map_or(&thread.head.model, |(_, model)| model);
    ThreadView {
        thread_id: thread.head.id.to_string(),
        machine: scene.machine.to_owned(),
        project: scene.project.to_owned(),
        title: thread.head.title.clone(),
        state: status.state.as_str().to_owned(),
        held: status.held.then_some(true),
        run: shown.map(|run| run_view(standing, run, scene.now)),
        session: thread.session.clone(),
        model: model.to_string(),
        runtime_mode: thread.head.runtime_mode.clone(),
        branch: thread.head.branch.clone(),
        worktree: thread.head.worktree.clone(),
        last_activity_at: thread.updated_at.to_string(),
        messages: messages(standing, &turns),
        tools: thread
            .items
            .iter()
            .filter(|item| of_turns(item.run.as_ref()))
            .filter_map(tool)
            .collect(),
        files: files(thread, of_turns).collect(),
        plan: thread
            .plan
            .iter()
            .map(|step| PlanView {
                step: step.text.clone(),
                status: step.status.clone(),
            })
            .collect(),
        queue: queue(standing),
        background: thread.background.iter().map(background).collect(),
        pending: status
            .pending
            .iter()
            // A tool call that a client answers by itself asks nobody.
            .filter(|request| request.class != RequestClass::None)
            .map(|request| pending(scene, standing, request))
            .collect(),
        usage: thread.usage.as_ref().and_then(|usage| usage.as_object().cloned()),
        error: shown.and_then(|run| failure(standing, run)),
        resumes_at: thread.resumes_at.map(|at| at.to_string()),
        truncated: None,
        unreachable_since: scene.unreachable_since.map(|at| at.to_string()),
    }
}

/// The view of a thread of which only the row is known: while its machine is away. It claims no end.
pub(super) fn view_of_row(scene: &Scene<'_>, row: &ThreadRow) -> ThreadView {
    ThreadView {
        thread_id: row.id.to_string(),
        machine: scene.machine.to_owned(),
        project: scene.project.to_owned(),
        title: row.title.clone(),
        state: state_of_row(row).as_str().to_owned(),
        model: row.model.to_string(),
        runtime_mode: row.runtime_mode.clone(),
        branch: row.branch.clone(),
        worktree: row.worktree.clone(),
        last_activity_at: row.updated_at.to_string(),
        background: row.background.iter().map(background).collect(),
        unreachable_since: scene.unreachable_since.map(|at| at.to_string()),
        ..ThreadView::default()
    }
}

/// What the row alone allows to say. Its status word is that of the newest run only, so that an end cannot be told from it: what it shows
/// as ended counts as running until the thread was read.
pub(super) fn state_of_row(row: &ThreadRow) -> ThreadState {
    if row.active_run.is_none() && row.latest_run.is_none() {
        return ThreadState::Idle;
    }
    let word = row.activity.as_deref().unwrap_or(&row.status);
    match RunState::INITIAL.on(crate::lifecycle::observe_run(word)).to.thread() {
        Some(state) if state.is_busy() => state,
        Some(_) | None => ThreadState::Running,
    }
}

pub(super) fn run_view(standing: &Standing<'_>, run: &RunFacts, now: Timestamp) -> RunView {
    let state = standing.run_state(run);
    let until = run.completed_at.unwrap_or(now);
    let worked = |since: Timestamp| (until.duration_since(since).as_secs_f64().max(0.0) * 10.0).round() / 10.0;
    RunView {
        id: run.id.to_string(),
        ordinal: run.ordinal,
        status: state.as_str().to_owned(),
        requested_at: run.requested_at.to_string(),
        started_at: run.started_at.map(|at| at.to_string()),
        completed_at: run.completed_at.map(|at| at.to_string()),
        seconds: run.started_at.map(worked),
        continues_in: standing.successor(run).map(|next| next.id.to_string()),
        unconfirmed: (state == RunState::Unconfirmed).then_some(true),
    }
}

/// The newest runs that have left the queue, with the one that the view is about.
fn turns(standing: &Standing<'_>, count: usize, shown: Option<&RunFacts>) -> HashSet<RunId> {
    let mut runs: Vec<&RunFacts> = standing
        .thread
        .facts
        .runs
        .iter()
        .filter(|run| {
            let state = standing.run_state(run);
            state != RunState::Queued && !state.is_void()
        })
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.ordinal));
    runs.into_iter()
        .take(count)
        .chain(shown)
        .map(|run| run.id.clone())
        .collect()
}

fn messages(standing: &Standing<'_>, turns: &HashSet<RunId>) -> Vec<MessageView> {
    let first = standing
        .thread
        .facts
        .runs
        .iter()
        .filter(|run| turns.contains(&run.id))
        .map(|run| run.requested_at)
        .min();
    standing
        .thread
        .messages
        .iter()
        .filter(|message| match &message.run {
            Some(run) => turns.contains(run),
            // Said outside of any run, such as a notification: part of the turns if it came during them.
            None => first.is_some_and(|first| message.at >= first),
        })
        .filter(|message| !message.text.is_empty())
        .map(|message| MessageView {
            role: message.role.clone(),
            text: message.text.clone(),
            at: message.at.to_string(),
            run: message.run.as_ref().map(ToString::to_string),
        })
        .collect()
}

/// Files that runs changed.
pub(super) fn files<'a>(
    thread: &'a Thread,
    of: impl Fn(Option<&RunId>) -> bool + 'a,
) -> impl Iterator<Item = FileView> + 'a {
    let files = thread.files.iter().filter(move |file| of(file.run.as_ref()));
    files.map(|file| FileView {
        path: file.path.clone(),
        change: file.change.clone(),
        additions: file.additions,
        deletions: file.deletions,
    })
}

/// What the agent said last in the run.
pub(super) fn final_message<'a>(standing: &Standing<'a>, run: &RunId) -> Option<&'a str> {
    let said = |message: &&Message| message.role == ASSISTANT && message.run.as_ref() == Some(run);
    let last = standing
        .thread
        .messages
        .iter()
        .rev()
        .filter(said)
        .find(|message| !message.text.is_empty())?;
    Some(&last.text)
}

fn tool(item: &Item) -> Option<ToolView> {
    match &item.kind {
        ItemKind::Tool {
            kind,
            detail,
            exit_code,
        } => Some(ToolView {
            kind: kind.clone(),
            title: Some(detail)
                .filter(|detail| !detail.is_empty())
                .or(item.title.as_ref())
                .cloned()
                .unwrap_or_default(),
            status: item.status.clone(),
            exit_code: *exit_code,
        }),
        ItemKind::Approval { .. } | ItemKind::Question { .. } | ItemKind::Secret { .. } | ItemKind::Failure { .. } => {
            None
        }
    }
}

pub(super) fn queue(standing: &Standing<'_>) -> Vec<QueueView> {
    standing
        .status
        .queue
        .iter()
        .zip(1..)
        .filter_map(|(id, place)| {
            let run = standing.run(id)?;
            Some(QueueView {
                run_id: id.to_string(),
                position: run.queue_position.unwrap_or(place),
                text: standing
                    .text_of(&run.user_message)
                    .map(|prompt| text::cut(prompt, QUEUED_CHARS)),
            })
        })
        .collect()
}

pub(super) fn background(task: &BackgroundTask) -> BackgroundView {
    BackgroundView {
        kind: task.kind.clone(),
        title: task.title.clone(),
    }
}

pub(super) fn pending(scene: &Scene<'_>, standing: &Standing<'_>, request: &Pending) -> PendingView {
    let question = request.class == RequestClass::Question;
    PendingView {
        kind: if question { "question" } else { "approval" }.to_owned(),
        request_id: request.id.to_string(),
        answerable: request.answerable,
        mode: request.mode.map(str::to_owned),
        questions: if question {
            questions_of(standing, request).iter().map(question_view).collect()
        } else {
            Vec::new()
        },
        approval: (!question).then(|| approval(scene, standing, request)),
    }
}

/// The questions of a request.
pub(super) fn questions_of<'a>(standing: &Standing<'a>, request: &Pending) -> &'a [Question] {
    standing
        .thread
        .items
        .iter()
        .find_map(|item| match &item.kind {
            ItemKind::Question { request: id, questions } if *id == request.id => Some(questions.as_slice()),
            ItemKind::Question { .. }
            | ItemKind::Tool { .. }
            | ItemKind::Approval { .. }
            | ItemKind::Secret { .. }
            | ItemKind::Failure { .. } => None,
        })
        .unwrap_or_default()
}

fn question_view(question: &Question) -> QuestionView {
    QuestionView {
        id: question.id.clone(),
        header: question.header.clone(),
        question: question.question.clone(),
        options: question
            .options
            .iter()
            .map(|option| OptionView {
                label: option.label.clone(),
                description: option.description.clone(),
            })
            .collect(),
        multi_select: question.multi_select,
        free_text: question.allow_custom,
        required: question.required,
    }
}

fn approval(scene: &Scene<'_>, standing: &Standing<'_>, request: &Pending) -> ApprovalView {
    let found = standing.thread.items.iter().find_map(|item| match &item.kind {
        ItemKind::Approval {
            request: id,
            prompt,
            app,
            options,
        } if *id == request.id => Some((item, prompt, app, options.as_slice())),
        ItemKind::Approval { .. }
        | ItemKind::Question { .. }
        | ItemKind::Tool { .. }
        | ItemKind::Secret { .. }
        | ItemKind::Failure { .. } => None,
    });
    let Some((item, prompt, app, options)) = found else {
        let secret = standing.thread.items.iter().find_map(|item| match &item.kind {
            ItemKind::Secret { label, pending: true } => Some(label.clone()),
            ItemKind::Secret { .. }
            | ItemKind::Approval { .. }
            | ItemKind::Question { .. }
            | ItemKind::Tool { .. }
            | ItemKind::Failure { .. } => None,
        });
        return ApprovalView {
            kind: request.kind.clone(),
            title: secret.filter(|_| !request.answerable),
            detail: None,
            decisions: decisions(request, &[], scene.ceiling),
        };
    };
    ApprovalView {
        kind: request.kind.clone(),
        title: item.title.clone().or_else(|| app.clone()),
        detail: prompt.clone(),
        decisions: decisions(request, options, scene.ceiling),
    }
}

/// The decisions of a request, as T3 offers them.
pub(super) fn decisions_of(standing: &Standing<'_>, request: &Pending, ceiling: RuntimeMode) -> Vec<String> {
    let scene_options = standing.thread.items.iter().find_map(|item| match &item.kind {
        ItemKind::Approval {
            request: id, options, ..
        } if *id == request.id => Some(options.as_slice()),
        ItemKind::Approval { .. }
        | ItemKind::Question { .. }
        | ItemKind::Tool { .. }
        | ItemKind::Secret { .. }
        | ItemKind::Failure { .. } => None,
    });
    decisions(request, scene_options.unwrap_or_default(), ceiling)
}

/// What every T3 takes where it offers nothing of its own. `acceptAlways` outlives the thread: never without being offered.
const USUAL_DECISIONS: [&str; 4] = ["accept", "acceptForSession", "decline", "cancel"];

/// The decision that lifts the question for ever.
const ALWAYS: &str = "acceptAlways";

/// Whether the ceiling lets the decision be taken where T3 offers it.
pub(super) fn may_decide(decision: &str, ceiling: RuntimeMode) -> bool {
    decision != ALWAYS || ceiling == RuntimeMode::FullAccess
}

fn decisions(request: &Pending, offered: &[DecisionOption], ceiling: RuntimeMode) -> Vec<String> {
    if !request.answerable {
        return Vec::new();
    }
    if offered.is_empty() {
        return USUAL_DECISIONS.map(str::to_owned).to_vec();
    }
    offered
        .iter()
        .map(|option| option.decision.clone())
        .filter(|decision| may_decide(decision, ceiling))
        .collect()
}

/// Why the run failed: the last error of its items.
pub(super) fn failure(standing: &Standing<'_>, run: &RunFacts) -> Option<FailureView> {
    let state = standing.run_state(run);
    let counts = |class: &str| match state {
        RunState::Failed => true,
        RunState::Interrupted => class == NO_ANSWER,
        _ => false,
    };
    standing
        .thread
        .items
        .iter()
        .filter(|item| item.run.as_ref().is_none_or(|id| *id == run.id))
        .filter_map(|item| match &item.kind {
            ItemKind::Failure {
                class,
                message,
                resets_at,
            } if counts(class) => Some((item.ordinal, class, message, resets_at)),
            ItemKind::Failure { .. }
            | ItemKind::Tool { .. }
            | ItemKind::Approval { .. }
            | ItemKind::Question { .. }
            | ItemKind::Secret { .. } => None,
        })
        .max_by_key(|(ordinal, ..)| *ordinal)
        .map(|(_, class, message, resets_at)| FailureView {
            class: class.clone(),
            message: message.clone(),
            resets_at: resets_at.clone(),
        })
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
