//! To whom runs are told: those that are queued, promoted, steered, continued, dispatched by nobody; and switching that on and off.

use t3code_mcp::lifecycle::{EventKind, ReadFacts, ReadNeed, RunFacts, RunState, Tracker};

use crate::support::{at, request, run, run_id, thread, unqueued};
use crate::watcher::{LIMITS, Watcher, event, message, short, thread_id, unwanted, wanted};

use EventKind::{Completed, Interrupted, Question};

#[test]
fn a_queued_run_that_is_cancelled_while_another_works_has_no_event_of_its_own() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    assert_eq!(watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![])), []);
    let told = watcher.reads(&thread(vec![run(1, "completed"), unqueued(2)], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "A")]);
    assert_eq!(watcher.kept().runs, []);
}

#[test]
fn a_run_that_seemed_taken_off_the_queue_and_had_worked_after_all_is_still_told() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    assert_eq!(watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![])), []);
    let told = watcher.reads(&thread(vec![run(1, "running"), run(2, "cancelled")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 2, "A")]);
}

#[test]
fn a_promoted_run_ends_without_an_event_and_its_watch_follows_its_message() {
    let mut watcher = Watcher::watching();
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 2);
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    // Between T3's writes of a promotion: the run is cancelled, its message has not moved yet.
    assert_eq!(watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![])), []);
    watcher.restarts();
    watcher.belongs("message-2", 1);
    let promoted = RunFacts {
        promoted_into: Some(run_id(1)),
        ..unqueued(2)
    };
    let told = watcher.reads(&thread(vec![run(1, "completed"), promoted], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "B")]);
}

#[test]
fn a_message_that_moved_into_a_run_speaks_for_it_once_and_not_against_a_later_steer() {
    let mut watcher = Watcher::watching();
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 2);
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    watcher.belongs("message-2", 1);
    watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![]));
    watcher.dispatch("message-3", wanted("C"));
    watcher.belongs("message-3", 1);
    watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![]));
    watcher.reads(&thread(vec![run(1, "running"), unqueued(2)], vec![]));
    let told = watcher.reads(&thread(vec![run(1, "completed"), unqueued(2)], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "C")]);
}

#[test]
fn a_run_that_was_promoted_before_anybody_saw_it_hands_its_watch_to_the_run_that_its_message_is_in() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 1);
    let promoted = RunFacts {
        promoted_into: Some(run_id(1)),
        ..unqueued(2)
    };
    let told = watcher.reads(&thread(vec![run(1, "completed"), promoted], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "B")]);
}

#[test]
fn a_queued_run_of_somebody_elses_that_is_promoted_takes_no_watch_away() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.dispatch("message-2", unwanted());
    watcher.belongs("message-2", 2);
    watcher.reads(&thread(
        vec![run(1, "running"), run(2, "queued"), run(3, "queued")],
        vec![],
    ));
    watcher.belongs("message-3", 1);
    let promoted = RunFacts {
        promoted_into: Some(run_id(1)),
        ..unqueued(3)
    };
    let told = watcher.reads(&thread(vec![run(1, "completed"), run(2, "queued"), promoted], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "A")]);
}

#[test]
fn a_steered_or_restarted_run_keeps_its_id_and_is_reported_to_who_steered_it_last() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 1);
    assert_eq!(watcher.reads(&thread(vec![run(1, "starting")], vec![])), []);
    watcher.restarts();
    watcher.dispatch("message-3", wanted("C"));
    watcher.belongs("message-3", 1);
    assert_eq!(watcher.reads(&thread(vec![run(1, "starting")], vec![])), []);
    let told = watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "C")]);
}

#[test]
fn a_steer_can_switch_the_watch_of_its_run_off() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.dispatch("message-2", unwanted());
    watcher.belongs("message-2", 1);
    assert_eq!(watcher.reads(&thread(vec![run(1, "completed")], vec![])), []);
}

#[test]
fn where_a_run_was_steered_and_took_a_promoted_message_over_the_one_that_t3_names_counts() {
    // Whether it was seen in the queue before makes no difference.
    for (named, origin, seen) in [
        ("message-2", "B", true),
        ("message-2", "B", false),
        ("message-3", "C", true),
        ("message-3", "C", false),
    ] {
        let mut watcher = Watcher::watching();
        watcher.dispatch("message-2", wanted("B"));
        watcher.belongs("message-2", 2);
        if seen {
            watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
        }
        watcher.dispatch("message-3", wanted("C"));
        watcher.belongs("message-2", 1);
        watcher.belongs("message-3", 1);
        let end = RunFacts {
            user_message: message(named),
            ..run(1, "completed")
        };
        let promoted = RunFacts {
            promoted_into: Some(run_id(1)),
            ..unqueued(2)
        };
        let told = watcher.reads(&thread(vec![end, promoted], vec![]));
        assert_eq!(
            told.iter().map(short).collect::<Vec<_>>(),
            [event(Completed, 1, origin)]
        );
    }
}

