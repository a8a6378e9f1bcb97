//! `queue`: what `t3_queue` does.

use std::fmt::Write as _;

use super::flags::SettingFlags;
use super::{Failure, asking, output, runtime, view};
use crate::gateway::{QueueAction, QueueAnswer, QueueArgs};
use crate::mcp::tools::Queue;

/// List the runs that wait behind a thread's active one, or change them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The thread
    thread: String,
    /// Take this run out: it never runs
    #[arg(long, value_name = "RUN", group = "action")]
    cancel: Option<String>,
    /// Put the message of this run into the active run now
    #[arg(long, value_name = "RUN", group = "action")]
    steer: Option<String>,
    /// Let a queue that T3 holds go on
    #[arg(long, group = "action")]
    resume: bool,
    /// Print what the tool `t3_queue` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp queue 0b7c…
  t3code-mcp queue 0b7c… --cancel run:…
  t3code-mcp queue 0b7c… --steer run:…
  t3code-mcp queue 0b7c… --resume --json";

/// Lists or changes it and prints it.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = asked(args);
    let answer = if asked.action == QueueAction::List {
        runtime::run_alone(asking::reading(&config, async |asking| {
            asking.ask::<Queue>(&asked).await
        }))??
    } else {
        runtime::run_alone(asking::keeping(&config, async |asking| {
            asking.ask::<Queue>(&asked).await
        }))??
    };
    if args.json {
        output::json(&answer)
    } else {
        output::answer(format_args!("{}", told(&answer)))
    }
}

fn asked(args: &Args) -> QueueArgs {
    let (action, run_id) = match (&args.cancel, &args.steer) {
        (Some(run), _) => (QueueAction::Cancel, Some(run.clone())),
        (None, Some(run)) => (QueueAction::Steer, Some(run.clone())),
        (None, None) if args.resume => (QueueAction::Resume, None),
        (None, None) => (QueueAction::List, None),
    };
    QueueArgs {
        thread_id: args.thread.clone(),
        action,
        run_id,
    }
}

fn told(answer: &QueueAnswer) -> String {
    let mut out = String::new();
    let outcome = match (answer.outcome.as_deref(), &answer.run_id) {
        (Some("steered"), Some(run)) => format!("steered into {}\n", view::fact(run)),
        (Some("started"), Some(run)) => format!("{} had started by itself\n", view::fact(run)),
        (Some("not_held"), _) => "the queue was not held\n".to_owned(),
        (Some(outcome), _) => format!("{}\n", view::fact(outcome)),
        (None, _) => String::new(),
    };
    out.push_str(&outcome);
    let held = if answer.held == Some(true) {
        ", its queue is held: --resume lets it go on"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "the thread on {} is {}{held}",
        view::fact(&answer.machine),
        view::fact(&answer.state)
    );
    if let Some(run) = &answer.active_run {
        let _ = writeln!(out, "  at work: {}", view::fact(run));
    }
    for run in &answer.queue {
        let text = run.text.as_deref().map(view::fact).unwrap_or_default();
        let _ = writeln!(out, "  {}. {}  {text}", run.position, view::fact(&run.run_id));
    }
    match (answer.left_out, answer.queue.is_empty()) {
        (Some(more), _) => _ = writeln!(out, "  and {more} more"),
        (None, true) => out.push_str("  nothing waits\n"),
        (None, false) => {}
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_queue_is_told_with_what_was_done_to_it() {
        let answer = |value: serde_json::Value| -> String {
            serde_json::from_value(value).map_or_else(|error| error.to_string(), |answer| told(&answer))
        };
        let held = answer(
            json!({"thread_id": "t", "machine": "mac", "state": "queued", "held": true, "left_out": 2, "queue": [
            {"run_id": "r-2", "position": 1, "text": "Then\n\u{1b}[2Jthe README"}, {"run_id": "r-3", "position": 2}]}),
        );
        let steered = answer(
            json!({"thread_id": "t", "machine": "mac", "state": "running", "active_run": "r-1", "queue": [],
            "outcome": "steered", "run_id": "r-1"}),
        );
        view::snapshot("queue", &format!("{held}\n\n{steered}"));
    }
}
