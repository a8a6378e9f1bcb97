//! `dispatch`: what `t3_dispatch` does, and with `--wait` what `t3_wait` does afterwards.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::flags::SettingFlags;
use super::wait::{self, Patience};
use super::{Failure, asking, output, prompt, runtime, view, words};
use crate::gateway::{DispatchAnswer, DispatchArgs, Interaction, Mode, WaitArgs, WhenBusy, WorkspaceKind};
use crate::mcp::tools::Dispatch;

/// Start a coding thread, or another run in one that exists.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The whole task; `-`, or neither it nor --file: read from stdin
    prompt: Option<String>,
    /// Read the prompt from a file (`-`: stdin)
    #[arg(long, short, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// The machine; may be left out where there is one
    #[arg(long, short)]
    machine: Option<String>,
    /// Id, path or title of the project; may be left out where the machine has one
    #[arg(long, short)]
    project: Option<String>,
    /// Title of a new thread; without it, made of the prompt
    #[arg(long)]
    title: Option<String>,
    /// `instance/model`; without it, the machine's, the project's or the thread's own
    #[arg(long)]
    model: Option<String>,
    /// An option of the model; several times for several
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = words::pair)]
    options: Vec<(String, String)>,
    /// Continue this thread
    #[arg(long, value_name = "THREAD")]
    thread_id: Option<String>,
    /// What to do when that thread is busy
    #[arg(long, value_name = "WHAT", value_parser = words::when_busy())]
    when_busy: Option<WhenBusy>,
    /// What the agent may do without asking
    #[arg(long, value_name = "MODE", value_parser = words::mode())]
    runtime_mode: Option<Mode>,
    /// Whether the agent works or only plans
    #[arg(long, value_name = "MODE", value_parser = words::interaction())]
    interaction_mode: Option<Interaction>,
    /// Where a new thread works
    #[arg(long, value_name = "WHERE", value_parser = words::workspace())]
    workspace: Option<WorkspaceKind>,
    /// The branch or commit that a new worktree starts from
    #[arg(long, value_name = "REF")]
    base_ref: Option<String>,
    /// The branch to make in a new worktree
    #[arg(long)]
    branch: Option<String>,
    /// A worktree that is there
    #[arg(long, value_name = "PATH")]
    worktree_path: Option<String>,
    /// Make the call safe to repeat: the same id starts the work once
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Make no events of this run
    #[arg(long)]
    no_watch: bool,
    /// Wait for its end, or its question, and print it
    #[arg(long, short)]
    wait: bool,
    /// With --wait: how many seconds at most
    #[arg(long, value_name = "SECONDS", requires = "wait", value_parser = wait::timeouts())]
    timeout: Option<u64>,
    /// Print what the tool `t3_dispatch` answers; with --wait an object with `dispatch` and `wait`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<false>,
}

const EXAMPLES: &str = "\
Examples:
  t3code-mcp dispatch -p shop 'Fix the login test. Run the tests. End with a report.'
  t3code-mcp dispatch -m mac -p shop --file task.md --wait
  git diff | t3code-mcp dispatch -p shop --interaction-mode plan
  t3code-mcp dispatch --thread-id 0b7c… --when-busy queue 'Now update the README.'
  t3code-mcp dispatch -p shop --workspace worktree --base-ref main --option effort=high 'Try it.'

It returns at once; the work goes on by itself. T3CODE_MCP_ORIGIN is the origin of its events.
With --wait the exit code is that of `wait`.";

/// Dispatches.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = asking::config(&args.settings)?;
    let asked = asked(args, prompt::read(args.prompt.as_deref(), args.file.as_deref())?);
    runtime::run_alone(asking::keeping(&config, async |asking| {
        let dispatched = asking.ask::<Dispatch>(&asked).await?;
        if !args.wait {
            return if args.json {
                output::json(&dispatched)
            } else {
                output::answer(format_args!("{}", told(&dispatched, true)))
            };
        }
        if !args.json {
            output::answer(format_args!("{}\n", told(&dispatched, false)))?;
        }
        let wait = WaitArgs {
            thread_id: Some(dispatched.thread_id.clone()),
            run_id: dispatched.run_id.clone(),
            ..WaitArgs::default()
        };
        let answer = wait::until_done(asking, wait, Patience::of(args.timeout)).await?;
        if args.json {
            output::json(&json!({"dispatch": dispatched, "wait": answer}))?;
        } else {
            wait::print(&answer)?;
        }
        wait::ended(&answer)
    }))?
}

