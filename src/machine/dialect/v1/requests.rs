//! Approvals and questions, which protocol 1 shows as activities: asked by one, closed by another, open only while their turn works.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::turns::Served;
use super::{BadTime, time};
use crate::lifecycle::RequestFacts;
use crate::machine::domain::{DecisionOption, Item, ItemKind, Question, QuestionOption};
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
    let active = thread
        .session
        .as_ref()
        .filter(|session| session.status.as_str() == "running" && !served.orphaned)
        .and_then(|session| session.active_turn_id.as_ref());
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
        let turn = activity.turn_id.as_ref();
        let run = turn.and_then(|turn| served.of_turn(&turn.0)).map(|run| run.id.clone());
        let is_open = turn.is_some() && turn.map(|turn| &turn.0) == active.map(|turn| &turn.0);
        let status = match closed.get(asked.request_id.0.as_str()) {
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

/// The requests that are closed, and how.
fn closed(thread: &v1::Thread) -> HashMap<&str, &'static str> {
    let mut closed = HashMap::new();
    for activity in &thread.activities {
        let text = |field: &str| activity.payload.get(field).and_then(Value::as_str);
        let Some(request) = text("requestId") else { continue };
        match activity.kind.as_str() {
            "approval.resolved" | "user-input.resolved" => {
                closed.insert(request, "resolved");
            }
            "provider.approval.respond.failed" | "provider.user-input.respond.failed"
                if text("detail").is_some_and(|detail| detail.starts_with(STALE)) =>
            {
                closed.entry(request).or_insert("expired");
            }
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
