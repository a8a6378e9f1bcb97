//! The task that keeps one machine connected: descriptor, credential, ticket, socket, streams, and all of it again after a loss.
//!
//! It writes the machine's state and nothing else does. Every attempt asks first who answers: another environment is reported and
//! forgets what was known before anything is sent. It decides nothing about threads; that is the mirror's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::descriptor::{self, Credential, Descriptor, Version};
use super::dialect::{Dialect, Protocol1, Protocol2, is_snapshot_of, unknown_capabilities};
use super::domain::ThreadRow;
use super::error::MachineError;
use super::expiry::{Expiry, Notice, Said};
use super::http::HttpClient;
use super::link::Link;
use super::mirror::{ArchiveItem, ShellItem};
use super::session::{CallError, FIRST_CHUNK_LIMIT};
use super::socket::{SessionHandle, SocketOptions, StreamEnd, ValueStream};
use super::state::StreamItem;
use super::unread::Unread;
use super::{Access, Core, MachineSettings, TokenFrom};
use crate::outbound::bare;
use crate::protocol::{EnvironmentId, Untrusted};

/// How long a server may take to say when it began.
const START_LIMIT: Duration = Duration::from_secs(3);
/// Without this scope nothing can be seen.
const READ_SCOPE: &str = "orchestration:read";
/// How much of T3's text a log line repeats.
const LOGGED_CHARS: usize = 300;

/// Keeps the machine connected until `stop` is cancelled.
pub(super) async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut access = core.access.subscribe();
    let mut backoff = Backoff::new();
    let mut way: Option<Way> = None;
    // Still good, while the next one is made with another access.
    let mut standing = None;
    loop {
        let mut healthy = None;
        if way.is_none() {
            let now = access.borrow_and_update().clone();
            way = Some(Way::new(&core, now));
        }
        let Some(current) = way.as_mut() else { continue };
        let ended = tokio::select! {
            () = stop.cancelled() => break,
            ended = connect_and_follow(&core, current, (&mut access, &stop), &mut healthy, standing.take().map(|standing: Box<Connected>| *standing)) => ended,
        };
        let error = match ended {
            Ended::Replaced(connected) => {
                info!("the credential or the address is another one: the connection moves over");
                (way, standing) = (None, connected);
                backoff = Backoff::new();
                continue;
            }
            Ended::Failed(error) => error,
        };
        went_away(&core, &error);
        if let MachineError::NeedsPairing { .. } = &error
            && current.access.token.is_some()
        {
            tell(&core, current.expiry.handle_refused(Timestamp::now()));
        }
        let delay = backoff.next(&error, healthy.map(|since: Instant| since.elapsed()));
        debug!(delay = ?delay, "will connect again");
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(delay) => {}
            Ok(()) = access.changed() => {
                way = None;
                backoff = Backoff::new();
            }
        }
    }
    core.link.send_replace(None);
    core.state.handle_status(|status| status.online = false);
}

/// How the machine is reached, as long as that stays so.
struct Way {
    access: Access,
    /// Its URL or `ca_file` may be wrong: then no attempt mends that.
    http: Result<HttpClient, MachineError>,
    expiry: Expiry,
}

impl Way {
    fn new(core: &Core, access: Access) -> Self {
        if access.token.is_none() {
            // What was known of an earlier one is of no use any more.
            core.state.handle_status(|status| {
                status.expires_at = None;
                status.scopes.clear();
            });
        }
        Self {
            http: HttpClient::by(&core.settings, &access),
            access,
            expiry: Expiry::new(),
        }
    }
}

/// How a connection came to its end.
enum Ended {
    /// It failed.
    Failed(MachineError),
    /// Another access is to be used; what stands is good until then.
    Replaced(Option<Box<Connected>>),
}

