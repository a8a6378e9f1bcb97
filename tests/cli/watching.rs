//! The live table, on a terminal of its own: what it shows, what keys do, and how it leaves the terminal.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::pty::OnTerminal;
use crate::stdio::Client;
use crate::support::{Machine, Running, until};

const LEAVES: &str = "\u{1b}[?1049l";

#[test]
fn a_key_answers_what_a_thread_asks() {
    let machine = Machine::start();
    let place = machine.place();
    let mut owner = Client::start(&place);
    let asked = owner.done(1, "t3_dispatch", &json!({"prompt": "ask", "title": "Choose a color"}));
    let thread = asked["thread_id"].as_str().unwrap();
    let mut terminal = OnTerminal::start(place.command_with_token(&["watch"]));
    // It asks only a moment after it began.
    terminal.until(|shown| shown.contains("Choose") && shown.contains("question"));
    terminal.keys("a");
    // Only what changed is drawn: a space that was there is not.
    terminal.until_shown("color?");
    terminal.keys("1\r");
    terminal.until_shown("extras?");
    terminal.keys("1,2\r");
    terminal.until_shown("answered;");
    let view = owner.done(2, "t3_wait", &json!({"thread_id": thread, "timeout": 30}));
    assert_eq!(view["state"], "completed");
    terminal.keys("q");
    assert_eq!(terminal.end(), Some(0));
    // The cursor is back.
    terminal.until(|shown| shown.contains(LEAVES) && shown.ends_with("\u{1b}[?25h"));
    assert!(terminal.is_as_before());
}

#[test]
fn the_terminal_is_given_back_on_signals_and_on_ctrl_c() {
    let machine = Machine::start();
    let place = machine.place();
    for end in [Some(Signal::TERM), Some(Signal::INT), None] {
        let mut terminal = OnTerminal::start(place.command_with_token(&["watch"]));
        terminal.until_shown("threads: 0");
        assert!(!terminal.is_as_before(), "it reads single keys");
        match end {
            Some(signal) => kill_process(Pid::from_child(&terminal.child), signal).unwrap(),
            None => terminal.keys("\u{3}"),
        }
        let code = terminal.end();
        assert_eq!(code, Some(i32::from(end.is_some())));
        terminal.until_shown(LEAVES);
        assert!(terminal.is_as_before(), "{end:?}");
    }
}

#[test]
fn without_a_terminal_it_prints_the_table_or_says_how() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run_with_token(&["watch"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("--once"), "{}", ran.err);
    let dispatched = place.run_with_token(&["dispatch", "--title", "Sleep\u{1b}[2J", "--json", "sleep 600"]);
    let dispatched: Value = serde_json::from_str(&dispatched.out).unwrap();
    let look = || place.run_with_token(&["watch", "--once"]);
    until("T3 begins", || look().out.contains("running"));
    let ran = look();
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out.contains("running") && ran.out.contains(r"Sleep\u{1b}[2J"),
        "{}",
        ran.out
    );
    let ran: Value = serde_json::from_str(&place.run_with_token(&["watch", "--once", "--json"]).out).unwrap();
    assert_eq!(ran["threads"][0]["thread_id"], dispatched["thread_id"]);
    assert_eq!(ran["threads"][0]["state"], "running");
}

#[test]
fn a_stream_of_changes_ends_when_nobody_reads_it_although_nothing_changes() {
    let machine = Machine::start();
    let place = machine.place();
    let mut watching = Running::start(place.command_with_token(&["watch", "--json"]));
    let mut lines = BufReader::new(watching.child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let listed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(listed["threads"], json!([]));
    assert!(watching.child.try_wait().unwrap().is_none());
    drop(lines);
    until("it ends", || watching.child.try_wait().unwrap().is_some());
    assert_eq!((watching.end(), watching.said.as_str()), (Some(0), ""));
}

#[test]
fn smoke_goes_the_whole_way() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run_with_token(&["smoke", "sim", "t3-smoke"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for step in [
        "✓ machine",
        "✓ dispatch",
        "✓ wait",
        "✓ follow up",
        "✓ wait again",
        "✓ read",
        "✓ archive",
    ] {
        assert!(ran.out.contains(step), "{step} is missing: {}", ran.out);
    }
    assert_eq!(
        (machine.simulator.thread_count(), machine.simulator.runs().len()),
        (1, 2)
    );
    let report: Value =
        serde_json::from_str(&place.run_with_token(&["smoke", "sim", "t3-smoke", "--json"]).out).unwrap();
    assert_eq!(report["ok"], true);
    let ran = place.run_with_token(&["smoke", "sim", "nothing"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.out.contains("✗ dispatch") && ran.out.contains("project_not_found"),
        "{ran:?}"
    );
    let ran = place.run_with_token(&["smoke", "mac", "shop"]);
    assert!(ran.out.contains("there is no machine mac; there are: sim"), "{ran:?}");
}
