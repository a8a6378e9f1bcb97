//! The task that keeps one machine connected: descriptor, credential, ticket, socket, streams, and all of it again after a loss.
//!
//! It writes the machine's state and nothing else does. Every attempt asks first who answers: another environment is reported and
//! forgets what was known before anything is sent. It decides nothing about threads; that is the mirror's.

mod follow;
mod items;
mod open;

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::follow::follow;
use self::open::connect;
use super::backoff::Backoff;
use super::descriptor::Credential;
use super::dialect::Dialect;
use super::error::MachineError;
use super::expiry::{Expiry, Notice, Said};
use super::http::HttpClient;
use super::socket::{SessionHandle, ValueStream};
use super::unread::Unread;
use super::{Access, Core};
use crate::protocol::{EnvironmentId, Untrusted};

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
            expiry: Expiry::new(access.mark(), access.expires_at),
            access,
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
