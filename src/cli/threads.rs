//! `threads`: what `t3_threads` shows.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as ValueError;

use super::asking;
use super::flags::SettingFlags;
use super::{Failure, output, runtime};
use crate::gateway::{ListedThread, ThreadFilter, ThreadsArgs};
use crate::mcp::tools::Threads;
use crate::protocol::Untrusted;

/// The words for a state, as the tool takes them.
const STATES: [&str; 15] = [
    "busy",
    "attention",
    "archived",
    "idle",
    "queued",
    "starting",
    "running",
    "finishing",
    "approval",
    "question",
    "completed",
    "interrupted",
    "failed",
    "cancelled",
    "rolled_back",
];

/// List threads, newest first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp threads --state busy\n  t3code-mcp threads mac --project shop --query checkout\n  t3code-mcp threads --json"
)]
pub(super) struct Args {
    /// Only this machine's
    machine: Option<String>,
    /// Only this project's: its id, path or title
    #[arg(long)]
    project: Option<String>,
    /// Only those in this state
    #[arg(long, value_parser = PossibleValuesParser::new(STATES).try_map(state))]
    state: Option<ThreadFilter>,
    /// Only those with this text in their title or messages
    #[arg(long)]
    query: Option<String>,
    /// How many at most, 1 to 50
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Go on behind the page that gave this cursor, with the same other arguments
    #[arg(long)]
    cursor: Option<String>,
    /// Also those that other threads' agents started
    #[arg(long)]
    subagents: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Print what the tool `t3_threads` answers
    #[arg(long)]
    json: bool,
}

fn state(word: String) -> Result<ThreadFilter, ValueError> {
    ThreadFilter::deserialize(word.into_deserializer())
}

/// Asks and prints. A machine that did not answer makes it fail, after the others' threads are printed.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = ThreadsArgs {
        machine: args.machine.clone(),
        project: args.project.clone(),
        state: args.state,
        query: args.query.clone(),
        limit: Some(args.limit),
        cursor: args.cursor.clone(),
        subagents: Some(args.subagents),
    };
    let answer = runtime::run_alone(asking::reading(&config, async |asking| {
        asking.ask::<Threads>(&asked).await
    }))??;
    if args.json {
        output::json(&answer)?;
    } else {
        let rows: Vec<_> = answer.threads.iter().map(row).collect();
        output::table(["updated", "machine", "project", "state", "title", "thread"], &rows);
        for machine in answer.searched.iter().filter(|machine| machine.by != "t3") {
            output::complain(format_args!(
                "{}: only titles and newest messages were searched",
                machine.machine
            ));
        }
        if let Some(unread) = answer.unread {
            output::complain(format_args!("{unread} more could not be read and may be in this state"));
        }
        if let Some(cursor) = &answer.next_cursor {
            output::complain(format_args!("there may be more: --cursor '{cursor}'"));
        }
    }
    output::missing(&answer.unreachable)
}

fn row(thread: &ListedThread) -> [String; 6] {
    let cell = |text: &str| Untrusted(text).at_most(output::CELL).to_string();
    let mut state = thread.state.clone();
    if thread.held == Some(true) {
        state.push_str(" (held)");
    }
    [
        // To the second: a person reads it.
        thread
            .updated_at
            .split('.')
            .next()
            .unwrap_or_default()
            .trim_end_matches('Z')
            .replace('T', " "),
        thread.machine.clone(),
        cell(&thread.project),
        state,
        cell(&thread.title),
        // Whole, since it is copied.
        Untrusted(&thread.thread_id).to_string(),
    ]
}
