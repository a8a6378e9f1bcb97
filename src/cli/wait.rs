//! `wait`: what `t3_wait` does, for as long as it takes, and then what came of it.

use std::time::{Duration, Instant};

use clap::builder::{RangedU64ValueParser, TypedValueParser};

use super::asking::Asking;
use super::flags::SettingFlags;
use super::{Failure, asking, live, output, runtime, view, words};
use crate::gateway::{ThreadView, Until, WaitAnswer, WaitArgs};
use crate::mcp::tools::Wait;

/// What one call may wait at least and at most.
const ONE_CALL: std::ops::RangeInclusive<u64> = 5..=3_600;

/// The longest `--timeout`: a week.
const LONGEST: u64 = 7 * 24 * 3_600;

/// After how long a gateway that stops is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The exit codes beside success and failure.
const ASKS: u8 = 3;
const GOES_ON: u8 = 4;

/// Wait until a thread's run has ended or asks something, and print it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The thread, or several
    #[arg(required = true)]
    threads: Vec<String>,
    /// Wait for that run of the thread
    #[arg(long, value_name = "RUN")]
    run_id: Option<String>,
    /// How many seconds at most; without it, as long as it takes
    #[arg(long, value_name = "SECONDS", value_parser = timeouts())]
    timeout: Option<u64>,
    /// Of several threads: return with the first that is done, or with the last
    #[arg(long, value_name = "WHICH", value_parser = words::until())]
    until: Option<Until>,
    /// Also wait for background work that a finished run left behind
    #[arg(long)]
    quiet: bool,
    /// Print what the tool `t3_wait` answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp wait 0b7c…
  t3code-mcp wait 0b7c… --timeout 600 || echo 'not completed'
  t3code-mcp wait 0b7c… 91d4… --until all --json

Exit code: 0 completed, 1 failed, interrupted or an error, 3 it asks something or its queue is
held, 4 the time ran out and the work goes on. Ctrl-C ends the wait, not the work.";

/// Waits and prints.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let mut asked = WaitArgs {
        run_id: args.run_id.clone(),
        until: args.until,
        quiet: args.quiet.then_some(true),
        ..WaitArgs::default()
    };
    match args.threads.as_slice() {
        [only] => asked.thread_id = Some(only.clone()),
        several => asked.thread_ids = Some(several.to_vec()),
    }
    runtime::run_alone(asking::keeping(&config, async |asking| {
        let answer = until_done(asking, asked, Patience::of(args.timeout)).await?;
        if args.json {
            output::json(&answer)?;
        } else {
            print(&answer)?;
        }
        ended(&answer)
    }))?
}

/// What `--timeout` may be.
pub(super) fn timeouts() -> impl TypedValueParser<Value = u64> {
    RangedU64ValueParser::<u64>::new().range(*ONE_CALL.start()..=LONGEST)
}

/// How long it is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience(Option<Instant>);

impl Patience {
    /// So many seconds from now, or without end.
    pub(super) fn of(seconds: Option<u64>) -> Self {
        Self(seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))))
    }

    /// How long the next call waits; none where it would be too short to be one.
    fn next(self) -> Option<u64> {
        let Some(deadline) = self.0 else {
            return Some(*ONE_CALL.end());
        };
        let left = deadline.saturating_duration_since(Instant::now()).as_secs_f64().round();
        // At most a week.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let left = left as u64;
        (left >= *ONE_CALL.start()).then_some(left.min(*ONE_CALL.end()))
    }
}

