//! A thread that is followed: what is told of it, to whom, and how often, when one was away, T3 was restarted, the database is
//! another one, or nothing moves any more.

use t3code_mcp::lifecycle::{Baseline, EventKind, ReadFacts, ReadNeed, RequestFacts, RunFacts, RunState, Tracker};

use crate::support::{at, request, run, run_id, thread, unqueued};
use crate::watcher::{LIMITS, Watcher, dispatched, event, message, short, thread_id, unwanted, wanted};

use EventKind::{Approval, Completed, Failed, Interrupted, Question};

// ------------------------------------------------------------------------------------------------------- while nobody looked

#[test]
fn several_runs_that_came_and_went_while_we_were_away_are_each_told_once_oldest_first() {
    let mut watcher = Watcher::watching();
    watcher.away(1000);
    let facts = thread(
        vec![run(3, "failed"), run(1, "completed"), run(2, "interrupted")],
        vec![],
    );
    let told = watcher.reads(&facts);
    let expected = [
        event(Completed, 1, "A"),
        event(Interrupted, 2, "A"),
        event(Failed, 3, "A"),
    ];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    watcher.restarts();
    assert_eq!(watcher.reads(&facts), []);
}

#[test]
fn a_run_that_was_interrupted_and_another_started_while_we_were_away_are_told_apart() {
    let mut watcher = Watcher::watching();
    assert_eq!(watcher.reads(&thread(vec![run(1, "running")], vec![])), []);
    watcher.away(60);
    let told = watcher.reads(&thread(vec![run(1, "interrupted"), run(2, "running")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
    assert_eq!(told[0].at, run(1, "interrupted").completed_at.unwrap());
    assert!(watcher.tracker.is_open());
}

#[test]
fn runs_that_end_out_of_order_are_each_told_once() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "running")], vec![]));
    let told = watcher.reads(&thread(vec![run(1, "running"), run(2, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 2, "A")]);
    watcher.restarts();
    let told = watcher.reads(&thread(vec![run(1, "failed"), run(2, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Failed, 1, "A")]);
}

#[test]
fn ends_of_one_read_are_told_by_the_time_of_their_end_and_what_was_asked_before_the_end_of_its_run() {
    let mut watcher = Watcher::watching();
    let late = RunFacts {
        completed_at: Some(at(900)),
        ..run(1, "completed")
    };
    let outlives = RequestFacts {
        capability: "message".to_owned(),
        created_at: at(901),
        ..request("q", "user_input", 1)
    };
    let told = watcher.reads(&thread(vec![late, run(2, "failed")], vec![outlives]));
    let expected = [event(Failed, 2, "A"), event(Question, 1, "A"), event(Completed, 1, "A")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn a_question_that_was_asked_and_answered_while_we_were_away_makes_no_event() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.away(60);
    let answered = RequestFacts {
        status: "resolved".to_owned(),
        ..request("q", "user_input", 1)
    };
    assert_eq!(watcher.reads(&thread(vec![run(1, "running")], vec![answered])), []);
    assert_eq!(watcher.kept().requests, []);
}

#[test]
fn a_question_that_is_still_open_after_we_were_away_is_told_once() {
    let mut watcher = Watcher::watching();
    watcher.away(60);
    let facts = thread(vec![run(1, "running")], vec![request("q", "user_input", 1)]);
    let told = watcher.reads(&facts);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Question, 1, "A")]);
    assert_eq!((told[0].state, told[0].at), ("question", at(1000)));
    watcher.away(60);
    assert_eq!(watcher.reads(&facts), []);
    watcher.restarts();
    assert_eq!(watcher.reads(&facts), []);
}

