//! When a part of a thread is enough.

use super::*;
use crate::machine::dialect::{Dialect, Protocol2};
use crate::machine::domain::PendingRow;
use crate::machine::mirror::ShellItem;
use crate::machine::recordings::{items, reads};
use crate::protocol::{RunId, RuntimeRequestId};

const RECORDING: &str = "04-queue-steer-interrupt";

/// The thread of recording 04 at its end: seven runs, the fourth and the seventh cancelled in the queue.
fn thread() -> Thread {
    let last = reads(RECORDING).pop().unwrap();
    Protocol2.read_thread(last.to_string().as_bytes()).unwrap()
}

fn row() -> ThreadRow {
    let id = thread().head.id;
    let of_shell = items(RECORDING)
        .into_iter()
        .filter(|item| item.tag == "orchestration.subscribeShell");
    let rows = of_shell.filter_map(|item| {
        let item = serde_json::value::to_raw_value(&item.value).unwrap();
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

fn part(from: u64) -> Thread {
    let mut part = without_run(0);
    part.facts.runs.retain(|run| run.ordinal >= from);
    part
}

/// The whole, with these runs still open.
fn whole_with_open(open: &[u64]) -> Thread {
    let mut thread = thread();
    for run in &mut thread.facts.runs {
        if open.contains(&run.ordinal) {
            run.status = "running".to_owned();
        }
    }
    thread
}

#[test]
fn of_a_thread_never_read_whole_a_part_counts_only_with_every_run() {
    let row = row();
    let suffices = |part: &Thread, row: Option<&ThreadRow>| Parts::default().handle_part(part, row);
    assert!(suffices(&thread(), Some(&row)), "the whole");
    assert!(suffices(&without_run(0), Some(&row)), "all runs, fewer items");
    for ordinal in 1..=7 {
        assert!(!suffices(&without_run(ordinal), Some(&row)), "without run {ordinal}");
    }
    // A held run may wait behind the end of the part, and a thread without a row says nothing of its runs.
    assert!(!suffices(&without_run(0), None));
    let newer = ThreadRow {
        active_run: Some(RunId("run:8".to_owned())),
        ..row
    };
    assert!(!suffices(&without_run(0), Some(&newer)));
}

#[test]
fn once_the_whole_was_read_a_part_needs_no_run_that_had_ended_by_then() {
    let row = row();
    let mut parts = Parts::default();
    parts.handle_whole(&whole_with_open(&[5, 7]));
    assert!(parts.handle_part(&part(5), Some(&row)), "from the lowest that was open");
    assert!(parts.handle_part(&part(3), Some(&row)), "and more");
    let mut parts = Parts::default();
    parts.handle_whole(&whole_with_open(&[5, 7]));
    let mut gap = part(4);
    gap.facts.runs.retain(|run| run.ordinal != 6);
    assert!(!parts.handle_part(&gap, Some(&row)), "with a gap above it");

    // A part that counted says as much of what is open as the whole: next time less is enough.
    let mut parts = Parts::default();
    parts.handle_whole(&whole_with_open(&[5, 7]));
    assert!(parts.handle_part(&part(4), Some(&row)), "all have ended by now");
    assert!(parts.handle_part(&part(7), Some(&row)), "the newest alone");

    let mut parts = Parts::default();
    parts.handle_whole(&whole_with_open(&[]));
    assert!(parts.handle_part(&part(7), Some(&row)), "all had ended");
}

#[test]
fn a_part_that_was_not_enough_is_not_asked_for_again_until_the_whole_says_that_it_would_be() {
    let row = row();
    let mut parts = Parts::default();
    parts.handle_whole(&whole_with_open(&[2, 7]));
    assert!(parts.may_suffice());
    assert!(!parts.handle_part(&part(6), Some(&row)));
    assert!(!parts.may_suffice());
    parts.handle_whole(&whole_with_open(&[2, 7]));
    assert!(!parts.may_suffice(), "run 2 is open still, and out of the part");
    parts.handle_whole(&whole_with_open(&[7]));
    assert!(parts.may_suffice());
    assert!(parts.handle_part(&part(6), Some(&row)));
}

#[test]
fn a_part_without_the_request_that_the_row_names_is_not_enough() {
    let mut asked = row();
    asked.pending = Some(PendingRow {
        id: RuntimeRequestId("request".to_owned()),
        kind: "command".to_owned(),
        created_at: asked.updated_at,
    });
    let mut parts = Parts::default();
    assert!(!parts.handle_part(&without_run(0), Some(&asked)));
    assert!(!parts.may_suffice());
    parts.handle_whole(&thread());
    assert!(parts.may_suffice(), "nothing is pending any more");
}
