//! A thread that another program followed before: what had ended is history, the rest is told as that program would have.

use t3code_mcp::lifecycle::{EventKind, ReadFacts, ReadNeed, RunFacts, ThreadFacts, Tracker};
use t3code_mcp::protocol::MessageId;

use crate::support::{at, request, run, thread};
use crate::watcher::{LIMITS, Watcher, dispatched, event, message, short, thread_id, wanted};

use EventKind::{Completed, Failed, Question};

/// Taken over at second 250: between the end of the second run and the begin of the third.
fn taken_over(
    facts: &ThreadFacts,
    sent: &[&str],
    messages: &[(MessageId, Option<t3code_mcp::protocol::RunId>)],
) -> Watcher {
    let read = ReadFacts {
        sequence: 1,
        updated_at: at(250),
        partial: false,
        facts,
        messages,
    };
    let sent = sent.iter().map(|name| dispatched(name, wanted("ours"), 240)).collect();
    let tracker = Tracker::take_over(thread_id(), sent, wanted("theirs"), at(250), &read, LIMITS, at(1_000)).unwrap();
    Watcher::of(tracker)
}

fn told(watcher: &mut Watcher) -> Vec<String> {
    watcher.told().iter().map(|told| format!("{:?}", short(told))).collect()
}

fn expected(events: &[(EventKind, u64, &str)]) -> Vec<String> {
    events
        .iter()
        .map(|(kind, ordinal, origin)| format!("{:?}", event(*kind, *ordinal, origin)))
        .collect()
}

#[test]
fn what_had_ended_is_history_and_what_ended_since_or_is_open_is_told() {
    let facts = thread(
        vec![
            run(1, "completed"),
            run(2, "failed"),
            run(3, "failed"),
            run(4, "running"),
        ],
        vec![request("q", "user_input", 4)],
    );
    let mut watcher = taken_over(&facts, &[], &[]);
    assert_eq!(
        told(&mut watcher),
        expected(&[(Failed, 3, "theirs"), (Question, 4, "theirs")])
    );
    watcher.sequence = 1;
    let ended = thread(
        vec![
            run(1, "completed"),
            run(2, "failed"),
            run(3, "failed"),
            run(4, "completed"),
            run(5, "running"),
        ],
        vec![],
    );
    let next: Vec<_> = watcher
        .reads(&ended)
        .iter()
        .map(|told| format!("{:?}", short(told)))
        .collect();
    assert_eq!(next, expected(&[(Completed, 4, "theirs")]));
    // What somebody does there by hand is reported likewise.
    let last = watcher.reads(&thread(vec![run(4, "completed"), run(5, "completed")], vec![]));
    assert_eq!(
        last.iter().map(short).collect::<Vec<_>>(),
        [event(Completed, 5, "theirs")]
    );
}

#[test]
fn a_run_out_of_order_that_is_open_still_is_no_history() {
    let facts = thread(vec![run(1, "running"), run(2, "completed")], vec![]);
    let mut watcher = taken_over(&facts, &[], &[]);
    assert_eq!(told(&mut watcher), Vec::<String>::new());
    watcher.sequence = 1;
    let last = watcher.reads(&thread(vec![run(1, "completed"), run(2, "completed")], vec![]));
    assert_eq!(
        last.iter().map(short).collect::<Vec<_>>(),
        [event(Completed, 1, "theirs")]
    );
}

#[test]
fn a_message_of_ours_speaks_for_its_run() {
    let facts = thread(
        vec![run(1, "completed"), run(3, "completed"), run(4, "running")],
        vec![],
    );
    let messages = [(message("message-3"), Some(run(3, "completed").id))];
    let mut watcher = taken_over(&facts, &["message-3"], &messages);
    assert_eq!(told(&mut watcher), expected(&[(Completed, 3, "ours")]));
}

#[test]
fn a_part_of_the_thread_is_not_enough() {
    let facts = thread(Vec::<RunFacts>::new(), vec![]);
    let read = ReadFacts {
        sequence: 1,
        updated_at: at(0),
        partial: true,
        facts: &facts,
        messages: &[],
    };
    let tracker = Tracker::take_over(thread_id(), vec![], wanted("theirs"), at(0), &read, LIMITS, at(0));
    assert_eq!(tracker.unwrap_err(), ReadNeed::Whole);
}