#[test]
fn two_requests_at_once_are_each_told_once_and_their_answers_end_nothing() {
    let mut watcher = Watcher::watching();
    let question = RequestFacts {
        created_at: at(999),
        ..request("q", "user_input", 1)
    };
    let facts = thread(vec![run(1, "running")], vec![request("a", "command", 1), question]);
    let told = watcher.reads(&facts);
    assert_eq!(
        told.iter()
            .map(|told| (told.kind, told.request.as_ref().unwrap().0.as_str()))
            .collect::<Vec<_>>(),
        [(Question, "q"), (Approval, "a")]
    );
    let mut half = facts.clone();
    "resolved".clone_into(&mut half.requests[0].status);
    assert_eq!(watcher.reads(&half), []);
    assert_eq!(watcher.reads(&half), []);
}

#[test]
fn a_question_that_outlives_its_run_is_told_once_although_its_run_is_forgotten() {
    let mut watcher = Watcher::watching();
    let outlives = RequestFacts {
        capability: "message".to_owned(),
        ..request("q", "user_input", 1)
    };
    let facts = thread(vec![run(1, "completed")], vec![outlives]);
    let told = watcher.reads(&facts);
    assert_eq!(
        told.iter().map(|told| told.kind).collect::<Vec<_>>(),
        [Question, Completed]
    );
    watcher.restarts();
    assert_eq!(watcher.reads(&facts), []);
}

#[test]
fn after_days_away_exactly_what_is_new_is_told() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.restarts();
    watcher.away(5 * 24 * 3600);
    let facts = thread((1..=40).map(|ordinal| run(ordinal, "completed")).collect(), vec![]);
    let told = watcher.reads(&facts);
    let expected: Vec<_> = (2..=40).map(|ordinal| event(Completed, ordinal, "A")).collect();
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert!(watcher.kept().runs.is_empty());
}

// --------------------------------------------------------------------------------------------------------------- T3 restarted

/// Run 1 worked and run 2 waited as T3 was killed, and both ended at this moment.
fn killed() -> Vec<RunFacts> {
    let end = Some(at(500));
    vec![
        RunFacts {
            completed_at: end,
            ..run(1, "cancelled")
        },
        RunFacts {
            completed_at: end,
            ..unqueued(2)
        },
    ]
}

#[test]
fn what_ran_and_what_waited_when_t3_was_restarted_is_told_as_interrupted() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    watcher.away(10);
    let told = watcher.reads(&thread(killed(), vec![]));
    let expected = [event(Interrupted, 1, "A"), event(Interrupted, 2, "A")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(told.iter().map(|told| told.state).collect::<Vec<_>>(), ["cancelled"; 2]);
}

