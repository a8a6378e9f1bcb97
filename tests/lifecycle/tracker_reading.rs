//! When a thread that is followed is read, and what is kept of it.

use jiff::SignedDuration;
use t3code_mcp::lifecycle::{EventKind, ReadNeed, RequestFacts, RowFacts, RunFacts, RunState, TrackedThread, Tracker};

use crate::support::{at, request, request_id, run, run_id, thread, unqueued};
use crate::watcher::{Watcher, event, message, row, short, wanted};

use EventKind::{Completed, Failed, Interrupted};

#[test]
fn a_row_that_names_a_change_asks_for_one_read_and_never_ends_anything() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    for (sequence, latest) in [
        (2, run(2, "cancelled")),
        (3, run(1, "completed")),
        (4, run(1, "failed")),
    ] {
        watcher.tracker.handle_row(&row(&latest, sequence), watcher.now);
        assert_eq!(watcher.told(), []);
        assert_eq!(watcher.kept().runs[0].state, RunState::Running);
    }
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    assert_eq!(watcher.asks(), None);
    let gone = RowFacts {
        deleted: true,
        ..row(&run(1, "failed"), 5)
    };
    watcher.tracker.handle_row(&gone, watcher.now);
    // One is under way; this one is asked for when that was answered, unless the answer is of this row.
    assert_eq!(watcher.asks(), None);
    watcher.sequence = 3;
    assert_eq!(watcher.reads(&thread(vec![run(1, "running")], vec![])), []);
    assert_eq!(watcher.asks(), None);
    let due = watcher.tracker.poll_timeout().unwrap();
    assert_eq!(due.duration_since(watcher.now), SignedDuration::from_secs(1));
    watcher.tracker.handle_time(due);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    assert_eq!(watcher.reads(&thread(vec![run(1, "running")], vec![])), []);
    assert_eq!(watcher.asks(), None);
}

