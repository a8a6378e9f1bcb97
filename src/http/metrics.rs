//! `GET /metrics`: what whoever is called at night looks at first. Behind the bearer like `/mcp`; labels are the operator's names, tools' names,
//! codes and our own words, never T3's.
//!
//! A process that works through another one knows its own calls alone, and says so.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::bearer;
use super::door::Door;
use super::exposition::{self, Exposition, Kind};
use super::reply::refusal;
use crate::gateway::{MachineReading, Readings, may_read};
use crate::lifecycle::EventKind;
use crate::mcp::{CallCounts, Client, Place, Server};

/// Answers who scrapes.
pub(super) async fn scrape(State((door, server)): State<(Arc<Door>, Server)>, request: Request) -> Response {
    bearer::pass(&door.bearers, request, |request| async move {
        let client = request.extensions().get::<Arc<Client>>().cloned().unwrap_or_default();
        if let Err(error) = may_read(&client.limits) {
            let hint = error.hint.as_deref();
            return refusal(StatusCode::FORBIDDEN, error.code.as_str(), &error.message, hint);
        }
        let readings = match server.place() {
            Place::Here(gateway) => Some(gateway.readings().await),
            Place::There(_) => None,
        };
        let text = told(server.started(), readings.as_ref(), &server.calls());
        ([(CONTENT_TYPE, exposition::CONTENT_TYPE)], text).into_response()
    })
    .await
}

fn told(started: Timestamp, readings: Option<&Readings>, calls: &[CallCounts]) -> String {
    let mut out = Exposition::default();
    out.family(
        Kind::Gauge,
        "t3code_mcp_build_info",
        "1, with the version of the program.",
    )
    .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    out.family(
        Kind::Gauge,
        "process_start_time_seconds",
        "When the program began, in seconds since 1970.",
    )
    .sample(&[], started.as_second());
    out.family(
        Kind::Gauge,
        "t3code_mcp_owner",
        "1 where this process keeps the ledger and talks to the machines, 0 where it works through another one, which then has what is missing here.",
    )
    .sample(&[], i32::from(readings.is_some()));
    of_calls(&mut out, calls);
    if let Some(readings) = readings {
        of_machines(&mut out, &readings.machines);
        of_ledger(&mut out, readings);
    }
    out.into_text()
}

fn of_calls(out: &mut Exposition, calls: &[CallCounts]) {
    let name = |counts: &'_ CallCounts| match counts.tool.as_str() {
        "" => "(unknown)".to_owned(),
        tool => tool.to_owned(),
    };
    let mut ended = out.family(
        Kind::Counter,
        "t3code_mcp_calls_total",
        "Calls of tools that ended, by tool and code: ok, or the code of the error.",
    );
    for counts in calls {
        let tool = name(counts);
        if !counts.tool.is_empty() {
            ended.sample(&[("tool", &tool), ("code", "ok")], counts.succeeded);
        }
        for (code, count) in &counts.failed {
            ended.sample(&[("tool", &tool), ("code", code.as_str())], count);
        }
    }
    let mut open = out.family(
        Kind::Gauge,
        "t3code_mcp_calls_open",
        "Calls of tools that are not answered yet; of t3_wait these are the open waits.",
    );
    for counts in calls.iter().filter(|counts| !counts.tool.is_empty()) {
        open.sample(&[("tool", &counts.tool)], counts.open);
    }
}

/// A family of which each machine has one number at most.
type OfMachine = (Kind, &'static str, &'static str, fn(&MachineReading) -> Option<f64>);

