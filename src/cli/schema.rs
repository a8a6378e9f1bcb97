//! `schema`: T3's contract that the program was built with, what changed between two, and whether one fits the tables.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::{Failure, output};
use crate::schema::{Change, Meaning, Schema, Tables, definition, diff, kind};

/// Look at T3's contract, compare two of them, and check that one fits.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
A contract is a contract.json that schemas/export.mjs wrote, or the folder that has one.

Examples:
  t3code-mcp schema show Run
  t3code-mcp schema diff schemas/t3/protocol-2 /tmp/protocol-2
  t3code-mcp schema check /tmp/protocol-1
  t3code-mcp schema check /tmp/protocol-2 --tables schemas";

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a type of the contract, or the names of all
    #[command(after_help = "Examples:\n  t3code-mcp schema show\n  t3code-mcp schema show Run --json")]
    Show {
        /// The type, like Run
        #[arg(value_name = "TYPE")]
        name: Option<String>,
        /// Another contract than the one that the program was built with
        #[arg(long, value_name = "PATH")]
        contract: Option<PathBuf>,
        /// Print JSON Schema
        #[arg(long)]
        json: bool,
    },
    #[command(after_help = "Example:\n  t3code-mcp schema diff schemas/t3/protocol-2 /tmp/protocol-2")]
    /// Say every change between two contracts and what it means; the exit status is 2 if something breaks, 1 if something is to
    /// decide, 3 if they could not be compared
    Diff {
        /// The contract before
        old: PathBuf,
        /// The contract after
        new: PathBuf,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    #[command(
        after_help = "Examples:\n  t3code-mcp schema check /tmp/protocol-2\n  t3code-mcp schema check /tmp/protocol-2 --tables schemas"
    )]
    /// Say everything that keeps a contract from fitting, as the build would
    Check {
        /// The contract, judged by the tables of its protocol; without it those that the program was built with
        contract: Option<PathBuf>,
        /// The folder of selection.toml, selection-protocol-1.toml and lifecycle.toml; without it those that the program was built with
        #[arg(long, value_name = "DIR")]
        tables: Option<PathBuf>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of the three.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Show { name, contract, json } => show(&newest(contract.as_deref())?, name.as_deref(), *json),
        Command::Diff { old, new, json } => compare(old, new, *json).map_err(trouble),
        Command::Check { contract, tables, json } => {
            let tables = read_tables(tables.as_deref())?;
            match contract {
                Some(contract) => check(&[read(contract)?], &tables, *json),
                None => check(&Schema::built_in().map_err(Failure::said)?, &tables, *json),
            }
        }
    }
}

fn newest(path: Option<&Path>) -> Result<Schema, Failure> {
    if let Some(path) = path {
        return read(path);
    }
    let first = Schema::built_in().map_err(Failure::said)?.into_iter().next();
    first.ok_or_else(|| Failure::said("the program was built with no contract"))
}

fn compare(old: &Path, new: &Path, json: bool) -> Result<(), Failure> {
    changes(&read(old)?, &read(new)?, json)
}

/// That nothing could be compared must not look like a finding.
fn trouble(failure: Failure) -> Failure {
    match failure.told() {
        Some(told) => {
            output::complain(format_args!("{told}"));
            Failure::Ended(3)
        }
        None => failure,
    }
}

fn read(path: &Path) -> Result<Schema, Failure> {
    let (file, protocol) = if path.is_dir() {
        (path.join("contract.json"), protocol_of(&path.join("provenance.toml"))?)
    } else {
        (path.to_owned(), None)
    };
    Schema::parse(&file.to_string_lossy(), &text(&file)?, protocol).map_err(Failure::said)
}

/// What the exporter wrote beside a contract; without it the contract's names tell the protocol.
fn protocol_of(provenance: &Path) -> Result<Option<u32>, Failure> {
    #[derive(serde::Deserialize)]
    struct Provenance {
        protocol: u32,
    }
    if !provenance.exists() {
        return Ok(None);
    }
    let read: Result<Provenance, _> = toml::from_str(&text(provenance)?);
    let read = read.map_err(|error| {
        Failure::said(format_args!(
            "{}: {}: export the contract again",
            provenance.display(),
            error.message()
        ))
    })?;
    Ok(Some(read.protocol))
}

