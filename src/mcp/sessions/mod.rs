//! Sessions of the older protocol revisions: opened by `initialize`, bound to the client that opened them, resumable.
//!
//! [`Sessions`] stands between rmcp's HTTP service and its session workers. rmcp's own idle clock counts neither open calls nor streams and
//! kills a session in the middle of a long wait, so it is off, and the reaper here puts only truly idle sessions to sleep; their next request
//! wakes them, unseen by the client. A session's results are kept for a client whose connection broke. With a ledger ([`Sessions::attach`])
//! sessions outlive the process. The newest revision has no sessions and comes by here not at all. `http` makes one and asks
//! [`Sessions::admit`] before a request gets to rmcp.

mod events;
mod kept;
mod registry;
mod streams;
mod transport;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _, stream};
use http::request::Parts;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{
    EventStore, EventStream, ServerSseMessage, SessionState, SessionStore, SessionStoreError,
};
use rmcp::transport::streamable_http_server::{RestoreOutcome, SessionId, SessionManager};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::mcp::caller::Client;
use crate::mcp::fate::Fate;
use crate::store::Store;
use events::{Call, Events, is_result};
use registry::{Registry, canonical};
use streams::{OpenStream, not_opened, refused};
use transport::{Watched, answered};

pub use kept::{Admission, LedgerFailed, Turn};

/// The clocks of the sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionSettings {
    /// After this long without any call or stream a session goes to sleep.
    pub idle: Duration,
    /// How often that is looked at.
    pub look_every: Duration,
    /// How long a client whose connection broke may stay away before its calls count as unheard.
    pub away: Duration,
    /// How often the ledger is told, at most, that a session was used.
    pub note_every: Duration,
    /// After this long without any use a sleeping session is forgotten, in the ledger too.
    pub forget_after: Duration,
    /// How often such sessions are looked for.
    pub forget_every: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(10),
            look_every: Duration::from_secs(30),
            // SDKs come back after 3 s, the second time after some more.
            away: Duration::from_secs(15),
            note_every: Duration::from_mins(5),
            forget_after: Duration::from_hours(30 * 24),
            forget_every: Duration::from_hours(1),
        }
    }
}

/// All sessions of the older revisions.
pub struct Sessions {
    workers: LocalSessionManager,
    shared: Arc<Shared>,
    settings: SessionSettings,
    /// Where sessions outlive the process, once there is one.
    ledger: Mutex<Option<Store>>,
}

/// What sessions and their transports share.
struct Shared {
    registry: Mutex<Registry>,
    events: Arc<Events>,
    /// A worker that was told to end has ended.
    ended: Notify,
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, session: Uuid, request: &RequestId) {
        self.registry().handle_done(session, request, Instant::now());
    }
}

impl Sessions {
    /// No sessions yet.
    pub fn new(settings: SessionSettings) -> Arc<Self> {
        let events = Arc::new(Events::default());
        let store: Arc<dyn EventStore> = Arc::clone(&events) as Arc<dyn EventStore>;
        let mut config = SessionConfig::default();
        config.keep_alive = None;
        let mut workers = LocalSessionManager::default().with_event_store(store);
        workers.session_config = config;
        Arc::new(Self {
            workers,
            shared: Arc::new(Shared {
                registry: Mutex::default(),
                events,
                ended: Notify::new(),
            }),
            settings,
            ledger: Mutex::default(),
        })
    }

    /// How many sessions are known, and how many of them have a worker.
    pub fn count(&self) -> (usize, usize) {
        let registry = self.shared.registry();
        (registry.known(), registry.awake())
    }

    /// How many streams are kept for clients that may come back.
    pub fn kept_streams(&self) -> usize {
        self.shared.events.kept_streams()
    }

    /// What a client wants to go on reading from that event is kept, and its own.
    pub fn can_resume(&self, session: &str, event_id: &str) -> bool {
        self.shared.events.can_resume(event_id, session)
    }

    /// That event is of a session's own standing stream, of which nothing is kept: whoever asks for what follows it gets a new one.
    pub fn begins_anew(&self, session: &str, event_id: &str) -> bool {
        self.shared.events.begins_anew(event_id, session)
    }