/// None of them is so large that it would not be whole as a float.
#[allow(clippy::cast_precision_loss)]
const OF_MACHINES: &[OfMachine] = &[
    (
        Kind::Gauge,
        "t3code_mcp_machine_up",
        "1 while the machine is connected and current.",
        |machine| Some(f64::from(u8::from(machine.online))),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_silent_seconds",
        "How long ago the last bytes came from the machine, while a connection stands. A quiet one answers pings.",
        |machine| machine.silent_for.as_ref().map(Duration::as_secs_f64),
    ),
    (
        Kind::Counter,
        "t3code_mcp_machine_connections_total",
        "Connections to the machine that stood; each after the first is a reconnect.",
        |machine| Some(machine.connections as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_threads",
        "Threads of the machine that may be used, without archived ones.",
        |machine| Some(machine.threads as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_busy_threads",
        "Those of them that work, wait or ask something.",
        |machine| Some(machine.busy as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_watched_runs",
        "Runs that are open and whose end will be told as an event.",
        |machine| machine.watched_runs.map(|runs| runs as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_credential_days_left",
        "Whole days until the machine's credential ends; negative once it has.",
        |machine| machine.days_left.map(|days| days as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_deliveries_waiting",
        "Events of the machine that are to be delivered, for the first time or again.",
        |machine| machine.deliveries.map(|deliveries| deliveries.waiting as f64),
    ),
    (
        Kind::Gauge,
        "t3code_mcp_machine_deliveries_dead",
        "Events of the machine whose delivery was given up; `events retry` sends one again.",
        |machine| machine.deliveries.map(|deliveries| deliveries.dead as f64),
    ),
];

fn of_machines(out: &mut Exposition, machines: &[MachineReading]) {
    for (kind, name, help, value) in OF_MACHINES {
        let mut family = out.family(*kind, name, help);
        for machine in machines {
            if let Some(value) = value(machine) {
                family.sample(&[("machine", &machine.name)], value);
            }
        }
    }
    let mut problems = out.family(
        Kind::Gauge,
        "t3code_mcp_machine_problem",
        "1, with the code of why the machine is not connected.",
    );
    for machine in machines {
        if let Some(code) = machine.problem {
            problems.sample(&[("machine", &machine.name), ("code", code.as_str())], 1);
        }
    }
    let mut words = out.family(
        Kind::Counter,
        "t3code_mcp_machine_unknown_words_total",
        "Words of a newer T3 that were met and are not known, by kind; `doctor` names them.",
    );
    for machine in machines {
        for (kind, met) in &machine.unknown_words {
            words.sample(&[("machine", &machine.name), ("kind", kind)], met);
        }
    }
}

fn of_ledger(out: &mut Exposition, readings: &Readings) {
    let Some(counts) = &readings.counts else { return };
    let mut events = out.family(
        Kind::Counter,
        "t3code_mcp_events_total",
        "Events that were made, by kind.",
    );
    let mut kinds = counts.events.clone();
    for kind in EventKind::ALL {
        kinds.entry(kind.as_str().to_owned()).or_default();
    }
    for (kind, count) in &kinds {
        events.sample(&[("kind", kind)], count);
    }
    let mut attempts = out.family(
        Kind::Counter,
        "t3code_mcp_delivery_attempts_total",
        "Attempts to deliver an event, by what came of them: delivered, retried (failed, and made again) or dead (given up).",
    );
    for (outcome, count) in [
        ("delivered", counts.delivered),
        ("retried", counts.retried),
        ("dead", counts.given_up),
    ] {
        attempts.sample(&[("outcome", outcome)], count);
    }
    if let Some(deliveries) = &readings.deliveries {
        let mut oldest = out.family(
            Kind::Gauge,
            "t3code_mcp_oldest_waiting_delivery_seconds",
            "How long ago the oldest event happened that is to be delivered; 0 where none is.",
        );
        let since = deliveries
            .oldest_waiting
            .map(|since| Timestamp::now().duration_since(since));
        oldest.sample(&[], since.map_or(0.0, |since| since.as_secs_f64().max(0.0)));
    }
    let mut commits = out.family(
        Kind::Counter,
        "t3code_mcp_store_commits_total",
        "Transactions of the ledger, by what became of them: committed, or failed as on a full disk.",
    );
    commits.sample(&[("outcome", "committed")], counts.commits);
    commits.sample(&[("outcome", "failed")], counts.failed_commits);
}
