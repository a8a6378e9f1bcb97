//! A thread as a person reads it: the facts of its view, what was said, and what it asks. Pure: it makes text.
//!
//! Every line of a message is marked, so that none can pass for a fact, and everything that came from T3 is escaped.

use std::fmt::Write as _;
use std::time::Duration;

use super::words::spoken;
use crate::gateway::{MessageView, PendingView, QuestionView, RunView, ThreadView};
use crate::protocol::Untrusted;

/// A fact takes at most so many characters of a line.
const FACT: usize = 200;

/// A fact, on one line.
pub(super) fn fact(text: &str) -> String {
    Untrusted(text).at_most(FACT).to_string()
}

/// The whole view.
pub(super) fn thread(view: &ThreadView) -> String {
    let mut out = String::new();
    head(&mut out, view);
    for message in &view.messages {
        say(&mut out, message);
    }
    list(
        &mut out,
        "tools",
        view.tools.iter().map(|tool| {
            let code = tool.exit_code.map(|code| format!(" ({code})")).unwrap_or_default();
            format!(
                "{}{code}  {}  {}",
                fact(&tool.status),
                fact(&tool.kind),
                fact(&tool.title)
            )
        }),
    );
    list(
        &mut out,
        "files",
        view.files.iter().map(|file| {
            let (path, change) = (Untrusted(&file.path), fact(&file.change));
            format!("{change}  +{} -{}  {path}", file.additions, file.deletions)
        }),
    );
    list(
        &mut out,
        "plan",
        view.plan
            .iter()
            .map(|step| format!("{}  {}", fact(&step.status), fact(&step.step))),
    );
    list(
        &mut out,
        "queue",
        view.queue.iter().map(|run| {
            let text = run.text.as_deref().map(fact).unwrap_or_default();
            format!("{}. {}  {text}", run.position, fact(&run.run_id))
        }),
    );
    list(
        &mut out,
        "background work",
        view.background.iter().map(|task| {
            let title = task.title.as_deref().map(fact).unwrap_or_default();
            format!("{}  {title}", fact(&task.kind))
        }),
    );
    for request in &view.pending {
        asked(&mut out, request, &view.machine);
    }
    end(&mut out, view);
    out.truncate(out.trim_end().len());
    out
}

/// What a thread does, on one line.
pub(super) fn state(view: &ThreadView) -> String {
    let mut line = fact(&view.state);
    if view.held == Some(true) {
        line.push_str(", its queue is held");
    }
    if !view.background.is_empty() {
        line.push_str(", background work goes on");
    }
    if let Some(since) = &view.unreachable_since {
        let _ = write!(line, ", the machine is unreachable since {}", fact(since));
    }
    line
}

fn head(out: &mut String, view: &ThreadView) {
    if !view.title.is_empty() {
        let _ = writeln!(out, "{}", fact(&view.title));
    }
    entry(out, "thread", &view.thread_id);
    row(out, "state", &state(view));
    if let Some(run) = &view.run {
        row(out, "run", &run_line(run));
    }
    for (name, parts) in [
        ("machine", [&view.machine, &view.project]),
        ("model", [&view.model, &view.runtime_mode]),
    ] {
        let known: Vec<String> = parts
            .iter()
            .filter(|part| !part.is_empty())
            .map(|part| fact(part))
            .collect();
        if !known.is_empty() {
            row(out, name, &known.join(", "));
        }
    }
    for (name, value) in [
        ("session", &view.session),
        ("branch", &view.branch),
        ("worktree", &view.worktree),
    ] {
        if let Some(value) = value {
            entry(out, name, value);
        }
    }
    if !view.last_activity_at.is_empty() {
        entry(out, "changed", &view.last_activity_at);
    }
}

fn run_line(run: &RunView) -> String {
    let mut line = format!("{}. {}, {}", run.ordinal, fact(&run.id), fact(&run.status));
    if let Some(time) = run
        .seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    {
        let _ = write!(line, ", {}", spoken(time));
    }
    if let Some(next) = &run.continues_in {
        let _ = write!(line, ", goes on in {}", fact(next));
    }
    if run.unconfirmed == Some(true) {
        line.push_str(", not confirmed by T3");
    }
    line
}

fn say(out: &mut String, message: &MessageView) {
    let _ = writeln!(out, "\n{}, {}:", fact(&message.role), fact(&message.at));
    quote(out, &message.text);
}

/// A text of several lines, each marked.
pub(super) fn quote(out: &mut String, text: &str) {
    for line in text.lines() {
        let _ = writeln!(out, "    | {}", Untrusted(line));
    }
}