/// Waits, and shows on stderr that it does. What one call can wait is no bound: the next one goes on.
pub(super) async fn until_done(asking: &Asking, mut args: WaitArgs, patience: Patience) -> Result<WaitAnswer, Failure> {
    let begun = Instant::now();
    let waiting = async {
        args.timeout = Some(patience.next().unwrap_or(*ONE_CALL.start()));
        let mut answer = asking.ask::<Wait>(&args).await?;
        while goes_on(&answer) {
            if !answer.timed_out {
                // The gateway stops: another is there in a moment.
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            let Some(timeout) = patience.next() else { break };
            args.timeout = Some(timeout);
            answer = asking.ask::<Wait>(&args).await?;
        }
        answer.waited = (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        Ok(answer)
    };
    live::shown(asking.heartbeats(), waiting).await
}

/// Nothing of what was waited for has happened.
fn goes_on(answer: &WaitAnswer) -> bool {
    answer.timed_out || (answer.still_running && answer.done.as_ref().is_none_or(Vec::is_empty))
}

/// Prints what came of it.
pub(super) fn print(answer: &WaitAnswer) -> Result<(), Failure> {
    if let Some(thread) = &answer.thread {
        output::answer(format_args!("{}", view::thread_and_next(thread)))?;
    }
    for thread in answer.threads.iter().flatten() {
        output::answer(format_args!("{}\n", view::thread_and_next(thread)))?;
    }
    if goes_on(answer) {
        output::complain(format_args!(
            "the time ran out after {}; the work goes on: do not start it again, wait again",
            words::spoken(Duration::try_from_secs_f64(answer.waited).unwrap_or_default())
        ));
    }
    Ok(())
}

/// How it ended, for the exit code.
pub(super) fn ended(answer: &WaitAnswer) -> Result<(), Failure> {
    if goes_on(answer) {
        return Err(Failure::Ended(GOES_ON));
    }
    let is_done = |view: &&ThreadView| answer.done.as_ref().is_none_or(|done| done.contains(&view.thread_id));
    let threads: Vec<&ThreadView> = answer
        .thread
        .iter()
        .chain(answer.threads.iter().flatten())
        .filter(is_done)
        .collect();
    if threads.iter().any(|view| is_bad(view)) {
        return Err(Failure::Ended(1));
    }
    if threads.iter().any(|view| asks(view)) {
        return Err(Failure::Ended(ASKS));
    }
    Ok(())
}

/// Somebody has to do something.
fn asks(view: &ThreadView) -> bool {
    view.held == Some(true) || matches!(view.state.as_str(), "question" | "approval")
}

fn is_bad(view: &ThreadView) -> bool {
    let went_well = matches!(view.state.as_str(), "completed" | "rolled_back" | "idle");
    !went_well && !asks(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(state: &str) -> ThreadView {
        ThreadView {
            thread_id: state.to_owned(),
            state: state.to_owned(),
            ..ThreadView::default()
        }
    }

    fn code(answer: &WaitAnswer) -> u8 {
        match ended(answer) {
            Ok(()) => 0,
            Err(Failure::Ended(code)) => code,
            Err(_) => u8::MAX,
        }
    }

    #[test]
    fn the_exit_code_tells_how_a_thread_ended() {
        let answer = |state: &str| WaitAnswer {
            thread: Some(one(state)),
            ..WaitAnswer::default()
        };
        for (state, wanted) in [
            ("completed", 0),
            ("idle", 0),
            ("failed", 1),
            ("interrupted", 1),
            ("gone", 1),
            ("question", 3),
            ("approval", 3),
        ] {
            assert_eq!(code(&answer(state)), wanted, "{state}");
        }
        let late = WaitAnswer {
            timed_out: true,
            still_running: true,
            ..answer("running")
        };
        assert_eq!(code(&late), 4);
        let mut held = answer("queued");
        held.thread = held.thread.map(|view| ThreadView {
            held: Some(true),
            ..view
        });
        assert_eq!(code(&held), 3);
    }

    #[test]
    fn of_several_threads_only_those_that_are_done_count() {
        let answer = |done: &[&str]| WaitAnswer {
            threads: Some(["completed", "running", "failed"].map(one).to_vec()),
            done: Some(done.iter().map(|id| (*id).to_owned()).collect()),
            still_running: true,
            ..WaitAnswer::default()
        };
        assert_eq!(code(&answer(&["completed"])), 0);
        assert_eq!(code(&answer(&["completed", "failed"])), 1);
        assert_eq!(code(&answer(&[])), 4);
    }

    #[test]
    fn a_long_wait_is_made_of_calls_that_may_be() {
        assert_eq!(Patience::of(None).next(), Some(3_600));
        assert_eq!(Patience::of(Some(7_300)).next(), Some(3_600));
        assert_eq!(Patience::of(Some(20)).next(), Some(20));
        assert_eq!(Patience::of(Some(2)).next(), None);
    }
}
