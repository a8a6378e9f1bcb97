//! `serve`: the gateway, over HTTP or over its own pipes, until it is told to stop.
//!
//! Whoever starts it by hand reads on stderr where it listens, where the bearer lies and how Claude Code is connected; stdout stays free
//! for MCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::flags::SettingFlags;
use super::role::{Rank, Role};
use super::{Failure, logging, output, pair, runtime, slim};
use crate::config::settings::{BEARER_VARIABLE, PAIRING_VARIABLE};
use crate::config::state::StateDir;
use crate::config::{Auth, Config, LogFormat, WorkingDirectory};
use crate::http::{self, HttpSettings};
use crate::mcp;
use crate::protocol::Untrusted;

/// Stopping takes no longer; what is still open then is left.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// It was told to stop before it had begun.
const LEFT_EARLY: &str =
    "stopped before it served: the process that keeps the ledger of this state directory did not answer";

/// Flags that `token` needs too to find the same bearer.
const FLAGS_OF_TOKEN: &[&str] = &["config", "env-file", "state-dir"];

/// Serve MCP clients: over HTTP, or with --stdio over stdin and stdout.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A pairing link: the machine is paired first
    link: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

/// What `serve` takes besides, also where the command is left out.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Serve one client on stdin and stdout; reads nothing from the working directory
    #[arg(long)]
    stdio: bool,
    #[command(flatten)]
    settings: SettingFlags<true>,
}

impl From<Flags> for Args {
    fn from(flags: Flags) -> Self {
        Self { link: None, flags }
    }
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp serve                                     what ./t3code.toml describes
  t3code-mcp serve --config ~/t3code.toml -p 9000
  t3code-mcp serve --stdio --config ~/t3code.toml      started by an MCP client
  t3code-mcp serve '<link>'                            paired first by the link of `t3 pair`
  t3code-mcp serve --max-mode auto-accept-edits        no agent may do more

It stops on SIGTERM or Ctrl-C: open waits are answered first, within 10 s.";

/// The bearer of the default client, and how a shell gets at it.
struct DefaultBearer {
    token: SecretString,
    /// Where it lies, for people.
    place: String,
    /// What stands for it in a command.
    in_a_command: String,
}

/// Serves.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let flags = &args.flags;
    let working_directory = if flags.stdio {
        WorkingDirectory::Closed
    } else {
        WorkingDirectory::ConfigAndEnv
    };
    let mut config = flags.settings.load(working_directory)?;
    logging::start(&config.log)?;
    logging::notes(&config.notes);
    if paired_first(args.link.as_deref(), &config)? {
        config = flags.settings.load(working_directory)?;
    }
    runtime::allow_connections();
    if flags.stdio {
        return runtime::run(stdio(&config))?;
    }
    let bearer = default_bearer(&config, &flags.settings.shown(FLAGS_OF_TOKEN))?;
    runtime::run(over_http(&config, bearer))?
}

/// Pairs by the link that is given, or by the one of the environment. The latter stays there over many starts, so that it does not work any
/// more is no reason not to serve.
fn paired_first(given: Option<&str>, config: &Config) -> Result<bool, Failure> {
    match (given, &config.pairing_link) {
        (Some(link), _) => pair::at_start(config, &SecretString::from(link)),
        (None, Some(link)) => Ok(pair::at_start(config, link).unwrap_or_else(|failure| {
            tracing::error!(
                "the link in {PAIRING_VARIABLE} was not used: {}",
                Untrusted(&failure.to_string())
            );
            false
        })),
        (None, None) => Ok(false),
    }
}

fn default_bearer(config: &Config, flags: &str) -> Result<Option<DefaultBearer>, Failure> {
    if config.server.auth == Auth::None || !config.server.default_bearer {
        return Ok(None);
    }
    if let Some(token) = &config.bearer {
        return Ok(Some(DefaultBearer {
            token: token.clone(),
            place: format!("the environment variable {BEARER_VARIABLE}"),
            in_a_command: format!("${BEARER_VARIABLE}"),
        }));
    }
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let bearer = state.bearer().map_err(Failure::said)?;
    let made = if bearer.created { ", made just now" } else { "" };
    Ok(Some(DefaultBearer {
        token: bearer.token,
        place: format!("{}{made}", bearer.path.display()),
        in_a_command: format!("$(t3code-mcp token{flags})"),
    }))
}