fn went_away(core: &Core, error: &MachineError) {
    core.link.send_replace(None);
    let before = core.state.status();
    let kind = std::mem::discriminant(error);
    // Another kind of trouble than before may want somebody's hand.
    if before.online
        || before
            .error
            .is_none_or(|before| std::mem::discriminant(&before) != kind)
    {
        warn!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "not connected");
    } else {
        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "still not connected");
    }
    core.state.handle_status(|status| {
        status.online = false;
        status.error = Some(error.clone());
        status.unreachable_since.get_or_insert_with(Timestamp::now);
    });
}

/// One connection from its beginning to its end. `standing` is an earlier one that is let go once this one stands.
async fn connect_and_follow(
    core: &Arc<Core>,
    way: &mut Way,
    (access, stop): (&mut watch::Receiver<Access>, &CancellationToken),
    healthy: &mut Option<Instant>,
    mut standing: Option<Connected>,
) -> Ended {
    let http = match &way.http {
        Ok(http) => http.clone(),
        Err(error) => return Ended::Failed(error.clone()),
    };
    let connected = tokio::select! {
        connected = connect(core, &http, way, stop, &mut standing) => connected,
        Ok(()) = access.changed() => return Ended::Replaced(standing.map(Box::new)),
    };
    match connected {
        Ok(connected) => follow(core, &http, way, (connected, standing), access, healthy).await,
        Err(error) => Ended::Failed(error),
    }
}

struct Connected {
    session: SessionHandle,
    dialect: Arc<dyn Dialect>,
    shell: ValueStream,
    environment: EnvironmentId,
    unread: Unread,
}

async fn connect(
    core: &Core,
    http: &HttpClient,
    way: &mut Way,
    stop: &CancellationToken,
    standing: &mut Option<Connected>,
) -> Result<Connected, MachineError> {
    let descriptor = http.descriptor().await?;
    meet(core, &descriptor, standing);
    let version = descriptor.version(&core.settings.name)?;
    check_owner(core, &way.access, &descriptor)?;
    let credential = http.credential().await?;
    take_credential(core, way, &credential);
    credential.require(READ_SCOPE)?;
    let connected = open(core, http, stop, version, descriptor.environment_id).await;
    match (version, connected) {
        (Version::AskShell, Err(error)) if stream_refused(&error) => {
            // Without a stream to look at, the shell over HTTP tells whether it is another protocol that was refused.
            descriptor::check_shell(&core.settings.name, &http.shell().await?)?;
            Err(error)
        }
        (Version::AskShell | Version::Spoken, connected) => connected,
    }
}

/// Opens the socket and takes the first whole state from it.
async fn open(
    core: &Core,
    http: &HttpClient,
    stop: &CancellationToken,
    version: Version,
    environment: EnvironmentId,
) -> Result<Connected, MachineError> {
    let ticket = http.ticket().await?;
    let session = SessionHandle::connect(http, &ticket, &socket_options(&core.settings), stop.child_token()).await?;
    if core.scratch {
        settle_scratch(core, &session, &Protocol2).await?;
    }
    let mut shell = session
        // It is the same in all versions.
        .subscribe(Protocol2.shell_subscription())
        .await
        .map_err(CallError::for_read)?;
    let mut unread = Unread::default();
    // The session bounds how long the first chunk may take; what follows it up to the whole state is bounded here.
    let dialect = tokio::time::timeout(
        FIRST_CHUNK_LIMIT,
        first_state(core, &session, version, &mut shell, &mut unread),
    )
    .await
    .unwrap_or(Err(MachineError::Timeout(FIRST_CHUNK_LIMIT)))?;
    Ok(Connected {
        session,
        dialect,
        shell,
        environment,
        unread,
    })
}

/// Learns which project is the scratch one before any project is shown: what is watched there would be taken for hidden. A server that has none
/// or refuses is connected all the same; one that does not answer is not.
async fn settle_scratch(core: &Core, session: &SessionHandle, dialect: &dyn Dialect) -> Result<(), MachineError> {
    let problem = match core.ensure_scratch(session, dialect).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => "it does not know of any: update T3 Code".to_owned(),
        Err(error @ (MachineError::Unreachable { .. } | MachineError::Timeout(_))) => return Err(error),
        Err(error) => error.to_string(),
    };
    warn!(problem = %Untrusted(&problem).at_most(LOGGED_CHARS), "no scratch project: dispatches must name a project");
    Ok(())
}

