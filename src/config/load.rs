//! Finds the files, lays defaults, file, environment and flags over each other, and hands the whole to `validate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

use super::credentials::{Credentials, Kept};
use super::env::{Environment, distrust};
use super::error::{ConfigError, ConfigErrors, Place};
use super::file::{self, Tree, join};
use super::raw::Raw;
use super::settings::{self, CONFIG_VARIABLE, Kind, MODEL, SETTINGS, STATE_DIR, Setting};
use super::state::{StateDir, StateError};
use super::validate;
use super::{Config, Note};

/// The name of the config file where none is named.
pub const CONFIG_FILE: &str = "t3code.toml";
/// The name of the file of variables in the working directory.
const ENV_FILE: &str = ".env";
/// The folder of the user's config and state directories that is ours.
const OUR_FOLDER: &str = "t3code-mcp";

/// What may be read from the working directory without being named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkingDirectory {
    /// Nothing: an MCP client may start the program inside any repository.
    Closed,
    /// `t3code.toml`.
    Config,
    /// `t3code.toml`, and `.env` if it belongs to the user and nobody else can write it.
    ConfigAndEnv,
}

/// What the command line says about the configuration.
#[derive(Clone, Debug)]
pub struct Request {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--env-file`.
    pub env_file: Option<PathBuf>,
    /// The flags that were given, by the name of the flag.
    pub flags: BTreeMap<&'static str, String>,
    /// The working directory.
    pub directory: PathBuf,
    /// What may be read from it.
    pub working_directory: WorkingDirectory,
}

/// Loads the configuration: flags win over the environment, the environment over the file.
pub fn load(request: &Request, mut environment: Environment) -> Result<Config, ConfigErrors> {
    let mut notes = Vec::new();
    read_env_file(request, &mut environment, &mut notes)?;
    let mut tree = match find_config(request, &environment)? {
        Some(path) => {
            let tree = file::parse(&path, &file::read_text(&path)?)?;
            notes.push(Note::Read(path.clone()));
            (Some(path), tree)
        }
        None => (None, Tree::default()),
    };
    let config_directory = tree
        .0
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(&request.directory)
        .to_owned();
    overlay(&mut tree.1, request, &environment)?;
    let state_dir = state_dir(&tree.1, request, &environment, &config_directory)?;
    let (kept, all_unusable) = match kept(&state_dir) {
        Ok(kept) => (kept, false),
        Err(error) => {
            notes.push(Note::Credential {
                machine: None,
                problem: error.to_string(),
            });
            (BTreeMap::new(), true)
        }
    };
    let Tree { table, places } = tree.1;
    let raw: Raw = serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let path = error.path().to_string();
        let place = nearest_place(&places, &path);
        let problem = match settings::of_path(&path) {
            Some(setting) => format!(
                "`{path}` has a value of the wrong type. Write {}",
                setting.kind.written()
            ),
            None => format!("`{path}`: {}", error.into_inner().message().trim()),
        };
        ConfigError::new(place, problem)
    })?;
    let context = validate::Context {
        places: &places,
        environment: &environment,
        config_directory: &config_directory,
        kept: &kept,
        all_unusable,
        model: model(request, &environment),
    };
    validate::config(raw, &context, state_dir, notes)
}

/// What pairing left in the state directory. A directory that is not as it should be is judged by whoever opens it.
fn kept(state_dir: &Path) -> Result<BTreeMap<String, Result<Kept, StateError>>, StateError> {
    match StateDir::existing(state_dir) {
        Ok(Some(state)) => Credentials::of(&state).all(),
        Ok(None) | Err(_) => Ok(BTreeMap::new()),
    }
}

/// The model that a flag or variable sets for every machine.
fn model(request: &Request, environment: &Environment) -> Option<(String, Place)> {
    let setting = settings::at(MODEL)?;
    let from_flag = setting
        .flag
        .and_then(|flag| Some((request.flags.get(flag)?.clone(), Place::Flag(flag))));
    from_flag.or_else(|| {
        let name = setting.variable?;
        Some((environment.get(name)?.to_owned(), environment.place(name)))
    })
}

/// The place of a key, or of the table around it where the key itself is not there.
pub(super) fn nearest_place(places: &BTreeMap<String, Place>, path: &str) -> Place {
    let mut path = path;
    loop {
        if let Some(place) = places.get(path) {
            return place.clone();
        }
        match path.rfind(['.', '[']) {
            Some(end) => path = path.get(..end).unwrap_or_default(),
            None => return Place::Nowhere,
        }
    }
}

fn read_env_file(request: &Request, environment: &mut Environment, notes: &mut Vec<Note>) -> Result<(), ConfigErrors> {
    if let Some(path) = &request.env_file {
        // Named by the user: read as it is.
        let path = request.directory.join(path);
        environment.read(&path)?;
        notes.push(Note::Read(path));
        return Ok(());
    }
    let path = request.directory.join(ENV_FILE);
    if request.working_directory != WorkingDirectory::ConfigAndEnv || path.symlink_metadata().is_err() {
        return Ok(());
    }
    match distrust(&path) {
        Ok(None) => {
            environment.read(&path)?;
            notes.push(Note::Read(path));
        }
        Ok(Some(why)) => notes.push(Note::Skipped { path, why }),
        Err(error) => notes.push(Note::Skipped {
            path,
            why: format!("it cannot be read ({error})"),
        }),
    }
    Ok(())
}

fn find_config(request: &Request, environment: &Environment) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(path) = &request.config {
        return Ok(Some(request.directory.join(path)));
    }
    if let Some(path) = environment.get(CONFIG_VARIABLE) {
        let path = absolute(
            Path::new(path),
            request,
            || environment.place(CONFIG_VARIABLE),
            "--config",
        )?;
        return Ok(Some(path));
    }
    if request.working_directory != WorkingDirectory::Closed {
        let path = request.directory.join(CONFIG_FILE);
        if path.exists() {
            return Ok(Some(path));
        }
    }
    let path = user_directory(environment, "XDG_CONFIG_HOME", ".config").map(|directory| directory.join(CONFIG_FILE));
    Ok(path.filter(|path| path.exists()))
}

/// A path that a variable names. Over stdio nothing of the working directory is read unless a flag names it, so there it must be absolute.
fn absolute(path: &Path, request: &Request, place: impl FnOnce() -> Place, flag: &str) -> Result<PathBuf, ConfigError> {
    if path.is_relative() && request.working_directory == WorkingDirectory::Closed {
        let problem = format!(
            "is a relative path, and with --stdio nothing is read from the working directory. Give the whole path, or use {flag}"
        );
        return Err(ConfigError::new(place(), problem));
    }
    Ok(request.directory.join(path))
}

/// Our folder in one of the user's directories, by the XDG rule: a relative value does not count.
fn user_directory(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let given = environment
        .get(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let directory = given.or_else(|| {
        let home = environment
            .get("HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        home.map(|home| home.join(below_home))
    })?;
    Some(directory.join(OUR_FOLDER))
}

fn state_dir(
    tree: &Tree,
    request: &Request,
    environment: &Environment,
    config_directory: &Path,
) -> Result<PathBuf, ConfigError> {
    let Some(given) = tree.table.get(STATE_DIR).and_then(Value::as_str) else {
        return user_directory(environment, "XDG_STATE_HOME", ".local/state").ok_or_else(|| {
            let problem =
                "no state directory is known, since HOME is not set. Set T3CODE_MCP_STATE to a directory of your own";
            ConfigError::new(Place::Nowhere, problem)
        });
    };
    let place = nearest_place(&tree.places, STATE_DIR);
    let given = Path::new(given);
    match place {
        Place::File { .. } => Ok(config_directory.join(given)),
        Place::Flag(_) => Ok(request.directory.join(given)),
        place => absolute(given, request, || place, "--state-dir"),
    }
}

/// Lays environment and flags over the file, and defaults under it.
fn overlay(tree: &mut Tree, request: &Request, environment: &Environment) -> Result<(), ConfigErrors> {
    let mut errors = Vec::new();
    for setting in SETTINGS {
        let Some(key) = setting.key else { continue };
        let from_flag = setting
            .flag
            .and_then(|flag| Some((request.flags.get(flag)?.as_str(), Place::Flag(flag))));
        let from_variable = setting
            .variable
            .and_then(|name| Some((environment.get(name)?, environment.place(name))));
        if let Some((text, place)) = from_flag.or(from_variable) {
            match value(setting, text) {
                Ok(value) => set(tree, key, &value, Some(&place)),
                Err(problem) => errors.push(ConfigError::new(place, problem)),
            }
        }
        if let Some(default) = settings::default_value(setting) {
            set(tree, key, &default, None);
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigErrors(errors))
    }
}

/// The value that a variable's or flag's text stands for.
fn value(setting: &Setting, text: &str) -> Result<Value, String> {
    match setting.kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Number => match text.trim().parse() {
            Ok(number) => Ok(Value::Integer(number)),
            Err(_) => Err("is no whole number. Give one, such as 8000".to_owned()),
        },
        Kind::Switch => match text.trim() {
            "true" | "1" | "yes" | "on" => Ok(Value::Boolean(true)),
            "false" | "0" | "no" | "off" => Ok(Value::Boolean(false)),
            _ => Err("is neither `true` nor `false`. Write one of them".to_owned()),
        },
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        Kind::Map => Err("can only be set in the file".to_owned()),
    }
}

/// Sets a key. With a place, over what is there; without one (a default), only where nothing is.
fn set(tree: &mut Tree, key: &str, value: &Value, place: Option<&Place>) {
    let steps: Vec<&str> = key.split('.').collect();
    set_below(&mut tree.table, &mut tree.places, &steps, "", value, place);
}

fn set_below(
    table: &mut toml::Table,
    places: &mut BTreeMap<String, Place>,
    steps: &[&str],
    path: &str,
    value: &Value,
    place: Option<&Place>,
) {
    let Some((step, rest)) = steps.split_first() else {
        return;
    };
    if *step == "*" {
        for (name, inner) in table.iter_mut() {
            if let Value::Table(inner) = inner {
                set_below(inner, places, rest, &join(path, name), value, place);
            }
        }
        return;
    }
    if let Some(list) = step.strip_suffix("[]") {
        let path = join(path, list);
        if let Some(Value::Array(items)) = table.get_mut(list) {
            for (index, item) in items.iter_mut().enumerate() {
                if let Value::Table(inner) = item {
                    set_below(inner, places, rest, &format!("{path}[{index}]"), value, place);
                }
            }
        }
        return;
    }
    let path = join(path, step);
    if rest.is_empty() {
        if let Some(place) = place {
            table.insert((*step).to_owned(), value.clone());
            places.insert(path, place.clone());
        } else if !table.contains_key(*step) {
            table.insert((*step).to_owned(), value.clone());
        }
        return;
    }
    // `machines` itself is not made here: without machines there is nothing to set.
    let missing = rest.first() != Some(&"*");
    if missing && !table.contains_key(*step) {
        table.insert((*step).to_owned(), Value::Table(toml::Table::new()));
    }
    if let Some(Value::Table(inner)) = table.get_mut(*step) {
        set_below(inner, places, rest, &path, value, place);
    }
}
