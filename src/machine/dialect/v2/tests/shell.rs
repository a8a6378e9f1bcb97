//! Items of the shell streams, and the mirror fed with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::raw;
use crate::machine::dialect::{Dialect, Protocol2};
use crate::machine::domain::ThreadRow;
use crate::machine::mirror::{ArchiveItem, Effect, Mirror, ShellItem, ShellSnapshot};
use crate::machine::recordings::items;

/// A recorded item, decoded.
#[derive(Clone, Debug)]
enum Recorded {
    Shell(ShellItem),
    Archive(ArchiveItem),
}

fn recording(name: &str) -> Vec<(String, Recorded)> {
    let of_shells = items(name).into_iter().filter_map(|item| {
        let value = raw(&item.value);
        let recorded = match item.tag.as_str() {
            "orchestration.subscribeShell" => Recorded::Shell(Protocol2.read_shell_item(&value).unwrap()),
            "orchestration.subscribeArchivedShell" => Recorded::Archive(Protocol2.read_archive_item(&value).unwrap()),
            _ => return None,
        };
        Some((item.conn, recorded))
    });
    of_shells.collect()
}

fn apply(mirror: &mut Mirror, item: &Recorded) {
    match item.clone() {
        Recorded::Shell(item) => mirror.handle_shell(item),
        Recorded::Archive(item) => mirror.handle_archive(item),
    }
}

fn rows(mirror: &Mirror) -> BTreeMap<String, Arc<ThreadRow>> {
    mirror
        .threads()
        .into_iter()
        .map(|row| (row.id.0.clone(), row))
        .collect()
}

fn effects(mirror: &mut Mirror) -> Vec<Effect> {
    std::iter::from_fn(|| mirror.poll_effect()).collect()
}

const SHELLS: [&str; 4] = [
    "04-queue-steer-interrupt",
    "06-idempotency-scopes-lifecycle",
    "07-replay-kill-restart",
    "14-two-pending",
];

#[test]
fn every_recorded_shell_is_one_database_and_ends_current() {
    for name in SHELLS {
        let mut mirror = Mirror::default();
        for (_, item) in &recording(name) {
            apply(&mut mirror, item);
        }
        assert!(!effects(&mut mirror).contains(&Effect::Reset), "{name}");
        assert!(!mirror.threads().is_empty() && !mirror.projects().is_empty(), "{name}");
    }
}

#[test]
fn a_reconnect_of_the_recording_replays_what_its_snapshot_covers_without_waking_anyone() {
    // After the kill: a snapshot at 1705, then twenty items at or below it, then `synchronized`.
    let items = recording("07-replay-kill-restart");
    let mut mirror = Mirror::default();
    for (conn, item) in &items {
        let replayed = conn == "shell-after-kill"
            && matches!(item, Recorded::Shell(ShellItem::ThreadUpdated(row)) if row.sequence <= 1705);
        effects(&mut mirror);
        apply(&mut mirror, item);
        if replayed {
            assert_eq!(effects(&mut mirror), []);
        }
    }
    assert_eq!(mirror.applied(), 1795);
}

#[test]
fn the_recorded_archive_moves_are_one_thread_on_both_streams() {
    let items = recording("06-idempotency-scopes-lifecycle");
    let thread = items
        .iter()
        .find_map(|(_, item)| match item {
            Recorded::Archive(ArchiveItem::Updated(row)) => Some(row.id.clone()),
            Recorded::Archive(_) | Recorded::Shell(_) => None,
        })
        .unwrap();
    let mut mirror = Mirror::default();
    let mut story = Vec::new();
    for (_, item) in &items {
        apply(&mut mirror, item);
        let place = mirror.thread(&thread).map(|row| row.archived);
        if story.last() != Some(&place) {
            story.push(place);
        }
    }
    // Not there yet, active, archived, restored, deleted for good though T3 repeats the removal on every later event.
    assert_eq!(story, [None, Some(false), Some(true), Some(false), None]);
}

