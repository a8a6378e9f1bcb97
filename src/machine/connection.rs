//! The task that keeps one machine connected: descriptor, credential, ticket, socket, streams, and all of it again after a loss.
//!
//! It writes the machine's state and nothing else does. Every attempt asks first who answers: another environment is reported and
//! forgets what was known before anything is sent. It decides nothing about threads; that is the mirror's.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::descriptor::{self, Descriptor, Version};
use super::dialect::{Dialect, Protocol2};
use super::error::MachineError;
use super::http::HttpClient;
use super::link::Link;
use super::mirror::ShellItem;
use super::session::CallError;
use super::socket::{SessionHandle, SocketOptions, StreamEnd, ValueStream};
use super::state::StreamItem;
use super::{Core, MachineSettings};
use crate::protocol::Untrusted;

/// Without this scope nothing can be seen.
const READ_SCOPE: &str = "orchestration:read";
/// How much of T3's text a log line repeats.
const LOGGED_CHARS: usize = 300;

/// Keeps the machine connected until `stop` is cancelled.
pub(super) async fn run(core: Arc<Core>, stop: CancellationToken) {
    let http = match HttpClient::new(&core.settings) {
        Ok(http) => http,
        Err(error) => {
            // Its URL or ca_file is wrong: no attempt can mend that.
            went_away(&core, &error);
            return;
        }
    };
    let mut backoff = Backoff::new();
    loop {
        let mut healthy = None;
        let error = tokio::select! {
            () = stop.cancelled() => break,
            error = connect_and_follow(&core, &http, &stop, &mut healthy) => error,
        };
        went_away(&core, &error);
        let delay = backoff.next(&error, healthy.map(|since: Instant| since.elapsed()));
        debug!(delay = ?delay, "will connect again");
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(delay) => {}
        }
    }
    core.link.send_replace(None);
    core.state.handle_status(|status| status.online = false);
}

