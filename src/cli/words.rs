//! The closed sets of words that flags take: the gateway's own, offered by help and by completion. And the other way round: what the gateway
//! tells agents to do next, in the words of the command line.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use regex::{Captures, Regex};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gateway::{Interaction, Mode, QueueAfter, Until, WhenBusy, WorkspaceKind};
use crate::mcp::{Tool as _, tools};

/// Reads one of the words; each has to be one of the type's own.
fn one_of<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value::<T>(Value::String(word)))
}

pub(super) fn when_busy() -> impl TypedValueParser<Value = WhenBusy> {
    one_of(&["reject", "queue", "steer", "restart"])
}

pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    one_of(&["approval-required", "auto-accept-edits", "auto", "full-access"])
}

pub(super) fn interaction() -> impl TypedValueParser<Value = Interaction> {
    one_of(&["default", "plan"])
}

pub(super) fn workspace() -> impl TypedValueParser<Value = WorkspaceKind> {
    one_of(&["project", "worktree", "existing_worktree"])
}

pub(super) fn until() -> impl TypedValueParser<Value = Until> {
    one_of(&["any", "all"])
}

pub(super) fn queue_after() -> impl TypedValueParser<Value = QueueAfter> {
    one_of(&["continue", "hold"])
}

/// `name=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("it must be NAME=VALUE".to_owned()),
    }
}

/// What a command calls what a hint says in arguments; each before single names are looked at.
const PHRASES: &[(&str, &str)] = &[
    ("Check the thread_id.", "`t3code-mcp threads` lists the threads."),
    ("(action resume)", "(--resume)"),
    ("takes its runs out (cancel)", "takes its runs out (--cancel RUN)"),
    (
        "Leave title out, or leave thread_id out",
        "Leave --title out, or leave --thread-id out",
    ),
    ("Leave project out", "Leave --project out"),
    ("Leave machine out", "Leave --machine out"),
    ("Pass decision", "Pass --decision"),
    ("Pass answers", "Pass --answer"),
];

/// The tools that a command does the same as, and that command.
const COMMANDS: &[(&str, &str)] = &[
    (tools::Machines::NAME, "machines"),
    (tools::Projects::NAME, "projects"),
    (tools::Models::NAME, "models"),
    (tools::Threads::NAME, "threads"),
    (tools::Dispatch::NAME, "dispatch"),
    (tools::Wait::NAME, "wait"),
    (tools::Thread::NAME, "thread"),
    (tools::Answer::NAME, "answer"),
    (tools::Interrupt::NAME, "interrupt"),
    (tools::Queue::NAME, "queue"),
    (tools::Status::NAME, "status"),
    (tools::Events::NAME, "events list"),
    (tools::Pair::NAME, "pair"),
];

/// The arguments that are flags of the same name, and have a name that is nothing else.
const FLAGS: &[&str] = &[
    "thread_id",
    "run_id",
    "request_id",
    "when_busy",
    "runtime_mode",
    "interaction_mode",
    "base_ref",
    "worktree_path",
];

/// What to do next, said to an agent, as a person does it at the command line. Tools that no command stands for keep their names.
pub(super) fn in_commands(hint: &str) -> String {
    // A tool, with the word for a command before it or not; or an argument, with its value or without.
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\b(?<tool>t3_[a-z_]+)\b|\b(?<name>[a-z]+_[a-z_]*[a-z])\b(?:: (?<value>[a-z-]+))?").ok()
    });
    let mut hint = Cow::from(hint);
    for (said, meant) in PHRASES {
        if hint.contains(said) {
            hint = hint.replace(said, meant).into();
        }
    }
    let Some(names) = &*NAMES else { return hint.into_owned() };
    let told = names.replace_all(&hint, |found: &Captures<'_>| {
        let whole = &found[0];
        if let Some(tool) = found.name("tool") {
            let command = COMMANDS.iter().find(|(name, _)| *name == tool.as_str());
            return command.map_or_else(|| whole.to_owned(), |(_, command)| format!("`t3code-mcp {command}`"));
        }
        match (found.name("name"), found.name("value")) {
            (Some(name), value) if FLAGS.contains(&name.as_str()) => {
                let value = value.map(|value| format!(" {}", value.as_str())).unwrap_or_default();
                format!("`--{}{value}`", name.as_str().replace('_', "-"))
            }
            _ => whole.to_owned(),
        }
    });
    told.into_owned()
}

/// How long something took, as people say it.
pub(super) fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes<T>(parser: &impl TypedValueParser<Value = T>) -> usize {
        let (command, mut taken) = (clap::Command::new("t"), 0);
        for word in parser.possible_values().into_iter().flatten() {
            let read = parser.parse_ref(&command, None, word.get_name().as_ref());
            assert!(read.is_ok(), "{} is offered and not taken", word.get_name());
            taken += 1;
        }
        taken
    }

    #[test]
    fn every_word_that_is_offered_is_the_gateways() {
        let taken = [
            takes(&when_busy()),
            takes(&mode()),
            takes(&interaction()),
            takes(&workspace()),
            takes(&until()),
            takes(&queue_after()),
        ];
        assert_eq!(taken, [4, 4, 2, 3, 2, 2]);
    }

    #[test]
    fn a_time_is_said_in_two_units_at_most() {
        let said = [0, 59, 60, 3_599, 3_600, 90_061].map(|seconds| spoken(Duration::from_secs(seconds)));
        assert_eq!(
            said,
            ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 1 min"]
        );
    }

    #[test]
    fn what_to_do_next_is_said_in_commands_and_flags() {
        for (hint, told) in [
            (
                "Wait with t3_wait, or pass when_busy: queue (after it), steer (into it) or restart (in place of it).",
                "Wait with `t3code-mcp wait`, or pass `--when-busy queue` (after it), steer (into it) or restart (in place of it).",
            ),
            (
                "Read its result with t3_thread; to give it more work, use t3_dispatch with thread_id.",
                "Read its result with `t3code-mcp thread`; to give it more work, use `t3code-mcp dispatch` with `--thread-id`.",
            ),
            ("Check the thread_id.", "`t3code-mcp threads` lists the threads."),
            (
                "Restore it with t3_archive (archived: false), or start a new thread.",
                "Restore it with t3_archive (archived: false), or start a new thread.",
            ),
            ("Projects: my_project, t3-smoke.", "Projects: my_project, t3-smoke."),
        ] {
            assert_eq!(in_commands(hint), told);
        }
    }

    #[test]
    fn each_command_that_stands_for_a_tool_is_one() {
        for (_, command) in COMMANDS {
            let command = command.split(' ').next().unwrap_or_default();
            assert!(crate::cli::has_command(command), "{command} is no command");
        }
    }

    #[test]
    fn a_pair_needs_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err() && pair("ab").is_err());
    }
}