/// Whether a server of another protocol may have meant this by it: it answered, and not with what a shell's stream begins with.
fn stream_refused(error: &MachineError) -> bool {
    match error {
        MachineError::Rejected { .. }
        | MachineError::Defect { .. }
        | MachineError::Decode(_)
        | MachineError::NotT3 { .. } => true,
        MachineError::ThreadNotFound
        | MachineError::Unreachable { .. }
        | MachineError::Timeout(_)
        | MachineError::AnswerLost { .. }
        | MachineError::NeedsPairing { .. }
        | MachineError::InsufficientScope { .. }
        | MachineError::ProtocolUnsupported { .. }
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => false,
    }
}

fn socket_options(settings: &MachineSettings) -> SocketOptions {
    SocketOptions {
        frame_limit: settings.frame_limit,
    }
}

/// Nobody is shown a token but the database that it is of.
fn check_owner(core: &Core, access: &Access, descriptor: &Descriptor) -> Result<(), MachineError> {
    let name = &core.settings.name;
    let reason = match (access.source, &access.token, &access.environment) {
        (TokenFrom::Pairing, None, _) => format!("{name} is not paired: {}", access.source.missing(name)),
        (_, Some(_), Some(owner)) if *owner != descriptor.environment_id => format!(
            "another T3 ({}) answers at {} than the one that {name} was paired with, so it is not shown the token: if that is meant, \
             t3code-mcp pair {name} '<link>' --replace",
            descriptor.label,
            bare(&access.url)
        ),
        (TokenFrom::Pairing | TokenFrom::Variable, _, _) => return Ok(()),
    };
    Err(MachineError::NeedsPairing { reason })
}

/// What the session shows of the credential.
fn take_credential(core: &Core, way: &mut Way, credential: &Credential) {
    core.state.handle_status(|status| {
        status.expires_at = credential.expires_at;
        status.scopes.clone_from(&credential.scopes);
    });
    tell(core, way.expiry.handle_good(credential.expires_at, Timestamp::now()));
}

/// Says what is to be said of the credential's end: in the log, and to whoever tells it on.
fn tell(core: &Core, notice: Option<Notice>) {
    let Some(notice) = notice else { return };
    let ends = notice
        .expires_at
        .map_or_else(|| "-".to_owned(), |ends| ends.to_string());
    let remedy = core.access.borrow().source.refused(&core.settings.name);
    match notice.what {
        Said::Ends { days: 1 } => warn!(%ends, "the credential ends within a day: {remedy}"),
        Said::Ends { days } => warn!(%ends, "the credential ends within {days} days: {remedy}"),
        Said::Expired => warn!(%ends, "the credential has ended: {remedy}"),
        Said::Refused => warn!(%ends, "T3 does not take the credential any more: {remedy}"),
    }
    core.notice.send_replace(Some(notice));
}

/// Takes note of who answers; another environment than before makes everything known void, and a link to the one before leads nowhere.
fn meet(core: &Core, descriptor: &Descriptor, standing: &mut Option<Connected>) {
    let known = core.state.status().environment;
    if let Some(known) = known
        && known != descriptor.environment_id
    {
        warn!(
            before = %Untrusted(&known.0),
            now = %Untrusted(&descriptor.environment_id.0),
            "another environment answers at this address: what was known of the machine is forgotten"
        );
        core.link.send_replace(None);
        *standing = None;
        // At once, and before the mirror is empty: who is online and shows nothing would be taken for one that has nothing.
        core.state.handle_status(|status| {
            status.environment = Some(descriptor.environment_id.clone());
            status.online = false;
        });
        if core.state.handle_new_environment() {
            core.reads.forget_all();
        }
    }
    core.state.handle_status(|status| {
        status.environment = Some(descriptor.environment_id.clone());
        status.label = Some(descriptor.label.clone());
        status.version = Some(descriptor.server_version.clone());
        status.os = Some(descriptor.platform.os.clone());
    });
    core.state
        .handle_unknown_words(unknown_capabilities(&descriptor.capabilities));
}

