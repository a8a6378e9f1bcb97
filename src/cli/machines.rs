//! `machines`: what `t3_machines` shows.

use super::asking;
use super::flags::SettingFlags;
use super::{Failure, output, runtime};
use crate::gateway::{MachineView, MachinesArgs};
use crate::mcp::tools::Machines;
use crate::protocol::Untrusted;

/// List the configured machines and whether each is online.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  t3code-mcp machines\n  t3code-mcp machines --json --config ~/t3code.toml")]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print what the tool `t3_machines` answers
    #[arg(long)]
    json: bool,
}

/// Asks and prints. If none of the machines is online, it fails afterwards.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Machines>(&MachinesArgs::default()).await
    }))??;
    if args.json {
        output::json(&answer)?;
    } else {
        let rows: Vec<_> = answer.machines.iter().map(row).collect();
        output::table(["machine", "state", "T3", "protocol", "credential", "url"], &rows);
        for machine in &answer.machines {
            if let Some(error) = &machine.error {
                output::complain(format_args!("{}: {}", machine.name, Untrusted(error)));
            }
        }
    }
    if answer.machines.iter().any(|machine| machine.online) {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}

fn row(machine: &MachineView) -> [String; 6] {
    let cell = |text: &str| Untrusted(text).at_most(output::CELL).to_string();
    let credential = match machine.credential.days_left {
        Some(days) => format!("{}, {days} days", machine.credential.state),
        None => machine.credential.state.clone(),
    };
    [
        machine.name.clone(),
        if machine.online { "online" } else { "offline" }.to_owned(),
        cell(machine.version.as_deref().unwrap_or("-")),
        machine
            .protocol
            .map_or_else(|| "-".to_owned(), |protocol| protocol.to_string()),
        cell(&credential),
        machine.url.clone(),
    ]
}
