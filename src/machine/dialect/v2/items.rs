//! Turn items: tools, approvals, questions, secrets, failures, and the plan.
//!
//! Each item is decoded, reduced to what views and decisions need and dropped before the next: outputs and diffs can be megabytes.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use jiff::Timestamp;
use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

use super::{BadTime, cut, time};
use crate::lifecycle::RequestFacts;
use crate::machine::domain::{DecisionOption, Item, ItemKind, PlanStep, Question, QuestionOption};
use crate::protocol::{RunId, RuntimeRequestId, v2};

/// How much of a command, a file name or a pattern is kept.
const DETAIL_CHARS: usize = 2_000;
/// The kind of a secret's request, for which T3 has no word but the item's type.
pub(super) const SECRET_REQUEST: &str = "secret_request";
/// The way that an answer to it goes, in T3's word for requests.
const LIVE: &str = "live";

/// What the turn items of a thread come to.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// By T3's order.
    pub(super) kept: Vec<Item>,
    /// The newest todo list or plan, with its place.
    pub(super) plan: Option<(u64, Vec<PlanStep>)>,
    /// Secrets that are asked for: no runtime requests to T3, but something that a run waits for.
    pub(super) secrets: Vec<RequestFacts>,
    /// When the first item of each run began, of any kind: a run has its first one when it leaves the queue.
    pub(super) began: HashMap<RunId, Timestamp>,
    /// Kinds that are not known.
    pub(super) unknown: BTreeSet<String>,
}

impl Items {
    /// Takes the items of another list in.
    pub(super) fn absorb(&mut self, other: Self) {
        self.kept.extend(other.kept);
        self.secrets.extend(other.secrets);
        self.unknown.extend(other.unknown);
        for (run, at) in other.began {
            self.began_at(run, at);
        }
        if other.plan.as_ref().map(|(ordinal, _)| *ordinal) > self.plan.as_ref().map(|(ordinal, _)| *ordinal) {
            self.plan = other.plan;
        }
    }

    pub(super) fn take(&mut self, item: v2::TurnItem) -> Result<(), BadTime> {
        self.note_beginning(&item)?;
        /// The facts that all items share.
        macro_rules! push {
            ($item:expr, $kind:expr) => {
                self.kept.push(Item {
                    run: $item.run_id,
                    ordinal: $item.ordinal,
                    status: $item.status.as_str().to_owned(),
                    title: $item.title,
                    at: time("updatedAt", &$item.updated_at)?,
                    kind: $kind,
                })
            };
        }
        match item {
            v2::TurnItem::CommandExecution(item) => {
                push!(item, tool("command_execution", &item.input, item.exit_code));
            }
            v2::TurnItem::FileChange(item) => push!(item, tool("file_change", &item.file_name, None)),
            v2::TurnItem::FileSearch(item) => {
                push!(
                    item,
                    tool("file_search", item.pattern.as_deref().unwrap_or_default(), None)
                );
            }
            v2::TurnItem::WebSearch(item) => {
                push!(
                    item,
                    tool("web_search", &item.patterns.unwrap_or_default().join(", "), None)
                );
            }
            v2::TurnItem::DynamicTool(item) => {
                push!(
                    item,
                    tool("dynamic_tool", item.tool_name.as_deref().unwrap_or_default(), None)
                );
            }
            v2::TurnItem::Subagent(item) => {
                push!(
                    item,
                    tool("subagent", item.prompt.lines().next().unwrap_or_default(), None)
                );
            }
            v2::TurnItem::ApprovalRequest(item) => push!(
                item,
                ItemKind::Approval {
                    request: item.request_id,
                    prompt: item.prompt,
                    app: item.app_name,
                    options: item.options.unwrap_or_default().into_iter().map(decision).collect(),
                }
            ),
            v2::TurnItem::UserInputRequest(item) => push!(
                item,
                ItemKind::Question {
                    request: item.request_id,
                    questions: item.questions.into_iter().map(question).collect(),
                }
            ),
            v2::TurnItem::SecretRequest(item) => {
                self.secrets.push(secret(&item)?);
                push!(
                    item,
                    ItemKind::Secret {
                        label: item.label,
                        pending: matches!(item.secret_status, v2::SecretRequestStatus::Pending),
                    }
                );
            }
            v2::TurnItem::Error(item) => push!(
                item,
                ItemKind::Failure {
                    class: item.failure.class.as_str().to_owned(),
                    message: item.failure.message,
                    resets_at: item.failure.reset_at,
                }
            ),
            v2::TurnItem::TodoList(item) => self.plan_at(item.ordinal, steps(item.steps)),
            v2::TurnItem::ProposedPlan(item) => {
                let step = PlanStep {
                    text: item.markdown,
                    status: item.status.as_str().to_owned(),
                };
                self.plan_at(item.ordinal, vec![step]);
            }
            // Messages stand in `messages`; the rest is nothing that a view or a decision needs.
            v2::TurnItem::Notification(_)
            | v2::TurnItem::UserMessage(_)
            | v2::TurnItem::AssistantMessage(_)
            | v2::TurnItem::Reasoning(_)
            | v2::TurnItem::Checkpoint(_)
            | v2::TurnItem::RunInterruptRequest(_)
            | v2::TurnItem::RunInterruptResult(_)
            | v2::TurnItem::SystemNotice(_)
            | v2::TurnItem::Compaction(_)
            | v2::TurnItem::Handoff(_)
            | v2::TurnItem::Fork(_)
            | v2::TurnItem::ThreadCreated(_) => {}
            v2::TurnItem::Unknown { tag } => _ = self.unknown.insert(tag),
        }
        Ok(())
    }

