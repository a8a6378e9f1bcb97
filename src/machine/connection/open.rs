//! The way to a connection that stands: who answers, whether the token may be shown to it, the socket, and the first whole state.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::items::{ended, handle};
use super::{Connected, LOGGED_CHARS, Way, take_credential};
use crate::machine::descriptor::{self, Descriptor, Version};
use crate::machine::dialect::{Dialect, Protocol1, Protocol2, is_snapshot_of, unknown_capabilities};
use crate::machine::error::MachineError;
use crate::machine::http::HttpClient;
use crate::machine::mirror::ShellItem;
use crate::machine::session::{CallError, FIRST_CHUNK_LIMIT};
use crate::machine::socket::{SessionHandle, SocketOptions, ValueStream};
use crate::machine::state::StreamItem;
use crate::machine::unread::Unread;
use crate::machine::{Access, Core, MachineSettings, TokenFrom};
use crate::outbound::bare;
use crate::protocol::{EnvironmentId, Untrusted};

/// How long a server may take to say when it began.
const START_LIMIT: Duration = Duration::from_secs(3);
/// Without this scope nothing can be seen.
const READ_SCOPE: &str = "orchestration:read";

/// Connects. `standing` is an earlier connection, good as long as the same environment answers.
pub(super) async fn connect(
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
        core.memory.forget();
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
        handle(core, items, unread);
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
