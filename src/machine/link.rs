//! One connection to a machine while it stands: socket, HTTP, dialect, and what was asked over it and may be kept.
//!
//! A new connection is a new link, so nothing that is kept here outlives the server that said it. Made by the connection, used by
//! `Machine`'s reads and commands.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::dialect::Dialect;
use super::domain::{Provider, Thread, ThreadRow};
use super::error::MachineError;
use super::http::HttpClient;
use super::parts::Parts;
use super::socket::SessionHandle;
use crate::protocol::{EnvironmentId, ProviderInstanceId, ThreadId, Untrusted};

/// How long the providers and their models are kept.
const PROVIDERS_KEPT: Duration = Duration::from_mins(1);

/// What came of asking for the providers.
type Asked = Result<Arc<Vec<Provider>>, MachineError>;

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: SessionHandle,
    pub(super) dialect: Arc<dyn Dialect>,
    /// The database at its other end.
    pub(super) environment: EnvironmentId,
    http: HttpClient,
    /// The server has bounded reads, as far as is known.
    bounded: AtomicBool,
    /// What the reads of each thread showed.
    parts: StdMutex<HashMap<ThreadId, Parts>>,
    providers: Mutex<Option<(Instant, Asked)>>,
}

impl Link {
    pub(super) fn new(
        session: SessionHandle,
        http: HttpClient,
        dialect: Arc<dyn Dialect>,
        environment: EnvironmentId,
    ) -> Self {
        Self {
            session,
            dialect,
            environment,
            http,
            bounded: AtomicBool::new(true),
            parts: StdMutex::default(),
            providers: Mutex::default(),
        }
    }

    /// Reads a thread: its newest part where the server has such reads and the part is enough, else the whole.
    pub(super) async fn read_thread(&self, id: &ThreadId, row: Option<&ThreadRow>) -> Result<Thread, MachineError> {
        if self.bounded.load(Ordering::Relaxed)
            && self.parts(id).may_suffice()
            && let Some(thread) = self.read_part(id).await?
        {
            let mut parts = self.parts(id);
            let suffices = parts.handle_part(&thread, row);
            self.keep(id, parts);
            if suffices {
                return Ok(thread);
            }
        }
        self.read_whole_thread(id).await
    }

    /// Reads the whole thread.
    pub(super) async fn read_whole_thread(&self, id: &ThreadId) -> Result<Thread, MachineError> {
        let body = self.http.thread(id).await?;
        let thread = self.dialect.read_thread(&body)?;
        let mut parts = self.parts(id);
        parts.handle_whole(&thread);
        self.keep(id, parts);
        Ok(thread)
    }

    /// The newest part of a thread; none where the whole has to be read.
    async fn read_part(&self, id: &ThreadId) -> Result<Option<Thread>, MachineError> {
        let read = match self.http.thread_bounded(id).await {
            Ok(Some(body)) => self.dialect.read_thread(&body),
            Ok(None) => {
                self.bounded.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(thread) => Ok(Some(thread)),
            Err(error) if whole_would_fail_too(&error) => Err(error),
            Err(error) => {
                tracing::debug!(error = %Untrusted(&error.to_string()), "a bounded read failed: the whole thread is read");
                Ok(None)
            }
        }
    }

    fn parts(&self, id: &ThreadId) -> Parts {
        self.all_parts().get(id).copied().unwrap_or_default()
    }

    fn keep(&self, id: &ThreadId, parts: Parts) {
        self.all_parts().insert(id.clone(), parts);
    }

    fn all_parts(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Parts>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks T3 for nothing.
    pub(super) async fn probe(&self) -> Result<(), MachineError> {
        let call = self.dialect.probe()?;
        let answer = self.session.call(call.tag, call.payload).await;
        answer.map(drop).map_err(super::session::CallError::for_read)
    }

    /// The providers and their models, at most a minute old.
    pub(super) async fn providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        let wanted = Instant::now();
        let mut kept = self.providers.lock().await;
        match &*kept {
            Some((at, Ok(providers))) if at.elapsed() < PROVIDERS_KEPT => Ok(providers.clone()),
            // Who waited for this answer does not wait for another one: a silent machine would be asked by one call after the other.
            Some((at, Err(error))) if *at >= wanted => Err(error.clone()),
            Some(_) | None => {
                let asked = self.ask_providers().await;
                *kept = Some((Instant::now(), asked.clone()));
                asked
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
        *self.providers.lock().await = Some((Instant::now(), Ok(fresh.clone())));
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

/// Bounded reads only save work, so an error of them is one only where it speaks of the thread, the credential or the line.
fn whole_would_fail_too(error: &MachineError) -> bool {
    match error {
        MachineError::ThreadNotFound
        | MachineError::NeedsPairing { .. }
        | MachineError::InsufficientScope { .. }
        | MachineError::Unreachable { .. }
        | MachineError::Timeout(_) => true,
        MachineError::Rejected { .. }
        | MachineError::Defect { .. }
        | MachineError::AnswerLost { .. }
        | MachineError::ProtocolUnsupported { .. }
        | MachineError::NotT3 { .. }
        | MachineError::Decode(_)
        | MachineError::Unsafe(_) => false,
    }
}

#[cfg(test)]
mod tests;
