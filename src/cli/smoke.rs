//! `smoke`: the whole way against a live T3, with real calls: a thread is dispatched, waited for, continued, read and put away.
//!
//! The agent is asked for a word and allowed nothing, so that it costs a moment and changes no file. Where a step fails the later ones are
//! not tried, and a run that still works is stopped.

use std::time::Instant;

use serde::Serialize;

use super::asking::Asking;
use super::flags::SettingFlags;
use super::wait::{self, Patience};
use super::{Failure, asking, output, runtime, view};
use crate::gateway::{
    ArchiveArgs, DispatchAnswer, DispatchArgs, InterruptArgs, MachinesArgs, Mode, ProjectsArgs, ThreadArgs, ThreadView,
    WaitArgs,
};
use crate::mcp::tools::{Archive, Dispatch, Interrupt, Machines, Projects, Thread};

/// How long each run may take, in seconds.
const RUN_WITHIN: u64 = 300;

/// Dispatch, wait, follow up, read and archive against a live T3, to see that all of it works.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The machine
    machine: String,
    /// Id, path or title of a project there
    project: String,
    /// `instance/model`; without it, the default
    #[arg(long)]
    model: Option<String>,
    /// How many seconds each of the two runs may take
    #[arg(long, value_name = "SECONDS", default_value_t = RUN_WITHIN, value_parser = wait::timeouts())]
    timeout: u64,
    /// Do not archive the thread
    #[arg(long)]
    keep: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp smoke mac shop
  t3code-mcp smoke mac shop --model claudeAgent/claude-haiku-4-5 --json

It uses a model twice, for a word each. The agent may do nothing without asking; no event is made,
and the thread is archived at the end.";

/// What came of it.
#[derive(Debug, Default, Serialize)]
struct Report {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    steps: Vec<Step>,
    /// Steps are told as they end.
    #[serde(skip)]
    silent: bool,
}

#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    ok: bool,
    seconds: f64,
    /// What came of it, or why it failed.
    said: String,
}

/// Goes the way and tells of each step.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    runtime::run_alone(asking::keeping(&config, async |asking| {
        let mut report = Report {
            silent: args.json,
            ..Report::default()
        };
        report.ok = Box::pin(go(asking, args, &mut report)).await.is_some();
        if !report.ok {
            stop(asking, &mut report).await;
        }
        if args.json {
            output::json(&report)?;
        }
        if report.ok { Ok(()) } else { Err(Failure::Shown) }
    }))?
}

/// Every step; none where one failed.
async fn go(asking: &Asking, args: &Args, report: &mut Report) -> Option<()> {
    report.step("machine", online(asking, &args.machine)).await?;
    let first = DispatchArgs {
        title: Some("t3code-mcp smoke test".to_owned()),
        machine: Some(args.machine.clone()),
        project: Some(args.project.clone()),
        model: args.model.clone(),
        ..task("ready")
    };
    let dispatched = report.step("dispatch", dispatch(asking, first)).await?;
    let thread = dispatched.thread_id;
    report.thread_id = Some(thread.clone());
    report
        .step("wait", answered(asking, &thread, args.timeout, "ready"))
        .await?;
    let second = DispatchArgs {
        thread_id: Some(thread.clone()),
        ..task("again")
    };
    report.step("follow up", dispatch(asking, second)).await?;
    report
        .step("wait again", answered(asking, &thread, args.timeout, "again"))
        .await?;
    report.step("read", read(asking, &thread)).await?;
    if !args.keep {
        report.step("archive", archive(asking, &thread)).await?;
    }
    Some(())
}

/// A task that costs nothing. The simulated agent obeys its last line; a real one does what stands above.
fn task(word: &str) -> DispatchArgs {
    DispatchArgs {
        prompt: format!(
            "This is a test of the connection. Use no tool and change nothing. Answer with this one word: {word}\nsay {word}"
        ),
        runtime_mode: Some(Mode::ApprovalRequired),
        watch: Some(false),
        ..DispatchArgs::default()
    }
}

/// A step's result, and what is said of it.
type Done<T> = Result<(T, String), Failure>;

