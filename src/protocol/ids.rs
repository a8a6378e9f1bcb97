//! The ids of T3's contracts, generated: opaque, never taken apart.

pub use super::v2::{
    CheckpointId, CheckpointScopeId, CommandId, EnvironmentId, EventId, MessageId, NodeId, PlanId, ProjectId,
    ProviderDriverKind, ProviderInstanceId, ProviderSessionId, ProviderThreadId, ProviderTurnId, RunAttemptId, RunId,
    RuntimeRequestId, ThreadId, TurnItemId,
};
