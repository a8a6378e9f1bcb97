//! Questions to a machine that servers may not know: its search, diffs, and the scratch project. One that lacks the procedure says so with
//! `None`, and the caller takes another way.

use serde_json::value::RawValue;

use super::dialect::{Call, Dialect};
use super::domain::{SearchMatch, Turns};
use super::error::MachineError;
use super::link::Link;
use super::session::CallError;
use super::socket::SessionHandle;
use super::{Core, Machine};
use crate::protocol::{ProjectId, ThreadId};

impl Machine {
    /// T3's own search over titles and messages of all its projects.
    pub async fn search(&self, query: &str) -> Result<Option<Vec<SearchMatch>>, MachineError> {
        let link = self.core.link()?;
        let answer = link.ask(link.dialect.search(query)?).await?;
        answer.map(|answer| link.dialect.read_search(&answer)).transpose()
    }

    /// The unified diff of a thread's turns.
    pub async fn diff(&self, thread: &ThreadId, turns: Turns) -> Result<Option<String>, MachineError> {
        let link = self.core.link()?;
        let answer = link.ask(link.dialect.diff(thread, turns)?).await?;
        answer.map(|answer| link.dialect.read_diff(&answer)).transpose()
    }

    /// The project for what belongs to none, from memory: none where it was not asked for, or the server has none.
    pub fn scratch(&self) -> Option<ProjectId> {
        self.core.state.scratch()
    }

    /// The same; a server that was not asked yet is asked, and makes it.
    pub async fn ensure_scratch(&self) -> Result<Option<ProjectId>, MachineError> {
        if let Some(known) = self.scratch() {
            return Ok(Some(known));
        }
        let link = self.core.link()?;
        self.core.ensure_scratch(&link.session, &*link.dialect).await
    }
}

impl Core {
    /// Asks for the scratch project and remembers it.
    pub(super) async fn ensure_scratch(
        &self,
        session: &SessionHandle,
        dialect: &dyn Dialect,
    ) -> Result<Option<ProjectId>, MachineError> {
        let Some(answer) = ask(session, dialect.scratch()).await? else {
            return Ok(None);
        };
        let project = dialect.read_scratch(&answer)?;
        self.state.handle_scratch(project.clone());
        Ok(Some(project))
    }
}

impl Link {
    async fn ask(&self, call: Call) -> Result<Option<Box<RawValue>>, MachineError> {
        ask(&self.session, call).await
    }
}

/// A question; none where the server does not have the procedure.
async fn ask(session: &SessionHandle, call: Call) -> Result<Option<Box<RawValue>>, MachineError> {
    match session.call(call.tag, call.payload).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_unknown_request() => Ok(None),
        Err(error) => Err(CallError::for_read(error)),
    }
}