#[test]
fn of_a_steer_and_a_promotion_that_are_seen_at_once_the_later_decides_though_t3_names_somebody_elses_message() {
    for (promoted_at, origins) in [(190, vec![event(Completed, 1, "B")]), (170, vec![])] {
        let mut watcher = Watcher::watching();
        watcher.dispatch("message-2", wanted("B"));
        watcher.belongs("message-2", 2);
        watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
        watcher.now = at(180);
        watcher.dispatch("message-3", unwanted());
        watcher.belongs("message-2", 1);
        watcher.belongs("message-3", 1);
        let end = RunFacts {
            user_message: message("somebody-else"),
            completed_at: Some(at(200)),
            ..run(1, "completed")
        };
        let promoted = RunFacts {
            promoted_into: Some(run_id(1)),
            completed_at: Some(at(promoted_at)),
            ..unqueued(2)
        };
        let told = watcher.reads(&thread(vec![end, promoted], vec![]));
        assert_eq!(told.iter().map(short).collect::<Vec<_>>(), origins);
    }
}

#[test]
fn a_run_that_nobody_dispatched_is_told_to_who_dispatched_last_before_it() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 2);
    let told = watcher.reads(&thread(
        vec![run(1, "completed"), run(2, "completed"), run(3, "completed")],
        vec![],
    ));
    let expected = [event(Completed, 2, "B"), event(Completed, 3, "B")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn unwatched_runs_are_followed_and_told_to_nobody() {
    let mut watcher = Watcher::launched(&[("message-1", unwanted())]);
    watcher.belongs("message-1", 1);
    let facts = thread(vec![run(1, "running")], vec![request("q", "user_input", 1)]);
    assert_eq!(watcher.reads(&facts), []);
    assert_eq!(watcher.kept().runs[0].state, RunState::Running);
    assert!(!watcher.tracker.is_open());
    assert_eq!(watcher.reads(&thread(vec![run(1, "completed")], vec![])), []);
    assert!(watcher.tracker.is_idle_forever());
}

#[test]
fn a_watch_that_is_switched_on_tells_a_question_that_was_pending_before_and_then_the_end() {
    let facts = thread(
        vec![run(1, "completed"), run(2, "running")],
        vec![request("q", "user_input", 2)],
    );
    let read = ReadFacts {
        sequence: 7,
        updated_at: at(0),
        partial: false,
        facts: &facts,
        messages: &[],
    };
    let tracker = Tracker::begin(thread_id(), vec![], None, &read, LIMITS, at(2000)).unwrap();
    let mut watcher = Watcher::of(tracker);
    watcher.sequence = 7;
    assert_eq!(watcher.told(), []);
    assert!(watcher.tracker.is_idle_forever());
    watcher.tracker.set_watch(true, wanted("A"));
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    let told = watcher.reads(&facts);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Question, 2, "A")]);
    // Off and on again is no second question.
    watcher.tracker.set_watch(false, unwanted());
    assert_eq!(watcher.reads(&facts), []);
    watcher.tracker.set_watch(true, wanted("B"));
    assert_eq!(watcher.reads(&facts), []);
    let told = watcher.reads(&thread(
        vec![run(1, "completed"), run(2, "completed"), run(3, "completed")],
        vec![],
    ));
    let expected = [event(Completed, 2, "B"), event(Completed, 3, "B")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn a_thread_that_is_switched_on_tells_runs_that_were_dispatched_unwatched_too() {
    let mut watcher = Watcher::launched(&[("message-1", unwanted())]);
    watcher.belongs("message-1", 1);
    watcher.tracker.set_watch(true, wanted("A"));
    watcher.dispatch("message-2", unwanted());
    watcher.belongs("message-2", 2);
    let told = watcher.reads(&thread(vec![run(1, "completed"), run(2, "completed")], vec![]));
    let expected = [event(Completed, 1, "A"), event(Completed, 2, "-")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn a_run_that_is_watched_already_stays_whose_it_is_when_the_thread_is_switched_on() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.tracker.set_watch(true, wanted("B"));
    let told = watcher.reads(&thread(vec![run(1, "completed"), run(2, "completed")], vec![]));
    let expected = [event(Completed, 1, "A"), event(Completed, 2, "B")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn the_run_of_a_message_is_named_once_for_its_receipt() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    let started = watcher.tracker.poll_started().unwrap();
    assert_eq!((started.message, started.run.id), (message("message-1"), run_id(1)));
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    assert_eq!(watcher.tracker.poll_started(), None);
    // Told again, a dispatch changes nothing.
    watcher.tracker.poll_dirty();
    watcher.dispatch("message-1", wanted("A"));
    assert!(!watcher.tracker.poll_dirty());
}

#[test]
fn a_message_that_went_into_the_running_turn_decides_also_where_both_are_seen_at_once() {
    let mut watcher = Watcher::watching();
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 1);
    // T3 names the first message still.
    let told = watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "B")]);
}

#[test]
fn a_thread_with_an_open_run_of_ours_is_kept_although_nobody_wants_to_be_told_of_it() {
    let mut watcher = Watcher::launched(&[("message-1", unwanted())]);
    watcher.belongs("message-1", 1);
    watcher.reads(&thread(vec![run(1, "queued")], vec![]));
    assert!(!watcher.tracker.is_idle_forever());
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    assert!(watcher.tracker.is_idle_forever());
}
