//! `interrupt`: what `t3_interrupt` does.

use super::flags::SettingFlags;
use super::{Failure, asking, output, runtime, view, words};
use crate::gateway::{InterruptAnswer, InterruptArgs, QueueAfter};
use crate::mcp::tools::Interrupt;

/// Stop the active run of a thread, or take a queued one off.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  t3code-mcp interrupt 0b7c…\n  t3code-mcp interrupt 0b7c… --queue hold\n  t3code-mcp interrupt 0b7c… --run-id …"
)]
pub(super) struct Args {
    /// The thread
    thread: String,
    /// The run; without it, the active one
    #[arg(long, value_name = "RUN")]
    run_id: Option<String>,
    /// What becomes of the runs that wait behind it
    #[arg(long, value_name = "WHAT", value_parser = words::queue_after())]
    queue: Option<QueueAfter>,
    /// Print what the tool `t3_interrupt` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

/// Interrupts and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = InterruptArgs {
        thread_id: args.thread.clone(),
        run_id: args.run_id.clone(),
        queue: args.queue,
    };
    let answer = runtime::run_alone(asking::keeping(&config, async |asking| {
        asking.ask::<Interrupt>(&asked).await
    }))??;
    if args.json {
        output::json(&answer)
    } else {
        output::answer(format_args!("{}", told(&answer)))
    }
}

fn told(answer: &InterruptAnswer) -> String {
    let (machine, state) = (view::fact(&answer.machine), view::fact(&answer.state));
    let next = match &answer.next_run {
        Some(run) => format!("; T3 goes on with the queued run {}", view::fact(run)),
        None if answer.state == "interrupting" => "; T3 still works on it".to_owned(),
        None => String::new(),
    };
    let note = answer.note.as_ref().map(|note| format!(". {note}")).unwrap_or_default();
    format!("the run on {machine} is {state}{next}{note}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_next_is_told() {
        let answer = |state: &str, next: Option<&str>| InterruptAnswer {
            thread_id: "t".to_owned(),
            machine: "mac".to_owned(),
            state: state.to_owned(),
            next_run: next.map(str::to_owned),
            note: None,
        };
        assert_eq!(told(&answer("interrupted", None)), "the run on mac is interrupted");
        assert_eq!(
            told(&answer("interrupting", None)),
            "the run on mac is interrupting; T3 still works on it"
        );
        assert_eq!(
            told(&answer("cancelled", Some("r\u{1b}2"))),
            r"the run on mac is cancelled; T3 goes on with the queued run r\u{1b}2"
        );
    }
}
