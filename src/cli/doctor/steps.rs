//! The steps by which one machine is examined: its token, the way to it, what answers there, whether the token is accepted, whether the
//! protocol is spoken, which projects may be used. The first that fails ends the examination: what comes behind it cannot be known.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Check;
use crate::config::{MachineConfig, TokenSource};
use crate::fleet::{Limits, Member};
use crate::gateway::{EXPIRING_SOON_DAYS, ISSUE, days_left};
use crate::machine::{MachineError, MachineStatus};
use crate::protocol::Contract;

/// Longer than the machine's own limits for connecting and reading.
const PATIENCE: Duration = Duration::from_secs(25);

/// Examines one machine. `met` are the words that another process has met there and does not know.
pub(super) async fn examine(config: &MachineConfig, member: &Member, met: BTreeMap<String, u64>) -> Vec<Check> {
    let name = config.name.as_str();
    let kept = match &config.token {
        TokenSource::Variable { variable, token: None } => {
            return vec![Check::bad(
                name,
                format!("the environment variable {variable} is not set"),
                format!("Create a token on the T3 host and set {variable} to it, or put it into .env."),
            )];
        }
        TokenSource::Pairing(None) => {
            return vec![Check::bad(
                name,
                "it is not paired",
                format!("On the T3 host: t3 pair. Then here: t3code-mcp pair {name} '<link>'."),
            )];
        }
        TokenSource::Variable { variable, .. } => format!("its token is in {variable}"),
        TokenSource::Pairing(Some(kept)) => format!("it was paired at {:.0}", kept.paired_at),
    };
    let mut checks = vec![Check::good(name, kept)];
    match member.machine.ready(PATIENCE).await {
        Ok(()) => {
            let status = member.machine.status();
            checks.extend(online(name, config, &status));
            checks.extend(drift(name, status.unknown_words, met));
            checks.push(projects(name, config, member));
            checks.extend(scratch(name, config, member));
        }
        Err(error) => checks.extend(offline(name, config, &error)),
    }
    checks
}

fn online(name: &str, config: &MachineConfig, status: &MachineStatus) -> Vec<Check> {
    let version = status.version.as_deref().unwrap_or("of an unknown version");
    let protocol = status
        .protocol
        .map_or_else(String::new, |protocol| format!(", protocol {protocol}"));
    let label = status
        .label
        .as_deref()
        .map_or_else(String::new, |label| format!(" ({label})"));
    let mut checks = vec![Check::good(
        name,
        format!("T3 {version}{label} answers at {}{protocol}", config.url),
    )];
    checks.extend(
        status
            .protocol
            .and_then(Contract::of)
            .map(|contract| built_for(name, version, &contract)),
    );
    checks.push(match status.expires_at.map(|ends| days_left(ends, Timestamp::now())) {
        Some(days) if days < EXPIRING_SOON_DAYS => Check::bad(
            name,
            format!("the token is accepted, and ends in {days} days"),
            renew(config),
        ),
        Some(days) => Check::good(name, format!("the token is accepted, for {days} more days")),
        None => Check::good(name, "the token is accepted"),
    });
    checks
}

/// How the version compares with the one that this program was built for. No fault either way: what differs is met word by word.
fn built_for(name: &str, version: &str, contract: &Contract) -> Check {
    let said = match contract.compare(version) {
        Some(Ordering::Equal) => format!("this program was built for {contract}, as it is"),
        Some(Ordering::Greater) => format!("it is newer than {contract}, which this program was built for"),
        Some(Ordering::Less) => format!("it is older than {contract}, which this program was built for"),
        None => format!("this program was built for {contract}"),
    };
    Check::good(name, said)
}

