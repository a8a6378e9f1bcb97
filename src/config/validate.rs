//! Judges every value and makes the typed [`Config`] of them. All errors are collected: a config is mended in one go.

mod hook;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::credentials::Kept;
use super::env::Environment;
use super::error::{ConfigError, ConfigErrors, Place, nearest};
use super::load::nearest_place;
use super::raw::{Raw, RawClient, RawLog, RawMachine, RawServer, RawWatch};
use super::settings::{BEARER_VARIABLE, ORIGIN_VARIABLE, PAIRING_VARIABLE, SETTINGS};
use super::state::StateError;
use super::{
    Auth, ClientConfig, Config, DEFAULT_CLIENT, LogConfig, LogFormat, MachineConfig, Note, ServerConfig, TokenSource,
    Unnamed, Unusable, WatchConfig, secrets, values,
};
use crate::protocol::RuntimeMode;

/// An origin is no longer, in bytes.
const LONGEST_ORIGIN: usize = 1024;
/// The shortest time after which something is told of a run.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest that a run may be said to finish.
const LONGEST_FINISH: Duration = Duration::from_hours(24);
/// The shortest time for which events are kept.
const SHORTEST_KEPT: Duration = Duration::from_hours(1);
/// The longest: a year.
const LONGEST_KEPT: Duration = Duration::from_hours(8_760);
/// The longest that a run may stand still, or its machine be away, untold.
const LONGEST_WATCH: Duration = Duration::from_hours(720);
/// What switches such a time off.
const OFF: &str = "off";
/// The largest frame that is taken from a machine where nothing is set.
const DEFAULT_FRAME_LIMIT: usize = 64 * 1024 * 1024;
/// A bearer that is shorter can be guessed.
const SHORT_TOKEN: usize = 16;

/// What the values are judged with.
pub(super) struct Context<'a> {
    /// Where each key stands.
    pub(super) places: &'a BTreeMap<String, Place>,
    /// Where tokens come from.
    pub(super) environment: &'a Environment,
    /// Where relative paths of the file start.
    pub(super) config_directory: &'a Path,
    /// What pairing got.
    pub(super) kept: &'a BTreeMap<String, Result<Kept, StateError>>,
    /// Not even which there are could be read.
    pub(super) all_unusable: bool,
    /// The model that is set for every machine.
    pub(super) model: Option<(String, Place)>,
}

/// Validates the whole.
pub(super) fn config(
    raw: Raw,
    context: &Context<'_>,
    state_dir: PathBuf,
    notes: Vec<Note>,
) -> Result<Config, ConfigErrors> {
    let mut check = Check {
        context,
        errors: Vec::new(),
        notes,
        token_variables: BTreeSet::new(),
    };
    let mut names: Vec<String> = raw.machines.keys().cloned().collect();
    let made = context
        .kept
        .iter()
        .filter(|(name, _)| !raw.machines.contains_key(*name));
    let made: Vec<Kept> = made
        .filter_map(|(name, kept)| check.kept(name, kept.as_ref()))
        .collect();
    names.extend(made.iter().map(|kept| kept.machine.clone()));
    let ceiling = check.mode("server.max_runtime_mode", Some(&raw.server.max_runtime_mode));
    let machines: Vec<_> = raw
        .machines
        .into_iter()
        .map(|(name, machine)| check.machine(name, machine, ceiling))
        .collect();
    let unnamed = check.unnamed(ceiling, machines.is_empty());
    let bearer = check.variable_token(BEARER_VARIABLE);
    let server = check.server(raw.server, &names, bearer.as_ref());
    let watch = check.watch(&raw.watch);
    let hook = check.hook(raw.hook);
    let log = check.log(raw.log);
    let origin = check.origin();
    let pairing_link = context.environment.get(PAIRING_VARIABLE).map(SecretString::from);
    check.strange_variables();
    let Check { errors, notes, .. } = check;
    // A part is missing only where an error says why.
    match (machines.into_iter().collect::<Option<Vec<_>>>(), server, watch, log) {
        (Some(mut machines), Some(server), Some(watch), Some(log)) if errors.is_empty() => Ok(Config {
            machines: {
                machines.extend(made.into_iter().filter_map(|kept| unnamed.machine(kept)));
                machines
            },
            unnamed,
            unusable: Unusable {
                all: context.all_unusable,
                machines: super::unusable(context.kept),
            },
            pairing_link,
            server,
            hook,
            watch,
            log,
            state_dir,
            bearer,
            origin,
            notes,
        }),
        _ => Err(ConfigErrors(errors)),
    }
}

