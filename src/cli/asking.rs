//! What the commands that ask something share: who answers, and how they are asked.
//!
//! A command is an MCP client of its own process, over pipes in memory: it asks the server that `serve --stdio` would serve, and so goes the
//! way of every client. Where another process owns the state directory the calls are passed on to it; where none does, a command that only
//! reads asks the machines itself, and one that changes something, or waits, becomes the owner for as long as it runs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::flags::SettingFlags;
use super::pair::mended_by;
use super::role::{self, Rank, Role};
use super::{Failure, logging, runtime};
use crate::config::state::StateDir;
use crate::config::{Config, Note, WorkingDirectory};
use crate::fleet::Fleet;
use crate::gateway::{Gateway, GatewaySettings};
use crate::http::{self as endpoint, HttpSettings};
use crate::mcp::{About, Owner, Place, Server, Tool, Unanswered, serve_pipes};

/// How long a command waits for the machines' first snapshots.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How much of a message may be under way in memory.
const PIPE_BYTES: usize = 64 * 1024;

/// How long the end may take: what was being sent to a machine is seen through, and who works through this process is answered.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How long the end waits for what the machines showed last to be in the ledger.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// Who is asked.
pub(super) struct Asking {
    client: RunningService<RoleClient, Listener>,
    serving: JoinHandle<()>,
    heard: watch::Receiver<Option<String>>,
}

/// Hears the heartbeats of calls that wait.
struct Listener(watch::Sender<Option<String>>);

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("t3code-mcp-command", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.send_replace(progress.message);
    }
}

impl Asking {
    /// Connects to a server of this process. `stop` ends it, and is cancelled when the client has left.
    async fn connect(server: &Server, stop: &CancellationToken) -> Result<Self, Failure> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(theirs);
        let (server, stop) = (server.clone(), stop.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = serve_pipes(server, reader, writer, stop).await {
                tracing::error!(%error, "the command's own calls cannot be answered");
            }
        });
        let (heartbeats, heard) = watch::channel(None);
        let client = Listener(heartbeats).serve(ours).await.map_err(Failure::said)?;
        Ok(Self { client, serving, heard })
    }

    /// Calls a tool.
    pub(super) async fn ask<T>(&self, args: &T::Args) -> Result<T::Answer, Failure>
    where
        T: Tool<Args: Serialize, Answer: DeserializeOwned>,
    {
        let mut arguments = match serde_json::to_value(args).map_err(Failure::said)? {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        arguments.retain(|_, value| !value.is_null());
        let request = CallToolRequestParams::new(T::NAME).with_arguments(arguments);
        let result = Box::pin(self.client.call_tool(request)).await.map_err(Failure::said)?;
        if let (false, Some(facts)) = (result.is_error == Some(true), result.structured_content) {
            return serde_json::from_value(facts).map_err(|error| {
                Failure::said(format_args!(
                    "the answer of {} cannot be read ({error}): another process keeps the ledger of this state directory and is of \
                     another version. Restart it",
                    T::NAME
                ))
            });
        }
        let text = result.content.first().and_then(|content| content.as_text());
        Err(Failure::refused(text.map_or("", |text| &text.text)))
    }

    /// What the call that waits told last.
    pub(super) fn heartbeats(&self) -> watch::Receiver<Option<String>> {
        self.heard.clone()
    }

    async fn close(self) {
        let _ = self.client.cancel().await;
        let _ = self.serving.await;
    }
}

/// Asks what changes nothing. Needs no ledger, so that it works beside whatever owns the state directory.
pub(super) async fn reading<T>(
    config: &Config,
    ask: impl AsyncFnOnce(&Asking) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let server = if let Some(owner) = owner_of(config, &stop).await? {
        Server::at(Place::There(owner))
    } else {
        let fleet = Fleet::from_config(config, &stop).map_err(Failure::said)?;
        join_all(fleet.members().iter().map(|member| member.machine.ready(PATIENCE))).await;
        Server::new(Gateway::new(fleet, gateway_settings(config), None, stop.clone()))
    };
    let asking = Asking::connect(&server, &stop).await?;
    let done = ask(&asking).await;
    asking.close().await;
    done
}

