//! `projects`: what `t3_projects` shows.

use super::asking;
use super::flags::SettingFlags;
use super::{Failure, output, runtime};
use crate::gateway::{ProjectView, ProjectsArgs};
use crate::mcp::tools::Projects;
use crate::protocol::Untrusted;

/// List the projects that agents may work on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  t3code-mcp projects\n  t3code-mcp projects mac --json")]
pub(super) struct Args {
    /// Only this machine's
    machine: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print what the tool `t3_projects` answers
    #[arg(long)]
    json: bool,
}

/// Asks and prints. A machine that did not answer makes it fail, after the others' projects are printed.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = ProjectsArgs {
        machine: args.machine.clone(),
    };
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Projects>(&asked).await
    }))??;
    if args.json {
        output::json(&answer)?;
    } else {
        let rows: Vec<_> = answer.projects.iter().map(row).collect();
        output::table(["machine", "project", "threads", "running", "model", "path"], &rows);
    }
    output::missing(&answer.unreachable)
}

fn row(project: &ProjectView) -> [String; 6] {
    let cell = |text: &str| Untrusted(text).at_most(output::CELL).to_string();
    [
        project.machine.clone(),
        cell(&project.title),
        project.threads.to_string(),
        project.running.to_string(),
        cell(project.default_model.as_deref().unwrap_or("-")),
        // Whole, since it is copied.
        Untrusted(&project.path).to_string(),
    ]
}