struct Check<'a> {
    context: &'a Context<'a>,
    errors: Vec<ConfigError>,
    notes: Vec<Note>,
    /// The variables that `token_env` names.
    token_variables: BTreeSet<String>,
}

impl Check<'_> {
    /// Notes what is wrong with the value of a key.
    fn wrong(&mut self, path: &str, problem: impl std::fmt::Display) {
        let place = nearest_place(self.context.places, path);
        self.errors.push(ConfigError::new(place, format!("`{path}` {problem}")));
    }

    /// The value, or a note of what is wrong with it.
    fn take<T>(&mut self, path: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.wrong(path, problem)).ok()
    }

    fn machine(&mut self, name: String, raw: RawMachine, ceiling: Option<RuntimeMode>) -> Option<MachineConfig> {
        let path = format!("machines.{name}");
        let key = |key: &str| format!("{path}.{key}");
        let named = self.take(&path, values::name(&name));
        let url = self.required(&key("url"), "url = \"http://127.0.0.1:3773\"", raw.url.as_deref());
        let url = url.and_then(|url| self.take(&key("url"), values::url(url)));
        let token = self.token_source(&name, &path, &raw);
        let projects = self.required(&key("projects"), "projects = [\"*\"] to show all", raw.projects);
        let projects = projects.and_then(|projects| self.take(&key("projects"), values::patterns(projects)));
        let model = raw
            .model
            .and_then(|model| self.take(&key("model"), values::model(model)));
        let runtime_mode = self.mode(&key("runtime_mode"), raw.runtime_mode.as_deref());
        let own_ceiling = self.mode(&key("max_runtime_mode"), raw.max_runtime_mode.as_deref());
        let max_runtime_mode = own_ceiling.into_iter().chain(ceiling).min();
        if let (Some(mode), Some(max)) = (runtime_mode, max_runtime_mode)
            && mode > max
        {
            self.notes.push(Note::Warning(format!(
                "{name}: its runtime_mode {mode} is above the ceiling {max}; dispatches there start in {max}"
            )));
        }
        let ca_file = raw.ca_file.and_then(|file| self.ca_file(&key("ca_file"), &file));
        let frame_limit = self.take(&key("frame_limit_mib"), values::frame_limit(raw.frame_limit_mib));
        named?;
        Some(MachineConfig {
            name,
            url: url?,
            token: token?,
            agent_pairing: raw.agent_pairing,
            in_state: false,
            projects: projects?,
            model,
            options: raw.options,
            runtime_mode,
            max_runtime_mode,
            scratch: raw.scratch,
            ca_file,
            frame_limit: frame_limit?,
        })
    }

    /// Where the token comes from: by one of the two ways.
    fn token_source(&mut self, name: &str, path: &str, raw: &RawMachine) -> Option<TokenSource> {
        let key = |key: &str| format!("{path}.{key}");
        if raw.agent_pairing && !raw.pairing {
            self.wrong(
                &key("agent_pairing"),
                "is true without pairing = true: there is no credential that agents could renew. Set that, or take this out",
            );
        }
        match (raw.token_env.as_deref(), raw.pairing) {
            (Some(variable), false) => {
                if self.context.kept.contains_key(name) {
                    self.notes.push(Note::Warning(format!(
                        "{name} was paired, and its token comes from {variable} all the same: set pairing = true instead of token_env, or forget \
                         the other with `t3code-mcp unpair {name}`"
                    )));
                }
                self.machine_token(name, &key("token_env"), variable)
            }
            (Some(_), true) => {
                self.wrong(
                    &key("pairing"),
                    "is true, and there is token_env: which token is meant? Take one of them out",
                );
                None
            }
            (None, true) => {
                let kept = self.context.kept.get(name);
                let kept = kept.and_then(|kept| self.kept(name, kept.as_ref()));
                Some(TokenSource::Pairing(kept.map(Box::new)))
            }
            (None, false) => self.required(&key("token_env"), "token_env = \"T3_TOKEN\", or pairing = true", None),
        }
    }

    /// A credential that is kept, or a note of why it cannot be used.
    fn kept(&mut self, name: &str, kept: Result<&Kept, &StateError>) -> Option<Kept> {
        match kept {
            Ok(kept) => Some(kept.clone()),
            Err(error) => {
                self.notes.push(Note::Credential {
                    machine: Some(name.to_owned()),
                    problem: error.to_string(),
                });
                None
            }
        }
    }

    /// What holds for machines that no file describes. What is wrong with it was said already where there are others.
    fn unnamed(&mut self, ceiling: Option<RuntimeMode>, alone: bool) -> Unnamed {
        let model = self.context.model.clone().and_then(|(model, place)| {
            let judged = values::model(model);
            if let (Err(problem), true) = (&judged, alone) {
                self.errors.push(ConfigError::new(place, problem.clone()));
            }
            judged.ok()
        });
        Unnamed {
            model,
            max_runtime_mode: ceiling,
            frame_limit: DEFAULT_FRAME_LIMIT,
        }
    }

    fn machine_token(&mut self, name: &str, path: &str, variable: &str) -> Option<TokenSource> {
        self.take(path, secrets::variable_name(variable))?;
        self.token_variables.insert(variable.to_owned());
        let token = match secrets::token(self.context.environment, variable) {
            Ok(token) => token,
            Err(problem) => {
                self.errors
                    .push(ConfigError::new(self.context.environment.place(variable), problem));
                return None;
            }
        };
        if token.is_none() {
            self.notes.push(Note::NoToken {
                machine: name.to_owned(),
                variable: variable.to_owned(),
            });
        }
        Some(TokenSource::Variable {
            variable: variable.to_owned(),
            token,
        })
    }

    fn server(&mut self, raw: RawServer, machines: &[String], bearer: Option<&SecretString>) -> Option<ServerConfig> {
        let host = self.take("server.host", values::host(&raw.host));
        let port = u16::try_from(raw.port).map_err(|_| format!("is {}. Write a number from 0 to 65535", raw.port));
        let port = self.take("server.port", port);
        let auth = match raw.auth.as_str() {
            "bearer" => Some(Auth::Bearer),
            "none" => Some(Auth::None),
            _ => {
                self.wrong("server.auth", "is neither \"bearer\" nor \"none\". Write one of them");
                None
            }
        };
        if auth == Some(Auth::None) && host.is_some_and(|host| !host.is_loopback()) && !raw.insecure {
            self.wrong(
                "server.auth",
                format!(
                    "is \"none\" on {}, where others can reach it and do everything. Set auth = \"bearer\", or insecure = true if that is meant",
                    raw.host
                ),
            );
        }
        if auth == Some(Auth::None) && !raw.client.is_empty() {
            self.wrong("server.auth", "is \"none\", which leaves the limits of the named clients without effect. Set auth = \"bearer\", or take the clients out");
        }
        if !raw.default_bearer && raw.client.is_empty() {
            self.wrong(
                "server.default_bearer",
                "is false and there is no [[server.client]], so nobody could call. Add a client, or leave it true",
            );
        }
        for (index, value) in raw.allowed_hosts.iter().enumerate() {
            self.take(&format!("server.allowed_hosts[{index}]"), values::allowed_host(value));
        }
        let mut allowed_origins = Vec::new();
        for (index, value) in raw.allowed_origins.iter().enumerate() {
            allowed_origins.extend(self.take(
                &format!("server.allowed_origins[{index}]"),
                values::allowed_origin(value),
            ));
        }
        let wait_without_progress = self.duration(
            "server.wait_without_progress",
            &raw.wait_without_progress,
            Duration::from_secs(5)..=Duration::from_hours(1),
        );
        let clients = self.clients(raw.client, machines, bearer);
        Some(ServerConfig {
            host: host?,
            port: port?,
            allowed_hosts: raw.allowed_hosts,
            allowed_origins,
            auth: auth?,
            default_bearer: raw.default_bearer,
            wait_without_progress: wait_without_progress?,
            clients: clients?,
        })
    }

    fn clients(
        &mut self,
        raw: Vec<RawClient>,
        machines: &[String],
        bearer: Option<&SecretString>,
    ) -> Option<Vec<ClientConfig>> {
        let mut clients: Vec<ClientConfig> = Vec::new();
        let mut whole = true;
        for (index, raw) in raw.into_iter().enumerate() {
            let path = format!("server.client[{index}]");
            let Some(client) = self.client(&path, raw, machines) else {
                whole = false;
                continue;
            };
            if clients.iter().any(|other| other.name == client.name) {
                self.wrong(
                    &format!("{path}.name"),
                    format!(
                        "{:?} stands there twice. Give each client a name of its own",
                        client.name
                    ),
                );
            }
            let same = |token: &SecretString| token.expose_secret() == client.token.expose_secret();
            let twin = clients
                .iter()
                .find(|other| same(&other.token))
                .map(|other| other.name.as_str());
            if let Some(twin) = twin.or_else(|| bearer.is_some_and(same).then_some(DEFAULT_CLIENT)) {
                let twin = twin.to_owned();
                self.wrong(
                    &format!("{path}.token_env"),
                    format!("gives {:?} the token of {twin:?}, so the two cannot be told apart. Give each a token of its own", client.name),
                );
            }
            clients.push(client);
        }
        whole.then_some(clients)
    }

    fn client(&mut self, path: &str, raw: RawClient, machines: &[String]) -> Option<ClientConfig> {
        let key = |key: &str| format!("{path}.{key}");
        let name = self.required(&key("name"), "name = \"dispatcher\"", raw.name);
        let name = name.and_then(|name| self.take(&key("name"), values::client_name(name)));
        let variable = self.required(&key("token_env"), "token_env = \"DISPATCHER_TOKEN\"", raw.token_env);
        let token = variable.and_then(|variable| {
            self.named_token(
                &key("token_env"),
                &variable,
                "Set it to the client's token, or take the client out",
            )
        });
        for machine in raw.machines.iter().flatten() {
            if !machines.contains(machine) {
                let hint = match nearest(machine, machines.iter().map(String::as_str)) {
                    Some(meant) => format!("Did you mean {meant:?}?"),
                    None => format!("Configured are: {}", machines.join(", ")),
                };
                self.wrong(
                    &key("machines"),
                    format!("names {machine:?}, which is not configured. {hint}"),
                );
            }
        }
        let projects = raw
            .projects
            .and_then(|projects| self.take(&key("projects"), values::patterns(projects)));
        let max_runtime_mode = self.mode(&key("max_runtime_mode"), raw.max_runtime_mode.as_deref());
        Some(ClientConfig {
            name: name?,
            token: token?,
            machines: raw.machines,
            projects,
            max_runtime_mode,
            read_only: raw.read_only,
        })
    }

    /// The token in the variable that a key names. One that is not set is an error, with what to do.
    fn named_token(&mut self, path: &str, variable: &str, remedy: &str) -> Option<SecretString> {
        self.take(path, secrets::variable_name(variable))?;
        self.token_variables.insert(variable.to_owned());
        let token = self.variable_token(variable);
        if token.is_none() && self.context.environment.get(variable).is_none() {
            self.wrong(path, format!("names {variable}, which is not set. {remedy}"));
        }
        token
    }

    /// A bearer or a secret, with a warning where it can be guessed.
    fn variable_token(&mut self, variable: &str) -> Option<SecretString> {
        let place = self.context.environment.place(variable);
        match secrets::token(self.context.environment, variable) {
            Ok(token) => {
                if token
                    .as_ref()
                    .is_some_and(|token| token.expose_secret().len() < SHORT_TOKEN)
                {
                    self.notes.push(Note::Warning(format!(
                        "{place}: the token is short and can be guessed; take at least {SHORT_TOKEN} random characters"
                    )));
                }
                token
            }
            Err(problem) => {
                self.errors.push(ConfigError::new(place, problem));
                None
            }
        }
    }

    fn watch(&mut self, raw: &RawWatch) -> Option<WatchConfig> {
        let finish_timeout = self.duration("watch.finish_timeout", &raw.finish_timeout, SHORTEST..=LONGEST_FINISH);
        let stall_after = self.duration_or_off("watch.stall_after", &raw.stall_after);
        let unreachable_after = self.duration_or_off("watch.unreachable_after", &raw.unreachable_after);
        let keep_events = self.duration("watch.keep_events", &raw.keep_events, SHORTEST_KEPT..=LONGEST_KEPT);
        Some(WatchConfig {
            finish_timeout: finish_timeout?,
            stall_after,
            unreachable_after,
            keep_events: keep_events?,
        })
    }

    /// A duration; none where it is switched off, or where an error says what is wrong with it.
    fn duration_or_off(&mut self, path: &str, text: &str) -> Option<Duration> {
        if text == OFF {
            return None;
        }
        self.duration(path, text, SHORTEST..=LONGEST_WATCH)
    }

    fn log(&mut self, raw: RawLog) -> Option<LogConfig> {
        let format = match raw.format.as_str() {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => {
                self.wrong("log.format", "is neither \"text\" nor \"json\". Write one of them");
                None
            }
        };
        let filter = raw.filter.parse::<tracing_subscriber::filter::Targets>();
        if filter.is_err() {
            self.wrong(
                "log.filter",
                "is no log filter. Write `info`, or one such as `warn,t3code_mcp=debug`",
            );
        }
        Some(LogConfig {
            filter: raw.filter,
            format: format?,
        })
    }

    fn origin(&mut self) -> Option<String> {
        let origin = self.context.environment.get(ORIGIN_VARIABLE)?;
        if origin.len() > LONGEST_ORIGIN || !origin.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            let problem = format!("is no origin: at most {LONGEST_ORIGIN} characters of visible ASCII");
            let place = self.context.environment.place(ORIGIN_VARIABLE);
            self.errors.push(ConfigError::new(place, problem));
            return None;
        }
        Some(origin.to_owned())
    }

    /// A variable that looks like one of ours and is none is likely a slip.
    fn strange_variables(&mut self) {
        let known = || SETTINGS.iter().filter_map(|setting| setting.variable);
        for name in self.context.environment.names() {
            let ours = known().any(|known| known == name);
            if !name.starts_with("T3CODE_MCP_") || ours || self.token_variables.contains(name) {
                continue;
            }
            let hint = nearest(name, known())
                .map(|meant| format!(": is {meant} meant?"))
                .unwrap_or_default();
            self.notes.push(Note::Warning(format!(
                "the environment variable {name} is none of ours and does nothing{hint}"
            )));
        }
    }

    fn required<T>(&mut self, path: &str, example: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.wrong(path, format!("is missing. Write {example}"));
        }
        value
    }

    fn mode(&mut self, path: &str, word: Option<&str>) -> Option<RuntimeMode> {
        let word = word?;
        let mode = RuntimeMode::parse(word);
        if mode.is_none() {
            let words = RuntimeMode::ALL.map(RuntimeMode::as_str).join(", ");
            self.wrong(
                path,
                format!("is {word:?}, which is no runtime mode. Write one of: {words}"),
            );
        }
        mode
    }

    fn duration(&mut self, path: &str, text: &str, range: std::ops::RangeInclusive<Duration>) -> Option<Duration> {
        let parsed = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok());
        let Some(duration) = parsed else {
            self.wrong(
                path,
                format!("is {text:?}, which is no duration. Write one such as \"50s\", \"3m\" or \"1h 30m\""),
            );
            return None;
        };
        if !range.contains(&duration) {
            let show =
                |duration: &Duration| format!("{:#}", jiff::SignedDuration::try_from(*duration).unwrap_or_default());
            self.wrong(
                path,
                format!(
                    "is {text:?}. Write a duration from {} to {}",
                    show(range.start()),
                    show(range.end())
                ),
            );
            return None;
        }
        Some(duration)
    }

    fn ca_file(&mut self, path: &str, file: &Path) -> Option<PathBuf> {
        let file = self.context.config_directory.join(file);
        match std::fs::metadata(&file) {
            Ok(metadata) if metadata.is_file() => Some(file),
            Ok(_) => {
                self.wrong(
                    path,
                    format!("names {}, which is no file. Name a PEM file", file.display()),
                );
                None
            }
            Err(error) => {
                self.wrong(
                    path,
                    format!(
                        "names {}, which cannot be read ({error}). Name a PEM file",
                        file.display()
                    ),
                );
                None
            }
        }
    }
}
