//! When a bounded read is enough, and which providers are refused.

use super::*;
use crate::machine::dialect::Protocol2;
use crate::machine::mirror::ShellItem;
use crate::protocol::RunId;

/// The thread of recording 04 at its end: seven runs, the fourth and the seventh cancelled in the queue.
fn thread() -> Thread {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/machine/thread-04.jsonl"
    ));
    Protocol2.read_thread(text.lines().last().unwrap().as_bytes()).unwrap()
}

fn row() -> ThreadRow {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/machine/shell-04.jsonl"
    ));
    let id = thread().head.id;
    let rows = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let item = serde_json::value::to_raw_value(&line["item"]).unwrap();
        match Protocol2.read_shell_item(&item).unwrap() {
            ShellItem::ThreadUpdated(row) if row.id == id => Some(*row),
            _ => None,
        }
    });
    rows.max_by_key(|row| row.sequence).unwrap()
}

fn without_run(ordinal: u64) -> Thread {
    let mut thread = thread();
    thread.partial = true;
    thread.facts.runs.retain(|run| run.ordinal != ordinal);
    thread
}

#[test]
fn a_part_of_a_thread_counts_only_with_every_run() {
    let row = row();
    assert!(holds_every_open_run(&thread(), Some(&row)), "the whole");
    assert!(
        holds_every_open_run(&without_run(0), Some(&row)),
        "all runs, fewer items"
    );
    for ordinal in 1..=7 {
        assert!(
            !holds_every_open_run(&without_run(ordinal), Some(&row)),
            "without run {ordinal}"
        );
    }
    // A held run may wait behind the end of the part, and a thread without a row says nothing of its runs.
    assert!(!holds_every_open_run(&without_run(0), None));
    let newer = ThreadRow {
        active_run: Some(RunId("run:8".to_owned())),
        ..row
    };
    assert!(!holds_every_open_run(&without_run(0), Some(&newer)));
}

#[test]
fn providers_that_would_never_start_a_run_are_refused_with_what_to_do() {
    let config = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/machine/config.json"
    ));
    let config = serde_json::value::RawValue::from_string(config.to_owned()).unwrap();
    let mut providers = Protocol2.read_providers(&config).unwrap();
    let instance = |name: &str| ProviderInstanceId(name.to_owned());
    assert_eq!(refusal(&providers, &instance("grok")), None);
    assert!(refusal(&providers, &instance("codex")).unwrap().contains("is disabled"));
    assert!(
        refusal(&providers, &instance("gork")).unwrap().contains("grok"),
        "lists what there is"
    );

    for provider in &mut providers {
        provider.unavailable = Some("no licence".to_owned());
    }
    assert!(refusal(&providers, &instance("grok")).unwrap().contains("no licence"));
}
