//! `pair` and `unpair`: a machine's credential, got by a link that T3 printed, or forgotten.
//!
//! Both write or remove one file of the state directory. A process that serves looks there twice a second, so it follows by itself.

use std::path::Path;

use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::json;
use url::{Host, Url};

use super::flags::SettingFlags;
use super::{Failure, logging, output, runtime};
use crate::config::credentials::{Credentials, Kept};
use crate::config::link::{self, PairingLink};
use crate::config::state::StateDir;
use crate::config::{Config, MachineConfig, TokenSource, WorkingDirectory, machine_name};
use crate::fleet::{self, Patterns};
use crate::gateway::{PairRequest, Paired, days_left, pair};
use crate::machine::MachineSettings;
use crate::protocol::Untrusted;

/// The allowlist of a machine that pairing makes, where none is named.
const ALL: &str = "*";

/// Pair a machine: exchange the code of a link that `t3 pair` printed on its host for a credential.
#[derive(Debug, clap::Args)]
#[command(after_help = PAIR_EXAMPLES)]
pub(super) struct Args {
    /// The machine: one of the config with `pairing = true`, or a name for a new one
    machine: String,
    /// The link, in quotes; or its code alone
    link: String,
    /// With a code: where T3 listens, for a machine that the config does not describe
    url: Option<String>,
    /// Of a machine that the config does not describe: patterns of the projects that agents may use [default: *]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    projects: Vec<String>,
    /// Another T3 than the one that the machine was paired with is meant
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

const PAIR_EXAMPLES: &str = "\
Examples:
  t3code-mcp pair mac 'http://100.64.0.7:3773/pair#token=CODE'
  t3code-mcp pair mac CODE http://100.64.0.7:3773 --projects 'web-*,/srv/shop/*'

On the T3 host `t3 pair` prints such a link; its code is good once, for minutes. A process that serves uses the new credential within 2 s.";

/// Forget a machine's credential; one that pairing made is forgotten as a whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  t3code-mcp unpair mac")]
pub(super) struct UnpairArgs {
    /// The machine
    machine: String,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Pairs.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.settings.load(WorkingDirectory::Config)?;
    logging::start_if_asked(&args.settings, &config.log)?;
    let request = requested(&config, args)?;
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let paired = runtime::run_alone(go(&Credentials::of(&state), &request))??;
    if args.json {
        return output::json(&facts(&paired));
    }
    report(&paired)
}

/// Forgets.
pub(super) fn unpair(args: &UnpairArgs) -> Result<(), Failure> {
    let config = args.settings.load(WorkingDirectory::Config)?;
    logging::start_if_asked(&args.settings, &config.log)?;
    let name = &args.machine;
    machine_name(name).map_err(|problem| Failure::said(format_args!("the machine {name:?} {problem}")))?;
    let existing = StateDir::existing(&config.state_dir).map_err(Failure::said)?;
    let forgotten = existing.map_or(Ok(false), |state| Credentials::of(&state).forget(name));
    if !forgotten.map_err(Failure::said)? {
        let paired = config.machines.iter();
        let paired = paired.filter(|machine| matches!(&machine.token, TokenSource::Pairing(Some(_))));
        let names: Vec<&str> = paired.map(|machine| machine.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        return Err(Failure::said(format_args!("{name} is not paired. Paired are: {names}")));
    }
    if args.json {
        return output::json(&json!({ "machine": name, "forgotten": true }));
    }
    output::answer(format_args!(
        "the credential of {name} is forgotten here; T3 still has its session: to be safe, revoke it there (its settings list it as {})",
        env!("CARGO_PKG_NAME")
    ))
}

/// What mends a credential that cannot be used.
pub(super) fn mended_by(machine: &str) -> String {
    format!(
        "Forget it: t3code-mcp unpair {machine}. Then, on the T3 host: t3 pair. Then here: t3code-mcp pair {machine} '<link>'."
    )
}

/// Shows who is met, and pairs.
async fn go(credentials: &Credentials, request: &PairRequest) -> Result<Paired, Failure> {
    let machine = &request.machine;
    let paired = pair(credentials, request, |met| {
        output::complain(format_args!(
            "pairing {} with {} ({}, T3 {})",
            machine.name,
            machine.url,
            Untrusted(&met.label).at_most(output::CELL),
            Untrusted(&met.server_version).at_most(output::CELL)
        ));
    });
    paired.await.map_err(Failure::said)
}

/// What the arguments mean.
fn requested(config: &Config, args: &Args) -> Result<PairRequest, Failure> {
    machine_name(&args.machine)
        .map_err(|problem| Failure::said(format_args!("the machine {:?} {problem}", args.machine)))?;
    let projects = projects(&args.projects)?;
    let (code, url) = match &args.url {
        Some(url) => {
            let link = PairingLink::of(&args.link, url).map_err(Failure::said)?;
            (link.code, Some((link.url, true)))
        }
        None if args.link.contains("//") => {
            let link = PairingLink::parse(&args.link).map_err(Failure::said)?;
            (link.code, Some((link.url, false)))
        }
        None => (link::code(&args.link).map_err(Failure::said)?, None),
    };
    let known = config.machines.iter().find(|machine| machine.name == args.machine);
    let (machine, projects) = match known {
        Some(machine) if !machine.in_state => {
            if projects.is_some() {
                return Err(Failure::said(format_args!(
                    "{} stands in the config, which says its projects. Leave --projects out",
                    machine.name
                )));
            }
            (described(machine, url)?, None)
        }
        Some(machine) => {
            let settings = MachineSettings {
                url: url.map_or_else(|| machine.url.clone(), |(url, _)| url),
                token: None,
                ..fleet::settings(machine)
            };
            (settings, projects.or_else(|| Some(machine.projects.clone())))
        }
        None => {
            let Some((url, _)) = url else {
                return Err(Failure::said(format_args!(
                    "no machine {} is known, so the code alone does not say where it is. Give the whole link, or the code and the address",
                    args.machine
                )));
            };
            let settings = unnamed(config, &args.machine, url);
            (settings, projects.or_else(|| Some(vec![ALL.to_owned()])))
        }
    };
    Ok(PairRequest {
        machine,
        code,
        projects,
        replace: args.replace,
    })
}

fn projects(given: &[String]) -> Result<Option<Vec<String>>, Failure> {
    if given.is_empty() {
        return Ok(None);
    }
    let patterns: Vec<String> = given.iter().map(|pattern| pattern.trim().to_owned()).collect();
    if patterns.iter().any(String::is_empty) {
        return Err(Failure::said(
            "--projects holds an empty pattern, which matches nothing. Take it out",
        ));
    }
    Patterns::new(patterns.iter().cloned()).map_err(Failure::said)?;
    Ok(Some(patterns))
}

/// A machine of the config. The code goes where the config says; a link that names another place must be meant for this one all the same.
fn described(machine: &MachineConfig, given: Option<(Url, bool)>) -> Result<MachineSettings, Failure> {
    let name = &machine.name;
    if let TokenSource::Variable { variable, .. } = &machine.token {
        return Err(Failure::said(format_args!(
            "{name} takes its token from {variable}. To pair it, write pairing = true in place of token_env in its config"
        )));
    }
    if let Some((url, explicit)) = given
        && url != machine.url
    {
        // T3 prints the address by which it knows itself.
        if explicit || !is_loopback(&url) {
            return Err(Failure::said(format_args!(
                "that is the address {url}, and the config has {name} at {}; the code was not sent. Mend the machine's url, or give the code alone: \
                 t3code-mcp pair {name} CODE",
                machine.url
            )));
        }
        output::complain(format_args!(
            "the link says {url}; the code goes to {}, where the config has {name}",
            machine.url
        ));
    }
    Ok(MachineSettings {
        token: None,
        ..fleet::settings(machine)
    })
}

fn unnamed(config: &Config, name: &str, url: Url) -> MachineSettings {
    MachineSettings {
        name: name.to_owned(),
        url,
        token: None,
        ca_file: None,
        frame_limit: config.unnamed.frame_limit,
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

/// Pairs by a link before serving. True where something was kept, so that the config is to be read anew; false where the link did its work
/// before.
pub(super) fn at_start(config: &Config, link: &SecretString) -> Result<bool, Failure> {
    use secrecy::ExposeSecret as _;

    let link = PairingLink::parse(link.expose_secret()).map_err(Failure::said)?;
    let state = StateDir::open(&config.state_dir).map_err(Failure::said)?;
    let credentials = Credentials::of(&state);
    let spent = Kept::hash(&link.code);
    let mut kept = credentials.all().map_err(Failure::said)?.into_values();
    if kept.any(|kept| kept.is_ok_and(|kept| kept.spent == spent)) {
        tracing::info!("the pairing link was used before, and is left alone");
        return Ok(false);
    }
    let request = meant(config, link);
    let paired = runtime::run_alone(go(&credentials, &request))??;
    tracing::info!(
        machine = %paired.kept.machine,
        file = %paired.path.display(),
        "paired by the link"
    );
    Ok(true)
}

/// Whose link it is: of the machine there, or of a new one.
fn meant(config: &Config, link: PairingLink) -> PairRequest {
    let mut paired = config
        .machines
        .iter()
        .filter(|machine| matches!(machine.token, TokenSource::Pairing(_)));
    let described: Vec<&MachineConfig> = paired.clone().filter(|machine| !machine.in_state).collect();
    let known = paired
        .find(|machine| machine.url == link.url)
        .or(match described.as_slice() {
            [only] if is_loopback(&link.url) => Some(*only),
            _ => None,
        });
    let (machine, projects) = match known {
        Some(machine) => {
            let settings = MachineSettings {
                token: None,
                ..fleet::settings(machine)
            };
            (settings, machine.in_state.then(|| machine.projects.clone()))
        }
        None => (
            unnamed(config, &name_for(config, &link.url), link.url),
            Some(vec![ALL.to_owned()]),
        ),
    };
    PairRequest {
        machine,
        code: link.code,
        projects,
        replace: false,
    }
}

/// A name that is free: after the host, where that has one.
fn name_for(config: &Config, url: &Url) -> String {
    let host = match url.host() {
        Some(Host::Domain(name)) if name != "localhost" => name.split('.').next().unwrap_or_default(),
        Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) | None => "",
    };
    let base = if machine_name(host).is_ok() { host } else { "t3" };
    let taken = |name: &str| config.machines.iter().any(|machine| machine.name == name);
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_else(|| base.to_owned())
}

fn report(paired: &Paired) -> Result<(), Failure> {
    let kept = &paired.kept;
    output::answer(format_args!(
        "{} is paired with {} at {}",
        kept.machine,
        Untrusted(&kept.label).at_most(output::CELL),
        kept.url
    ))?;
    output::answer(format_args!("  may:      {}", Untrusted(&kept.scopes.join(", "))))?;
    if let Some(ends) = kept.expires_at {
        let days = days_left(ends, Timestamp::now());
        output::answer(format_args!("  ends:     {ends:.0}, in {days} days"))?;
    }
    if let Some(projects) = &kept.projects {
        output::answer(format_args!(
            "  projects: {} (what agents may use; --projects says so at pairing)",
            projects.join(", ")
        ))?;
    }
    output::answer(format_args!("  kept in:  {}", shown(&paired.path)))?;
    if !paired.missing_scopes.is_empty() {
        output::complain(format_args!(
            "it lacks {}: without that it cannot be used fully",
            paired.missing_scopes.join(", ")
        ));
    }
    Ok(())
}

fn facts(paired: &Paired) -> serde_json::Value {
    let kept = &paired.kept;
    json!({
        "machine": kept.machine,
        "url": kept.url.as_str(),
        "label": kept.label,
        "environment": kept.environment.0,
        "scopes": kept.scopes,
        "missing_scopes": paired.missing_scopes,
        "expires_at": kept.expires_at.map(|ends| ends.to_string()),
        "projects": kept.projects,
        "kept_in": shown(&paired.path),
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
