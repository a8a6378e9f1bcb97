//! Where history ends, and what a part of a thread is good for.

use t3code_mcp::lifecycle::{Baseline, EventKind, ReadFacts, ReadNeed, RunFacts, Tracker};

use crate::support::{at, run, run_id, thread, unqueued};
use crate::watcher::{LIMITS, Watcher, dispatched, event, message, short, thread_id, unwanted, wanted};

use EventKind::{Completed, Failed, Interrupted};

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

#[test]
fn what_waited_behind_a_run_that_nobody_followed_was_cancelled_by_the_restart_that_ended_both() {
    let end = Some(at(500));
    let killed = RunFacts {
        completed_at: end,
        ..run(1, "cancelled")
    };
    let waited = RunFacts {
        completed_at: end,
        ..unqueued(2)
    };
    let facts = thread(vec![killed.clone(), waited], vec![]);
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
        requested_at: killed.requested_at,
    });
    let sent = vec![dispatched("message-2", wanted("A"), 1)];
    let mut watcher = Watcher::of(Tracker::begin(thread_id(), sent, baseline, &read, LIMITS, at(2000)).unwrap());
    let told = watcher.told();
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 2, "A")]);
}

#[test]
fn what_t3_goes_on_with_of_the_history_is_nobodys_either() {
    let goes_on = RunFacts {
        continuation_of: Some(run_id(1)),
        ..run(3, "completed")
    };
    let facts = thread(vec![run(1, "cancelled"), run(2, "completed"), goes_on], vec![]);
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
        requested_at: run(1, "cancelled").requested_at,
    });
    let sent = vec![dispatched("message-2", wanted("A"), 1)];
    let mut watcher = Watcher::of(Tracker::begin(thread_id(), sent, baseline, &read, LIMITS, at(2000)).unwrap());
    let told = watcher.told();
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 2, "A")]);
}

#[test]
fn what_waited_behind_a_run_that_finished_for_too_long_was_cancelled_by_the_restart_that_ended_both() {
    let mut watcher = Watcher::watching();
    let finishes = vec![
        run(1, "waiting"),
        RunFacts {
            queue_position: Some(1),
            ..run(2, "queued")
        },
    ];
    watcher.reads(&thread(finishes.clone(), vec![]));
    watcher.passes(200);
    let told = watcher.reads(&thread(finishes, vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Completed, 1, "A")]);
    watcher.away(10);
    watcher.asks();
    let end = Some(at(500));
    let waited = RunFacts {
        completed_at: end,
        ..unqueued(2)
    };
    assert_eq!(watcher.reads_part(&thread(vec![waited.clone()], vec![])), []);
    assert_eq!(watcher.asks(), Some(ReadNeed::Whole));
    let killed = RunFacts {
        completed_at: end,
        ..run(1, "cancelled")
    };
    let told = watcher.reads(&thread(vec![killed, waited], vec![]));
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), [event(Interrupted, 2, "A")]);
}
