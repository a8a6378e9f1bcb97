//! A connection that stands: its streams feed the mirror until it ends, and the credential is looked at meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};
use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info};

use super::items::{Stream, apply, ended, handle};
use super::{Connected, Ended, LOGGED_CHARS, Way, take_credential};
use crate::machine::dialect::Dialect;
use crate::machine::error::MachineError;
use crate::machine::http::HttpClient;
use crate::machine::link::Link;
use crate::machine::session::{CallError, Subscription};
use crate::machine::socket::{SessionHandle, StreamEnd, ValueStream};
use crate::machine::state::StreamItem;
use crate::machine::unread::Unread;
use crate::machine::{Access, Core};
use crate::protocol::Untrusted;

/// Feeds the mirror until the connection ends.
pub(super) async fn follow(
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
    let mut archive = subscribed(&session, dialect.archive_subscription()).await;
    let mut archived = fetch_archived(&session, &*dialect);
    // One that has only just begun says so late.
    let mut start = subscribed(&session, dialect.start_subscription()).await;
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
            chunk = next_of(&mut start) => match chunk {
                Ok(values) => if let Some(error) = begun_anew(core, &*dialect, &values) {
                    return Ended::Failed(error);
                },
                Err(_) => start = None,
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
                handle_archived(core, &*dialect, answer, &mut unread);
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

/// Takes in the archived threads, where T3 answered with them.
fn handle_archived(core: &Core, dialect: &dyn Dialect, answer: Result<Box<RawValue>, CallError>, unread: &mut Unread) {
    match answer
        .map_err(CallError::for_read)
        .and_then(|value| dialect.read_archived(&value))
    {
        Ok(item) => handle(core, vec![StreamItem::Archive(item)], unread),
        Err(error) => {
            debug!(error = %Untrusted(&error.to_string()).at_most(LOGGED_CHARS), "the archived threads are not known");
        }
    }
}

/// T3 said that it began later than was known: what was read of threads that died before that is to be read in another light.
fn begun_anew(core: &Core, dialect: &dyn Dialect, values: &[Box<RawValue>]) -> Option<MachineError> {
    let before = core.memory.started_at();
    let said = values.iter().any(|value| dialect.handle_start_item(value));
    (said && core.memory.started_at() != before).then(|| MachineError::Unreachable {
        reason: "T3 said only now when it began: it is connected to again, to read in that light".to_owned(),
    })
}

/// Until that time; never where there is none.
async fn until(due: Option<Timestamp>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    let left = due.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(left).unwrap_or(Duration::ZERO)).await;
}

/// A stream that there may be.
async fn subscribed(session: &SessionHandle, subscription: Option<Subscription>) -> Option<ValueStream> {
    session.subscribe(subscription?).await.ok()
}

/// The next chunk of a stream that may not be there; then never.
async fn next_of(stream: &mut Option<ValueStream>) -> Result<Vec<Box<RawValue>>, StreamEnd> {
    match stream {
        Some(stream) => stream.next_chunk().await,
        None => std::future::pending().await,
    }
}

type Fetching = BoxFuture<'static, Result<Box<RawValue>, CallError>>;

/// Asks for the archived threads, where no stream tells of them.
fn fetch_archived(session: &SessionHandle, dialect: &dyn Dialect) -> Option<Fetching> {
    let call = dialect.archived()?;
    let session = session.clone();
    Some(async move { session.call(call.tag, call.payload).await }.boxed())
}
