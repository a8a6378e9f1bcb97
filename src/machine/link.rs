//! One connection to a machine while it stands: socket, HTTP, dialect, and what was asked over it and may be kept.
//!
//! A new connection is a new link, so nothing that is kept here outlives the server that said it. Made by the connection, used by
//! `Machine`'s reads and commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::dialect::Dialect;
use super::domain::{Provider, Thread, ThreadRow};
use super::error::MachineError;
use super::http::HttpClient;
use super::socket::SessionHandle;
use crate::protocol::{ProviderInstanceId, ThreadId};

/// How long the providers and their models are kept.
const PROVIDERS_KEPT: Duration = Duration::from_mins(1);

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: SessionHandle,
    pub(super) dialect: Arc<dyn Dialect>,
    http: HttpClient,
    /// The server has bounded reads, as far as is known.
    bounded: AtomicBool,
    providers: Mutex<Option<(Instant, Arc<Vec<Provider>>)>>,
}

impl Link {
    pub(super) fn new(session: SessionHandle, http: HttpClient, dialect: Arc<dyn Dialect>) -> Self {
        Self {
            session,
            dialect,
            http,
            bounded: AtomicBool::new(true),
            providers: Mutex::default(),
        }
    }

    /// Reads a thread: its newest part where the server has such reads and the part is enough, else the whole.
    pub(super) async fn read_thread(&self, id: &ThreadId, row: Option<&ThreadRow>) -> Result<Thread, MachineError> {
        if self.bounded.load(Ordering::Relaxed) {
            match self.http.thread_bounded(id).await? {
                Some(body) => {
                    let thread = self.dialect.read_thread(&body)?;
                    if holds_every_open_run(&thread, row) {
                        return Ok(thread);
                    }
                }
                None => self.bounded.store(false, Ordering::Relaxed),
            }
        }
        self.read_whole_thread(id).await
    }

    /// Reads the whole of a thread.
    pub(super) async fn read_whole_thread(&self, id: &ThreadId) -> Result<Thread, MachineError> {
        let body = self.http.thread(id).await?;
        self.dialect.read_thread(&body)
    }

    /// The providers and their models, at most a minute old.
    pub(super) async fn providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        let mut kept = self.providers.lock().await;
        match &*kept {
            Some((at, providers)) if at.elapsed() < PROVIDERS_KEPT => Ok(providers.clone()),
            Some(_) | None => {
                let providers = self.ask_providers().await?;
                *kept = Some((Instant::now(), providers.clone()));
                Ok(providers)
            }
        }
    }

    /// Refuses a provider on which a run would never start. What was kept does not refuse: it may have been enabled since.
    pub(super) async fn check_provider(&self, instance: &ProviderInstanceId) -> Result<(), MachineError> {
        if refusal(&self.providers().await?, instance).is_none() {
            return Ok(());
        }
        match refusal(&self.providers_anew().await?, instance) {
            None => Ok(()),
            Some(refusal) => Err(MachineError::Unsafe(refusal)),
        }
    }

    /// The providers and their models as they are now.
    pub(super) async fn providers_anew(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        let fresh = self.ask_providers().await?;
        *self.providers.lock().await = Some((Instant::now(), fresh.clone()));
        Ok(fresh)
    }

    async fn ask_providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        let call = self.dialect.providers()?;
        let answer = self.session.call(call.tag, call.payload).await;
        let answer = answer.map_err(super::session::CallError::for_read)?;
        self.dialect.read_providers(&answer).map(Arc::new)
    }
}

/// Why a run on this provider would never start; T3 takes it and hangs.
fn refusal(providers: &[Provider], instance: &ProviderInstanceId) -> Option<String> {
    let Some(provider) = providers.iter().find(|provider| provider.instance == *instance) else {
        let known: Vec<_> = providers.iter().map(|provider| provider.instance.0.as_str()).collect();
        return Some(format!(
            "T3 has no provider instance {instance}; it has {}",
            known.join(", ")
        ));
    };
    if !provider.enabled || provider.status == "disabled" {
        return Some(format!(
            "the provider {instance} is disabled, a run on it would never start: enable it in T3, or name another"
        ));
    }
    provider.unavailable.as_ref().map(|why| {
        format!("the provider {instance} is not available ({why}), a run on it would never start: name another")
    })
}

/// A bounded read counts only if no open run can be missing from it. History pages bring turn items alone, so a gap in the ordinals is
/// the one sign of runs left out; and what the row names must be there.
fn holds_every_open_run(thread: &Thread, row: Option<&ThreadRow>) -> bool {
    if !thread.partial {
        return true;
    }
    let runs = &thread.facts.runs;
    let newest = runs.iter().map(|run| run.ordinal).max().unwrap_or_default();
    let Some(row) = row else {
        return false;
    };
    let has_run = |id: &Option<_>| id.as_ref().is_none_or(|id| runs.iter().any(|run| run.id == *id));
    u64::try_from(runs.len()).is_ok_and(|count| count == newest)
        && has_run(&row.active_run)
        && has_run(&row.latest_run)
        && row
            .pending
            .as_ref()
            .is_none_or(|pending| thread.facts.requests.iter().any(|request| request.id == pending.id))
}

#[cfg(test)]
mod tests;
