//! The flags of the settings, made from the settings' table: a flag that the table lacks does not exist, and help says what the table says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgMatches};

use super::Failure;
use crate::config::settings::{self, Kind, Setting};
use crate::config::{Config, Environment, Request, WorkingDirectory, load};

/// What every command that needs the configuration takes.
const EVERYWHERE: &[&str] = &["config", "env-file", "state-dir", "log", "log-format"];

/// The flags that were given. `ALL`: of every setting (for `serve`), else of those that matter to every command.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingFlags<const ALL: bool> {
    given: BTreeMap<&'static str, String>,
}

impl<const ALL: bool> SettingFlags<ALL> {
    /// Loads the configuration under these flags.
    pub(super) fn load(&self, working_directory: WorkingDirectory) -> Result<Config, Failure> {
        let directory = std::env::current_dir()
            .map_err(|error| Failure::said(format!("the working directory cannot be read ({error})")))?;
        let mut flags = self.given.clone();
        let request = Request {
            config: flags.remove("config").map(PathBuf::from),
            env_file: flags.remove("env-file").map(PathBuf::from),
            flags,
            directory,
            working_directory,
        };
        Ok(load(&request, Environment::of_process())?)
    }

    /// Whether a flag was given.
    pub(super) fn names(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }

    /// Some of the flags as they were given, to be shown as part of a command.
    pub(super) fn shown(&self, names: &[&str]) -> String {
        let mut shown = String::new();
        for (name, value) in &self.given {
            if names.contains(name) {
                let _ = write!(shown, " --{name} '{}'", value.replace('\'', r"'\''"));
            }
        }
        shown
    }

    fn settings() -> impl Iterator<Item = (&'static str, &'static Setting)> {
        settings::with_flags().filter(|(flag, _)| ALL || EVERYWHERE.contains(flag))
    }
}

impl<const ALL: bool> clap::FromArgMatches for SettingFlags<ALL> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for (flag, _) in Self::settings() {
            if let Some(value) = matches.get_one::<String>(flag) {
                self.given.insert(flag, value.clone());
            }
        }
        Ok(())
    }
}

impl<const ALL: bool> clap::Args for SettingFlags<ALL> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(Self::settings().map(|(flag, setting)| arg(flag, setting)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The same for a command that has commands of its own: they stand before those or behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct GlobalFlags(SettingFlags<false>);

impl std::ops::Deref for GlobalFlags {
    type Target = SettingFlags<false>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl clap::FromArgMatches for GlobalFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        SettingFlags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl clap::Args for GlobalFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(SettingFlags::<false>::settings().map(|(flag, setting)| arg(flag, setting).global(true)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn arg(flag: &'static str, setting: &'static Setting) -> Arg {
    let short = setting.doc.split_inclusive(". ").next().unwrap_or(setting.doc).trim();
    let arg = Arg::new(flag)
        .long(flag)
        .help(short.to_owned())
        .long_help(long_help(setting))
        .help_heading("Settings");
    let arg = match setting.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    match (flag, setting.kind) {
        ("config" | "env-file", _) => arg.value_name("FILE"),
        (_, Kind::Switch) => arg
            .value_name("true|false")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        (_, Kind::Number) => arg.value_name("N"),
        (_, Kind::List) => arg.value_name("A,B"),
        (_, Kind::Text | Kind::Map) => arg.value_name("VALUE"),
    }
}

fn long_help(setting: &Setting) -> String {
    let mut help = setting.doc.replace('`', "");
    let facts = [
        setting.variable.map(|name| format!("environment: {name}")),
        setting.key.map(|key| format!("file: {}", key.replace('*', "<name>"))),
        setting
            .default
            .map(|default| format!("default: {}", default.trim_matches('"'))),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if !facts.is_empty() {
        help.push_str("\n[");
        help.push_str(&facts.join(", "));
        help.push(']');
    }
    help
}
