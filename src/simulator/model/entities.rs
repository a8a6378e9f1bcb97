//! What a thread holds, in the shapes that travel: a field that T3 always sends is a plain field (null included), one that it
//! leaves out is skipped when absent.
//!
//! Ids are plain text here: the model makes and compares them, and takes the client's as they come.

use serde::Serialize;
use serde_json::Value;

use super::stamp::Stamp;

/// Always `null` on this wire.
pub(crate) type Null = Option<()>;

/// T3's words for a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Its workspace is being made.
    Preparing,
    /// It waits behind another run.
    Queued,
    /// Its provider is being started.
    Starting,
    /// Its agent works.
    Running,
    /// Its turn is over, the checkpoint is being captured.
    Waiting,
    /// Ended well.
    Completed,
    /// Ended by its user.
    Interrupted,
    /// Ended by an error.
    Failed,
    /// Ended before or while it ran, by a command, a decision or a restart.
    Cancelled,
}

impl RunStatus {
    /// T3's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// It holds the thread: nothing else may start.
    pub(crate) fn is_active(self) -> bool {
        match self {
            Self::Preparing | Self::Starting | Self::Running | Self::Waiting => true,
            Self::Queued | Self::Completed | Self::Interrupted | Self::Failed | Self::Cancelled => false,
        }
    }

    /// An agent can still be stopped.
    pub(crate) fn is_interruptible(self) -> bool {
        self.is_active() && self != Self::Waiting
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lineage {
    pub parent_thread_id: Null,
    pub relationship_to_parent: Null,
    pub root_thread_id: String,
}

/// The thread itself, as its own events and its projection show it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppThread {
    pub created_by: &'static str,
    pub creation_source: String,
    pub id: String,
    pub project_id: String,
    pub title: String,
    pub provider_instance_id: String,
    pub model_selection: Value,
    pub runtime_mode: String,
    pub interaction_mode: String,
    pub branch: Option<String>,
    pub worktree_path: Option<String>,
    pub active_provider_thread_id: Option<String>,
    pub lineage: Lineage,
    pub forked_from: Null,
    pub created_at: Stamp,
    pub updated_at: Stamp,
    pub archived_at: Option<Stamp>,
    pub settled_override: Option<&'static str>,
    pub settled_at: Option<Stamp>,
    pub snoozed_until: Option<String>,
    pub snoozed_at: Option<Stamp>,
    /// Left out until a command has rewritten the thread.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub rewritten: Option<Rewritten>,
    pub last_visited_at: Option<String>,
    pub deleted_at: Option<Stamp>,
    /// Only of threads that an upgrade took over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_origin: Option<&'static str>,
}

/// What a thread shows once a command has rewritten it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rewritten {
    pub pinned_at: Option<Stamp>,
    pub pin_order_key: Option<String>,
    pub title_regeneration: Option<TitleRegeneration>,
}

/// A title that is being made out of a message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TitleRegeneration {
    /// The command that asked for it.
    pub request_id: String,
    pub started_at: Stamp,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub id: String,
    pub thread_id: String,
    pub ordinal: u64,
    pub provider_instance_id: String,
    pub model_selection: Value,
    pub provider_thread_id: String,
    pub user_message_id: String,
    pub root_node_id: String,
    pub active_attempt_id: String,
    pub status: RunStatus,
    pub queue_position: Option<u64>,
    pub requested_at: Stamp,
    pub started_at: Option<Stamp>,
    pub completed_at: Option<Stamp>,
    pub checkpoint_id: Option<String>,
    pub context_handoff_id: Null,
    /// Newer servers alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_held: Option<bool>,
    /// The run that a restart cut off and this one goes on with: newer servers alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_continuation_of_run_id: Option<String>,
    /// Which attempt is the active one.
    #[serde(skip)]
    pub attempt: u64,
}

#[expect(clippy::struct_field_names, reason = "the names of the wire")]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    pub id: String,
    pub run_id: String,
    pub attempt_ordinal: u64,
    pub root_node_id: String,
    pub provider_instance_id: String,
    pub provider_thread_id: String,
    pub provider_turn_id: Null,
    pub reason: &'static str,
    pub status: &'static str,
    pub started_at: Option<Stamp>,
    pub completed_at: Option<Stamp>,
}