/// Feeds the mirror until the connection ends.
async fn follow(
    core: &Arc<Core>,
    http: &HttpClient,
    way: &mut Way,
    (connected, standing): (Connected, Option<Connected>),
    access: &mut watch::Receiver<Access>,
    healthy: &mut Option<Instant>,
) -> Ended {
    let Connected {
        session,
        dialect,
        mut shell,
        environment,
        mut unread,
    } = connected;
    let mut archive = match dialect.archive_subscription() {
        Some(subscription) => session.subscribe(subscription).await.ok(),
        None => None,
    };
    let mut archived = fetch_archived(&session, &*dialect);
    let mut config = session.subscribe(dialect.config_subscription()).await.ok();

    *healthy = Some(Instant::now());
    let link = Arc::new(Link::new(
        session.clone(),
        http.clone(),
        dialect.clone(),
        environment.clone(),
    ));
    core.connections.fetch_add(1, Ordering::Relaxed);
    core.link.send_replace(Some(Arc::clone(&link)));
    // What was asked over it still holds it; nobody else does.
    drop(standing);
    core.state.handle_status(|status| {
        status.online = true;
        status.error = unread.error();
        status.unreachable_since = None;
    });
    info!("connected");

    let mut looking = None;
    loop {
        tokio::select! {
            chunk = shell.next_chunk() => match chunk {
                Ok(values) => {
                    if apply(core, &*dialect, Stream::Shell, &values, &mut unread) {
                        // What left the shell may lie in the archive now. A read that is under way is of before.
                        archived = fetch_archived(&session, &*dialect);
                    }
                }
                Err(end) => return Ended::Failed(ended(end)),
            },
            chunk = next_of(&mut archive) => match chunk {
                Ok(values) => {
                    apply(core, &*dialect, Stream::Archive, &values, &mut unread);
                }
                Err(end) => {
                    // Servers without this stream show archived threads in the shell.
                    if !matches!(end.error, Some(CallError::Lost { .. })) {
                        // Where the whole connection is lost, the next one's stream tells of the archive.
                        core.state.handle_archive_ended();
                    }
                    if let Some(error) = end.error {
                        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "no stream of archived threads");
                    }
                    archive = None;
                }
            },
            chunk = next_of(&mut config) => match chunk {
                Ok(values) => {
                    for value in values {
                        link.handle_config_item(dialect.read_config_item(&value));
                    }
                }
                // Then what providers there are is known for a minute after it was asked for, as on servers without this stream.
                Err(end) => {
                    if let Some(error) = end.error {
                        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "no stream of the server's config");
                    }
                    config = None;
                }
            },
            Some(answer) = OptionFuture::from(archived.as_mut()) => {
                archived = None;
                match answer.map_err(CallError::for_read).and_then(|value| dialect.read_archived(&value)) {
                    Ok(item) => handle(core, &*dialect, vec![StreamItem::Archive(item)], &mut unread),
                    Err(error) => {
                        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "the archived threads are not known");
                    }
                }
            }
            end = session.closed() => return Ended::Failed(MachineError::Unreachable { reason: end.reason }),
            Ok(()) = access.changed() => {
                let connected = Connected { session, dialect, shell, environment, unread };
                return Ended::Replaced(Some(Box::new(connected)));
            }
            () = until(way.expiry.poll_timeout()), if looking.is_none() => looking = Some(http.credential().boxed()),
            Some(looked) = OptionFuture::from(looking.as_mut()) => {
                looking = None;
                match looked {
                    Ok(credential) => take_credential(core, way, &credential),
                    // T3 would go on over this socket; what is read over HTTP, and any new socket, would fail.
                    Err(error @ MachineError::NeedsPairing { .. }) => return Ended::Failed(error),
                    Err(error) => {
                        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "the credential could not be looked at");
                        way.expiry.handle_unknown(Timestamp::now());
                    }
                }
            }
        }
    }
}

