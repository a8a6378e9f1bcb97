//! The body of an event: what the receiver of a hook reads, and `t3_events` shows. Pure: `watch` says what happened, this says it in full.
//!
//! It is made from the read that the event was concluded from, so that both say the same.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gateway::compose::{self, Scene};
use crate::gateway::standing::Standing;
use crate::gateway::text;
use crate::gateway::view::{ApprovalView, BackgroundView, FailureView, FileView, PendingView, QuestionView, RunView};
use crate::lifecycle::{EventKind, Reason, Told};
use crate::machine::{RuntimeMode, Thread};
use crate::protocol::RunId;

/// How long the final message may be.
const TEXT_CHARS: usize = 8_000;
/// How many changed files are listed.
const MOST_FILES: usize = 100;
/// How much of a question's or an approval's texts is shown.
const ASKED_CHARS: usize = 4_000;
/// An event that is made so long after what it tells is marked: nobody was looking when it happened.
const LATE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct EventBody {
    /// The same for the same event, however often it is delivered.
    pub id: String,
    /// completed, interrupted, failed, question, approval, stalled, unreachable or credential.
    pub event: String,
    /// When it happened.
    pub occurred_at: String,
    /// Where.
    pub machine: String,
    /// The thread.
    pub thread_id: String,
    /// The project's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The thread's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The conversation that the run was dispatched from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The client that dispatched the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What the run does now.
    pub state: String,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunView>,
    /// The final message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Files that the run changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileView>,
    /// Work that goes on although the run is over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundView>,
    /// What is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<AskedView>,
    /// What is to be decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<AskedView>,
    /// Why the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
    /// T3 goes on by itself then (usage limit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_at: Option<String>,
    /// Why the run can no longer end: gone or `not_visible`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The machine is away since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<String>,
    /// Nobody was looking when it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// The run counts as completed although T3 has not said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<bool>,
    /// The content could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
}

/// A question or an approval of an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AskedView {
    /// The id that `t3_answer` takes when several are pending.
    pub request_id: String,
    /// `t3_answer` can answer it; otherwise it must be answered in T3 itself.
    pub answerable: bool,
    /// message: the question outlives its run, and answering it starts a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What a question asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionView>,
    /// What an approval asks.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
}

/// What is known besides the thread's content.
#[derive(Clone, Debug)]
pub struct EventScene<'a> {
    /// The event's id.
    pub id: &'a str,
    /// The machine's name.
    pub machine: &'a str,
    /// The thread's id.
    pub thread_id: &'a str,
    /// The project's title, as last known.
    pub project: Option<&'a str>,
    /// The thread's title, as last known.
    pub title: Option<&'a str>,
    /// What an approval may be answered with at most.
    pub ceiling: RuntimeMode,
    /// Now.
    pub now: Timestamp,
}

/// As precise as T3's own times.
fn to_the_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

/// The body of an event. `thread` is the read that it was concluded from; `timed_out` are its runs that finished for too long.
pub fn event_body(scene: &EventScene<'_>, told: &Told, thread: Option<&Thread>, timed_out: Vec<RunId>) -> EventBody {
    let body = EventBody {
        id: scene.id.to_owned(),
        event: told.kind.as_str().to_owned(),
        occurred_at: to_the_millisecond(told.at).to_string(),
        machine: scene.machine.to_owned(),
        thread_id: scene.thread_id.to_owned(),
        origin: told.watch.origin.clone(),
        client: told.watch.client.clone(),
        state: told.state.to_owned(),
        reason: told.reason.map(|reason| reason.as_str().to_owned()),
        unreachable_since: told.away_since.map(|since| since.to_string()),
        late: (scene.now.duration_since(told.at) > LATE_AFTER).then_some(true),
        unconfirmed: told.unconfirmed.then_some(true),
        run: told.run.as_ref().map(|run| RunView {
            id: run.id.to_string(),
            status: told.state.to_owned(),
            requested_at: run.requested_at.to_string(),
            continues_in: told.continues_in.as_ref().map(ToString::to_string),
            ..RunView::default()
        }),
        ..EventBody::default()
    };
    // What is hidden is told without anything of it.
    if told.reason == Some(Reason::NotVisible) {
        return body;
    }
    let body = EventBody {
        project: scene.project.map(str::to_owned),
        title: scene.title.map(str::to_owned),
        ..body
    };
    match thread {
        Some(thread) => with_content(body, scene, told, &Standing::of(thread, timed_out)),
        None => body,
    }
}

fn with_content(mut body: EventBody, scene: &EventScene<'_>, told: &Told, standing: &Standing<'_>) -> EventBody {
    let thread = standing.thread;
    body.title = Some(thread.head.title.clone());
    let run = told.run.as_ref().and_then(|key| standing.run(&key.id));
    let Some(run) = run.filter(|run| {
        told.run
            .as_ref()
            .is_some_and(|key| key.requested_at == run.requested_at)
    }) else {
        return body;
    };
    let view = compose::run_view(standing, run, scene.now);
    let status = match told.kind {
        // What is asked is no state of the run.
        EventKind::Question | EventKind::Approval => view.status.clone(),
        EventKind::Completed
        | EventKind::Interrupted
        | EventKind::Failed
        | EventKind::Stalled
        | EventKind::Unreachable => told.state.to_owned(),
    };
    body.run = Some(RunView {
        status,
        continues_in: told.continues_in.as_ref().map(ToString::to_string),
        ..view
    });
    match told.kind {
        EventKind::Question | EventKind::Approval => ask(&mut body, scene, told, standing),
        EventKind::Completed | EventKind::Interrupted | EventKind::Failed => {
            body.text = compose::final_message(standing, &run.id).map(|said| text::cut(said, TEXT_CHARS));
            // A part of the thread may lack the beginning of a run, and with it what was said.
            body.partial = (thread.partial && body.text.is_none()).then_some(true);
            body.files = compose::files(thread, |of| of == Some(&run.id))
                .take(MOST_FILES)
                .collect();
            body.background = thread.background.iter().map(compose::background).collect();
            body.error = compose::failure(standing, run);
            body.resumes_at = thread.resumes_at.map(|at| at.to_string());
        }
        EventKind::Stalled | EventKind::Unreachable => {}
    }
    body
}

fn ask(body: &mut EventBody, scene: &EventScene<'_>, told: &Told, standing: &Standing<'_>) {
    let pending = standing
        .status
        .pending
        .iter()
        .find(|pending| told.request.as_ref() == Some(&pending.id));
    let Some(pending) = pending else {
        return;
    };
    let view_scene = Scene {
        machine: scene.machine,
        project: scene.project.unwrap_or_default(),
        turns: 1,
        now: scene.now,
        ceiling: scene.ceiling,
        unreachable_since: None,
        run: None,
    };
    let asked = asked(compose::pending(&view_scene, standing, pending));
    if told.kind == EventKind::Question {
        body.question = Some(asked);
    } else {
        body.approval = Some(asked);
    }
}

fn asked(pending: PendingView) -> AskedView {
    let cut = |said: String| text::cut(&said, ASKED_CHARS);
    let approval = pending.approval.map(|approval| ApprovalView {
        title: approval.title.map(cut),
        detail: approval.detail.map(cut),
        ..approval
    });
    AskedView {
        request_id: pending.request_id,
        answerable: pending.answerable,
        mode: pending.mode,
        questions: pending.questions,
        approval,
    }
}
