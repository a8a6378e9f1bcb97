//! What time makes of a thread that is followed: what finishes or stands still for too long, and machines that are away.

use jiff::SignedDuration;
use t3code_mcp::lifecycle::{
    EventKind, Outage, ReadNeed, RowFacts, RunFacts, ThreadFacts, ThreadState, Told, fold_presuming,
};

use crate::support::{at, request, run, thread};
use crate::watcher::{Watcher, event, row, short, unwanted};

use EventKind::{Completed, Failed, Stalled, Unreachable};

/// A read is asked for at the moment that the tracker named; the thread is still like this.
fn at_its_time(watcher: &mut Watcher, facts: &ThreadFacts) -> Vec<Told> {
    let changed = watcher.now;
    let due = watcher.tracker.poll_timeout().expect("something is due");
    watcher.now = due.max(watcher.now);
    watcher.tracker.handle_time(watcher.now);
    assert_eq!(
        watcher.asks(),
        Some(ReadNeed::Part),
        "nothing is concluded without a read"
    );
    assert_eq!(watcher.told(), []);
    watcher.reads_unchanged(facts, changed)
}

#[test]
fn a_run_that_finishes_for_too_long_counts_as_completed_and_the_truth_makes_no_second_event() {
    let mut watcher = Watcher::watching();
    let finishing = thread(vec![run(1, "waiting")], vec![]);
    assert_eq!(watcher.reads(&finishing), []);
    let begun = watcher.now;
    let told = at_its_time(&mut watcher, &finishing);
    assert_eq!(watcher.now.duration_since(begun), SignedDuration::from_mins(3));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "A")]);
    assert!(told[0].unconfirmed);
    // What views show meanwhile, and afterwards.
    let presumed: Vec<_> = watcher.tracker.finish_timed_out().cloned().collect();
    assert_eq!(fold_presuming(&finishing, &presumed).state, ThreadState::Completed);
    watcher.restarts();
    assert_eq!(watcher.reads(&finishing), []);
    assert_eq!(watcher.tracker.finish_timed_out().count(), 1);
    let truth = thread(vec![run(1, "failed")], vec![]);
    // The row that shows it is reason enough to read, although nothing is open.
    watcher
        .tracker
        .handle_row(&row(&run(1, "failed"), watcher.sequence + 1), watcher.now);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    assert_eq!(watcher.reads(&truth), []);
    assert_eq!(watcher.tracker.finish_timed_out().count(), 0);
    assert_eq!(fold_presuming(&truth, &[]).state, ThreadState::Failed);
}

#[test]
fn a_run_that_was_steered_while_it_finished_begins_its_time_anew() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "waiting")], vec![]));
    watcher.passes(170);
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.reads(&thread(vec![run(1, "waiting")], vec![]));
    watcher.passes(100);
    assert_eq!(watcher.reads(&thread(vec![run(1, "waiting")], vec![])), []);
}

#[test]
fn the_time_in_which_the_machine_was_away_does_not_count() {
    let mut watcher = Watcher::watching();
    let finishing = thread(vec![run(1, "waiting")], vec![]);
    watcher.reads(&finishing);
    watcher.passes(100);
    watcher.away(24 * 3600);
    assert_eq!(watcher.reads(&finishing), []);
    watcher.passes(100);
    assert_eq!(watcher.reads(&finishing).len(), 1);
}

#[test]
fn a_run_without_any_change_is_told_once_and_its_end_all_the_same() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    let begun = watcher.now;
    let told = at_its_time(&mut watcher, &works);
    assert_eq!(watcher.now.duration_since(begun), SignedDuration::from_mins(30));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Stalled, 1, "A")]);
    assert_eq!(told[0].state, "running");
    assert_eq!(watcher.tracker.poll_timeout(), None);
    // A change, a stop again, a restart: once a run.
    assert_eq!(watcher.reads(&works), []);
    watcher.restarts();
    assert_eq!(watcher.tracker.poll_timeout(), None);
    let told = watcher.reads(&thread(vec![run(1, "failed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Failed, 1, "A")]);
}

#[test]
fn any_change_of_the_row_puts_off_that_a_run_stands_still() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    watcher.passes(1700);
    let moved = RowFacts {
        updated_at: watcher.now,
        ..row(&run(1, "running"), 1)
    };
    watcher.tracker.handle_row(&moved, watcher.now);
    watcher.passes(200);
    assert_eq!(watcher.reads_unchanged(&works, moved.updated_at), []);
    watcher.passes(1700);
    assert_eq!(watcher.reads_unchanged(&works, moved.updated_at).len(), 1);
}

#[test]
fn a_run_does_not_stand_still_because_nobody_looked() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    let changed = watcher.now;
    watcher.passes(1700);
    watcher.away(24 * 3600);
    assert_eq!(watcher.reads_unchanged(&works, changed), []);
    watcher.passes(101);
    assert_eq!(watcher.reads_unchanged(&works, changed).len(), 1);
}

#[test]
fn a_change_that_a_part_shows_counts_although_the_part_is_not_enough() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    watcher.passes(1799);
    assert_eq!(watcher.reads_part(&thread(vec![run(2, "queued")], vec![])), []);
    let changed = watcher.now;
    watcher.passes(2);
    assert_eq!(watcher.reads_unchanged(&works, changed), []);
}