impl Report {
    async fn step<T>(&mut self, name: &'static str, work: impl Future<Output = Done<T>>) -> Option<T> {
        let begun = Instant::now();
        let (ok, said, result) = match work.await {
            Ok((result, said)) => (true, said, Some(result)),
            Err(failure) => (false, failure.to_string(), None),
        };
        let seconds = (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        if !self.silent {
            let mark = if ok { '✓' } else { '✗' };
            output::say(format_args!("{mark} {name} ({seconds:.1} s): {}", view::fact(&said)));
        }
        self.steps.push(Step {
            name,
            ok,
            seconds,
            said,
        });
        result
    }
}

async fn online(asking: &Asking, name: &str) -> Done<()> {
    // Without an owner the connection has only begun, and the machines are told from memory; this waits for it. What it fails with is told
    // below.
    let projects = ProjectsArgs {
        machine: Some(name.to_owned()),
    };
    let _ = asking.ask::<Projects>(&projects).await;
    let answer = asking.ask::<Machines>(&MachinesArgs::default()).await?;
    let names: Vec<&str> = answer.machines.iter().map(|machine| machine.name.as_str()).collect();
    match answer.machines.iter().find(|machine| machine.name == name) {
        Some(machine) if machine.online => {
            let version = machine.version.as_deref().unwrap_or("of an unknown version");
            Ok(((), format!("{name} is online, T3 {version}")))
        }
        Some(machine) => {
            let why = machine.error.as_deref().unwrap_or("it does not answer");
            Err(Failure::said(format_args!(
                "{name} is not online: {why}. Ask t3code-mcp doctor"
            )))
        }
        None => Err(Failure::said(format_args!(
            "there is no machine {name}; there are: {}",
            names.join(", ")
        ))),
    }
}

async fn dispatch(asking: &Asking, task: DispatchArgs) -> Done<DispatchAnswer> {
    let answer = asking.ask::<Dispatch>(&task).await?;
    let said = format!("thread {}, {}", answer.thread_id, answer.model);
    Ok((answer, said))
}

async fn answered(asking: &Asking, thread: &str, timeout: u64, word: &str) -> Done<()> {
    let wait = WaitArgs {
        thread_id: Some(thread.to_owned()),
        ..WaitArgs::default()
    };
    let answer = Box::pin(wait::until_done(asking, wait, Patience::of(Some(timeout)))).await?;
    if answer.timed_out {
        return Err(Failure::said(format_args!(
            "the run did not end within {timeout} s. Give it more with --timeout"
        )));
    }
    verdict(&answer.thread.unwrap_or_default(), word).map(|said| ((), said))
}

/// Whether the run ended as it should.
fn verdict(view: &ThreadView, word: &str) -> Result<String, Failure> {
    if view.state != "completed" {
        let why = view.error.as_ref().map(|error| format!(" ({})", error.message));
        return Err(Failure::said(format_args!(
            "the run should be completed and is {}{}. Look with t3code-mcp thread {}",
            view.state,
            why.unwrap_or_default(),
            view.thread_id
        )));
    }
    let last = view.messages.iter().rfind(|message| message.role == "assistant");
    let said = last.map_or("", |message| message.text.trim());
    if said.to_lowercase().contains(word) {
        return Ok(format!("completed, the agent said: {said}"));
    }
    Err(Failure::said(format_args!(
        "the run is completed, but the agent should have said \"{word}\" and said: {said}"
    )))
}

async fn read(asking: &Asking, thread: &str) -> Done<()> {
    let asked = ThreadArgs {
        thread_id: thread.to_owned(),
        turns: Some(2),
    };
    let view = asking.ask::<Thread>(&asked).await?;
    let runs = view.run.as_ref().map_or(0, |run| run.ordinal);
    if runs == 2 {
        return Ok(((), format!("2 runs, {} messages", view.messages.len())));
    }
    Err(Failure::said(format_args!(
        "the thread should have 2 runs and has {runs}"
    )))
}

async fn archive(asking: &Asking, thread: &str) -> Done<()> {
    let asked = ArchiveArgs {
        thread_id: thread.to_owned(),
        archived: Some(true),
    };
    asking.ask::<Archive>(&asked).await?;
    Ok(((), "the thread lies in the archive".to_owned()))
}

/// Leaves nothing at work.
async fn stop(asking: &Asking, report: &mut Report) {
    let Some(thread_id) = report.thread_id.clone() else {
        return;
    };
    let asked = InterruptArgs {
        thread_id,
        ..InterruptArgs::default()
    };
    match asking.ask::<Interrupt>(&asked).await {
        Ok(answer) => {
            let said = format!("the run is {}", answer.state);
            report.step("interrupt", async { Ok(((), said)) }).await;
        }
        // It had ended.
        Err(failure) => tracing::debug!(%failure, "nothing was interrupted"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(state: &str, text: &str) -> String {
        let view = serde_json::from_value(json!({"thread_id": "t", "state": state,
            "messages": [{"role": "assistant", "text": text, "at": ""}, {"role": "system", "text": "x", "at": ""}]}));
        match verdict(&view.unwrap_or_default(), "ready") {
            Ok(said) => said,
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn the_agent_has_to_have_said_its_word() {
        assert_eq!(told("completed", " Ready.\n"), "completed, the agent said: Ready.");
        assert!(told("completed", "no").contains("should have said \"ready\" and said: no"));
        assert!(told("question", "ready").contains("should be completed and is question"));
    }
}
