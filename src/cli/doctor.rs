//! `doctor`: the configuration, the state directory and each machine, step by step, with what to do about what is wrong.

mod steps;

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::join_all;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::flags::SettingFlags;
use super::pair::mended_by;
use super::{Failure, asking, logging, output, runtime};
use crate::config::state::StateDir;
use crate::config::{Config, Note, TokenSource, Unusable, WorkingDirectory};
use crate::fleet::Fleet;
use crate::gateway::MachinesArgs;
use crate::mcp::tools;
use crate::protocol::Untrusted;

/// Check the configuration and each machine, and say what to do.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp doctor\n  t3code-mcp doctor --config ~/t3code.toml --json\n\nThe exit code is 0 when all is well."
)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Check {
    /// What was looked at: `configuration`, `state`, or a machine's name.
    subject: String,
    /// It is as it should be.
    ok: bool,
    /// What was found.
    found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Check {
    fn good(subject: &str, found: impl Into<String>) -> Self {
        Self {
            subject: subject.to_owned(),
            ok: true,
            found: found.into(),
            todo: None,
        }
    }

    fn bad(subject: &str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            subject: subject.to_owned(),
            ok: false,
            found: found.into(),
            todo: Some(todo.into()),
        }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

/// Looks at everything and prints what it found.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut checks = Vec::new();
    // It looks as `serve` would, `.env` included.
    match args.settings.load(WorkingDirectory::ConfigAndEnv) {
        Ok(config) => {
            logging::start_if_asked(&args.settings, &config.log)?;
            checks.extend(configuration(&config));
            checks.push(state(&config));
            checks.extend(runtime::run_alone(machines(&config))??);
        }
        Err(failure) => checks.push(Check::bad(
            "configuration",
            failure.to_string(),
            "Mend it as it says, and run doctor again.",
        )),
    }
    let ok = checks.iter().all(|check| check.ok);
    if args.json {
        output::json(&Report { ok, checks })?;
    } else {
        checks.iter().for_each(print);
    }
    if ok { Ok(()) } else { Err(Failure::Shown) }
}

fn print(check: &Check) {
    let mark = if check.ok { '✓' } else { '✗' };
    let mut lines = check.found.lines();
    output::say(format_args!(
        "{mark} {}: {}",
        check.subject,
        Untrusted(lines.next().unwrap_or_default())
    ));
    for line in lines {
        output::say(format_args!("    {}", Untrusted(line)));
    }
    if let Some(todo) = &check.todo {
        output::say(format_args!("    → {}", Untrusted(todo)));
    }
}

fn configuration(config: &Config) -> Vec<Check> {
    const SUBJECT: &str = "configuration";
    let mut checks = Vec::new();
    for note in &config.notes {
        match note {
            Note::Read(path) => checks.push(Check::good(SUBJECT, format!("read {}", path.display()))),
            Note::Skipped { path, why } => {
                checks.push(Check::bad(
                    SUBJECT,
                    format!("{} was left alone", path.display()),
                    sentence(why),
                ));
            }
            // It shows with its machine, where it belongs.
            Note::NoToken { .. } => {}
            Note::Credential {
                machine: Some(machine),
                problem,
            } => checks.push(Check::bad(
                machine,
                format!("its credential cannot be used: {problem}"),
                mended_by(machine),
            )),
            Note::Credential { machine: None, problem } => checks.push(Check::bad(
                "state",
                format!("what was paired cannot be read: {problem}"),
                "Mend it, and run doctor again.",
            )),
            Note::Warning(text) => checks.push(Check::good(SUBJECT, format!("note: {text}"))),
        }
    }
    // Machines that cannot be used are machines.
    if config.machines.is_empty() && config.unusable == Unusable::default() {
        checks.push(Check::bad(
            SUBJECT,
            "no machine is configured",
            "Pair one: on the T3 host t3 pair, then here t3code-mcp pair mac '<link>'. Or write one into t3code.toml: see t3code.example.toml.",
        ));
    }
    checks
}

fn sentence(why: &str) -> String {
    let mut letters = why.chars();
    let first = letters.next().map(char::to_uppercase).into_iter().flatten();
    first.chain(letters).chain(['.']).collect()
}

fn state(config: &Config) -> Check {
    const SUBJECT: &str = "state";
    let path: &Path = &config.state_dir;
    let opened = match StateDir::existing(path) {
        Ok(None) => return above(path),
        Ok(Some(state)) => state.check_writable().map(|()| state),
        Err(error) => Err(error),
    };
    match opened {
        Ok(state) => Check::good(
            SUBJECT,
            format!("{} is closed to others, and can be written", state.path().display()),
        ),
        Err(error) => Check::bad(SUBJECT, error.to_string(), "Mend it, and run doctor again."),
    }
}

/// Where the directory is not there yet: looking makes nothing, so only what it would be made in can be told.
fn above(path: &Path) -> Check {
    const SUBJECT: &str = "state";
    match path.ancestors().skip(1).find(|above| above.exists()) {
        Some(above) if !above.is_dir() => Check::bad(
            SUBJECT,
            format!("{} cannot be made, since {} is a file", path.display(), above.display()),
            "Name another directory with --state-dir.",
        ),
        Some(_) | None => Check::good(SUBJECT, format!("{} will be made at the first start", path.display())),
    }
}

async fn machines(config: &Config) -> Result<Vec<Check>, Failure> {
    let stop = CancellationToken::new();
    let fleet = Fleet::from_config(config, &stop).map_err(Failure::said)?;
    let members = fleet.members();
    let met = met_by_the_owner(config).await;
    let met = |name: &str| met.get(name).cloned().unwrap_or_default();
    let examined = join_all(
        config
            .machines
            .iter()
            .zip(members.iter())
            // What is wrong with these was said.
            .filter(|(machine, _)| {
                !matches!(machine.token, TokenSource::Pairing(None)) || !config.unusable.covers(&machine.name)
            })
            .map(|(machine, member)| steps::examine(machine, member, met(&machine.name))),
    )
    .await;
    stop.cancel();
    Ok(examined.into_iter().flatten().collect())
}

/// Words that the process which keeps the ledger has met and does not know, by machine: it has seen more than one look shows.
async fn met_by_the_owner(config: &Config) -> BTreeMap<String, BTreeMap<String, u64>> {
    let machines = asking::of_the_owner(config, async |asking| {
        asking.ask::<tools::Machines>(&MachinesArgs::default()).await
    });
    // What is wrong with that process is not a machine's fault; `status` says it.
    let Ok(Some(answer)) = machines.await else {
        return BTreeMap::new();
    };
    let machines = answer.machines.into_iter();
    machines.map(|machine| (machine.name, machine.unknown_words)).collect()
}
