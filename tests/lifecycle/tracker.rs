//! A thread that is followed: what is told of it when one was away, or T3 was restarted meanwhile.

use t3code_mcp::lifecycle::{EventKind, RequestFacts, RunFacts};

use crate::support::{at, request, run, run_id, thread, unqueued};
use crate::watcher::{Watcher, event, short, unwanted, wanted};

use EventKind::{Approval, Completed, Failed, Interrupted, Question};

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