#[test]
fn a_row_that_says_cancelled_is_no_end() {
    // The last queued run was cancelled; at 286 nothing is active for a moment, and then the queue goes on.
    let mut mirror = Mirror::default();
    let mut seen = Vec::new();
    for (_, item) in &recording("04-queue-steer-interrupt") {
        apply(&mut mirror, item);
        seen.extend(
            mirror
                .threads()
                .into_iter()
                .filter(|row| row.sequence == mirror.applied()),
        );
    }
    let at = |sequence| {
        let row = seen.iter().find(|row| row.sequence == sequence).unwrap();
        (
            row.status.as_str(),
            row.active_run.is_some(),
            row.active_run == row.latest_run,
        )
    };
    assert_eq!(
        [at(261), at(286), at(294)],
        [
            ("cancelled", true, false),
            ("cancelled", false, false),
            ("cancelled", true, false)
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Within one connection any item may be repeated, at once or later, and the rows stay those of the straight run.
    #[test]
    fn repeated_items_of_a_recording_change_nothing(
        which in 0..SHELLS.len(),
        repeats in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12),
    ) {
        let items = recording(SHELLS[which]);
        let mut straight = Mirror::default();
        for (_, item) in &items { apply(&mut straight, item); }

        let mut mirror = Mirror::default();
        for (index, (conn, item)) in items.iter().enumerate() {
            apply(&mut mirror, item);
            for (at, back) in &repeats {
                if at.index(items.len()) == index {
                    let from = back.index(index + 1);
                    // A snapshot is never sent again once later items were.
                    let again = items[from..=index].iter().filter(|(other, item)| {
                        other == conn && !matches!(item, Recorded::Shell(ShellItem::Snapshot(_)) | Recorded::Archive(ArchiveItem::Snapshot { .. }))
                    });
                    again.for_each(|(_, item)| apply(&mut mirror, item));
                }
            }
        }
        prop_assert_eq!(rows(&mirror), rows(&straight));
        prop_assert!(!effects(&mut mirror).contains(&Effect::Reset));
    }
}

#[test]
fn a_row_keeps_the_beginning_of_a_long_message_and_no_half_character() {
    let mut item = items("14-two-pending").remove(0).value;
    let threads = item["snapshot"]["threads"].as_array_mut().unwrap();
    let message =
        json!({"id": "m", "role": "assistant", "text": "ä".repeat(200_000), "updatedAt": "2026-11-30T06:02:20.169Z"});
    threads[0]["latestVisibleMessage"] = message;
    let ShellItem::Snapshot(ShellSnapshot { threads, .. }) = Protocol2.read_shell_item(&raw(&item)).unwrap() else {
        panic!("no snapshot");
    };
    let text = &threads[0].last_message.as_ref().unwrap().text;
    assert_eq!(
        (text.chars().count(), text.capacity()),
        (ThreadRow::MESSAGE_CHARS, 2 * ThreadRow::MESSAGE_CHARS)
    );
}

#[test]
fn rows_that_cannot_be_read_are_left_out_of_a_snapshot_and_counted() {
    let mut item = items("14-two-pending").remove(0).value;
    let read = |item: &Value| {
        let ShellItem::Snapshot(snapshot) = Protocol2.read_shell_item(&raw(item)).unwrap() else {
            panic!("no snapshot");
        };
        snapshot
    };
    let good = read(&item);
    assert_eq!((good.schema, good.unread.len()), (Some(2), 0));
    let threads = item["snapshot"]["threads"].as_array_mut().unwrap();
    threads[0]["updatedAt"] = json!("yesterday");
    let (id, project) = (threads[0]["id"].clone(), item["snapshot"]["projects"][0].take());
    let archived = item["snapshot"]["archivedThreads"].as_array_mut().unwrap();
    archived.push(json!(7));
    item["snapshot"]["projects"] = json!([project, {"id": "half"}]);

    let snapshot = read(&item);
    assert_eq!(snapshot.threads.len(), good.threads.len() - 1);
    assert_eq!(snapshot.projects.len(), 1);
    let unread: Vec<_> = snapshot
        .unread
        .iter()
        .map(|row| row.thread.as_ref().map(|id| json!(id.0)))
        .collect();
    assert_eq!(unread, [Some(id), None, None]);
    assert!(
        snapshot.unread[0].problem.contains("updatedAt"),
        "{:?}",
        snapshot.unread
    );

    item["snapshot"]["snapshotSequence"] = json!("none");
    assert!(Protocol2.read_shell_item(&raw(&item)).is_err(), "the frame itself");
}

#[test]
fn an_update_that_cannot_be_read_still_says_of_which_thread_it_is() {
    let thread = json!({"id": "t", "status": 7});
    let item = raw(&json!({"kind": "thread.updated", "sequence": 5, "location": "active", "thread": thread}));
    let ShellItem::ThreadUnreadable {
        sequence,
        thread,
        problem,
    } = Protocol2.read_shell_item(&item).unwrap()
    else {
        panic!("readable");
    };
    assert_eq!((sequence, thread.0.as_str()), (5, "t"));
    assert!(problem.contains("status") || problem.contains("missing"), "{problem}");
    let item = raw(&json!({"kind": "thread.updated", "sequence": 5, "thread": {"id": "t"}}));
    assert!(matches!(
        Protocol2.read_archive_item(&item).unwrap(),
        ArchiveItem::Unreadable { sequence: 5, .. }
    ));
}

#[test]
fn words_that_are_not_known_are_named_with_what_they_are_words_for() {
    let mut item = items("14-two-pending").remove(0).value;
    let thread = &mut item["snapshot"]["threads"][0];
    thread["status"] = json!("paused");
    thread["activityRunStatus"] = json!("dreaming");
    let ShellItem::Snapshot(snapshot) = Protocol2.read_shell_item(&raw(&item)).unwrap() else {
        panic!("no snapshot");
    };
    let words: Vec<_> = snapshot.threads.iter().flat_map(|row| &row.unknown_words).collect();
    assert_eq!(words, ["run status `paused`", "activity `dreaming`"]);
}