fn read_tables(folder: Option<&Path>) -> Result<Tables, Failure> {
    let Some(folder) = folder else {
        return Tables::built_in().map_err(Failure::said);
    };
    let mut selections = Vec::new();
    for file in Tables::files() {
        let file = folder.join(file);
        selections.push((file.to_string_lossy().into_owned(), text(&file)?));
    }
    Tables::parse(selections.into_iter(), &text(&folder.join("lifecycle.toml"))?).map_err(Failure::said)
}

fn text(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| Failure::said(format_args!("{}: {error}", file.display())))
}

fn show(schema: &Schema, name: Option<&str>, json: bool) -> Result<(), Failure> {
    let Some(name) = name else {
        let types: Vec<(&str, &str)> = schema
            .names()
            .filter_map(|name| Some((name, kind(schema.get(name)?))))
            .collect();
        if json {
            return output::json(&json!({"types": types.iter().map(|(name, _)| name).collect::<Vec<_>>()}));
        }
        let rows: Vec<[String; 2]> = types
            .iter()
            .map(|(name, kind)| [(*name).to_owned(), (*kind).to_owned()])
            .collect();
        output::table(["TYPE", "KIND"], &rows);
        return Ok(());
    };
    let Some(found) = schema.get(name) else {
        let nearest = schema
            .names()
            .max_by(|one, other| strsim::jaro_winkler(one, name).total_cmp(&strsim::jaro_winkler(other, name)));
        return Err(Failure::said(format_args!(
            "the contract has no type {name}; the nearest is {}. Without a name all are listed",
            nearest.unwrap_or("none")
        )));
    };
    if json {
        return output::json(found);
    }
    output::answer(format_args!("{}", definition(name, found)))
}

fn changes(old: &Schema, new: &Schema, json: bool) -> Result<(), Failure> {
    let tables = Tables::built_in().map_err(Failure::said)?;
    let changes = diff(old, new, &tables).map_err(Failure::said)?;
    let of = |meaning: Meaning| changes.iter().filter(move |change| change.meaning == meaning);
    let counts = [Meaning::Breaks, Meaning::Decision, Meaning::Harmless].map(|meaning| of(meaning).count());
    if json {
        let [breaks, decision, harmless] = counts;
        output::json(&json!({"breaks": breaks, "decision": decision, "harmless": harmless, "changes": changes}))?;
    } else {
        section("Breaks what we send or require", of(Meaning::Breaks))?;
        section("Needs a decision", of(Meaning::Decision))?;
        section("Harmless", of(Meaning::Harmless))?;
        let [breaks, decision, harmless] = counts;
        output::answer(format_args!(
            "{breaks} break, {decision} to decide, {harmless} harmless"
        ))?;
    }
    match counts {
        [0, 0, _] => Ok(()),
        [0, _, _] => Err(Failure::Ended(1)),
        _ => Err(Failure::Ended(2)),
    }
}

fn section<'c>(head: &str, changes: impl Iterator<Item = &'c Change>) -> Result<(), Failure> {
    let lines: Vec<String> = changes
        .map(|change| format!("  {}: {}\n", change.place, change.what))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    output::answer(format_args!("{head}:\n{}", lines.concat()))
}

fn check(schemas: &[Schema], tables: &Tables, json: bool) -> Result<(), Failure> {
    let problems: Vec<String> = schemas.iter().flat_map(|schema| tables.problems(schema)).collect();
    if json {
        output::json(&json!({"ok": problems.is_empty(), "problems": problems}))?;
    } else if problems.is_empty() {
        let fits = if schemas.len() == 1 {
            "the contract fits"
        } else {
            "the contracts fit"
        };
        output::answer(format_args!("{fits}"))?;
    } else {
        for problem in &problems {
            output::answer(format_args!("{problem}"))?;
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}
