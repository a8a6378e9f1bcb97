//! The part that a process plays on its state directory: it owns it, or it works through the one that does.
//!
//! The owner keeps the ledger, talks to the machines, watches and delivers, and serves the socket in the state directory. Another process
//! passes its calls on by that socket, and waits for the lock: when the owner ends, however it ends, one of those that wait takes its place,
//! and the calls that were open go on there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::Method;
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Failure;
use super::asking::gateway_settings;
use super::ledger::{self, OpenLedger};
use crate::config::Config;
use crate::config::socket::{SOCKET_FILE, SocketPath};
use crate::config::state::StateDir;
use crate::fleet::Fleet;
use crate::gateway::Gateway;
use crate::http::{self, Endpoint};
use crate::mcp::{About, Owner, Place, Server, Unanswered};
use crate::protocol::Untrusted;
use crate::store::Ownership;

/// How long a process that could not take over leaves it to others.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How long a process that has just become the owner may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A process's part.
pub(super) struct Role<'a> {
    config: &'a Config,
    state: StateDir,
    server: Server,
    stop: CancellationToken,
    /// There where it is the owner.
    seat: Option<Seat>,
}

/// What the owner stands on.
struct Seat {
    ledger: OpenLedger,
    /// The machines' own stop: what is being sent when the process is told to stop needs them to the last.
    _machines: DropGuard,
}

impl<'a> Role<'a> {
    /// Becomes the owner if there is none. `stop` tells the open waits to answer.
    pub(super) async fn take(config: &'a Config, stop: &CancellationToken) -> Result<Self, Failure> {
        let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
        let (place, seat) = match find(config, &state, stop).await? {
            Found::Free(ownership) => {
                let (gateway, seat) = sit_down(config, &state, ownership, stop).await?;
                (Place::Here(gateway), Some(seat))
            }
            Found::Taken(owner, about) => {
                compare(config, &about)?;
                (Place::There(owner), None)
            }
        };
        let server = Server::at(place).with_origin(config.origin.clone());
        Ok(Self {
            config,
            state,
            server,
            stop: stop.clone(),
            seat,
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
        while self.seat.is_none() {
            let taken = tokio::select! {
                taken = self.wait_for_the_owner() => taken,
                () = self.stop.cancelled() => return,
            };
            match taken {
                Ok((gateway, seat)) => {
                    tracing::info!(state = %self.state.path().display(), "this process keeps the ledger now: the one before has ended");
                    self.seat = Some(seat);
                    self.server.move_in(gateway);
                    self.keep_sessions(&endpoint).await;
                }
                Err(failure) => {
                    tracing::error!("the place of the process that kept the ledger cannot be taken: {failure}");
                    tokio::select! {
                        () = tokio::time::sleep(AGAIN_AFTER) => {}
                        () = self.stop.cancelled() => return,
                    }
                }
            }
        }
        match self.listen() {
            Ok(listener) => http::serve_socket(listener, endpoint, self.stop.clone()).await,
            Err(error) => {
                tracing::error!(%error, "no other process can work through this one: its socket cannot be made");
                self.stop.cancelled().await;
            }
        }
    }

    async fn wait_for_the_owner(&self) -> Result<(Arc<Gateway>, Seat), Failure> {
        let ownership = Ownership::wait(self.state.path()).await.map_err(Failure::said)?;
        sit_down(self.config, &self.state, ownership, &self.stop).await
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

/// Says in what the owner differs from what this process is told: the calls are done there.
fn compare(config: &Config, owner: &About) -> Result<(), Failure> {
    let pid = owner.pid;
    if config.hook.is_some() && !owner.delivers {
        return Err(Failure::said(format_args!(
            "the process {pid} keeps the ledger of this state directory and has no hook, so that no event would be sent. End it (an MCP client's \
             `serve --stdio`, perhaps) or give it the same config, or give this one a --state-dir of its own"
        )));
    }
    for machine in &config.machines {
        if owner.machines.get(&machine.name).map(String::as_str) != Some(machine.url.as_str()) {
            tracing::warn!(
                machine = %machine.name,
                pid,
                "the process that keeps the ledger of this state directory does not have this machine, or elsewhere: it does not exist here until \
                 that process runs with the same config"
            );
        }
    }
    tracing::info!(
        pid,
        "another process keeps the ledger of this state directory: calls are passed on to it, until this one takes its place"
    );
    Ok(())
}

/// The way to the process that owns the state directory.
pub(super) fn owner(config: &Config, state: &StateDir, stop: &CancellationToken) -> Result<Arc<Owner>, Failure> {
    Owner::new(state.path().join(SOCKET_FILE), config, stop.clone()).map_err(Failure::said)
}

/// Who owns a state directory.
pub(super) enum Found {
    /// Nobody did: this process does now.
    Free(Ownership),
    /// Another process.
    Taken(Arc<Owner>, About),
}

/// Finds the owner, or becomes it. One that has only just begun is given the time to listen.
pub(super) async fn find(config: &Config, state: &StateDir, stop: &CancellationToken) -> Result<Found, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(ownership) = ledger::own(state)? {
            return Ok(Found::Free(ownership));
        }
        let owner = owner(config, state, stop)?;
        match owner.ask(Method::GET, "/owner").await {
            Ok(about) => return Ok(Found::Taken(owner, about)),
            Err(Unanswered::Nobody(_)) if begun.elapsed() < LISTENS_WITHIN => tokio::time::sleep(LOOK_EVERY).await,
            Err(error) => return Err(did_not_answer(&error)),
        }
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
    stop: &CancellationToken,
) -> Result<(Arc<Gateway>, Seat), Failure> {
    let machines = CancellationToken::new();
    let guard = machines.clone().drop_guard();
    let fleet = Fleet::from_config(config, &machines).map_err(Failure::said)?;
    let ledger = ledger::open(config, state, ownership, &fleet, stop).await?;
    let gateway = Gateway::new(fleet, gateway_settings(config), Some(ledger.handle()), stop.clone());
    gateway.remember_dispatches().await;
    let seat = Seat {
        ledger,
        _machines: guard,
    };
    Ok((gateway, seat))
}
