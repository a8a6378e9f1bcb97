//! The part that a process plays on its state directory: it owns it, or it works through the one that does.
//!
//! The owner keeps the ledger, talks to the machines, watches and delivers, and serves the socket in the state directory. Another process
//! passes its calls on by that socket, and waits for the lock: when the owner ends, however it ends, one of those that wait takes its place,
//! and the calls that were open go on there. A process that serves over HTTP goes before one that a client started for itself: the latter
//! hands over to it, and never takes its place while it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::Method;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Failure;
use super::asking::gateway_settings;
use super::ledger::{self, OpenLedger};
use super::paired::Follower;
use crate::config::Config;
use crate::config::credentials::Credentials;
use crate::config::socket::{SOCKET_FILE, SocketPath};
use crate::config::state::StateDir;
use crate::fleet::Fleet;
use crate::gateway::{Gateway, GatewaySettings};
use crate::http::{self, Endpoint};
use crate::mcp::{About, Owner, Place, Server, Unanswered};
use crate::protocol::Untrusted;
use crate::store::{LEDGER_FILE, Ownership, Serving};

/// How long a process that could not take over leaves it to others.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How long a new owner may take until it listens, and one that stops or hands over until its place is free: longer than a stop takes.
const CHANGES_WITHIN: Duration = Duration::from_secs(15);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often the owner looks whether its socket is still there.
const SOCKET_SEEN_EVERY: Duration = Duration::from_secs(2);

/// How long a process that a client started leaves the place to one that serves before it looks again.
const YIELDS_FOR: Duration = Duration::from_millis(300);

/// What goes first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rank {
    /// A process that serves over HTTP: the operator's own.
    Serves,
    /// One that a client started for itself, or a command.
    Speaks,
}

/// A process's part.
pub(super) struct Role<'a> {
    config: &'a Config,
    state: StateDir,
    rank: Rank,
    server: Server,
    stop: CancellationToken,
    /// There where it is the owner.
    seat: Option<Seat>,
    /// Kept as long as it serves.
    _serving: Option<Serving>,
}

/// What the owner stands on.
struct Seat {
    ledger: OpenLedger,
    /// Tells what is open here to end: the process stops, or hands over.
    stop: CancellationToken,
    /// The machines' own stop: what is being sent when the process is told to stop needs them to the last.
    _machines: DropGuard,
}

impl<'a> Role<'a> {
    /// Becomes the owner if there is none that goes first. `stop` tells the open waits to answer.
    pub(super) async fn take(config: &'a Config, rank: Rank, stop: &CancellationToken) -> Result<Self, Failure> {
        let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
        let serving = match rank {
            Rank::Serves => Some(Serving::announce(state.path()).map_err(Failure::said)?),
            Rank::Speaks => None,
        };
        let (place, seat) = match find(config, &state, rank, stop).await? {
            Found::Free(ownership) => {
                let (gateway, seat) = sit_down(config, &state, ownership, rank, stop).await?;
                (Place::Here(gateway), Some(seat))
            }
            Found::Taken(owner, about) => {
                compare(config, &state, &about)?;
                (Place::There(owner), None)
            }
        };
        let server = Server::at(place)
            .with_origin(config.origin.clone())
            .with_about(about(config, &state, rank));
        Ok(Self {
            config,
            state,
            rank,
            server,
            stop: stop.clone(),
            seat,
            _serving: serving,
        })
    }

    /// The MCP server, wherever its calls are done.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// As the owner, keeps the sessions of the older revisions in the ledger.
    pub(super) async fn keep_sessions(&self, endpoint: &Endpoint) {
        if let Some(seat) = &self.seat {
            endpoint.sessions.attach(seat.ledger.handle().store).await;
        }
    }

    /// Plays the part until the process is told to stop: as the owner it serves others, else it waits to become it.
    pub(super) async fn play(&mut self, endpoint: Endpoint) {
        while !self.stop.is_cancelled() {
            if self.seat.is_none() && !self.take_over(&endpoint).await {
                return;
            }
            self.own(&endpoint).await;
        }
    }

    /// Waits for the owner's end and takes its place; false where the process is told to stop before.
    async fn take_over(&mut self, endpoint: &Endpoint) -> bool {
        loop {
            let taken = tokio::select! {
                taken = self.wait_for_the_place() => taken,
                () = self.stop.cancelled() => return false,
            };
            match taken {
                Ok((gateway, seat)) => {
                    tracing::info!(state = %self.state.path().display(), "this process keeps the ledger now: the one before has ended");
                    self.seat = Some(seat);
                    self.keep_sessions(endpoint).await;
                    self.server.move_in(gateway);
                    return true;
                }
                Err(failure) => {
                    tracing::error!("the place of the process that kept the ledger cannot be taken: {failure}");
                    tokio::select! {
                        () = tokio::time::sleep(AGAIN_AFTER) => {}
                        () = self.stop.cancelled() => return false,
                    }
                }
            }
        }
    }