    fn note_beginning(&mut self, item: &v2::TurnItem) -> Result<(), BadTime> {
        if let Some((run, at)) = beginning(item) {
            self.began_at(run.clone(), time("startedAt", at)?);
        }
        Ok(())
    }

    fn began_at(&mut self, run: RunId, at: Timestamp) {
        let first = self.began.entry(run).or_insert(at);
        *first = at.min(*first);
    }

    fn plan_at(&mut self, ordinal: u64, steps: Vec<PlanStep>) {
        if self.plan.as_ref().is_none_or(|(known, _)| *known <= ordinal) {
            self.plan = Some((ordinal, steps));
        }
    }
}

/// The run of an item and when the item began. Of a kind that is not known, nothing is kept to tell.
fn beginning(item: &v2::TurnItem) -> Option<(&RunId, &v2::DateTimeUtc)> {
    macro_rules! of {
        ($($kind:ident)*) => {
            match item {
                $(v2::TurnItem::$kind(item) => Some((item.run_id.as_ref()?, item.started_at.as_ref().unwrap_or(&item.updated_at))),)*
                v2::TurnItem::Unknown { .. } => None,
            }
        };
    }
    of!(
        Notification UserMessage AssistantMessage Reasoning ProposedPlan TodoList UserInputRequest SecretRequest FileChange
        CommandExecution FileSearch WebSearch ApprovalRequest Checkpoint RunInterruptRequest RunInterruptResult SystemNotice Error
        DynamicTool Subagent Compaction Handoff Fork ThreadCreated
    )
}

/// The steps of a todo list.
pub(super) fn steps(steps: Vec<v2::PlanStep>) -> Vec<PlanStep> {
    steps
        .into_iter()
        .map(|step| PlanStep {
            status: step.status.as_str().to_owned(),
            text: step.text,
        })
        .collect()
}

fn tool(kind: &str, detail: &str, exit_code: Option<i64>) -> ItemKind {
    ItemKind::Tool {
        kind: kind.to_owned(),
        detail: cut(detail, DETAIL_CHARS),
        exit_code,
    }
}

fn secret(item: &v2::TurnItemSecretRequest) -> Result<RequestFacts, BadTime> {
    Ok(RequestFacts {
        id: RuntimeRequestId(item.id.0.clone()),
        run: item.run_id.clone(),
        kind: SECRET_REQUEST.to_owned(),
        status: item.secret_status.as_str().to_owned(),
        capability: LIVE.to_owned(),
        created_at: time("startedAt", item.started_at.as_ref().unwrap_or(&item.updated_at))?,
    })
}

fn decision(option: v2::ProviderApprovalOption) -> DecisionOption {
    DecisionOption {
        decision: option.decision.as_str().to_owned(),
        label: option.label,
    }
}

fn question(question: v2::UserInputQuestion) -> Question {
    Question {
        id: question.id,
        header: question.header,
        question: question.question,
        options: question
            .options
            .into_iter()
            .map(|option| QuestionOption {
                label: option.label,
                description: option.description,
                value: option.value,
            })
            .collect(),
        multi_select: question.multi_select,
        allow_custom: question.allow_custom_answer,
        required: question.required,
    }
}

/// `turnItems`, one at a time.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Items, D::Error> {
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = Items;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of turn items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items, A::Error> {
            let mut items = Items::default();
            while let Some(item) = list.next_element()? {
                items.take(item).map_err(A::Error::custom)?;
            }
            Ok(items)
        }
    }
    deserializer.deserialize_seq(Each)
}

/// `visibleTurnItems`, of which only those of the thread itself count.
pub(super) fn deserialize_visible<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Items, D::Error> {
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = Items;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of visible turn items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items, A::Error> {
            let mut items = Items::default();
            while let Some(visible) = list.next_element::<v2::VisibleTurnItem>()? {
                if visible.visibility.as_str() == "local" {
                    items.take(visible.item).map_err(A::Error::custom)?;
                }
            }
            Ok(items)
        }
    }
    deserializer.deserialize_seq(Each)
}
