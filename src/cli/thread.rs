//! `thread`: what `t3_thread` shows.

use super::flags::SettingFlags;
use super::{Failure, asking, output, runtime, view};
use crate::gateway::ThreadArgs;
use crate::mcp::tools::Thread;

/// Show what a thread does and what came of it, without waiting.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp thread 0b7c…\n  t3code-mcp thread 0b7c… --turns 10\n  t3code-mcp thread 0b7c… --json"
)]
pub(super) struct Args {
    /// The thread
    thread: String,
    /// How many of its newest runs to show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    turns: Option<u32>,
    /// Print what the tool `t3_thread` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

/// Asks and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = ThreadArgs {
        thread_id: args.thread.clone(),
        turns: args.turns,
    };
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Thread>(&asked).await
    }))??;
    if args.json {
        output::json(&answer)
    } else {
        output::answer(format_args!("{}", view::thread_and_next(&answer)))
    }
}
