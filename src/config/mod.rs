//! What the operator decided: `t3code.toml`, the environment and the flags, made into one validated [`Config`].
//!
//! The table in [`settings`] names every setting once; help, README and tests read it. [`load()`] finds the files, lays defaults, file,
//! environment and flags over each other and validates the whole; each error is a sentence that names the place and how to mend it.
//! Nothing here talks to a machine, and no token is ever read from a config file, logged or put into an error. Called by `cli`; everything
//! above reads the structs.

pub mod credentials;
mod env;
mod error;
mod file;
pub mod link;
mod load;
mod raw;
mod secrets;
pub mod settings;
pub mod socket;
pub mod state;
#[cfg(test)]
mod tests;
mod validate;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use crate::outbound::bare;
use crate::protocol::{OptionValue, RuntimeMode};

use credentials::Kept;
pub use env::Environment;
pub use error::{ConfigError, ConfigErrors, Place};
pub use load::{CONFIG_FILE, Request, WorkingDirectory, load};

/// Everything that the operator decided, valid and typed.
#[derive(Clone, Debug)]
pub struct Config {
    /// The T3 servers, by name. May be empty: then `serve` runs and says how to add one.
    pub machines: Vec<MachineConfig>,
    /// The endpoint and who may use it.
    pub server: ServerConfig,
    /// Where events go, if anywhere.
    pub hook: Option<HookConfig>,
    /// What is told of runs that do not end by themselves.
    pub watch: WatchConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// The state directory, not yet made: [`state::StateDir::open`] does that.
    pub state_dir: PathBuf,
    /// `T3CODE_MCP_TOKEN`: the default bearer, where the operator gave one.
    pub bearer: Option<SecretString>,
    /// `T3CODE_MCP_ORIGIN`: the origin of what is dispatched over stdio.
    pub origin: Option<String>,
    /// `T3_PAIRING_URL`: a pairing link that is used at the start.
    pub pairing_link: Option<SecretString>,
    /// What holds for machines that pairing made, which no file describes.
    pub unnamed: Unnamed,
    /// Machines of which pairing left something that cannot be used.
    pub unusable: Unusable,
    /// Which files were read, which were left alone and why, what is odd: to be logged at the start.
    pub notes: Vec<Note>,
}

/// One T3 server.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// What callers call it.
    pub name: String,
    /// Where it listens: `http` or `https`, no userinfo, no path.
    pub url: Url,
    /// Its token.
    pub token: TokenSource,
    /// Agents may renew its credential with a pairing code.
    pub agent_pairing: bool,
    /// Pairing made it: it stands in no file, but in the state directory.
    pub in_state: bool,
    /// fnmatch patterns against a project's title and workspace root: what matches none does not exist. Never empty.
    pub projects: Vec<String>,
    /// The model of a dispatch that names none: `instance/model`, `instance:model` or a bare model.
    pub model: Option<String>,
    /// Model options of a dispatch that names none.
    pub options: BTreeMap<String, OptionValue>,
    /// The mode of a dispatch that names none.
    pub runtime_mode: Option<RuntimeMode>,
    /// What no thread here may go beyond, the gateway-wide ceiling included.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// T3's scratch project may be used, and takes what names no project.
    pub scratch: bool,
    /// A PEM file of further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// The largest frame taken from T3, in bytes.
    pub frame_limit: usize,
}

/// Where a machine's token comes from. Without one it says `needs_pairing`, and what to do.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// From the environment.
    Variable {
        /// The variable that the config names.
        variable: String,
        /// Its value; none where it is not set.
        token: Option<SecretString>,
    },
    /// From pairing: it is kept in the state directory; none where it is not paired yet.
    Pairing(Option<Box<Kept>>),
}

impl TokenSource {
    /// The token, if there is one.
    pub fn token(&self) -> Option<&SecretString> {
        match self {
            Self::Variable { token, .. } => token.as_ref(),
            Self::Pairing(kept) => kept.as_ref().map(|kept| &kept.token),
        }
    }
}

/// What pairing left and cannot be used now: that such a machine is missing does not mean that it is gone.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Unusable {
    /// Not even which machines there are is known.
    pub all: bool,
    /// The machines whose file cannot be used.
    pub machines: BTreeSet<String>,
}

impl Unusable {
    /// Whether it may be that the machine was paired.
    pub fn covers(&self, machine: &str) -> bool {
        self.all || self.machines.contains(machine)
    }
}

impl Config {
    /// The same with what pairing left by now. What cannot be used now stays as it was.
    #[must_use]
    pub fn with_kept(
        &self,
        kept: &Result<BTreeMap<String, Result<Kept, state::StateError>>, state::StateError>,
    ) -> Self {
        let Ok(kept) = kept else {
            let unusable = Unusable {
                all: true,
                ..self.unusable.clone()
            };
            return Self {
                unusable,
                ..self.clone()
            };
        };
        let mut machines = Vec::new();
        for machine in &self.machines {
            let now = kept.get(&machine.name);
            match (now, &machine.token) {
                (Some(Err(_)), _) | (_, TokenSource::Variable { .. }) => machines.push(machine.clone()),
                // Made anew below, if it is still there.
                _ if machine.in_state => {}
                (now, TokenSource::Pairing(_)) => {
                    let now = now.and_then(|now| now.as_ref().ok()).cloned();
                    machines.push(MachineConfig {
                        token: TokenSource::Pairing(now.map(Box::new)),
                        ..machine.clone()
                    });
                }
            }
        }
        let described = |name: &str| {
            self.machines
                .iter()
                .any(|machine| machine.name == name && !machine.in_state)
        };
        let made = kept.values().filter_map(|kept| kept.as_ref().ok());
        let made = made.filter(|kept| !described(&kept.machine)).cloned();
        machines.extend(made.filter_map(|kept| self.unnamed.machine(kept)));
        Self {
            machines,
            unusable: Unusable {
                all: false,
                machines: unusable(kept),
            },
            ..self.clone()
        }
    }
}

