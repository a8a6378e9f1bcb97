//! Reads `t3code.toml`: its keys are checked against the table of settings, and the place of each is kept, so that an error found later
//! still names its line. Values are not judged here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors, Place, nearest};
use super::settings::{self, Kind, SETTINGS};

/// No config is larger; a larger file is another file.
const LARGEST: u64 = 1024 * 1024;

/// Parts of names that a secret's key is likely to have.
const SECRET_WORDS: &[&str] = &[
    "token",
    "secret",
    "password",
    "bearer",
    "api_key",
    "apikey",
    "credential",
];

/// A file's values, and where each key stands.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The values.
    pub(super) table: toml::Table,
    /// The place of each key, by its path (`server.client[0].name`).
    pub(super) places: BTreeMap<String, Place>,
}

/// Reads a small text file, with an error that names it.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let broken = |problem: String| ConfigError::new(Place::WholeFile(path.to_owned()), problem);
    let kind = std::fs::metadata(path).map_err(|error| {
        broken(format!(
            "cannot be read ({error}). Name a file that is there and that you may read"
        ))
    })?;
    if !kind.is_file() {
        return Err(broken("is no regular file. Name a file that is one".to_owned()));
    }
    let size = kind.len();
    if size > LARGEST {
        return Err(broken(format!(
            "is {size} bytes long, and a config is at most {LARGEST}. Name another file"
        )));
    }
    std::fs::read_to_string(path).map_err(|error| {
        broken(format!(
            "cannot be read ({error}). Name a file that is text and that you may read"
        ))
    })
}

/// The tree of a file's text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Tree, ConfigErrors> {
    let mut walk = Walk {
        path: path.to_owned(),
        line_starts: line_starts(text),
        places: BTreeMap::new(),
        errors: Vec::new(),
    };
    // Only the message of a syntax error is shown: the lines around it may hold a secret.
    let broken = |error: &toml::de::Error, walk: &Walk| {
        let place = match error.span() {
            Some(span) => walk.place(span.start),
            None => Place::WholeFile(walk.path.clone()),
        };
        ConfigErrors::from(ConfigError::new(
            place,
            format!("is not TOML: {}", error.message().trim()),
        ))
    };
    let document = DeTable::parse(text).map_err(|error| broken(&error, &walk))?;
    walk.table(document.get_ref(), "", "");
    if !walk.errors.is_empty() {
        // Tables come in the order of their names; a person mends from top to bottom.
        walk.errors.sort_by_key(|error| match error.place {
            Place::File { line, .. } => line,
            Place::WholeFile(_) | Place::Variable { .. } | Place::Flag(_) | Place::Nowhere => 0,
        });
        return Err(ConfigErrors(walk.errors));
    }
    let table = toml::from_str(text).map_err(|error| broken(&error, &walk))?;
    Ok(Tree {
        table,
        places: walk.places,
    })
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect()
}

struct Walk {
    path: PathBuf,
    line_starts: Vec<usize>,
    places: BTreeMap<String, Place>,
    errors: Vec<ConfigError>,
}

impl Walk {
    fn place(&self, offset: usize) -> Place {
        Place::File {
            path: self.path.clone(),
            line: self.line_starts.partition_point(|start| *start <= offset).max(1),
        }
    }

    /// Checks the keys of a table. `pattern` is its path as the table of settings writes it.
    fn table(&mut self, table: &DeTable<'_>, path: &str, pattern: &str) {
        let free = pattern == "machines" || settings::at(pattern).is_some_and(|setting| setting.kind == Kind::Map);
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = join(path, name);
            let pattern = join(pattern, if free { "*" } else { name });
            let place = self.place(key.span().start);
            self.places.insert(path.clone(), place.clone());
            if let Err(problem) = self.entry(value.get_ref(), &path, &pattern, name) {
                self.errors.push(ConfigError::new(place, problem));
            }
        }
    }

    fn entry(&mut self, value: &DeValue<'_>, path: &str, pattern: &str, name: &str) -> Result<(), String> {
        if let Some(setting) = settings::at(pattern) {
            if let (Kind::Map, DeValue::Table(inner)) = (setting.kind, value) {
                for key in inner.keys() {
                    let place = self.place(key.span().start);
                    self.places.insert(join(path, key.get_ref()), place);
                }
            }
            return Ok(());
        }
        let list = format!("{pattern}[]");
        if has_keys_below(&list) {
            let DeValue::Array(items) = value else {
                return Err(format!("`{path}` is a list of tables. Write [[{path}]] above each"));
            };
            for (index, item) in items.iter().enumerate() {
                let item_path = format!("{path}[{index}]");
                let place = self.place(item.span().start);
                self.places.insert(item_path.clone(), place);
                let DeValue::Table(inner) = item.get_ref() else {
                    return Err(format!("`{path}` is a list of tables. Write [[{path}]] above each"));
                };
                self.table(inner, &item_path, &list);
            }
            return Ok(());
        }
        if has_keys_below(pattern) {
            let DeValue::Table(inner) = value else {
                return Err(format!("`{path}` is a table. Write [{path}] and its keys below"));
            };
            self.table(inner, path, pattern);
            return Ok(());
        }
        if SECRET_WORDS.iter().any(|word| name.to_ascii_lowercase().contains(word)) {
            return Err(format!(
                "`{path}` looks like a secret, and secrets stand in no config file. Put it into an environment variable and name that \
                 with `token_env`; if it was a real one, replace it"
            ));
        }
        Err(unknown_key(path, pattern, name))
    }
}

fn unknown_key(path: &str, pattern: &str, name: &str) -> String {
    let parent = pattern.rsplit_once('.').map_or("", |(parent, _)| parent);
    let mut known: Vec<&str> = SETTINGS
        .iter()
        .filter_map(|setting| {
            let below = match parent {
                "" => setting.key?,
                parent => setting.key?.strip_prefix(parent)?.strip_prefix('.')?,
            };
            Some(below.split(['.', '[']).next().unwrap_or(below))
        })
        .collect();
    known.dedup();
    match nearest(name, known.iter().copied()) {
        Some(meant) => format!("unknown key `{path}`. Did you mean `{meant}`?"),
        None => format!("unknown key `{path}`. Known here: {}", known.join(", ")),
    }
}

fn has_keys_below(pattern: &str) -> bool {
    SETTINGS
        .iter()
        .filter_map(|setting| setting.key?.strip_prefix(pattern))
        .any(|rest| rest.starts_with('.'))
}

/// The path of a key in a table.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