async fn over_http(config: &Config, bearer: Option<DefaultBearer>) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let leave = stop_on_signals(&stop);
    let address = config.server.address();
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::said(format!(
            "cannot listen on {address} ({error}). Stop what listens there, or choose another with --host and --port"
        ))
    })?;
    let bound = listener.local_addr().map_err(Failure::said)?;
    let settings = HttpSettings::from_config(&config.server, bearer.as_ref().map(|bearer| &bearer.token))
        .map_err(Failure::said)?;
    let Some(taken) = leave.run_until_cancelled(Role::take(config, Rank::Serves, &stop)).await else {
        return Err(Failure::said(LEFT_EARLY));
    };
    let mut role = taken?;
    let endpoint = http::endpoint(role.server().clone(), settings, &stop);
    announce(config, bound, bearer.as_ref());
    role.keep_sessions(&endpoint).await;
    let serving = http::serve(listener, endpoint.clone(), stop.clone());
    tokio::spawn(slim::after_the_start());
    tokio::select! {
        ((), ()) = async { tokio::join!(serving, role.play(endpoint)) } => {}
        () = leave.cancelled() => tracing::warn!("left before everything had ended"),
    }
    role.close().await;
    tracing::info!("stopped");
    Ok(())
}

async fn stdio(config: &Config) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let leave = stop_on_signals(&stop);
    let Some(taken) = leave.run_until_cancelled(Role::take(config, Rank::Speaks, &stop)).await else {
        return Err(Failure::said(LEFT_EARLY));
    };
    let mut role = taken?;
    if config.machines.is_empty() {
        tracing::warn!(
            "no machine is configured: name a config with --config, or write t3code-mcp/t3code.toml in the user's config directory"
        );
    }
    let server = role.server().clone();
    // For other processes on the state directory; nobody else comes by it.
    let settings = HttpSettings::from_config(&config.server, config.bearer.as_ref()).map_err(Failure::said)?;
    let endpoint = http::endpoint(server.clone(), settings, &stop);
    role.keep_sessions(&endpoint).await;
    tokio::spawn(slim::after_the_start());
    let serving = async {
        let ended = mcp::serve_stdio(server.clone(), stop.clone())
            .await
            .map_err(Failure::said);
        // However it ended; what was being sent to a machine is still seen through.
        stop.cancel();
        server.settled().await;
        ended
    };
    let ended = tokio::select! {
        (ended, ()) = async { tokio::join!(serving, role.play(endpoint)) } => ended,
        () = leave.cancelled() => {
            tracing::warn!("left before everything had ended");
            Ok(())
        }
    };
    role.close().await;
    ended
}

/// Cancels `stop` at the first SIGTERM or SIGINT; the token that is returned ends the patience: after ten seconds, or at a second signal.
fn stop_on_signals(stop: &CancellationToken) -> CancellationToken {
    let leave = CancellationToken::new();
    let (stop, leaving) = (stop.clone(), leave.clone());
    tokio::spawn(async move {
        tokio::select! {
            told = runtime::until_told_to_stop() => {
                if let Err(failure) = told {
                    tracing::error!("{failure}");
                }
            }
            // stdio ends with its client: then, too, nothing may take for ever.
            () = stop.cancelled() => {}
        }
        stop.cancel();
        tracing::info!("stopping");
        tokio::select! {
            _ = runtime::until_told_to_stop() => {}
            () = tokio::time::sleep(STOP_WITHIN) => {}
        }
        leaving.cancel();
    });
    leave
}

/// Says where it listens and how to connect. With a log for programs it is one event more.
fn announce(config: &Config, bound: SocketAddr, bearer: Option<&DefaultBearer>) {
    let url = format!("http://{}{}", reachable(bound), http::PATH);
    let machines: Vec<&str> = config.machines.iter().map(|machine| machine.name.as_str()).collect();
    if config.log.format == LogFormat::Json {
        tracing::info!(%url, machines = %machines.join(","), bearer = bearer.map(|bearer| bearer.place.as_str()), "listening");
        return;
    }
    let header = bearer.map_or_else(String::new, |bearer| {
        format!(" --header \"Authorization: Bearer {}\"", bearer.in_a_command)
    });
    let say = |line: &str| output::complain(format_args!("{}", Untrusted(line)));
    say(&format!("t3code-mcp {} listens on {url}", env!("CARGO_PKG_VERSION")));
    match bearer {
        Some(bearer) => say(&format!("  bearer:      {}", bearer.place)),
        None if config.server.auth == Auth::None => {
            say("  bearer:      none: whoever reaches the port may do everything");
        }
        None => say("  bearer:      those of the named clients"),
    }
    say(&format!(
        "  Claude Code: claude mcp add --transport http t3code {url}{header}"
    ));
    if machines.is_empty() {
        say("  machines:    none yet. On the T3 host `t3 pair` prints a link. In another shell here:");
        say("                 t3code-mcp pair mac '<link>'");
        say("               or write this into t3code.toml, set T3_TOKEN, start again:");
        for line in [
            "[machines.mac]",
            "url = \"http://127.0.0.1:3773\"",
            "token_env = \"T3_TOKEN\"",
            "projects = [\"*\"]",
        ] {
            say(&format!("                 {line}"));
        }
        say("               (without a T3 to hand: t3code-mcp simulate --port 3773, with any token)");
    } else {
        say(&format!("  machines:    {}", machines.join(", ")));
    }
}

/// The address by which this computer reaches what is bound.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}