    async fn wait_for_the_place(&self) -> Result<(Arc<Gateway>, Seat), Failure> {
        let ownership = loop {
            let ownership = Ownership::wait(self.state.path()).await.map_err(Failure::said)?;
            if self.rank == Rank::Serves || !Serving::by_another(self.state.path()).map_err(Failure::said)? {
                break ownership;
            }
            drop(ownership);
            tokio::time::sleep(YIELDS_FOR).await;
        };
        sit_down(self.config, &self.state, ownership, self.rank, &self.stop).await
    }

    /// Serves others until the process stops, or until it hands over to one that goes before it.
    async fn own(&mut self, endpoint: &Endpoint) {
        let Some(seat) = &self.seat else { return };
        let stop = seat.stop.clone();
        let mut serving = Box::pin(self.serve_others(endpoint, &stop));
        tokio::select! {
            () = serving.as_mut() => return,
            () = self.server.asked_to_hand_over(), if self.rank == Rank::Speaks => {}
        }
        let owner = match owner(self.config, &self.state, &self.stop) {
            Ok(owner) => owner,
            Err(failure) => {
                tracing::error!("the ledger cannot be handed over: {failure}");
                return serving.await;
            }
        };
        tracing::info!("a process that serves over HTTP keeps the ledger from now on: calls are passed on to it");
        let before = self.server.move_out(owner);
        stop.cancel();
        serving.as_mut().await;
        drop(serving);
        if let Place::Here(gateway) = before {
            gateway.settled().await;
        }
        if let Some(seat) = self.seat.take() {
            seat.ledger.close().await;
        }
    }

    /// Serves whoever comes by the socket until the stop, and makes it again when somebody has removed it: nobody else could.
    async fn serve_others(&self, endpoint: &Endpoint, stop: &CancellationToken) {
        let mut listeners = FuturesUnordered::new();
        let mut failed = false;
        loop {
            match self.listen() {
                Ok(listener) => {
                    failed = false;
                    listeners.push(http::serve(listener, endpoint.clone(), stop.clone()));
                }
                Err(error) if !failed => {
                    failed = true;
                    tracing::error!(%error, "no other process can work through this one: its socket cannot be made");
                }
                Err(_) => {}
            }
            let until_the_stop = async {
                while listeners.next().await.is_some() {}
                stop.cancelled().await;
            };
            tokio::select! {
                biased;
                () = until_the_stop => return,
                () = self.socket_removed() => {}
            }
            if !failed {
                tracing::warn!("the socket of the state directory was removed; it is made again");
            }
        }
    }

    /// Waits until the socket's file is not there.
    async fn socket_removed(&self) {
        let path = self.state.path().join(SOCKET_FILE);
        loop {
            tokio::time::sleep(SOCKET_SEEN_EVERY).await;
            let looked = path.symlink_metadata();
            if looked.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                return;
            }
        }
    }

    fn listen(&self) -> std::io::Result<UnixListener> {
        let socket = SocketPath::new(self.state.path().join(SOCKET_FILE))?;
        UnixListener::from_std(socket.listen()?)
    }

    /// Leaves the place in order. Call it when no call is open any more.
    pub(super) async fn close(self) {
        if let Some(seat) = self.seat {
            seat.ledger.close().await;
        }
    }
}

/// What this process says of itself.
fn about(config: &Config, state: &StateDir, rank: Rank) -> About {
    let machines: BTreeMap<String, String> = config
        .machines
        .iter()
        .map(|machine| (machine.name.clone(), machine.url.to_string()))
        .collect();
    About {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        serves: rank == Rank::Serves,
        ledger: ledger_name(state),
        machines,
        delivers: config.hook.is_some(),
    }
}