/// Asks what only the process that owns the state directory knows; nothing where there is none. It makes nothing.
pub(super) async fn of_the_owner<T>(
    config: &Config,
    ask: impl AsyncFnOnce(&Asking) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    if StateDir::existing(&config.state_dir).map_err(Failure::said)?.is_none() {
        return Ok(None);
    }
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let Some(owner) = owner_of(config, &stop).await? else {
        return Ok(None);
    };
    let asking = Asking::connect(&Server::at(Place::There(owner)), &stop).await?;
    let done = ask(&asking).await;
    asking.close().await;
    done.map(Some)
}

/// Asks what is written down, watched and delivered like anything that a client asks, or what waits for it. SIGTERM and Ctrl-C end it in order.
pub(super) async fn keeping<T>(
    config: &Config,
    ask: impl AsyncFnOnce(&Asking) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stop = CancellationToken::new();
    let mut told_to_stop = std::pin::pin!(runtime::until_told_to_stop());
    let mut role = tokio::select! {
        taken = Role::take(config, Rank::Speaks, &stop) => taken?,
        told = told_to_stop.as_mut() => return Err(told.err().unwrap_or(Failure::Stopped)),
    };
    let server = role.server().clone();
    // For other processes on the state directory; nobody else comes by it.
    let settings = HttpSettings::from_config(&config.server, config.bearer.as_ref()).map_err(Failure::said)?;
    let endpoint = endpoint::endpoint(server.clone(), settings, &stop);
    role.keep_sessions(&endpoint).await;
    let mut done = None;
    let work = async {
        let asking = Asking::connect(&server, &stop).await;
        done = Some(match asking {
            Ok(asking) => {
                let asked = tokio::select! {
                    asked = ask(&asking) => asked,
                    told = told_to_stop => Err(told.err().unwrap_or(Failure::Stopped)),
                };
                asking.close().await;
                asked
            }
            Err(failure) => Err(failure),
        });
        // Who waited was answered by a read of its own; the event of what it saw comes by the stream.
        if matches!(done, Some(Ok(_))) {
            server.caught_up(TOLD_WITHIN).await;
        }
        stop.cancel();
        server.settled().await;
    };
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(END_WITHIN).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(work, role.play(endpoint)) } => {}
        () = late => tracing::warn!("left before everything had ended"),
    }
    let _ = timeout(END_WITHIN, role.close()).await;
    done.unwrap_or(Err(Failure::Stopped))
}

/// The process that owns the state directory, where it has the machines of the config.
async fn owner_of(config: &Config, stop: &CancellationToken) -> Result<Option<Arc<Owner>>, Failure> {
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let owner = role::owner(config, &state, stop)?;
    let about: About = match owner.ask(Method::GET, "/owner").await {
        Ok(about) => about,
        Err(Unanswered::Nobody(_)) => return Ok(None),
        Err(error) => return Err(role::did_not_answer(&error)),
    };
    let has_them = config
        .machines
        .iter()
        .all(|machine| about.machines.get(&machine.name).map(String::as_str) == Some(machine.url.as_str()));
    Ok(has_them.then_some(owner))
}

/// What the config says to the gateway.
pub(super) fn gateway_settings(config: &Config) -> GatewaySettings {
    GatewaySettings {
        wait_without_progress: config.server.wait_without_progress,
        finish_timeout: config.watch.finish_timeout,
        credentials: None,
    }
}

/// Loads the config of a command that asks, and starts its log. Without machines there is nothing to ask.
pub(super) fn config(flags: &SettingFlags<false>) -> Result<Config, Failure> {
    let config = flags.load(WorkingDirectory::Config)?;
    logging::start_if_asked(flags, &config.log)?;
    if config.machines.is_empty()
        && let Some(unusable) = unusable_credentials(&config).next()
    {
        return Err(Failure::said(unusable));
    }
    if config.machines.is_empty() {
        return Err(Failure::said(
            "no machine is configured. Pair one (t3code-mcp pair mac '<link>'), write one into t3code.toml (see t3code.example.toml), or name the file with --config",
        ));
    }
    Ok(config)
}

/// What is wrong with what pairing left, and what mends it.
pub(super) fn unusable_credentials(config: &Config) -> impl Iterator<Item = String> {
    config.notes.iter().filter_map(|note| match note {
        Note::Credential {
            machine: Some(machine),
            problem,
        } => Some(format!(
            "the credential of {machine} cannot be used: {problem}. {}",
            mended_by(machine)
        )),
        Note::Credential { machine: None, problem } => Some(format!("what was paired cannot be read: {problem}")),
        Note::Read(_) | Note::Skipped { .. } | Note::NoToken { .. } | Note::Warning(_) => None,
    })
}