/// Until that time; never where there is none.
async fn until(due: Option<Timestamp>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    let left = due.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
}

/// The next chunk of a stream that may not be there; then never.
async fn next_of(stream: &mut Option<ValueStream>) -> Result<Vec<Box<RawValue>>, StreamEnd> {
    match stream {
        Some(stream) => stream.next_chunk().await,
        None => std::future::pending().await,
    }
}

/// Applies what comes up to the first full snapshot; only then is the mirror of this server.
async fn first_state(
    core: &Core,
    session: &SessionHandle,
    version: Version,
    shell: &mut ValueStream,
    unread: &mut Unread,
) -> Result<Arc<dyn Dialect>, MachineError> {
    let mut chosen: Option<Arc<dyn Dialect>> = None;
    loop {
        let values = shell.next_chunk().await.map_err(ended)?;
        let dialect = match &chosen {
            Some(dialect) => Arc::clone(dialect),
            None => choose(core, session, version, &values).await,
        };
        chosen = Some(Arc::clone(&dialect));
        let dialect = &*dialect;
        let mut items = Vec::with_capacity(values.len());
        let mut whole = false;
        for value in values {
            // A snapshot that cannot be read leaves nothing to go on with; a row of it that cannot is left out.
            let item = dialect.read_shell_item(&value)?;
            if let ShellItem::Snapshot(snapshot) = &item {
                match version {
                    Version::AskShell if dialect.protocol() == descriptor::OLDEST => {}
                    Version::Spoken => {}
                    Version::AskShell => descriptor::check_schema(&core.settings.name, snapshot.schema)?,
                }
                whole = true;
            }
            items.push(StreamItem::Shell(item));
        }
        if whole {
            handle_protocol(core, dialect.protocol());
        }
        handle(core, dialect, items, unread);
        if whole && let Some(dialect) = chosen {
            return Ok(dialect);
        }
    }
}

/// The dialect of who says this at first.
async fn choose(core: &Core, session: &SessionHandle, version: Version, values: &[Box<RawValue>]) -> Arc<dyn Dialect> {
    if version == Version::Spoken || !values.iter().any(|value| is_snapshot_of(value)) {
        return Arc::new(Protocol2);
    }
    let dialect = Protocol1::new(Arc::clone(&core.memory));
    if let Err(error) = learn_start(session, &dialect).await {
        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "when the server began is not known");
    }
    Arc::new(dialect)
}