fn ledger_name(state: &StateDir) -> String {
    let path = state.ledger(LEDGER_FILE);
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Refuses to work through an owner that would do other things than this process is told to: the calls are done there.
fn compare(config: &Config, state: &StateDir, owner: &About) -> Result<(), Failure> {
    const MEND: &str = "End that process or give it the same config, or give this one a --state-dir of its own";
    let (pid, other) = (owner.pid, Untrusted(&owner.ledger));
    if owner.ledger != ledger_name(state) {
        return Err(Failure::said(format_args!(
            "the process {pid} keeps another ledger ({other}) in this state directory. {MEND}"
        )));
    }
    if config.hook.is_some() && !owner.delivers {
        return Err(Failure::said(format_args!(
            "the process {pid} keeps the ledger of this state directory and has no hook, so that no event would be sent. {MEND}"
        )));
    }
    // What was only just paired the owner takes over by itself.
    for machine in config.machines.iter().filter(|machine| !machine.in_state) {
        if owner.machines.get(&machine.name).map(String::as_str) != Some(machine.url.as_str()) {
            return Err(Failure::said(format_args!(
                "the process {pid} keeps the ledger of this state directory, and does not have the machine {} at {}. {MEND}",
                machine.name, machine.url
            )));
        }
    }
    if owner.version != env!("CARGO_PKG_VERSION") {
        tracing::warn!(
            pid,
            version = %Untrusted(&owner.version),
            "the process that keeps the ledger of this state directory is of another version: restart it if calls fail"
        );
    }
    tracing::info!(
        pid,
        "another process keeps the ledger of this state directory: calls are passed on to it, until this one takes its place"
    );
    Ok(())
}

/// The way to the process that owns the state directory.
pub(super) fn owner(config: &Config, state: &StateDir, stop: &CancellationToken) -> Result<Arc<Owner>, Failure> {
    let socket = state.path().join(SOCKET_FILE);
    Owner::new(socket, config, Credentials::of(state), stop.clone()).map_err(|error| {
        Failure::said(format_args!(
            "the socket in {} cannot be reached ({error}). Name a shorter --state-dir",
            state.path().display()
        ))
    })
}

/// Who owns a state directory.
pub(super) enum Found {
    /// Nobody did: this process does now.
    Free(Ownership),
    /// Another process.
    Taken(Arc<Owner>, About),
}

/// Finds the owner, or becomes it. One that has only just begun is given the time to listen, one that goes after this one to hand over.
pub(super) async fn find(
    config: &Config,
    state: &StateDir,
    rank: Rank,
    stop: &CancellationToken,
) -> Result<Found, Failure> {
    let begun = Instant::now();
    loop {
        let in_time = begun.elapsed() < CHANGES_WITHIN;
        if let Some(ownership) = ledger::own(state)? {
            let yields = rank == Rank::Speaks && Serving::by_another(state.path()).map_err(Failure::said)?;
            if !yields || !in_time {
                return Ok(Found::Free(ownership));
            }
        }
        let owner = owner(config, state, stop)?;
        match owner.ask::<About>(Method::GET, "/owner").await {
            Ok(about) if rank == Rank::Serves && !about.serves && in_time => {
                // Whether it does shows in the lock.
                let _: Result<bool, _> = owner.ask(Method::POST, "/owner/hand-over").await;
            }
            Ok(about) => return Ok(Found::Taken(owner, about)),
            // It is only just beginning, or ending.
            Err(Unanswered::Nobody(_) | Unanswered::Broken(_)) if in_time => {}
            Err(error) => return Err(did_not_answer(&error)),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The owner did not do what it was asked.
pub(super) fn did_not_answer(error: &Unanswered) -> Failure {
    Failure::said(format_args!(
        "another process keeps the ledger of this state directory and did not do it: {}",
        Untrusted(&error.to_string())
    ))
}

/// The gateway over the configured machines and the ledger.
async fn sit_down(
    config: &Config,
    state: &StateDir,
    ownership: Ownership,
    rank: Rank,
    stop: &CancellationToken,
) -> Result<(Arc<Gateway>, Seat), Failure> {
    let machines = CancellationToken::new();
    let guard = machines.clone().drop_guard();
    let credentials = Credentials::of(state);
    // The config may be of long ago: what was paired since then has threads in the ledger.
    let kept = credentials.all();
    if let Err(error) = &kept {
        tracing::warn!("what was paired cannot be read, and what was known of it before still holds: {error}");
    }
    let config = &config.with_kept(&kept);
    let fleet = Fleet::from_config(config, &machines).map_err(Failure::said)?;
    let stop = stop.child_token();
    let ledger = ledger::open(config, state, ownership, &fleet, rank, &stop).await?;
    let kept = ledger.handle();
    let follower = Follower::new(
        config,
        credentials.clone(),
        &fleet,
        (kept.store.clone(), kept.tracking.clone()),
        stop.clone(),
    );
    tokio::spawn(follower.follow());
    let settings = GatewaySettings {
        credentials: Some(credentials),
        ..gateway_settings(config)
    };
    let gateway = Gateway::new(fleet, settings, Some(kept), stop.clone());
    gateway.remember_dispatches().await;
    let seat = Seat {
        ledger,
        stop,
        _machines: guard,
    };
    Ok((gateway, seat))
}
