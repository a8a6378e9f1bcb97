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

use super::descriptor;
use super::dialect::{ConfigItem, Dialect, archived_is_unreadable};
use super::domain::{Provider, Thread, ThreadRow};
use super::error::MachineError;
use super::http::HttpClient;
use super::parts::Parts;
use super::session::{CallError, Subscription};
use super::socket::SessionHandle;
use crate::lifecycle::RunFacts;
use crate::protocol::{EnvironmentId, ProviderInstanceId, ThreadId, Untrusted};

/// How long the providers and their models are kept, though T3 tells what changes: not everything is told by every server.
const PROVIDERS_KEPT: Duration = Duration::from_mins(1);

/// How long after a read of an end that may not be all the next one comes, and how many come. T3 captures a checkpoint in a fifth of a second.
const SETTLING: Duration = Duration::from_millis(250);
const SETTLING_READS: usize = 4;

/// How T3 ends its words for a thread that it does not have.
const NOT_FOUND: &str = "was not found";

/// What T3 said of its providers, and when it was heard or asked for.
type Heard = (Instant, Arc<Vec<Provider>>);

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
    providers: StdMutex<Option<Heard>>,
    /// Held by who asks for them; when and why the last one was not answered.
    asking: Mutex<Option<(Instant, MachineError)>>,
}

impl Link {
    pub(super) fn new(
        session: SessionHandle,
        http: HttpClient,
        dialect: Arc<dyn Dialect>,
        environment: EnvironmentId,
    ) -> Self {
        // The older protocol has no such reads.
        let bounded = AtomicBool::new(dialect.protocol() >= descriptor::SPOKEN);
        Self {
            session,
            dialect,
            environment,
            http,
            bounded,
            parts: StdMutex::default(),
            providers: StdMutex::default(),
            asking: Mutex::default(),
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
        let thread = match self.read_whole(id).await {
            // It may be there all the same: in the archive.
            Err(MachineError::ThreadNotFound) => match self.archived_thread(id, &[]).await? {
                Some(_) => return Err(archived_is_unreadable()),
                None => return Err(MachineError::ThreadNotFound),
            },
            read => self.settled(id, read?).await,
        };
        let mut parts = self.parts(id);
        parts.handle_whole(&thread);
        self.keep(id, parts);
        Ok(thread)
    }

    /// Reads the thread again until what it shows of its end is all that there is, or for a moment.
    async fn settled(&self, id: &ThreadId, mut thread: Thread) -> Thread {
        for _ in 0..SETTLING_READS {
            if !self.dialect.is_settling(id) {
                break;
            }
            tokio::time::sleep(SETTLING).await;
            match self.read_whole(id).await {
                Ok(again) => thread = again,
                // What was read is true all the same.
                Err(_) => break,
            }
        }
        thread
    }

    async fn read_whole(&self, id: &ThreadId) -> Result<Thread, MachineError> {
        let Some(subscription) = self.dialect.thread_subscription(id) else {
            return self.dialect.read_thread(&self.http.thread(id).await?);
        };
        match self.http.thread_if_routed(id).await? {
            Some(body) => self.dialect.read_thread(&body),
            None => self.read_streamed(subscription).await,
        }
    }

    /// What is known of an archived thread that cannot be read; none where it is not in the archive, or can be.
    pub(super) async fn archived_thread(
        &self,
        id: &ThreadId,
        known: &[RunFacts],
    ) -> Result<Option<Thread>, MachineError> {
        let Some(call) = self.dialect.archived() else {
            return Ok(None);
        };
        match self.session.call(call.tag, call.payload).await {
            Ok(value) => self.dialect.read_archived_thread(&value, id, known),
            Err(error) if error.is_unknown_request() => Ok(None),
            Err(error) => Err(error.for_read()),
        }
    }

    /// Reads the whole thread from the beginning of its stream.
    async fn read_streamed(&self, subscription: Subscription) -> Result<Thread, MachineError> {
        let mut stream = self
            .session
            .subscribe(subscription)
            .await
            .map_err(CallError::for_read)?;
        match stream.next_chunk().await {
            Ok(values) => match values.first() {
                Some(value) => self.dialect.read_thread(value.get().as_bytes()),
                None => Err(MachineError::Decode(
                    "the stream of the thread began with nothing".to_owned(),
                )),
            },
            Err(end) => match end.error {
                Some(CallError::Rejected { message, .. }) if message.ends_with(NOT_FOUND) => {
                    Err(MachineError::ThreadNotFound)
                }
                Some(error) => Err(error.for_read()),
                None => Err(MachineError::ThreadNotFound),
            },
        }
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

    /// The providers and their models: as T3 last told them, at most a minute old.
    pub(super) async fn providers(&self) -> Result<Arc<Vec<Provider>>, MachineError> {
        let wanted = Instant::now();
        if let Some(providers) = self.heard_providers() {
            return Ok(providers);
        }
        let mut failed = self.asking.lock().await;
        if let Some(providers) = self.heard_providers() {
            return Ok(providers);
        }
        // Who waited for this answer does not wait for another one: a silent machine would be asked by one call after the other.
        if let Some((at, error)) = &*failed
            && *at >= wanted
        {
            return Err(error.clone());
        }
        let asked = self.providers_anew().await;
        *failed = asked.as_ref().err().map(|error| (Instant::now(), error.clone()));
        asked
    }

    fn heard_providers(&self) -> Option<Arc<Vec<Provider>>> {
        let heard = self.heard();
        let (at, providers) = heard.as_ref()?;
        (at.elapsed() < PROVIDERS_KEPT).then(|| Arc::clone(providers))
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Option<Heard>> {
        self.providers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// T3 told something of its config; an item that cannot be read may have told anything.
    pub(super) fn handle_config_item(&self, item: Result<ConfigItem, MachineError>) {
        match item {
            Ok(ConfigItem::Providers(providers)) => *self.heard() = Some((Instant::now(), Arc::new(providers))),
            Ok(ConfigItem::Settings) => *self.heard() = None,
            Ok(ConfigItem::Other) => {}
            Err(error) => {
                *self.heard() = None;
                tracing::debug!(error = %Untrusted(&error.to_string()), "what T3 told of its config cannot be read");
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
        let asked = Instant::now();
        let fresh = self.ask_providers().await?;
        let mut heard = self.heard();
        // What the stream told meanwhile is newer.
        if heard.as_ref().is_none_or(|(at, _)| *at < asked) {
            *heard = Some((asked, Arc::clone(&fresh)));
        }
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
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => false,
    }
}

#[cfg(test)]
mod tests;