#[test]
fn a_run_that_waits_for_an_answer_or_for_another_run_does_not_stand_still() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![request("q", "user_input", 1)]));
    assert_eq!(watcher.tracker.poll_timeout(), None);
    let mut watcher = Watcher::watching();
    let queue = thread(vec![run(1, "running"), run(2, "queued")], vec![]);
    watcher.reads(&queue);
    let told = at_its_time(&mut watcher, &queue);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Stalled, 1, "A")]);
}

#[test]
fn a_run_in_a_queue_that_is_held_stands_still() {
    let mut watcher = Watcher::watching();
    let held = RunFacts {
        queue_held: true,
        ..run(1, "queued")
    };
    let held = thread(vec![held], vec![]);
    watcher.reads(&held);
    let told = at_its_time(&mut watcher, &held);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Stalled, 1, "A")]);
}

#[test]
fn an_outage_is_told_once_when_it_lasts_and_only_of_threads_with_watched_open_runs() {
    let mut outage = Outage::new(Some(SignedDuration::from_hours(1)), at(0));
    assert_eq!(outage.handle_back(), Some(at(0)));
    assert_eq!(outage.poll_timeout(), None);
    outage.handle_away(at(100));
    outage.handle_away(at(200));
    assert_eq!((outage.since(), outage.poll_timeout()), (Some(at(100)), Some(at(3700))));
    outage.handle_time(at(3699));
    assert_eq!(outage.poll_unreachable(), None);
    outage.handle_time(at(3700));
    assert_eq!(outage.poll_unreachable(), Some(at(100)));
    outage.handle_time(at(9000));
    assert_eq!((outage.poll_unreachable(), outage.poll_timeout()), (None, None));

    let mut never = Outage::new(None, at(0));
    never.handle_time(at(1_000_000));
    assert_eq!((never.poll_unreachable(), never.poll_timeout()), (None, None));

    let mut open = Watcher::watching();
    open.reads(&thread(vec![run(1, "queued"), run(2, "running")], vec![]));
    open.tracker.handle_unreachable(at(100), at(3700));
    let told = open.told();
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Unreachable, 2, "A")]);
    assert_eq!(told[0].away_since, Some(at(100)));
    // Nor after a restart of ours, for whom the outage begins later.
    open.restarts();
    open.tracker.handle_unreachable(at(4000), at(8000));
    assert_eq!(open.told(), []);

    let mut ended = Watcher::watching();
    ended.reads(&thread(vec![run(1, "completed")], vec![]));
    let mut unwatched = Watcher::launched(&[("message-1", unwanted())]);
    unwatched.belongs("message-1", 1);
    unwatched.reads(&thread(vec![run(1, "running")], vec![]));
    for quiet in [&mut ended, &mut unwatched] {
        quiet.tracker.handle_unreachable(at(100), at(3700));
        assert_eq!(quiet.told(), []);
    }
}

#[test]
fn the_next_outage_is_another_one() {
    let mut watcher = Watcher::watching();
    let works = thread(vec![run(1, "running")], vec![]);
    watcher.reads(&works);
    watcher.tracker.handle_unreachable(at(100), at(3700));
    let first = watcher.told();
    watcher.away(9000);
    watcher.tracker.handle_unreachable(at(20_000), at(30_000));
    let second = watcher.told();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first[0].parts(), second[0].parts());
}

#[test]
fn while_the_machine_is_away_nothing_is_concluded_but_that() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "waiting")], vec![]));
    watcher.passes(3600);
    for _ in 0..10 {
        watcher.tracker.handle_time(watcher.now);
        if watcher.asks().is_some() {
            watcher.tracker.handle_read_failed(watcher.now);
        }
        let due = watcher.tracker.poll_timeout().unwrap();
        assert!(due > watcher.now, "no spinning");
        watcher.now = due;
    }
    assert_eq!(watcher.told(), []);
}
