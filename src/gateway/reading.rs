//! What the tools share: finding a thread for a caller, reading it, telling what it is doing.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

use crate::fleet::{FleetError, Found, Member};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::standing::Standing;
use crate::gateway::{Caller, Gateway};
use crate::lifecycle::RunState;
use crate::machine::Thread;
use crate::protocol::{RunId, ThreadId};

/// The longest id of a thread that is looked for: T3's own have some forty bytes, clients may pick theirs.
const LONGEST_ID: usize = 1_024;

impl Gateway {
    /// The thread, if it exists for the caller.
    pub(super) async fn find_thread(&self, caller: &Caller, id: &str) -> Result<Found, ToolError> {
        self.find_thread_on(caller, None, id).await
    }

    /// The same, on a machine that the caller named.
    pub(super) async fn find_thread_on(
        &self,
        caller: &Caller,
        machine: Option<&str>,
        id: &str,
    ) -> Result<Found, ToolError> {
        // No id of T3's is like this, and T3 could take a path of this kind for another route.
        if id.trim().is_empty() || id.len() > LONGEST_ID {
            return Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!("thread_id has {} bytes; a thread's id has 1 to {LONGEST_ID}.", id.len()),
            )
            .hint("Pass a thread_id as t3_dispatch gave it."));
        }
        let id = ThreadId(id.to_owned());
        match self.fleet.find_thread(&caller.limits, machine, &id).await {
            Ok(found) => {
                self.saw(&found);
                Ok(found)
            }
            Err(FleetError::ThreadNotFound { id, unpaired }) => Err(self.not_found(caller, id, unpaired).await),
            Err(error) => {
                // Its machine is away and shows it no more, or not yet: it is still there for what can wait.
                let seen = match &error {
                    FleetError::Unreachable { machine: silent, .. }
                    | FleetError::ThreadNotSeen { machine: silent, .. } => {
                        self.seen(caller, &id, |member| member.name() == silent || member.away().is_some())
                    }
                    FleetError::UnknownMachine { .. }
                    | FleetError::MachineNeeded { .. }
                    | FleetError::ProjectNotFound { .. }
                    | FleetError::ProjectAmbiguous { .. }
                    | FleetError::ThreadNotFound { .. } => None,
                };
                let named = |found: &Found| machine.is_none_or(|machine| machine == found.member.name());
                seen.filter(named).ok_or_else(|| error.into())
            }
        }
    }

    /// No machine that was asked has the thread. One whose credential was taken away may, where this client dispatched to it.
    async fn not_found(&self, caller: &Caller, id: ThreadId, unpaired: Vec<String>) -> ToolError {
        let was_there = |name: &&String| {
            let key = ((*name).clone(), id.clone());
            self.memory.dispatched(&caller.client, &key).is_some()
        };
        let member = unpaired
            .iter()
            .find(was_there)
            .map(|name| self.fleet.member(&caller.limits, name));
        match member.and_then(Result::ok) {
            Some(member) => self.fleet.may_be_on(&member, &id).await.into(),
            None => FleetError::ThreadNotFound { id, unpaired }.into(),
        }
    }

    /// The thread is there: from now on it is known even while its machine is away.
    pub(super) fn saw(&self, found: &Found) {
        self.memory.saw(&found.id, found.member.name(), &found.project.id);
    }

    /// A thread that was seen before on a machine that does not answer now, if it exists for the caller.
    fn seen(&self, caller: &Caller, id: &ThreadId, is_silent: impl Fn(&Member) -> bool) -> Option<Found> {
        let (machine, project) = self.memory.place(id)?;
        let member = self.fleet.member(&caller.limits, &machine).ok()?;
        let project = member.project(&caller.limits, &project)?;
        let id = id.clone();
        is_silent(&member).then_some(Found { member, project, id })
    }

    /// Its content.
    pub(super) async fn read(&self, found: &Found) -> Result<Arc<Thread>, ToolError> {
        self.read_and_show(&found.member, &found.id)
            .await
            .map_err(|error| ToolError::from_machine(found.member.name(), &error))
    }

    /// What a thread that was read is doing. Runs that have been finishing for too long count as completed.
    pub(super) fn standing<'a>(&self, member: &Member, thread: &'a Thread) -> Standing<'a> {
        let timed_out = self.finished_too_long(member, thread);
        Standing::of(thread, timed_out)
    }

    fn finished_too_long(&self, member: &Member, thread: &Thread) -> Vec<RunId> {
        let at_face_value = Standing::of(thread, Vec::new());
        let silent_for = Timestamp::now().duration_since(thread.updated_at);
        thread
            .facts
            .runs
            .iter()
            .filter(|run| at_face_value.run_state(run) == RunState::Finishing)
            .filter(|run| {
                // The machine's clock may be off, and we may not have looked before: either way of knowing is enough.
                let now = Instant::now();
                let since = self.memory.finishing_since(member.name(), &run.id, now);
                now.saturating_duration_since(since) >= self.settings.finish_timeout
                    || silent_for.unsigned_abs() >= self.settings.finish_timeout && silent_for.is_positive()
            })
            .map(|run| run.id.clone())
            .collect()
    }

    /// Runs a change in a task of its own: a caller that hangs up does not stop it half way. A panic in it is an answer too.
    pub(super) async fn in_own_task<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, ToolError>> + Send + 'static,
    ) -> Result<T, ToolError> {
        self.tasks.spawn(work).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a call ended without an answer");
            Err(ToolError::new(
                ErrorCode::Internal,
                "The gateway failed inside this call; what it did before may have taken effect.",
            )
            .hint("Read the thread (t3_thread) before you repeat it, and tell the operator."))
        })
    }
}

/// Refuses a caller that may only read.
pub(super) fn may_change(caller: &Caller, what: &str) -> Result<(), ToolError> {
    if caller.limits.read_only {
        return Err(ToolError::new(
            ErrorCode::InsufficientScope,
            format!("The client `{}` may only read; {what} was not done.", caller.client),
        )
        .hint("The operator can lift read_only for it."));
    }
    Ok(())
}

/// A thread that was deleted.
pub(super) fn deleted(found: &Found) -> ToolError {
    ToolError::new(
        ErrorCode::ThreadNotFound,
        format!("The thread {} on {} was deleted.", found.id, found.member.name()),
    )
    .hint("Start a new thread with t3_dispatch.")
}

/// A thread in T3's archive: T3 would start a run in it that nobody sees.
pub(super) fn archived(found: &Found) -> ToolError {
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!("The thread {} is archived.", found.id),
    )
    .hint("Restore it with t3_archive (archived: false), or start a new thread.")
}