#[test]
fn the_shell_may_skip_every_state_between_two_rows() {
    let mut watcher = Watcher::watching();
    watcher.tracker.handle_row(&row(&run(1, "starting"), 1), watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.sequence = 0;
    watcher.reads(&thread(vec![run(1, "starting")], vec![]));
    watcher.tracker.handle_row(&row(&run(3, "completed"), 90), watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.sequence = 89;
    let told = watcher.reads(&thread(
        vec![run(1, "failed"), run(2, "interrupted"), run(3, "completed")],
        vec![],
    ));
    let expected = [
        event(Failed, 1, "A"),
        event(Interrupted, 2, "A"),
        event(Completed, 3, "A"),
    ];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    // The row that the read was of already.
    watcher.tracker.handle_row(&row(&run(3, "completed"), 90), watcher.now);
    assert_eq!(watcher.asks(), None);
}

#[test]
fn a_row_that_a_read_was_of_already_asks_for_nothing() {
    let mut watcher = Watcher::watching();
    watcher.tracker.handle_row(&row(&run(1, "starting"), 1), watcher.now);
    watcher.asks();
    watcher.sequence = 89;
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.tracker.handle_row(&row(&run(1, "running"), 90), watcher.now);
    assert_eq!(watcher.asks(), None);
    watcher.tracker.handle_row(&row(&run(1, "waiting"), 91), watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
}

#[test]
fn a_change_that_the_row_does_not_name_is_read_now_and_then_while_something_is_open() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.tracker.handle_row(&row(&run(1, "running"), 1), watcher.now);
    watcher.asks();
    watcher.reads(&works);
    let mut reads = 0;
    for second in 0..100 {
        watcher.passes(1);
        watcher
            .tracker
            .handle_row(&row(&run(1, "running"), 100 + second), watcher.now);
        watcher.tracker.handle_time(watcher.now);
        if watcher.asks().is_some() {
            reads += 1;
            watcher.sequence = 99 + second;
            let read_at = watcher.now;
            watcher.reads(&works);
            watcher.now = read_at;
        }
    }
    assert_eq!(reads, 3);
}

#[test]
fn an_idle_thread_is_read_only_if_its_row_shows_a_run_that_its_history_lacks() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.restarts();
    watcher.away(10);
    assert_eq!(watcher.asks(), None);
    watcher.tracker.handle_row(&row(&run(1, "completed"), 10), watcher.now);
    assert_eq!(watcher.asks(), None);
    watcher.tracker.handle_row(&row(&run(2, "starting"), 11), watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
}

#[test]
fn a_gap_has_everything_that_is_open_read_and_forgets_what_was_under_way() {
    let mut watcher = Watcher::watching();
    assert_eq!(watcher.asks(), None);
    watcher.away(10);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.away(10);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
}

#[test]
fn a_read_that_is_older_than_one_before_changes_nothing() {
    let mut watcher = Watcher::watching();
    watcher.sequence = 10;
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    let before = watcher.kept();
    watcher.sequence = 8;
    assert_eq!(watcher.reads(&thread(vec![run(1, "running")], vec![])), []);
    assert_eq!(watcher.kept(), before);
}

#[test]
fn a_read_that_was_under_way_when_a_message_was_taken_is_followed_by_another() {
    let mut watcher = Watcher::watching();
    watcher.away(10);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.tracker.settle(&message("message-1"), false);
    watcher.messages.clear();
    watcher.reads(&thread(vec![], vec![]));
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
}

#[test]
fn what_is_kept_is_marked_as_changed_only_when_it_is_another() {
    let mut watcher = Watcher::watching();
    assert!(watcher.tracker.poll_dirty());
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    assert!(watcher.tracker.poll_dirty());
    for _ in 0..3 {
        watcher
            .tracker
            .handle_row(&row(&run(1, "running"), watcher.sequence), watcher.now);
        watcher.reads(&works);
        assert!(!watcher.tracker.poll_dirty());
    }
}

#[test]
fn the_same_input_leads_to_the_same_state() {
    let feed = || {
        let mut watcher = busy_for_a_while();
        watcher.told();
        watcher
    };
    assert_eq!(feed().tracker, feed().tracker);
}

fn busy_for_a_while() -> Watcher {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(
        vec![run(1, "running"), run(2, "queued")],
        vec![request("q", "user_input", 1)],
    ));
    watcher.away(100);
    watcher.dispatch("message-3", wanted("B"));
    watcher.belongs("message-3", 3);
    watcher.reads(&thread(vec![run(1, "waiting"), unqueued(2), run(3, "queued")], vec![]));
    watcher
}

#[test]
fn of_a_long_life_little_is_kept() {
    let mut watcher = Watcher::watching();
    let mut runs: Vec<RunFacts> = Vec::new();
    for ordinal in 1..=200 {
        let mut now = runs.clone();
        now.push(run(ordinal, "running"));
        let requests = (0..5)
            .map(|one| RequestFacts {
                id: request_id(&format!("{ordinal}-{one}")),
                ..request("", "command", ordinal)
            })
            .collect();
        watcher.reads(&thread(now, requests));
        let end = if ordinal % 3 == 0 {
            unqueued(ordinal)
        } else {
            run(ordinal, ["failed", "completed"][usize::from(ordinal % 2 == 0)])
        };
        runs.push(end);
        watcher.reads(&thread(runs.clone(), vec![]));
    }
    let kept = watcher.kept();
    assert!(
        kept.runs.len() <= 2 && kept.requests.is_empty() && kept.dispatched.is_empty(),
        "{kept:?}"
    );
    assert_eq!(kept.baseline.map(|baseline| baseline.ordinal), Some(200));
    // A run that asks again and again.
    let mut asked: Vec<RequestFacts> = Vec::new();
    let mut now = runs;
    now.push(run(201, "running"));
    let mut told = 0;
    for one in 0..500 {
        for before in &mut asked {
            "resolved".clone_into(&mut before.status);
        }
        asked.push(RequestFacts {
            id: request_id(&format!("201-{one}")),
            created_at: at(1000 + one),
            ..request("", "command", 201)
        });
        told += watcher.reads(&thread(now.clone(), asked.clone())).len();
    }
    assert_eq!(told, 500);
    assert!(watcher.kept().requests.len() <= 65, "{}", watcher.kept().requests.len());
    assert_eq!(
        watcher.kept().runs.iter().filter(|run| run.id == run_id(201)).count(),
        1
    );
}

#[test]
fn a_hundred_thousand_quiet_threads_fit_in_memory() {
    assert!(size_of::<TrackedThread>() <= 256, "{}", size_of::<TrackedThread>());
    assert!(size_of::<Tracker>() <= 512, "{}", size_of::<Tracker>());
}

#[test]
fn after_a_whole_read_that_failed_the_whole_is_asked_for_again() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.away(10);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.reads_part(&thread(vec![run(3, "running")], vec![]));
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    watcher.tracker.handle_read_failed(watcher.now);
    watcher.passes(5);
    watcher.tracker.handle_time(watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
}

#[test]
fn an_idle_thread_whose_next_runs_are_wanted_is_read_once_more_when_the_shell_shows_it_no_more() {
    let mut watcher = Watcher::watching();
    let facts = thread(vec![run(1, "completed")], vec![]);
    watcher.reads(&facts);
    watcher.tracker.handle_row(&row(&run(1, "completed"), 1), watcher.now);
    assert_eq!(watcher.asks(), None);
    watcher.tracker.handle_row_missing();
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.reads(&facts);
    // That it is still away is nothing new.
    watcher.tracker.handle_row_missing();
    assert_eq!(watcher.asks(), None);
}
