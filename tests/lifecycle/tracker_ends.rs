//! What can no longer end: deleted threads, lost and restored databases, hidden projects, messages that T3 lost.

use t3code_mcp::lifecycle::{EventKind, ReadNeed, Reason, RequestFacts, RunFacts, ThreadFacts};

use crate::support::{at, request, run, thread};
use crate::watcher::{Watcher, event, message, short, unwanted, wanted};

use EventKind::{Completed, Interrupted};

fn deleted(facts: ThreadFacts) -> ThreadFacts {
    ThreadFacts { deleted: true, ..facts }
}

/// A watcher of a watched thread with a run at work, a queued one and a question.
fn busy() -> Watcher {
    let mut watcher = Watcher::watching();
    let asked = request("q", "user_input", 1);
    assert_eq!(
        watcher
            .reads(&thread(vec![run(1, "running"), run(2, "queued")], vec![asked]))
            .len(),
        1
    );
    watcher
}

#[test]
fn what_was_open_when_the_thread_was_deleted_is_told_once_and_what_ended_before_as_it_ended() {
    let mut watcher = busy();
    let told = watcher.reads(&deleted(thread(vec![run(1, "completed"), run(2, "running")], vec![])));
    let expected = [event(Completed, 1, "A"), event(Interrupted, 2, "A")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(
        told.iter().map(|told| told.reason).collect::<Vec<_>>(),
        [None, Some(Reason::Gone)]
    );
    assert!(watcher.tracker.is_idle_forever());
    assert_eq!(
        watcher.reads(&deleted(thread(vec![run(1, "completed"), run(2, "completed")], vec![]))),
        []
    );
}

#[test]
fn a_thread_that_t3_no_longer_knows_ends_what_was_open() {
    let mut watcher = busy();
    watcher.tracker.handle_not_found(watcher.now);
    let expected = [event(Interrupted, 1, "A"), event(Interrupted, 2, "A")];
    assert_eq!(watcher.told().iter().map(short).collect::<Vec<_>>(), expected);
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told(), []);
    assert!(watcher.tracker.is_idle_forever());
}

#[test]
fn a_404_before_the_receipt_is_settled_proves_nothing_and_afterwards_that_the_message_is_lost() {
    let mut watcher = Watcher::watching();
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told(), []);
    assert!(watcher.tracker.is_open());
    watcher.tracker.settle(&message("message-1"), false);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.tracker.handle_not_found(watcher.now);
    let told = watcher.told();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].kind, told[0].reason, &told[0].run),
        (Interrupted, Some(Reason::Gone), &None)
    );
    assert_eq!(told[0].message, Some(message("message-1")));
    assert!(watcher.tracker.is_idle_forever());
}

#[test]
fn a_404_of_a_thread_with_a_message_that_is_not_settled_ends_its_open_runs_only_when_it_is() {
    let mut watcher = busy();
    watcher.dispatch("message-3", wanted("B"));
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told(), []);
    watcher.tracker.settle(&message("message-3"), true);
    assert_eq!(watcher.asks(), Some(ReadNeed::Part));
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told().len(), 2);
}

#[test]
fn a_message_that_came_to_nothing_is_awaited_no_longer() {
    let mut watcher = Watcher::watching();
    watcher.tracker.settle(&message("message-1"), true);
    assert!(!watcher.tracker.is_open());
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told(), []);
    assert!(watcher.tracker.is_idle_forever());
}

#[test]
fn a_message_that_t3_took_is_missed_only_after_a_while_and_in_the_whole_thread() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.tracker.settle(&message("message-2"), false);
    let facts = thread(vec![run(1, "completed")], vec![]);
    assert_eq!(watcher.reads(&facts), []);
    let due = watcher.tracker.poll_timeout().unwrap();
    watcher.now = due;
    watcher.tracker.handle_time(due);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    assert_eq!(watcher.reads_part(&facts), []);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    let told = watcher.reads(&facts);
    assert_eq!(
        told.iter().map(|told| told.message.clone()).collect::<Vec<_>>(),
        [Some(message("message-2"))]
    );
    assert!(!watcher.tracker.is_open());
}

#[test]
fn a_message_of_which_nobody_knows_whether_t3_took_it_is_not_missed() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.passes(1000);
    assert_eq!(watcher.reads(&thread(vec![run(1, "completed")], vec![])), []);
    assert!(watcher.tracker.is_open());
}

#[test]
fn a_message_that_is_there_and_has_no_run_yet_is_not_missed() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(vec![run(1, "completed")], vec![]));
    watcher.dispatch("message-2", wanted("B"));
    watcher.tracker.settle(&message("message-2"), false);
    watcher.messages.push((message("message-2"), None));
    for _ in 0..3 {
        watcher.passes(100);
        assert_eq!(watcher.reads(&thread(vec![run(1, "completed")], vec![])), []);
        assert!(watcher.tracker.poll_timeout().unwrap() > watcher.now);
    }
    watcher.belongs("message-2", 2);
    let told = watcher.reads(&thread(vec![run(1, "completed"), run(2, "completed")], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 2, "B")]);
}

