//! Approvals and questions, which protocol 1 shows as activities: asked by one, closed by another, open only while their turn works.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::turns::Served;
use super::{BadTime, time, v2::cut};
use crate::lifecycle::RequestFacts;
use crate::machine::domain::{DecisionOption, Item, ItemKind, Question, QuestionOption, Undelivered};
use crate::protocol::{RuntimeRequestId, v1};

/// What protocol 1 takes for an approval.
const DECISIONS: [(&str, &str); 4] = [
    ("accept", "Accept"),
    ("acceptForSession", "Accept for this session"),
    ("decline", "Decline"),
    ("cancel", "Cancel the turn"),
];
/// What an approval is counted as whose kind T3 does not name.
const OTHER_KIND: &str = "permission";
const QUESTION: &str = "user_input";
/// The kind of the activity that asks for an approval.
pub(super) const APPROVAL_ASKED: &str = "approval.requested";
/// The kind of the activity that asks a question.
pub(super) const QUESTION_ASKED: &str = "user-input.requested";
/// The kinds of approvals that are known.
pub(super) const REQUEST_KINDS: [&str; 3] = ["command", "file-read", "file-change"];
/// How much of T3's words is kept.
const WHY_CHARS: usize = 500;
/// The kinds of the activities that tell of an answer that T3 took and its agent did not get.
const APPROVAL_FAILED: &str = "provider.approval.respond.failed";
const QUESTION_FAILED: &str = "provider.user-input.respond.failed";
/// How T3 begins to say that a request is not open any more.
const STALE: &str = "Stale pending";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    request_id: RuntimeRequestId,
    request_kind: Option<String>,
    detail: Option<String>,
    #[serde(default)]
    questions: Vec<Value>,
}

/// The requests of a thread, and their texts as items.
pub(super) fn requests(thread: &v1::Thread, served: &Served) -> Result<(Vec<RequestFacts>, Vec<Item>), BadTime> {
    let closed = closed(thread);
    let session = thread.session.as_ref();
    let alive = session.filter(|session| session.status.as_str() == "running" && !served.orphaned);
    let active = alive.and_then(|session| session.active_turn_id.as_ref());
    let (mut requests, mut items) = (Vec::new(), Vec::new());
    for (place, activity) in thread.activities.iter().enumerate() {
        let is_question = match activity.kind.as_str() {
            APPROVAL_ASKED => false,
            QUESTION_ASKED => true,
            _ => continue,
        };
        // The contract leaves the payload open: one that cannot be read is one that nobody could answer.
        let Ok(asked) = Asked::deserialize(&activity.payload) else {
            continue;
        };
        let at = time("activities.createdAt", &activity.created_at)?;
        // What names no turn can only be of the one at work, if that had begun by then.
        let begun = |turn: &&v1::TurnId| served.of_turn(&turn.0).is_some_and(|run| run.requested_at <= at);
        let turn = activity.turn_id.as_ref().or_else(|| active.filter(begun));
        let run = turn.and_then(|turn| served.of_turn(&turn.0)).map(|run| run.id.clone());
        let is_open = turn.is_some_and(|turn| {
            let is_active = active.is_some_and(|active| active.0 == turn.0);
            is_active || alive.is_some() && served.works(&turn.0)
        });
        let status = match closed.get(&(asked.request_id.0.as_str(), is_question)) {
            Some(status) => status,
            None if is_open => "pending",
            // The flags of the shell may stay set; the turn that asked is over.
            None => "expired",
        };
        let kind = if is_question {
            QUESTION.to_owned()
        } else {
            asked.request_kind.unwrap_or_else(|| OTHER_KIND.to_owned())
        };
        requests.push(RequestFacts {
            id: asked.request_id.clone(),
            run: run.clone(),
            kind,
            status: status.to_owned(),
            capability: "live".to_owned(),
            created_at: at,
        });
        items.push(Item {
            run,
            ordinal: u64::try_from(place).unwrap_or(u64::MAX),
            status: status.to_owned(),
            title: Some(activity.summary.clone()),
            at,
            kind: if is_question {
                ItemKind::Question {
                    request: asked.request_id,
                    questions: asked.questions.iter().filter_map(question).collect(),
                }
            } else {
                ItemKind::Approval {
                    request: asked.request_id,
                    prompt: asked.detail,
                    app: None,
                    options: DECISIONS
                        .iter()
                        .map(|(decision, label)| DecisionOption {
                            decision: (*decision).to_owned(),
                            label: (*label).to_owned(),
                        })
                        .collect(),
                }
            },
        });
    }
    Ok((requests, items))
}

/// Answers that T3 took and could not hand on, each with T3's words for why.
pub(super) fn undelivered(thread: &v1::Thread) -> Vec<Undelivered> {
    let activities = thread.activities.iter();
    let failures = activities.filter(|activity| matches!(activity.kind.as_str(), APPROVAL_FAILED | QUESTION_FAILED));
    failures
        .filter_map(|activity| {
            let text = |field: &str| activity.payload.get(field).and_then(Value::as_str);
            let why = text("detail")
                .and_then(|detail| detail.lines().next())
                .unwrap_or_default();
            Some(Undelivered {
                request: RuntimeRequestId(text("requestId")?.to_owned()),
                why: cut(why, WHY_CHARS),
            })
        })
        .collect()
}

/// The requests that are closed, questions and approvals by themselves, and how: an answer of the wrong kind fails as one to a request that is not
/// open, and leaves it open.
fn closed(thread: &v1::Thread) -> HashMap<(&str, bool), &'static str> {
    let mut closed = HashMap::new();
    for activity in &thread.activities {
        let text = |field: &str| activity.payload.get(field).and_then(Value::as_str);
        let Some(request) = text("requestId") else { continue };
        let is_stale = || text("detail").is_some_and(|detail| detail.starts_with(STALE));
        match activity.kind.as_str() {
            "approval.resolved" => _ = closed.insert((request, false), "resolved"),
            "user-input.resolved" => _ = closed.insert((request, true), "resolved"),
            APPROVAL_FAILED if is_stale() => _ = closed.entry((request, false)).or_insert("expired"),
            QUESTION_FAILED if is_stale() => _ = closed.entry((request, true)).or_insert("expired"),
            _ => {}
        }
    }
    closed
}

fn question(value: &Value) -> Option<Question> {
    let question = v1::UserInputQuestion::deserialize(value).ok()?;
    Some(Question {
        id: question.id,
        header: question.header,
        question: question.question,
        options: question
            .options
            .into_iter()
            .map(|option| QuestionOption {
                label: option.label,
                description: option.description,
                value: None,
            })
            .collect(),
        multi_select: question.multi_select,
        allow_custom: None,
        required: None,
    })
}