    /// Puts idle sessions to sleep, and looks after what is on disk of them, until `stop` is cancelled.
    pub async fn reap(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(self.settings.look_every);
        let mut last_forgotten = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => return,
            }
            let now = Instant::now();
            let due = self.shared.registry().poll_idle(now, self.settings.idle);
            for id in due {
                let name: SessionId = id.to_string().into();
                tracing::debug!(session = %name, "an idle session goes to sleep");
                if let Err(error) = self.workers.close_session(&name).await {
                    tracing::debug!(session = %name, %error, "its worker had ended");
                }
            }
            self.shared.events.forget_old(now);
            self.keep_up(now, &mut last_forgotten).await;
        }
    }

    /// Ends the streams that clients hold open besides their calls: they would hold a graceful stop for ever.
    pub async fn close_streams(&self) {
        let handles: Vec<_> = self.workers.sessions.read().await.values().cloned().collect();
        for handle in handles {
            if let Err(error) = handle.close_standalone_sse_stream(None).await {
                tracing::debug!(%error, "a session's stream was closed already");
            }
        }
    }

    fn watched(&self, session: Uuid, inner: <LocalSessionManager as SessionManager>::Transport) -> Watched {
        Watched {
            inner,
            session,
            shared: Arc::clone(&self.shared),
        }
    }

    /// A call's stream, watched: its events are known to be this session's, its id is free again before the client can see the result, and a
    /// stream that ends without one (the call was cancelled) takes the answer with it.
    fn told<S>(&self, inner: S, session: Uuid, call: Call) -> EventStream
    where
        S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let told = Arc::new(AtomicBool::new(false));
        let begun: Arc<OnceLock<String>> = Arc::default();
        let ended = {
            let (told, begun, fate) = (Arc::clone(&told), Arc::clone(&begun), call.fate.clone());
            let shared = Arc::clone(&shared);
            stream::once(async move {
                if !told.load(Ordering::Relaxed) {
                    fate.withdraw();
                    if let Some(event_id) = begun.get() {
                        shared.events.ended_without_result(event_id);
                    }
                }
            })
            .filter_map(|()| std::future::ready(None))
        };
        let watched = inner.map(move |event| {
            if let Some(event_id) = &event.event_id {
                shared.events.belongs(event_id, &call);
                begun.get_or_init(|| event_id.clone());
                if is_result(&event) {
                    shared.events.read_to_end(event_id);
                }
            }
            let request = event.message.as_deref().and_then(answered);
            if let Some(request) = &request {
                told.store(true, Ordering::Relaxed);
                shared.done(session, request);
            }
            (event, request.is_some())
        });
        // Nothing follows a result. That the stream ends with it, and not when its worker has cleared up, brings both to the client at once:
        // many clients close their connection as soon as they have the result.
        let events = stream::unfold(Some(Box::pin(watched)), async |watched| {
            let mut watched = watched?;
            let (event, is_last) = watched.next().await?;
            Some((event, (!is_last).then_some(watched)))
        });
        Box::pin(events.chain(ended))
    }

    /// Waits until a worker that was told to end has ended, so that its end is not taken for that of the session's next worker.
    async fn closed(&self, id: Uuid) {
        loop {
            let ended = self.shared.ended.notified();
            if !self.shared.registry().is_closing(id) {
                return;
            }
            ended.await;
        }
    }
}

