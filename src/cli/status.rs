//! `status`: what `t3_status` shows.

use super::asking;
use super::flags::SettingFlags;
use super::{Failure, output, runtime};
use crate::gateway::{MachineHealth, StatusArgs};
use crate::mcp::tools::Status;
use crate::protocol::Untrusted;

/// Show how the machines and their credentials do, and what to renew.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp status\n  t3code-mcp status mac --json\n\nThe exit code is 0 when every machine is online and no credential is to be renewed."
)]
pub(super) struct Args {
    /// One machine; without it all
    machine: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print what the tool `t3_status` answers
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = StatusArgs {
        machine: args.machine.clone(),
    };
    let unusable: Vec<String> = asking::unusable_credentials(&config).collect();
    for problem in &unusable {
        output::complain(format_args!("{}", Untrusted(problem)));
    }
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Status>(&asked).await
    }))??;
    if args.json {
        output::json(&answer)?;
    } else {
        let rows: Vec<_> = answer.machines.iter().map(row).collect();
        let heads = [
            "machine",
            "state",
            "T3",
            "protocol",
            "credential",
            "lag",
            "waiting",
            "dead",
        ];
        output::table(heads, &rows);
        answer.machines.iter().for_each(explain);
    }
    let well = |machine: &MachineHealth| machine.online && machine.credential.renew.is_none();
    if unusable.is_empty() && answer.machines.iter().all(well) {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}

fn row(machine: &MachineHealth) -> [String; 8] {
    let cell = |text: &str| Untrusted(text).at_most(output::CELL).to_string();
    let credential = match machine.credential.days_left {
        Some(days) => format!("{}, {days} days", machine.credential.state),
        None => machine.credential.state.clone(),
    };
    let none = || "-".to_owned();
    let lag = machine.stream.as_ref().and_then(|stream| stream.lag_ms);
    let count = |count: Option<u64>| count.map_or_else(none, |count| count.to_string());
    [
        machine.name.clone(),
        if machine.online { "online" } else { "offline" }.to_owned(),
        cell(machine.version.as_deref().unwrap_or("-")),
        machine.protocol.map_or_else(none, |protocol| protocol.to_string()),
        cell(&credential),
        lag.map_or_else(none, |lag| format!("{lag} ms")),
        count(machine.deliveries.map(|deliveries| deliveries.waiting)),
        count(machine.deliveries.map(|deliveries| deliveries.dead)),
    ]
}

/// What is wrong with a machine, and what to do.
fn explain(machine: &MachineHealth) {
    let name = &machine.name;
    if let Some(error) = &machine.error {
        output::complain(format_args!("{name}: {}", Untrusted(error)));
    }
    let credential = &machine.credential;
    if !credential.missing_scopes.is_empty() {
        let missing = credential.missing_scopes.join(", ");
        output::complain(format_args!("{name}: its credential lacks {missing}"));
    }
    if let Some(renew) = &credential.renew {
        output::complain(format_args!("{name}: to renew its credential: {}", Untrusted(renew)));
    }
}
