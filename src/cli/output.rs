//! What is printed: tables for people, JSON for programs. A reader that goes away early is no error.

use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use serde::Serialize;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::Failure;
use crate::gateway::Unreachable;
use crate::protocol::{Untrusted, escape_json};

/// A cell of a table is cut after so many characters.
pub(super) const CELL: usize = 60;

/// A line to stdout.
pub(super) fn say(line: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line to stdout that the command is for: that it could not be written is a failure.
pub(super) fn answer(line: Arguments<'_>) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::said(format!(
            "the answer could not be written to stdout ({error}). Write it to another place"
        ))),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns when nobody reads any more what is printed: the pipe was closed at its other end. A file is never done with.
pub(super) async fn unread() {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    // Unchecked, since its mode stays as it is: nothing is written this way.
    if let Ok(stdout) = stdout.and_then(pipe::Sender::from_owned_fd_unchecked) {
        while let Ok(ready) = stdout.ready(Interest::ERROR).await {
            if ready.is_error() {
                return;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// A line to stderr.
pub(super) fn complain(line: Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Asks on stderr for a line, which is typed behind it.
pub(super) fn ask(prompt: &str) {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
}

/// A value as JSON, safe for a terminal.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::said)?;
    answer(format_args!("{}", escape_json(&text)))
}

/// A value as one line of JSON, for a program that reads while we run.
pub(super) fn line_of_json(value: &serde_json::Value) {
    say(format_args!("{}", escape_json(&value.to_string())));
}

/// Rows under their heads, in columns. Cells are escaped already.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) {
    let mut widths = heads.map(|head| head.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let gap = width.saturating_sub(cell.chars().count()) + 2;
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', gap));
        }
        say(format_args!("{}", line.trim_end()));
    };
    line(heads);
    for row in rows {
        line(std::array::from_fn(|column| row.get(column).map_or("", String::as_str)));
    }
}

/// Names the machines that did not answer; what a command printed is not the whole then.
pub(super) fn missing(unreachable: &[Unreachable]) -> Result<(), Failure> {
    for machine in unreachable {
        complain(format_args!("{}: {}", machine.machine, Untrusted(&machine.error)));
    }
    if unreachable.is_empty() {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}