#[test]
fn a_hidden_project_or_removed_machine_is_told_once_and_what_comes_later_is_not() {
    let mut watcher = busy();
    watcher.tracker.handle_not_visible(watcher.now);
    let told = watcher.told();
    let expected = [event(Interrupted, 1, "A"), event(Interrupted, 2, "A")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert!(
        told.iter()
            .all(|told| told.reason == Some(Reason::NotVisible) && told.state == "interrupted")
    );
    // It is shown again, and the runs had gone on.
    watcher.restarts();
    let told = watcher.reads(&thread(
        vec![run(1, "completed"), run(2, "running"), run(3, "completed")],
        vec![],
    ));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 3, "A")]);
}

#[test]
fn a_database_that_was_restored_under_the_same_url_ends_what_it_lacks_and_its_new_runs_are_other_runs() {
    let mut watcher = Watcher::watching();
    watcher.reads(&thread(
        vec![run(1, "completed"), run(2, "running"), run(3, "queued")],
        vec![],
    ));
    watcher.restarts();
    watcher.away(1000);
    // From before run 2; since then another run 2 was dispatched, and it ended.
    let other = RunFacts {
        requested_at: at(5000),
        completed_at: Some(at(5001)),
        ..run(2, "failed")
    };
    let told = watcher.reads(&thread(vec![run(1, "completed"), other.clone()], vec![]));
    let expected = [
        event(Interrupted, 2, "A"),
        event(Interrupted, 3, "A"),
        event(EventKind::Failed, 2, "A"),
    ];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(
        told[0].run.as_ref().unwrap().requested_at,
        run(2, "running").requested_at
    );
    assert_eq!(told[2].run.as_ref().unwrap().requested_at, at(5000));
    assert_ne!(told[0].parts(), told[2].parts());
    assert_eq!(watcher.reads(&thread(vec![run(1, "completed"), other], vec![])), []);
}

#[test]
fn a_request_of_a_restored_database_with_an_id_that_was_used_before_is_another_request() {
    let mut watcher = busy();
    watcher.away(1000);
    let other = RunFacts {
        requested_at: at(5000),
        ..run(1, "running")
    };
    let asked = RequestFacts {
        created_at: at(5001),
        ..request("q", "user_input", 1)
    };
    let told = watcher.reads(&thread(vec![other], vec![asked]));
    let expected = [
        event(Interrupted, 1, "A"),
        event(Interrupted, 2, "A"),
        event(EventKind::Question, 1, "A"),
    ];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn another_environment_under_the_machines_name_ends_what_was_open_and_its_copy_is_not_told_again() {
    let mut watcher = busy();
    watcher.tracker.handle_replaced(watcher.now);
    let told = watcher.told();
    let expected = [event(Interrupted, 1, "A"), event(Interrupted, 2, "A")];
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), expected);
    assert!(told.iter().all(|told| told.reason == Some(Reason::Gone)));
    watcher.sequence = 0;
    let told = watcher.reads(&thread(
        vec![run(1, "completed"), run(2, "cancelled"), run(3, "completed")],
        vec![],
    ));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 3, "A")]);
}

#[test]
fn what_nobody_watches_goes_without_a_word() {
    let mut watcher = Watcher::launched(&[("message-1", unwanted())]);
    watcher.belongs("message-1", 1);
    watcher.dispatch("message-2", unwanted());
    watcher.tracker.settle(&message("message-2"), false);
    watcher.reads(&thread(vec![run(1, "running")], vec![]));
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(watcher.told(), []);
    assert!(watcher.tracker.is_idle_forever());
}

#[test]
fn events_are_told_apart_by_run_time_kind_and_what_they_are_about_and_the_form_never_changes() {
    let mut watcher = busy();
    watcher.tracker.handle_unreachable(at(7), watcher.now);
    let away = watcher.told();
    assert_eq!(
        away[0].parts(),
        [
            "run-1",
            "2027-01-15T08:01:40Z",
            "unreachable",
            "away since 2027-01-15T08:00:07Z"
        ]
    );
    let told = watcher.reads(&thread(vec![run(1, "completed"), run(2, "queued")], vec![]));
    assert_eq!(told[0].parts(), ["run-1", "2027-01-15T08:01:40Z", "completed", ""]);
    watcher.dispatch("message-9", wanted("A"));
    watcher.tracker.settle(&message("message-9"), false);
    watcher.tracker.handle_not_found(watcher.now);
    assert_eq!(
        watcher.told().last().unwrap().parts(),
        ["", "", "interrupted", "message message-9"]
    );
    let mut watcher = Watcher::watching();
    let told = watcher.reads(&thread(vec![run(1, "running")], vec![request("q", "user_input", 1)]));
    assert_eq!(told[0].parts(), ["run-1", "2027-01-15T08:01:40Z", "question", "q"]);
}