fn went_away(core: &Core, error: &MachineError) {
    core.link.send_replace(None);
    let before = core.state.status();
    if before.online || before.error.is_none() {
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

/// One connection from its beginning to its end; the error says why it ended.
async fn connect_and_follow(
    core: &Arc<Core>,
    http: &HttpClient,
    stop: &CancellationToken,
    healthy: &mut Option<Instant>,
) -> MachineError {
    match connect(core, http, stop).await {
        Ok(connected) => follow(core, http, connected, healthy).await,
        Err(error) => error,
    }
}

struct Connected {
    session: SessionHandle,
    dialect: Arc<dyn Dialect>,
    shell: ValueStream,
}

async fn connect(core: &Core, http: &HttpClient, stop: &CancellationToken) -> Result<Connected, MachineError> {
    let descriptor = http.descriptor().await?;
    meet(core, &descriptor);
    let version = descriptor.version(&core.settings.name)?;
    let credential = http.credential().await?;
    core.state.handle_status(|status| {
        status.expires_at = credential.expires_at;
        status.scopes.clone_from(&credential.scopes);
    });
    credential.require(READ_SCOPE)?;
    match version {
        Version::Spoken => {}
        Version::AskShell => descriptor::check_shell(&core.settings.name, &http.shell().await?)?,
    }
    let dialect: Arc<dyn Dialect> = Arc::new(Protocol2);
    let protocol = dialect.protocol();
    core.state.handle_status(|status| status.protocol = Some(protocol));

    let ticket = http.ticket().await?;
    let session = SessionHandle::connect(http, &ticket, &socket_options(&core.settings), stop.child_token()).await?;
    let shell = session
        .subscribe(dialect.shell_subscription())
        .await
        .map_err(CallError::for_read)?;
    Ok(Connected {
        session,
        dialect,
        shell,
    })
}

fn socket_options(settings: &MachineSettings) -> SocketOptions {
    SocketOptions {
        frame_limit: settings.frame_limit,
    }
}

/// Takes note of who answers; another environment than before makes everything known void.
fn meet(core: &Core, descriptor: &Descriptor) {
    let known = core.state.status().environment;
    if let Some(known) = known
        && known != descriptor.environment_id
    {
        warn!(
            before = %Untrusted(&known.0),
            now = %Untrusted(&descriptor.environment_id.0),
            "another environment answers at this address: what was known of the machine is forgotten"
        );
        core.state.handle_new_environment();
    }
    core.state.handle_status(|status| {
        status.environment = Some(descriptor.environment_id.clone());
        status.label = Some(descriptor.label.clone());
        status.version = Some(descriptor.server_version.clone());
        status.os = Some(descriptor.platform.os.clone());
    });
}

/// Feeds the mirror until the connection ends.
async fn follow(
    core: &Arc<Core>,
    http: &HttpClient,
    connected: Connected,
    healthy: &mut Option<Instant>,
) -> MachineError {
    let Connected {
        session,
        dialect,
        mut shell,
    } = connected;
    // The session itself bounds how long a stream's first chunk may take.
    if let Err(error) = first_state(core, &*dialect, &mut shell).await {
        return error;
    }
    let mut archive = session.subscribe(dialect.archive_subscription()).await.ok();

    *healthy = Some(Instant::now());
    let link = Link::new(session.clone(), http.clone(), dialect.clone());
    core.link.send_replace(Some(Arc::new(link)));
    core.state.handle_status(|status| {
        status.online = true;
        status.error = None;
        status.unreachable_since = None;
    });
    info!("connected");

    loop {
        tokio::select! {
            chunk = shell.next_chunk() => match chunk {
                Ok(values) => {
                    apply(core, &values, |value| dialect.read_shell_item(value).map(StreamItem::Shell));
                }
                Err(end) => return ended(end),
            },
            chunk = next_of(&mut archive) => match chunk {
                Ok(values) => {
                    apply(core, &values, |value| dialect.read_archive_item(value).map(StreamItem::Archive));
                }
                Err(end) => {
                    // Servers without this stream show archived threads in the shell.
                    if let Some(error) = end.error {
                        debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "no stream of archived threads");
                    }
                    archive = None;
                }
            },
            end = session.closed() => return MachineError::Unreachable { reason: end.reason },
        }
    }
}

/// The next chunk of a stream that may not be there; then never.
async fn next_of(stream: &mut Option<ValueStream>) -> Result<Vec<Box<RawValue>>, StreamEnd> {
    match stream {
        Some(stream) => stream.next_chunk().await,
        None => std::future::pending().await,
    }
}

/// Applies what comes up to the first full snapshot; only then is the mirror of this server.
async fn first_state(core: &Core, dialect: &dyn Dialect, shell: &mut ValueStream) -> Result<(), MachineError> {
    loop {
        let values = shell.next_chunk().await.map_err(ended)?;
        let mut items = Vec::with_capacity(values.len());
        for value in values {
            // A snapshot that cannot be read leaves nothing to go on with.
            items.push(dialect.read_shell_item(&value)?);
        }
        let whole = items.iter().any(|item| matches!(item, ShellItem::Snapshot(_)));
        core.state.handle_items(items.into_iter().map(StreamItem::Shell));
        if whole {
            return Ok(());
        }
    }
}

/// Applies a chunk. An item that cannot be read is reported and left out: one thread must not take the machine away.
fn apply(core: &Core, values: &[Box<RawValue>], read: impl Fn(&RawValue) -> Result<StreamItem, MachineError>) {
    let mut unread = None;
    let items = values.iter().filter_map(|value| match read(value) {
        Ok(item) => Some(item),
        Err(error) => {
            warn!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "an item of the stream cannot be read");
            unread = Some(error);
            None
        }
    });
    core.state.handle_items(items.collect::<Vec<_>>());
    if let Some(error) = unread {
        core.state.handle_status(|status| status.error = Some(error));
    }
}

fn ended(end: StreamEnd) -> MachineError {
    match end.error {
        Some(error) => error.for_read(),
        None => MachineError::Unreachable {
            reason: "T3 ended the stream of its shell".to_owned(),
        },
    }
}
