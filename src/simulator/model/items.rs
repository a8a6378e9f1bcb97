//! The entries of a thread's history, in the shapes that travel.

use serde::Serialize;
use serde_json::Value;

use super::entities::{ChangedFile, NativeRef, Null};
use super::stamp::Stamp;

/// One entry of a thread's history.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    pub id: String,
    pub thread_id: String,
    pub run_id: String,
    pub node_id: String,
    pub provider_thread_id: String,
    pub provider_turn_id: Option<String>,
    pub native_item_ref: Option<NativeRef>,
    pub parent_item_id: Option<String>,
    pub ordinal: u64,
    pub status: &'static str,
    pub title: Option<String>,
    pub started_at: Stamp,
    pub completed_at: Option<Stamp>,
    pub updated_at: Stamp,
    #[serde(flatten)]
    pub body: ItemBody,
}

/// What an entry is.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ItemBody {
    UserMessage {
        created_by: &'static str,
        creation_source: String,
        message_id: String,
        input_intent: &'static str,
        text: String,
        attachments: Value,
    },
    AssistantMessage {
        message_id: String,
        text: String,
        streaming: bool,
    },
    CommandExecution {
        input: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
    },
    FileChange {
        file_name: String,
    },
    ApprovalRequest {
        request_id: String,
        request_kind: &'static str,
        prompt: String,
        /// Newer servers alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        options: Option<Vec<ApprovalOption>>,
    },
    UserInputRequest {
        request_id: String,
        questions: Value,
    },
    RunInterruptRequest {
        message: String,
    },
    RunInterruptResult {
        message: &'static str,
    },
    Checkpoint {
        checkpoint_id: String,
        scope_id: String,
        files: Vec<ChangedFile>,
    },
    Error {
        failure: Failure,
    },
}

/// A decision that an approval offers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApprovalOption {
    pub decision: &'static str,
    pub label: &'static str,
}

/// Why a run failed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failure {
    pub class: &'static str,
    pub message: String,
    pub code: Null,
    pub retryable: Null,
}