/// The id in rmcp's hands. It comes from our own middleware's check or from rmcp itself, so it is canonical; were it not, it names nothing.
fn uuid_of(id: &SessionId) -> Uuid {
    canonical(id).unwrap_or_default()
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = Watched;

    async fn create_session(&self) -> Result<(SessionId, Watched), Self::Error> {
        let (id, transport) = self.workers.create_session().await?;
        let watched = self.watched(uuid_of(&id), transport);
        Ok((id, watched))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let session = uuid_of(id);
        let opening = opening(&message);
        // One that is known wakes: what it was opened with is there.
        let wakes = self.shared.registry().knows(session);
        let owner = owner_of(&message);
        self.shared.registry().handle_opened(session, owner, Instant::now());
        let answer = self.workers.initialize_session(id, message).await?;
        let Some((request, state)) = opening.filter(|_| !wakes && matches!(answer, JsonRpcMessage::Response(_))) else {
            return Ok(answer);
        };
        self.shared.registry().handle_stored(session, state);
        // A client that was told of a session finds it again.
        if let Err(error) = self.keep(session).await {
            self.shared.registry().forget(session);
            self.workers.close_session(id).await?;
            return Ok(not_opened(request, &error));
        }
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let session = uuid_of(id);
        self.closed(session).await;
        Ok(self.shared.registry().is_awake(session))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let closed = self.workers.close_session(id).await;
        self.shared.registry().handle_ended(uuid_of(id));
        self.shared.events.forget_session(id);
        self.shared.ended.notify_waiters();
        closed
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let session = uuid_of(id);
        let (request, fate) = match &message {
            JsonRpcMessage::Request(request) => {
                let parts = request.request.extensions().get::<Parts>();
                let fate = parts.and_then(|parts| parts.extensions.get::<Fate>()).cloned();
                (Some(request.id.clone()), fate.unwrap_or_default())
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => {
                (None, Fate::default())
            }
        };
        if let Some(request) = &request
            && !self.shared.registry().handle_begun(session, request, Instant::now())
        {
            return Ok(refused(request.clone()));
        }
        let inner = match self.workers.create_stream(id, message).await {
            Ok(inner) => inner,
            Err(error) => {
                if let Some(request) = &request {
                    self.shared.done(session, request);
                }
                return Err(error);
            }
        };
        fate.keep_for(self.settings.away);
        let call = Call {
            session: Arc::clone(id),
            request,
            fate,
        };
        Ok(self.told(inner, session, call))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(request) = &cancelled.params.request_id
        {
            // A cancelled request gets no result that would free its id, or end what is kept of its stream.
            self.shared.done(uuid_of(id), request);
            self.shared.events.cancelled(id, request, Instant::now());
        }
        let initialized = matches!(
            &message,
            JsonRpcMessage::Notification(notification)
                if matches!(notification.notification, ClientNotification::InitializedNotification(_))
        );
        self.workers.accept_message(id, message).await?;
        if initialized {
            self.shared.registry().handle_initialized(uuid_of(id));
        }
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let inner = self.workers.create_standalone_stream(id).await?;
        let open = OpenStream::new(&self.shared, uuid_of(id));
        Ok(Box::pin(inner.map(move |event| {
            let _ = &open;
            event
        })) as EventStream)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let resumed = self.shared.events.resume(&last_event_id, id).map_err(|error| {
            LocalSessionManagerError::SessionError(
                rmcp::transport::streamable_http_server::session::local::SessionError::EventStore(Box::new(error)),
            )
        })?;
        let open = OpenStream::new(&self.shared, uuid_of(id));
        Ok(Box::pin(resumed.map(move |event| {
            let _ = &open;
            event
        })) as EventStream)
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Watched>, Self::Error> {
        let session = uuid_of(&id);
        Ok(match self.workers.restore_session(id).await? {
            RestoreOutcome::Restored(transport) => RestoreOutcome::Restored(self.watched(session, transport)),
            RestoreOutcome::AlreadyPresent => RestoreOutcome::AlreadyPresent,
            _ => RestoreOutcome::NotSupported,
        })
    }

    // None: the newest revision cannot resume, and with a store its calls would outlive their clients.
    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        None
    }
}

/// What a sleeping session wakes from. That of one that sleeps in the ledger alone is brought into memory as its request is admitted.
#[async_trait::async_trait]
impl SessionStore for Sessions {
    async fn load(&self, session_id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(canonical(session_id).and_then(|id| self.shared.registry().opened_with(id)))
    }

    // Done as it was opened: here a failure would be passed over, and the client told that it has a session.
    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    async fn delete(&self, session_id: &str) -> Result<(), SessionStoreError> {
        if let Some(id) = canonical(session_id) {
            self.shared.registry().forget(id);
            // Again: it may have been written down between its end on disk and this.
            self.end(session_id).await?;
        }
        Ok(())
    }
}

/// What a session is opened with, and by which request.
fn opening(message: &ClientJsonRpcMessage) -> Option<(RequestId, SessionState)> {
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(initialize) => {
                Some((request.id.clone(), SessionState::new(initialize.params.clone())))
            }
            _ => None,
        },
        JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
    }
}

/// The client that a message comes from.
fn owner_of(message: &ClientJsonRpcMessage) -> String {
    let parts = match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(initialize) => initialize.extensions.get::<Parts>(),
            other => other.extensions().get::<Parts>(),
        },
        JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_) => None,
    };
    let client = parts.and_then(|parts| parts.extensions.get::<Arc<Client>>());
    client.map_or_else(|| Client::default().name, |client| client.name.clone())
}