/// The machines whose credential cannot be used.
fn unusable(kept: &BTreeMap<String, Result<Kept, state::StateError>>) -> BTreeSet<String> {
    let broken = kept.iter().filter(|(_, kept)| kept.is_err());
    broken.map(|(name, _)| name.clone()).collect()
}

/// What the operator set for every machine: it holds for those that pairing made, too.
#[derive(Clone, Debug)]
pub struct Unnamed {
    /// The model of a dispatch that names none.
    pub model: Option<String>,
    /// The gateway-wide ceiling.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// The largest frame taken from T3, in bytes.
    pub frame_limit: usize,
}

impl Unnamed {
    /// The machine that pairing made; none where what is kept belongs to a machine of the config.
    pub fn machine(&self, kept: Kept) -> Option<MachineConfig> {
        Some(MachineConfig {
            name: kept.machine.clone(),
            url: kept.url.clone(),
            projects: kept.projects.clone()?,
            model: self.model.clone(),
            options: BTreeMap::new(),
            runtime_mode: None,
            max_runtime_mode: self.max_runtime_mode,
            ca_file: None,
            frame_limit: self.frame_limit,
            token: TokenSource::Pairing(Some(Box::new(kept))),
            agent_pairing: false,
            scratch: false,
            in_state: true,
        })
    }
}

/// What is wrong with a machine's name, if something is.
pub fn machine_name(name: &str) -> Result<(), String> {
    values::name(name)
}

/// The endpoint and who may use it.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address that is bound.
    pub host: IpAddr,
    /// The port that is bound; 0 lets the system choose.
    pub port: u16,
    /// Values of `Host` that pass besides the bound address: `host` (any port) or `host:port`.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that pass; a request without one passes anyway.
    pub allowed_origins: Vec<String>,
    /// How callers prove who they are.
    pub auth: Auth,
    /// Whether the default bearer lets in; with named clients it can be switched off.
    pub default_bearer: bool,
    /// How long `t3_wait` waits when the caller names no timeout and gave no progress token.
    pub wait_without_progress: Duration,
    /// The named clients.
    pub clients: Vec<ClientConfig>,
}

impl ServerConfig {
    /// What is bound.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

/// How callers of the endpoint prove who they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Auth {
    /// By a bearer token.
    Bearer,
    /// Not at all: everyone who reaches the port is the default client.
    None,
}

/// The name of the caller behind the default bearer, and over stdio. No named client may take it.
pub const DEFAULT_CLIENT: &str = "default";

/// A named client and what it may do.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Its name: request ids are kept apart by it.
    pub name: String,
    /// Its bearer.
    pub token: SecretString,
    /// The machines that exist for it; none: all. Each is configured.
    pub machines: Option<Vec<String>>,
    /// Further patterns, beside the machine's own, that a project must match to exist for it; none: no further ones.
    pub projects: Option<Vec<String>>,
    /// What no thread that it touches may go beyond.
    pub max_runtime_mode: Option<RuntimeMode>,
    /// It may look and wait, and change nothing.
    pub read_only: bool,
}

/// Where events go.
#[derive(Clone)]
pub struct HookConfig {
    /// The receiver: `http` or `https`, no userinfo.
    pub url: Url,
    /// The bearer that it is shown.
    pub token: Option<SecretString>,
    /// The secrets that sign, the newest first: none, one, or two while one is replaced.
    pub secrets: Vec<SecretString>,
    /// A PEM file of further certificate authorities.
    pub ca_file: Option<PathBuf>,
    /// Credentials that end soon, or have ended, are told as events.
    pub credentials: bool,
}

impl fmt::Debug for HookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query of a receiver's URL is often its password.
        f.debug_struct("HookConfig")
            .field("url", &bare(&self.url))
            .field("token", &self.token.is_some())
            .field("secrets", &self.secrets.len())
            .field("ca_file", &self.ca_file)
            .field("credentials", &self.credentials)
            .finish()
    }
}

/// What is told of runs that do not end by themselves.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// A run that stays in `finishing` longer counts as completed, marked `unconfirmed`.
    pub finish_timeout: Duration,
    /// A run without any change for so long is told as `stalled`; none: never.
    pub stall_after: Option<Duration>,
    /// A machine with watched open runs that is away for so long is told as `unreachable`; none: never.
    pub unreachable_after: Option<Duration>,
    /// How long events are kept that were delivered, or never were to be.
    pub keep_events: Duration,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// A `tracing` filter, such as `info` or `t3code_mcp=debug`.
    pub filter: String,
    /// The shape of a line.
    pub format: LogFormat,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the operator should know about how the config came to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Note {
    /// A file was read.
    Read(PathBuf),
    /// A file is there and was left alone.
    Skipped {
        /// The file.
        path: PathBuf,
        /// Why, and how to mend it.
        why: String,
    },
    /// The variable that holds a machine's token is not set.
    NoToken {
        /// The machine.
        machine: String,
        /// The variable.
        variable: String,
    },
    /// What pairing left cannot be used.
    Credential {
        /// The machine; none: not even which there are is known.
        machine: Option<String>,
        /// Which file, and what is wrong with it.
        problem: String,
    },
    /// Something is odd but no error.
    Warning(String),
}
