//! `models`: what `t3_models` shows.

use std::fmt::Write as _;

use super::asking;
use super::flags::SettingFlags;
use super::{Failure, output, runtime};
use crate::gateway::{ModelView, ModelsArgs, ProviderView};
use crate::mcp::tools::Models;
use crate::protocol::Untrusted;

/// List the models that a machine can run, and how its providers are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  t3code-mcp models mac\n  t3code-mcp models mac --query opus --json")]
pub(super) struct Args {
    /// The machine; may be left out where there is one
    machine: Option<String>,
    /// Only models with this text in their instance, id or name
    #[arg(long)]
    query: Option<String>,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print what the tool `t3_models` answers
    #[arg(long)]
    json: bool,
}

/// Asks and prints: the models, then the providers that have something to say.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = ModelsArgs {
        machine: args.machine.clone(),
        query: args.query.clone(),
    };
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Models>(&asked).await
    }))??;
    if args.json {
        return output::json(&answer);
    }
    let rows: Vec<_> = answer.models.iter().map(row).collect();
    output::table(["model", "name", "", "options"], &rows);
    if let Some(more) = answer.left_out {
        output::complain(format_args!("and {more} more: name some with --query"));
    }
    for provider in answer.providers.iter().filter(|provider| says_something(provider)) {
        output::say(format_args!("{}", Untrusted(&line(provider))));
    }
    Ok(())
}

fn row(model: &ModelView) -> [String; 4] {
    let options: Vec<String> = model
        .options
        .iter()
        .map(|option| format!("{}={}", option.id, option.values.join("|")))
        .collect();
    [
        // Whole, since it is copied.
        Untrusted(&format!("{}/{}", model.instance, model.model)).to_string(),
        Untrusted(&model.name).at_most(output::CELL).to_string(),
        if model.default { "default" } else { "" }.to_owned(),
        Untrusted(&options.join(" ")).to_string(),
    ]
}

fn says_something(provider: &ProviderView) -> bool {
    provider.status != "ready" || provider.message.is_some() || provider.limits.is_some()
}

fn line(provider: &ProviderView) -> String {
    let mut line = format!("{}: {}", provider.instance, provider.status);
    if let Some(message) = &provider.message {
        line.push_str(", ");
        line.push_str(message);
    }
    for limit in provider.limits.iter().flatten() {
        let _ = write!(line, "; {}: {} % used", limit.label, limit.used_percent);
        if let Some(at) = &limit.resets_at {
            let _ = write!(line, ", anew at {at}");
        }
    }
    line
}