#[test]
fn a_run_that_is_taken_off_the_queue_while_we_look_is_told_to_nobody_whatever_else_ends_then() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    let told = watcher.reads(&thread(killed(), vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
}

#[test]
fn a_run_that_was_taken_off_the_queue_long_before_the_restart_is_told_to_nobody() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    watcher.away(10);
    let mut runs = killed();
    runs[1].completed_at = Some(at(494));
    let told = watcher.reads(&thread(runs, vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
}

#[test]
fn a_run_of_which_others_survived_was_not_cancelled_by_a_restart() {
    let mut watcher = Watcher::watching();
    let queue = vec![run(1, "running"), run(2, "queued"), run(3, "queued")];
    watcher.reads(&thread(queue, vec![]));
    watcher.away(10);
    let mut runs = killed();
    runs.push(run(3, "queued"));
    let told = watcher.reads(&thread(runs, vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
}

#[test]
fn what_t3_holds_after_a_restart_is_open_and_told_when_it_ends() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    watcher.away(10);
    let held = RunFacts {
        queue_held: true,
        ..run(2, "queued")
    };
    let told = watcher.reads(&thread(vec![run(1, "cancelled"), held], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
    assert!(watcher.tracker.is_open());
    let told = watcher.reads(&thread(vec![run(1, "cancelled"), run(2, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 2, "A")]);
}

#[test]
fn a_run_that_t3_continues_after_a_restart_says_where_and_its_continuation_inherits_the_watch() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    // Meanwhile another conversation dispatched, so that the thread's latest is not the run's.
    watcher.dispatch("message-2", wanted("B"));
    watcher.belongs("message-2", 2);
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    watcher.away(10);
    let goes_on = |ordinal, of, status| RunFacts {
        continuation_of: Some(run_id(of)),
        ..run(ordinal, status)
    };
    let told = watcher.reads(&thread(
        vec![
            run(1, "cancelled"),
            unqueued(2),
            goes_on(3, 1, "running"),
            goes_on(4, 2, "queued"),
        ],
        vec![],
    ));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 1, "A")]);
    assert_eq!(told[0].continues_in, Some(run_id(3)));
    let told = watcher.reads(&thread(
        vec![
            run(1, "cancelled"),
            unqueued(2),
            goes_on(3, 1, "completed"),
            goes_on(4, 2, "completed"),
        ],
        vec![],
    ));
    let expected = [event(Completed, 3, "A"), event(Completed, 4, "B")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn a_run_that_a_usage_limit_stopped_is_told_and_the_one_that_resumes_it_by_itself_hours_later_is_told_to_the_same() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    let told = watcher.reads(&thread(vec![run(1, "failed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Failed, 1, "A")]);
    // Another conversation in between.
    watcher.dispatch("message-2", unwanted());
    watcher.belongs("message-2", 2);
    watcher.reads(&thread(vec![run(1, "failed"), run(2, "completed")], vec![]));
    watcher.restarts();
    watcher.away(5 * 3600);
    let resumed = RunFacts {
        continuation_of: Some(run_id(1)),
        ..run(3, "completed")
    };
    let told = watcher.reads(&thread(vec![run(1, "failed"), run(2, "completed"), resumed], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 3, "A")]);
}

// --------------------------------------------------------------------------------------------------- queue, steer and restart

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
    for (named, origin) in [("message-2", "B"), ("message-3", "C")] {
        let mut watcher = Watcher::watching();
        watcher.dispatch("message-2", wanted("B"));
        watcher.belongs("message-2", 2);
        watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
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

// ------------------------------------------------------------------------------------------------------------- whose it is

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
    assert!(watcher.tracker.is_idle_forever());
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

// ------------------------------------------------------------------------------------------------------- where history ends

#[test]
fn of_a_thread_that_was_there_before_only_what_is_open_or_ours_is_followed() {
    let facts = thread(
        vec![
            run(1, "failed"),
            run(2, "running"),
            run(3, "completed"),
            run(4, "completed"),
        ],
        vec![],
    );
    let messages = [(message("message-4"), Some(run_id(4)))];
    let read = ReadFacts {
        sequence: 1,
        updated_at: at(0),
        partial: false,
        facts: &facts,
        messages: &messages,
    };
    let sent = vec![dispatched("message-4", wanted("A"), 1)];
    let mut watcher = Watcher::of(Tracker::begin(thread_id(), sent, None, &read, LIMITS, at(2000)).unwrap());
    watcher.sequence = 1;
    assert_eq!(
        watcher.told().iter().map(short).collect::<Vec<_>>(),
        [event(Completed, 4, "A")]
    );
    let followed: Vec<_> = watcher
        .kept()
        .runs
        .iter()
        .map(|run| (run.ordinal, run.watch.on))
        .collect();
    assert_eq!(followed, [(2, false)]);
    assert_eq!(watcher.reads(&thread(vec![run(2, "completed")], vec![])), []);
}

#[test]
fn where_a_receipt_says_where_history_ends_what_came_and_went_since_is_told() {
    let facts = thread(
        vec![run(1, "completed"), run(2, "completed"), run(3, "completed")],
        vec![],
    );
    let messages = [(message("message-2"), Some(run_id(2)))];
    let read = ReadFacts {
        sequence: 1,
        updated_at: at(0),
        partial: false,
        facts: &facts,
        messages: &messages,
    };
    let baseline = Some(Baseline {
        ordinal: 1,
        requested_at: run(1, "completed").requested_at,
    });
    let sent = vec![dispatched("message-2", wanted("A"), 1)];
    let mut watcher = Watcher::of(Tracker::begin(thread_id(), sent, baseline, &read, LIMITS, at(2000)).unwrap());
    let expected = [event(Completed, 2, "A"), event(Completed, 3, "A")];
    assert_eq!(watcher.told().iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn one_cannot_begin_with_a_part_of_a_thread() {
    let facts = thread(vec![run(9, "running")], vec![]);
    let read = ReadFacts {
        sequence: 1,
        updated_at: at(0),
        partial: true,
        facts: &facts,
        messages: &[],
    };
    let begun = Tracker::begin(thread_id(), vec![], None, &read, LIMITS, at(0));
    assert_eq!(begun.err(), Some(ReadNeed::Whole));
}

#[test]
fn a_part_that_lacks_an_open_run_is_not_gone_by_and_the_whole_is_asked_for() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![]));
    let before = watcher.kept();
    assert_eq!(
        watcher.reads_part(&thread(vec![run(2, "completed"), run(3, "completed")], vec![])),
        []
    );
    assert_eq!(watcher.kept(), before);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    let told = watcher.reads(&thread(
        vec![run(1, "failed"), run(2, "completed"), run(3, "completed")],
        vec![],
    ));
    let expected = [
        event(Failed, 1, "A"),
        event(Completed, 2, "A"),
        event(Completed, 3, "A"),
    ];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn a_part_that_may_lack_runs_that_came_and_went_is_not_gone_by() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    // 3 and 4 do not lead down to 1, and neither does 4 alone, with 1 or 2 there or not.
    for part in [[3, 4], [2, 4], [1, 4]] {
        let part = part.map(|ordinal| run(ordinal, "completed")).to_vec();
        assert_eq!(watcher.reads_part(&thread(part, vec![])), []);
        assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    }
    let part = [1, 2, 3, 4].map(|ordinal| run(ordinal, "completed")).to_vec();
    assert_eq!(watcher.reads_part(&thread(part, vec![])).len(), 3);
    assert_eq!(watcher.asks(), None);
}

#[test]
fn a_run_that_ended_and_that_a_part_lacks_is_still_known_when_t3_goes_on_with_it() {
    let mut watcher = Watcher::watching();
    watcher.dispatch("message-2", unwanted());
    watcher.belongs("message-2", 2);
    assert_eq!(
        watcher
            .reads(&thread(vec![run(1, "failed"), run(2, "completed")], vec![]))
            .len(),
        1
    );
    assert_eq!(watcher.reads_part(&thread(vec![run(2, "completed")], vec![])), []);
    assert_eq!(watcher.asks(), None);
    let resumed = RunFacts {
        continuation_of: Some(run_id(1)),
        ..run(3, "completed")
    };
    let told = watcher.reads_part(&thread(vec![run(2, "completed"), resumed], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 3, "A")]);
}

#[test]
fn a_run_with_a_later_ordinal_is_new_whatever_the_clock_of_t3_says() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    let before = RunFacts {
        requested_at: at(5),
        ..run(2, "completed")
    };
    let told = watcher.reads(&thread(vec![run(1, "completed"), before], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 2, "A")]);
}

#[test]
fn a_part_of_a_restored_database_may_lack_runs_with_ordinals_that_were_used_before() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(
        [1, 2, 3, 4].map(|ordinal| run(ordinal, "completed")).to_vec(),
        vec![],
    ));
    watcher.away(1000);
    let again = |ordinal: u64| RunFacts {
        requested_at: at(5000 + i64::try_from(ordinal).unwrap()),
        ..run(ordinal, "completed")
    };
    assert_eq!(watcher.reads_part(&thread(vec![again(4), again(5)], vec![])), []);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    let told = watcher.reads(&thread(
        vec![run(1, "completed"), again(2), again(3), again(4), again(5)],
        vec![],
    ));
    assert_eq!(told.len(), 4);
}