/// Learns when the server process began.
async fn learn_start(session: &SessionHandle, dialect: &dyn Dialect) -> Result<(), MachineError> {
    let Some(subscription) = dialect.start_subscription() else {
        return Ok(());
    };
    let learn = async {
        let mut stream = session.subscribe(subscription).await.map_err(CallError::for_read)?;
        loop {
            let values = stream.next_chunk().await.map_err(ended)?;
            if values.iter().any(|value| dialect.handle_start_item(value)) {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(START_LIMIT, learn)
        .await
        .unwrap_or(Err(MachineError::Timeout(START_LIMIT)))
}

/// Takes note of the protocol that is spoken; after an upgrade of the server its sequences begin anew.
fn handle_protocol(core: &Core, protocol: u32) {
    let before = core.state.status().protocol;
    if before.is_some_and(|before| before != protocol) {
        info!(before, now = protocol, "the server speaks another protocol than before");
        core.state.handle_other_protocol();
        core.reads.forget_all();
    }
    core.state.handle_status(|status| status.protocol = Some(protocol));
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Shell,
    Archive,
}

type Fetching = futures_util::future::BoxFuture<'static, Result<Box<RawValue>, CallError>>;

/// Asks for the archived threads, where no stream tells of them.
fn fetch_archived(session: &SessionHandle, dialect: &dyn Dialect) -> Option<Fetching> {
    let call = dialect.archived()?;
    let session = session.clone();
    Some(async move { session.call(call.tag, call.payload).await }.boxed())
}

/// Applies a chunk; true if a thread left the shell. An item that cannot be read is reported and left out: one thread must not take the
/// machine away.
fn apply(core: &Core, dialect: &dyn Dialect, stream: Stream, values: &[Box<RawValue>], unread: &mut Unread) -> bool {
    let before = unread.error().is_some();
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        let item = match stream {
            Stream::Shell => dialect.read_shell_item(value).map(StreamItem::Shell),
            Stream::Archive => dialect.read_archive_item(value).map(StreamItem::Archive),
        };
        match item {
            Ok(item) => items.push(item),
            Err(error) => {
                let problem = error.to_string();
                if unread.handle_unreadable(matches!(stream, Stream::Archive), &problem) {
                    unreadable(&problem);
                }
            }
        }
    }
    let is_removal = |item: &StreamItem| matches!(item, StreamItem::Shell(ShellItem::ThreadRemoved { .. }));
    let removed = items.iter().any(is_removal);
    handle(core, dialect, items, unread);
    let error = unread.error();
    if before || error.is_some() {
        core.state.handle_status(|status| status.error = error);
    }
    removed
}

/// Takes items in: what they leave unread, the words that nobody knows, and then the mirror.
fn handle(core: &Core, dialect: &dyn Dialect, items: Vec<StreamItem>, unread: &mut Unread) {
    for item in &items {
        if let Some(problem) = unread.handle_item(item) {
            unreadable(&problem);
        }
        core.state.handle_unknown_words(unknown_words(dialect, item));
    }
    if core.state.handle_items(items) {
        core.reads.forget_all();
    }
}

fn unknown_words(dialect: &dyn Dialect, item: &StreamItem) -> Vec<String> {
    let of_rows = |rows: &[ThreadRow]| {
        let rows = rows.iter();
        rows.flat_map(|row| dialect.unknown_words_of_row(row)).collect()
    };
    match item {
        StreamItem::Shell(ShellItem::Snapshot(snapshot)) => of_rows(&snapshot.threads),
        StreamItem::Shell(ShellItem::ThreadUpdated(row)) | StreamItem::Archive(ArchiveItem::Updated(row)) => {
            dialect.unknown_words_of_row(row)
        }
        StreamItem::Archive(ArchiveItem::Snapshot { threads, .. }) => of_rows(threads),
        // The shell's own marker, should a server send it here too: no word that we do not know.
        StreamItem::Archive(ArchiveItem::Unknown { kind }) if kind == "synchronized" => Vec::new(),
        StreamItem::Shell(ShellItem::Unknown { kind }) | StreamItem::Archive(ArchiveItem::Unknown { kind }) => {
            vec![format!("stream item `{kind}`")]
        }
        StreamItem::Shell(
            ShellItem::Metadata
            | ShellItem::ThreadUnreadable { .. }
            | ShellItem::ThreadRemoved { .. }
            | ShellItem::ProjectUpdated { .. }
            | ShellItem::ProjectRemoved { .. }
            | ShellItem::Synchronized,
        )
        | StreamItem::Archive(ArchiveItem::Unreadable { .. } | ArchiveItem::Removed { .. }) => Vec::new(),
    }
}

fn unreadable(problem: &str) {
    warn!(problem = %Untrusted(problem).at_most(LOGGED_CHARS), "something of the shell cannot be read and is left out");
}

fn ended(end: StreamEnd) -> MachineError {
    match end.error {
        Some(error) => error.for_read(),
        None => MachineError::Unreachable {
            reason: "T3 ended the stream of its shell".to_owned(),
        },
    }
}