/// What a request asks, and how it is answered.
pub(super) fn asked(out: &mut String, request: &PendingView, machine: &str) {
    let _ = writeln!(
        out,
        "\nit asks ({} {}):",
        fact(&request.kind),
        fact(&request.request_id)
    );
    for asked in &request.questions {
        question(out, asked);
    }
    if let Some(approval) = &request.approval {
        let title = approval.title.as_deref().map(fact).unwrap_or_default();
        let asked = format!("  {} {title}", fact(&approval.kind));
        let _ = writeln!(out, "{}", asked.trim_end());
        if let Some(detail) = &approval.detail {
            quote(out, detail);
        }
        for (number, decision) in approval.decisions.iter().enumerate() {
            let _ = writeln!(out, "    {}. {}", number + 1, fact(decision));
        }
    }
    if !request.answerable {
        let _ = writeln!(out, "  answer it in T3 on {}", fact(machine));
    } else if request.mode.as_deref() == Some("message") {
        out.push_str("  its run has ended; an answer starts another\n");
    }
}

/// How what it asks is answered at the command line; nothing where it asks nothing that can be answered here.
pub(super) fn next_step(view: &ThreadView) -> Option<String> {
    let answerable: Vec<&PendingView> = view.pending.iter().filter(|request| request.answerable).collect();
    let thread = fact(&view.thread_id);
    match answerable.as_slice() {
        [] if view.held == Some(true) => Some(format!("next: t3code-mcp queue {thread} --resume")),
        [] => None,
        [_] => Some(format!("next: t3code-mcp answer {thread}")),
        several => Some(format!(
            "next: t3code-mcp answer {thread} --request-id ID, of: {}",
            several
                .iter()
                .map(|request| fact(&request.request_id))
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

/// The view, and how what it asks is answered.
pub(super) fn thread_and_next(view: &ThreadView) -> String {
    match next_step(view) {
        Some(next) => format!("{}\n\n{next}", thread(view)),
        None => thread(view),
    }
}

/// A question and its options, numbered.
pub(super) fn question(out: &mut String, question: &QuestionView) {
    let mut rules = Vec::new();
    if question.multi_select == Some(true) {
        rules.push("several may be chosen");
    }
    if question.free_text == Some(false) && !question.options.is_empty() {
        rules.push("only these");
    }
    if question.required == Some(false) {
        rules.push("may be left out");
    }
    let rules = if rules.is_empty() {
        String::new()
    } else {
        format!("; {}", rules.join(", "))
    };
    let _ = writeln!(
        out,
        "  {} [{}{rules}]",
        Untrusted(&question.question),
        fact(&question.id)
    );
    for (number, option) in question.options.iter().enumerate() {
        let meaning = if option.description.is_empty() {
            String::new()
        } else {
            format!(" - {}", fact(&option.description))
        };
        let _ = writeln!(out, "    {}. {}{meaning}", number + 1, Untrusted(&option.label));
    }
}

fn end(out: &mut String, view: &ThreadView) {
    if let Some(error) = &view.error {
        let _ = writeln!(out, "\nerror: {}:", fact(&error.class));
        quote(out, &error.message);
        if let Some(at) = &error.resets_at {
            entry(out, "resets", at);
        }
    }
    if let Some(at) = &view.resumes_at {
        entry(out, "resumes", at);
    }
    if let Some(cut) = &view.truncated {
        let parts = [
            ("characters of the last message", cut.final_message_chars),
            ("messages", cut.messages),
            ("tools", cut.tools),
            ("files", cut.files),
            ("plan steps", cut.plan),
            ("queued runs", cut.queue),
            ("background tasks", cut.background),
            ("texts of requests", cut.pending),
            ("other texts", cut.other),
        ];
        let cut: Vec<String> = parts
            .iter()
            .filter_map(|(what, many)| Some(format!("{} {what}", (*many)?)))
            .collect();
        if !cut.is_empty() {
            let _ = writeln!(out, "\nleft out or shortened: {}", cut.join(", "));
        }
    }
}

fn list(out: &mut String, name: &str, lines: impl Iterator<Item = String>) {
    for (number, line) in lines.enumerate() {
        if number == 0 {
            let _ = writeln!(out, "\n{name}:");
        }
        let _ = writeln!(out, "  {}", line.trim_end());
    }
}

/// A fact that came from elsewhere.
pub(super) fn entry(out: &mut String, name: &str, value: &str) {
    row(out, name, &fact(value));
}

/// A fact that is escaped already.
pub(super) fn row(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<9} {value}");
}

#[cfg(test)]
pub(super) use tests::snapshot;

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
