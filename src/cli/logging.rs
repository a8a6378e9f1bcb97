//! The log: to stderr, as text or JSON, one line an event, and no character in it that could do anything to a terminal.
//!
//! Whatever a library or a machine wrote into an event passes the escaping on its way out, so no call site can forget it.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Failure;
use super::flags::SettingFlags;
use crate::config::{LogConfig, LogFormat, Note};
use crate::mcp::WithoutHangUps;
use crate::protocol::{Untrusted, escape_json};

/// Starts the log. Only the first call of a process counts.
pub(super) fn start(config: &LogConfig) -> Result<(), Failure> {
    let mut filter: Targets = config
        .filter
        .parse()
        .map_err(|error| Failure::said(format!("the log filter {:?} cannot be read ({error})", config.filter)))?;
    if !config.filter.contains("rmcp") {
        filter = filter.with_target("rmcp", LevelFilter::WARN);
    }
    let filter = filter.and(WithoutHangUps);
    let layer = tracing_subscriber::fmt::layer().with_ansi(false);
    let registry = tracing_subscriber::registry();
    let started = match config.format {
        LogFormat::Text => {
            let lines = layer.with_writer(Guarded(LogFormat::Text));
            registry.with(lines.with_filter(filter)).try_init()
        }
        LogFormat::Json => {
            let lines = layer.json().with_writer(Guarded(LogFormat::Json));
            registry.with(lines.with_filter(filter)).try_init()
        }
    };
    started.map_err(|error| Failure::said(format!("the log could not be started ({error})")))
}

/// Starts the log of a command that asks and prints: what matters is printed, so it logs only when its own flag asks for it.
pub(super) fn start_if_asked(flags: &SettingFlags<false>, config: &LogConfig) -> Result<(), Failure> {
    if flags.names("log") { start(config) } else { Ok(()) }
}

/// Logs how the configuration came to be.
pub(super) fn notes(notes: &[Note]) {
    for note in notes {
        match note {
            Note::Read(path) => tracing::info!(path = %path.display(), "read"),
            Note::Skipped { path, why } => tracing::warn!(path = %path.display(), "not read: {why}"),
            Note::NoToken { machine, variable } => {
                tracing::warn!(
                    machine,
                    "the environment variable {variable} is not set, so the machine cannot be used"
                );
            }
            Note::Credential {
                machine: Some(machine),
                problem,
            } => tracing::warn!(machine, "its credential cannot be used: {problem}"),
            Note::Credential { machine: None, problem } => tracing::warn!("what was paired cannot be read: {problem}"),
            Note::Warning(text) => tracing::warn!("{text}"),
        }
    }
}

/// stderr, with each event escaped as the format needs it.
#[derive(Clone, Copy)]
struct Guarded(LogFormat);

impl<'a> MakeWriter<'a> for Guarded {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for Guarded {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(guard(self.0, &String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// An event comes in one piece, with the line break that ends it.
fn guard(format: LogFormat, event: &str) -> String {
    let line = event.strip_suffix('\n').unwrap_or(event);
    match format {
        LogFormat::Text => format!("{}\n", Untrusted(line)),
        LogFormat::Json => format!("{}\n", escape_json(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_can_neither_end_a_line_of_the_log_nor_reach_the_terminal() {
        let event = "2026-11-30 INFO renamed title=x\n2026-11-30 ERROR forged \u{1b}[2J\u{202e}\n";
        assert_eq!(
            guard(LogFormat::Text, event),
            "2026-11-30 INFO renamed title=x\\n2026-11-30 ERROR forged \\u{1b}[2J\\u{202e}\n"
        );
    }

    #[test]
    fn a_line_of_json_stays_json() {
        let event = format!("{}\n", serde_json::json!({"title": "a\u{9b}\u{202e}\u{1b}b\n"}));
        let line = guard(LogFormat::Json, &event);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            serde_json::json!({"title": "a\u{9b}\u{202e}\u{1b}b\n"})
        );
        assert!(line.trim_end().chars().all(|c| (' '..='~').contains(&c)));
    }
}