fn asked(args: &Args, prompt: String) -> DispatchArgs {
    let options: Map<String, Value> = args
        .options
        .iter()
        .map(|(name, value)| (name.clone(), option(value)))
        .collect();
    DispatchArgs {
        prompt,
        machine: args.machine.clone(),
        project: args.project.clone(),
        title: args.title.clone(),
        model: args.model.clone(),
        thread_id: args.thread_id.clone(),
        watch: args.no_watch.then_some(false),
        when_busy: args.when_busy,
        runtime_mode: args.runtime_mode,
        interaction_mode: args.interaction_mode,
        options: (!options.is_empty()).then_some(options),
        workspace: args.workspace,
        base_ref: args.base_ref.clone(),
        branch: args.branch.clone(),
        worktree_path: args.worktree_path.clone(),
        request_id: args.request_id.clone(),
    }
}

/// A model's option is a word, or true or false.
fn option(value: &str) -> Value {
    match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        word => Value::from(word),
    }
}

/// What was started, for people.
fn told(answer: &DispatchAnswer, with_next: bool) -> String {
    let mut out = format!("{}\n", view::fact(&answer.title));
    view::entry(&mut out, "thread", &answer.thread_id);
    if let Some(run) = &answer.run_id {
        view::entry(&mut out, "run", run);
    }
    if answer.queued == Some(true) {
        let state = format!("queued; its thread is {}", view::fact(&answer.state));
        view::row(&mut out, "state", &state);
    } else {
        view::entry(&mut out, "state", &answer.state);
    }
    let place = [&answer.machine, &answer.project]
        .map(|name| view::fact(name))
        .join(", ");
    view::row(&mut out, "machine", &place);
    view::entry(&mut out, "folder", &answer.path);
    let model = [&answer.model, &answer.runtime_mode]
        .map(|name| view::fact(name))
        .join(", ");
    view::row(&mut out, "model", &model);
    view::row(&mut out, "events", if answer.watch { "yes" } else { "none" });
    if answer.existing == Some(true) {
        view::row(
            &mut out,
            "note",
            "an earlier call had started this; nothing new was started",
        );
    }
    for note in &answer.notes {
        view::entry(&mut out, "note", note);
    }
    if with_next {
        let _ = writeln!(out, "\nnext: t3code-mcp wait {}", view::fact(&answer.thread_id));
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_is_told_with_what_comes_next() {
        let answer = DispatchAnswer {
            thread_id: "0b7c".to_owned(),
            run_id: Some("r-1".to_owned()),
            machine: "mac".to_owned(),
            project: "shop\u{1b}[2J".to_owned(),
            path: "/home/me/shop".to_owned(),
            title: format!("Fix\nit\u{202e} {}", "x".repeat(300)),
            model: "claudeAgent/claude-opus-5".to_owned(),
            runtime_mode: "full-access".to_owned(),
            state: "running".to_owned(),
            watch: true,
            existing: Some(true),
            queued: None,
            matched: None,
            previous_origin: None,
            notes: vec!["effort is no option of this model: left out.".to_owned()],
        };
        view::snapshot("dispatched", &told(&answer, true));
        let queued = DispatchAnswer {
            queued: Some(true),
            ..answer
        };
        assert!(told(&queued, true).contains("state     queued; its thread is running"));
    }

    #[test]
    fn options_are_words_or_switches() {
        assert_eq!(
            ["true", "false", "high", "1"].map(option),
            [json!(true), json!(false), json!("high"), json!("1")]
        );
    }
}
