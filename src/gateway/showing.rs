//! Calls read threads too, and what a thread asks may be over before whoever keeps an eye on it reads it: an agent answers in milliseconds. So what
//! a call read is shown to `watch`, which decides whether it tells anything new.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::fleet::Member;
use crate::gateway::Gateway;
use crate::gateway::tracking::{Sight, Wish};
use crate::lifecycle::asks;
use crate::machine::{MachineError, Thread};
use crate::protocol::{EnvironmentId, ThreadId};

/// How long a call that is about to end what a thread asks waits for the event to be on disk. The person or agent behind it does not see why.
const KEPT_WITHIN: Duration = Duration::from_secs(2);

impl Gateway {
    /// The thread's content, as [`Machine::read_thread`](crate::machine::Machine::read_thread) gives it; what it asks is shown.
    pub(super) async fn read_and_show(&self, member: &Member, id: &ThreadId) -> Result<Arc<Thread>, MachineError> {
        let environment = self.environment_of(member);
        let thread = member.machine.read_thread(id).await?;
        if let Some(ledger) = &self.ledger
            && thread.facts.requests.iter().any(asks)
        {
            let sight = sight(member, environment, id, &thread, None);
            ledger.tracking.offer(Wish::Sight(sight));
        }
        Ok(thread)
    }

    /// Before a call ends what the thread asks: waits until it was told, if it is to be told, at most for [`KEPT_WITHIN`].
    pub(super) async fn told_what_is_asked(&self, member: &Member, id: &ThreadId, thread: &Arc<Thread>) {
        let Some(ledger) = &self.ledger else { return };
        if !thread.facts.requests.iter().any(asks) {
            return;
        }
        let (kept, told) = oneshot::channel();
        let sight = sight(member, self.environment_of(member), id, thread, Some(kept));
        let shown = async {
            ledger.tracking.wish(Wish::Sight(sight)).await;
            // Nothing is sent: it is dropped.
            let _ = told.await;
        };
        if tokio::time::timeout(KEPT_WITHIN, shown).await.is_err() {
            tracing::warn!(thread = %id, "what the thread asks could not be told before it was answered");
        }
    }

    fn environment_of(&self, member: &Member) -> Option<EnvironmentId> {
        self.ledger.as_ref().and_then(|_| member.machine.status().environment)
    }
}

fn sight(
    member: &Member,
    environment: Option<EnvironmentId>,
    id: &ThreadId,
    thread: &Arc<Thread>,
    kept: Option<oneshot::Sender<()>>,
) -> Sight {
    Sight {
        machine: member.name().to_owned(),
        environment,
        id: id.clone(),
        thread: Arc::clone(thread),
        kept,
    }
}
