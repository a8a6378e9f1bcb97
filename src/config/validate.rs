//! Judges every value and makes the typed [`Config`] of them. All errors are collected: a config is mended in one go.

mod hook;
mod machine;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::credentials::Kept;
use super::env::Environment;
use super::error::{ConfigError, ConfigErrors, Place, nearest};
use super::load::nearest_place;
use super::raw::{Raw, RawLog, RawWatch};
use super::settings::{BEARER_VARIABLE, ORIGIN_VARIABLE, PAIRING_VARIABLE, SETTINGS};
use super::state::StateError;
use super::{Config, LogConfig, LogFormat, Note, Unusable, WatchConfig, secrets};
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

    /// The token in the variable that a key names. One that is not set is an error, with what to do.
    fn named_token(&mut self, path: &str, variable: &str, remedy: &str) -> Option<SecretString> {
        self.take(path, secrets::variable_name(variable))?;
        self.token_variables.insert(variable.to_owned());
        let token = self.variable_token(variable);
        if token.is_none() && self.context.environment.get(variable).is_none() {
            self.wrong(
                path,
                format!("names {variable}, which is not set. {remedy}; a file of variables is named with --env-file"),
            );
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