/// What T3 there says that this program does not know. No fault of the machine, and nothing is lost by it: an unknown run status counts as
/// running.
fn drift(name: &str, mut seen: BTreeMap<String, u64>, met: BTreeMap<String, u64>) -> Option<Check> {
    for (word, times) in met {
        let known = seen.entry(word).or_default();
        *known = times.max(*known);
    }
    if seen.is_empty() {
        return None;
    }
    let words: Vec<String> = seen
        .iter()
        .map(|(word, times)| format!("{word} ({times} times)"))
        .collect();
    Some(Check::good(
        name,
        format!(
            "it is newer than this program knows; update t3code-mcp to have these understood: {}",
            words.join(", ")
        ),
    ))
}

fn projects(name: &str, config: &MachineConfig, member: &Member) -> Check {
    let all = member.machine.projects();
    let shown = all
        .iter()
        .filter(|project| member.shows(&Limits::default(), project))
        .count();
    let patterns = config.projects.join("\", \"");
    if all.is_empty() {
        return Check::bad(name, "it has no project", "Add a project in T3.");
    }
    if shown == 0 {
        return Check::bad(
            name,
            format!("none of its {} projects matches projects = [\"{patterns}\"]", all.len()),
            "Patterns are matched against a project's title and its workspace's path, case-sensitive. Mend them.",
        );
    }
    Check::good(name, format!("{shown} of its {} projects may be used", all.len()))
}

/// Where scratch work is allowed: whether there is a place for it.
fn scratch(name: &str, config: &MachineConfig, member: &Member) -> Option<Check> {
    if !config.scratch {
        return None;
    }
    Some(match member.scratch(&Limits::default()) {
        Some(_) => Check::good(name, "it has a scratch folder for work without a project"),
        None => Check::bad(
            name,
            "it has no scratch folder for work without a project, as `scratch = true` wants it",
            "Update T3 Code there, give the token the scope orchestration:operate, or take `scratch` out.",
        ),
    })
}

/// How a new token is got.
fn renew(config: &MachineConfig) -> String {
    match &config.token {
        TokenSource::Variable { variable, .. } => {
            format!("Create a new token on the T3 host ({ISSUE}) and set {variable} to it.")
        }
        TokenSource::Pairing(_) => {
            format!(
                "On the T3 host: t3 pair. Then here: t3code-mcp pair {} '<link>'.",
                config.name
            )
        }
    }
}

/// What failed, and what must have worked before it.
fn offline(name: &str, config: &MachineConfig, error: &MachineError) -> Vec<Check> {
    let reached = Check::good(name, format!("something answers at {}", config.url));
    let t3 = Check::good(name, format!("T3 answers at {}", config.url));
    match error {
        MachineError::Unreachable { .. } | MachineError::Timeout(_) | MachineError::AnswerLost { .. } => {
            vec![Check::bad(
                name,
                format!("{} cannot be reached: {error}", config.url),
                "Is T3 running there, does it listen on this address, and does the network (VPN, firewall) let you through?",
            )]
        }
        MachineError::NotT3 { .. } => vec![
            reached,
            Check::bad(
                name,
                format!("what answers there is no T3 server: {error}"),
                "Mend the url: scheme, host and T3's own port.",
            ),
        ],
        MachineError::NeedsPairing { .. } => vec![
            t3,
            Check::bad(name, format!("the token is not accepted: {error}"), renew(config)),
        ],
        MachineError::InsufficientScope { .. } => vec![t3, Check::bad(name, error.to_string(), renew(config))],
        MachineError::ProtocolUnsupported { .. } => vec![
            t3,
            Check::bad(name, error.to_string(), "Update the side that it names."),
        ],
        MachineError::Decode(_) | MachineError::Defect { .. } => vec![
            t3,
            Check::bad(
                name,
                format!("what it says was not understood: {error}"),
                "Its T3 is newer or older than this program knows. Update the older of the two.",
            ),
        ],
        MachineError::Rejected { .. }
        | MachineError::ThreadNotFound
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => {
            vec![
                t3,
                Check::bad(name, format!("it refuses: {error}"), "Look at T3's own log."),
            ]
        }
    }
}