/// A provider's own name for something.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NativeRef {
    pub driver: String,
    pub native_id: String,
    pub strength: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub id: String,
    pub thread_id: String,
    pub run_id: String,
    pub parent_node_id: Option<String>,
    pub root_node_id: String,
    pub kind: &'static str,
    pub status: &'static str,
    pub counts_for_run: bool,
    pub provider_thread_id: String,
    pub provider_turn_id: Option<String>,
    pub native_item_ref: Option<NativeRef>,
    pub runtime_request_id: Option<String>,
    pub checkpoint_scope_id: Option<String>,
    pub started_at: Option<Stamp>,
    pub completed_at: Option<Stamp>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    pub id: String,
    pub driver: String,
    pub provider_instance_id: String,
    pub status: &'static str,
    pub cwd: String,
    pub model: String,
    pub capabilities: Value,
    pub created_at: Stamp,
    pub updated_at: Stamp,
    pub last_error: Null,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderThread {
    pub id: String,
    pub driver: String,
    pub provider_instance_id: String,
    pub provider_session_id: String,
    pub app_thread_id: String,
    pub owner_node_id: Null,
    pub native_thread_ref: Option<NativeRef>,
    pub native_conversation_head_ref: Null,
    pub status: &'static str,
    pub first_run_ordinal: u64,
    pub last_run_ordinal: u64,
    pub handoff_ids: [&'static str; 0],
    pub forked_from: Null,
    pub pending_background_tasks: Vec<BackgroundTask>,
    pub created_at: Stamp,
    pub updated_at: Stamp,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Turn {
    pub id: String,
    pub provider_thread_id: String,
    pub node_id: String,
    pub run_attempt_id: String,
    pub native_turn_ref: NativeRef,
    pub ordinal: u64,
    pub status: &'static str,
    pub started_at: Stamp,
    pub completed_at: Option<Stamp>,
}

/// T3's words for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestStatus {
    Pending,
    Resolved,
    Cancelled,
    Expired,
}

impl RequestStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    pub id: String,
    pub node_id: String,
    pub provider_turn_id: String,
    pub native_request_ref: NativeRef,
    pub kind: &'static str,
    pub status: RequestStatus,
    pub response_capability: ResponseCapability,
    pub created_at: Stamp,
    pub resolved_at: Option<Stamp>,
    /// The run that it holds.
    #[serde(skip)]
    pub run: u64,
}

impl Request {
    /// It is pending, and ends with its run.
    pub(crate) fn is_open_in_its_run(&self) -> bool {
        self.status == RequestStatus::Pending && !matches!(self.response_capability, ResponseCapability::Message)
    }
}

/// Work that goes on after its turn.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackgroundTask {
    pub task_id: String,
    pub kind: &'static str,
    pub description: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ResponseCapability {
    Live {
        provider_session_id: String,
    },
    /// The answer is a message of its own: newer servers alone.
    Message,
    NotResumable {
        reason: &'static str,
    },
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub created_by: &'static str,
    pub creation_source: String,
    pub id: String,
    pub thread_id: String,
    pub run_id: String,
    pub node_id: String,
    pub role: &'static str,
    pub text: String,
    pub attachments: Value,
    pub streaming: bool,
    pub created_at: Stamp,
    pub updated_at: Stamp,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scope {
    pub id: String,
    pub thread_id: String,
    pub run_id: String,
    pub node_id: String,
    pub parent_scope_id: Null,
    pub provider_thread_id: String,
    pub kind: &'static str,
    pub ordinal_within_parent: u64,
    pub advances_app_run_count: bool,
    pub cwd: String,
    pub created_at: Stamp,
}

/// A file that a checkpoint says was changed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChangedFile {
    pub path: String,
    pub kind: &'static str,
    pub additions: u64,
    pub deletions: u64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checkpoint {
    pub id: String,
    pub thread_id: String,
    pub scope_id: String,
    pub run_id: Option<String>,
    pub node_id: String,
    pub parent_checkpoint_id: Option<String>,
    pub ordinal_within_scope: u64,
    pub app_run_ordinal: Option<u64>,
    #[serde(rename = "ref")]
    pub git_ref: String,
    pub status: &'static str,
    pub files: Vec<ChangedFile>,
    pub captured_at: Stamp,
}
