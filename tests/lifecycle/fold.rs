//! A thread's state, row by row of the contract.

use t3code_mcp::lifecycle::{RequestClass, RequestFacts, RunFacts, ThreadFacts, ThreadState, fold, fold_presuming};

use crate::support::{at, request, run, run_id, thread, unqueued};

#[test]
fn a_thread_without_runs_is_idle() {
    let status = fold(&ThreadFacts::default());
    assert_eq!((status.state, status.run), (ThreadState::Idle, None));
}

#[test]
fn a_deleted_thread_is_gone_whatever_else_it_shows() {
    let facts = ThreadFacts {
        imported: false,
        deleted: true,
        ..thread(vec![run(1, "running")], vec![request("a", "command", 1)])
    };
    assert_eq!(fold(&facts).state, ThreadState::Gone);
}

#[test]
fn every_status_of_a_lone_run_is_the_threads() {
    for (status, state, busy) in [
        ("preparing", ThreadState::Starting, true),
        ("queued", ThreadState::Queued, true),
        ("starting", ThreadState::Starting, true),
        ("running", ThreadState::Running, true),
        ("waiting", ThreadState::Finishing, true),
        ("completed", ThreadState::Completed, false),
        ("interrupted", ThreadState::Interrupted, false),
        ("failed", ThreadState::Failed, false),
        ("cancelled", ThreadState::Cancelled, false),
        ("rolled_back", ThreadState::RolledBack, false),
    ] {
        let folded = fold(&thread(vec![run(1, status)], vec![]));
        assert_eq!((folded.state, folded.state.is_busy()), (state, busy), "{status}");
        assert_eq!(folded.run, Some(run_id(1)), "{status}");
    }
}

#[test]
fn a_status_that_we_do_not_know_counts_as_running_and_never_as_an_end() {
    let folded = fold(&thread(vec![run(1, "hibernating")], vec![]));
    assert_eq!(folded.state, ThreadState::Running);
}

#[test]
fn a_run_that_works_hides_those_that_wait_and_those_that_ended() {
    let folded = fold(&thread(
        vec![run(1, "completed"), run(2, "running"), run(3, "queued"), unqueued(4)],
        vec![],
    ));
    assert_eq!(folded.state, ThreadState::Running);
    assert_eq!((folded.run, folded.active), (Some(run_id(2)), Some(run_id(2))));
    assert_eq!(folded.queue, [run_id(3)]);
}

#[test]
fn the_queue_stands_in_the_order_of_its_positions() {
    let first = RunFacts {
        queue_position: Some(1),
        ..run(4, "queued")
    };
    let second = RunFacts {
        queue_position: Some(2),
        ..run(2, "queued")
    };
    let folded = fold(&thread(vec![run(1, "running"), second, first], vec![]));
    assert_eq!(folded.queue, [run_id(4), run_id(2)]);
}

#[test]
fn a_waiting_run_is_what_the_state_speaks_of_when_nothing_works() {
    let folded = fold(&thread(
        vec![run(1, "completed"), run(2, "queued"), run(3, "queued")],
        vec![],
    ));
    assert_eq!(
        (folded.state, folded.run, folded.held),
        (ThreadState::Queued, Some(run_id(2)), false)
    );
}

#[test]
fn a_queue_is_held_when_nothing_in_it_moves_by_itself() {
    let held = RunFacts {
        queue_held: true,
        ..run(2, "queued")
    };
    assert!(fold(&thread(vec![run(1, "completed"), held.clone()], vec![])).held);
    // Something works, so a wait goes on.
    assert!(!fold(&thread(vec![run(1, "running"), held.clone()], vec![])).held);
    // The next one goes past the held one.
    assert!(!fold(&thread(vec![held, run(3, "queued")], vec![])).held);
}

#[test]
fn the_run_that_ended_last_counts_not_the_one_with_the_highest_ordinal() {
    let late = RunFacts {
        completed_at: Some(at(900)),
        ..run(1, "failed")
    };
    let folded = fold(&thread(vec![late, run(2, "completed")], vec![]));
    assert_eq!((folded.state, folded.run), (ThreadState::Failed, Some(run_id(1))));
}

#[test]
fn of_two_that_ended_at_once_the_higher_ordinal_counts() {
    let first = RunFacts {
        completed_at: Some(at(900)),
        ..run(1, "failed")
    };
    let second = RunFacts {
        completed_at: Some(at(900)),
        ..run(2, "completed")
    };
    assert_eq!(fold(&thread(vec![second, first], vec![])).run, Some(run_id(2)));
}

#[test]
fn a_run_that_was_cancelled_while_queued_does_not_count() {
    let folded = fold(&thread(vec![run(1, "completed"), unqueued(2)], vec![]));
    assert_eq!((folded.state, folded.run), (ThreadState::Completed, Some(run_id(1))));
    assert_eq!(fold(&thread(vec![unqueued(1)], vec![])).state, ThreadState::Idle);
}

#[test]
fn a_run_that_was_finishing_for_too_long_counts_as_completed_until_t3_says_more() {
    let facts = thread(vec![run(1, "waiting")], vec![]);
    let folded = fold_presuming(&facts, &[run_id(1)]);
    assert_eq!((folded.state, folded.state.is_busy()), (ThreadState::Completed, false));
    let failed = thread(vec![run(1, "failed")], vec![]);
    assert_eq!(fold_presuming(&failed, &[run_id(1)]).state, ThreadState::Failed);
    let again = thread(vec![run(1, "running")], vec![]);
    assert_eq!(fold_presuming(&again, &[run_id(1)]).state, ThreadState::Running);
}

#[test]
fn every_kind_of_request_holds_and_is_answered_as_the_contract_says() {
    for (kind, class, state, holds, answerable) in [
        ("command", RequestClass::Approval, ThreadState::Approval, true, true),
        ("file-read", RequestClass::Approval, ThreadState::Approval, true, true),
        ("file-change", RequestClass::Approval, ThreadState::Approval, true, true),
        ("permission", RequestClass::Approval, ThreadState::Approval, true, true),
        (
            "mcp-elicitation",
            RequestClass::Approval,
            ThreadState::Approval,
            true,
            true,
        ),
        ("user_input", RequestClass::Question, ThreadState::Question, true, true),
        (
            "dynamic_tool_call",
            RequestClass::None,
            ThreadState::Running,
            false,
            false,
        ),
        (
            "auth_refresh",
            RequestClass::Unanswerable,
            ThreadState::Approval,
            true,
            false,
        ),
        (
            "secret_request",
            RequestClass::Unanswerable,
            ThreadState::Approval,
            true,
            false,
        ),
        (
            "a kind of next year",
            RequestClass::Unanswerable,
            ThreadState::Approval,
            true,
            false,
        ),
    ] {
        let folded = fold(&thread(vec![run(1, "running")], vec![request("a", kind, 1)]));
        let pending = folded.pending.first().expect("it is shown");
        assert_eq!(
            (pending.class, pending.holds, pending.answerable),
            (class, holds, answerable),
            "{kind}"
        );
        assert_eq!((folded.state, folded.run), (state, Some(run_id(1))), "{kind}");
    }
}

#[test]
fn a_request_that_cannot_be_resumed_is_shown_and_holds_nothing() {
    let request = RequestFacts {
        capability: "not_resumable".to_owned(),
        ..request("a", "command", 1)
    };
    let folded = fold(&thread(vec![run(1, "running")], vec![request]));
    assert_eq!(folded.state, ThreadState::Running);
    let pending = folded.pending.first().expect("it is shown");
    assert_eq!(
        (pending.holds, pending.answerable, pending.mode),
        (false, false, Some("not_resumable"))
    );
}

#[test]
fn a_question_that_outlives_its_run_holds_nothing_and_can_be_answered() {
    let request = RequestFacts {
        capability: "message".to_owned(),
        ..request("a", "user_input", 1)
    };
    let folded = fold(&thread(vec![run(1, "completed")], vec![request]));
    assert_eq!(folded.state, ThreadState::Completed);
    let pending = folded.pending.first().expect("it is shown");
    assert_eq!(
        (pending.holds, pending.answerable, pending.mode),
        (false, true, Some("message"))
    );
}

#[test]
fn an_answer_whose_way_we_do_not_know_is_left_to_t3() {
    let request = RequestFacts {
        capability: "pigeon".to_owned(),
        ..request("a", "user_input", 1)
    };
    let folded = fold(&thread(vec![run(1, "running")], vec![request]));
    let pending = folded.pending.first().expect("it is shown");
    assert_eq!((folded.state, pending.answerable), (ThreadState::Question, false));
}

#[test]
fn a_pending_request_of_a_run_that_ended_holds_nothing() {
    let folded = fold(&thread(vec![run(1, "failed")], vec![request("a", "command", 1)]));
    assert_eq!((folded.state, folded.pending.len()), (ThreadState::Failed, 1));
}

#[test]
fn a_request_without_a_run_holds_the_one_that_works() {
    let request = RequestFacts {
        run: None,
        ..request("a", "user_input", 1)
    };
    let folded = fold(&thread(vec![run(2, "running")], vec![request.clone()]));
    assert_eq!((folded.state, folded.run), (ThreadState::Question, Some(run_id(2))));
    assert_eq!(
        fold(&thread(vec![run(2, "completed")], vec![request])).state,
        ThreadState::Completed
    );
}

#[test]
fn an_approval_goes_before_a_question_and_both_are_shown_oldest_first() {
    let question = RequestFacts {
        created_at: at(1),
        ..request("b", "user_input", 1)
    };
    let approval = RequestFacts {
        created_at: at(2),
        ..request("a", "command", 1)
    };
    let folded = fold(&thread(vec![run(1, "running")], vec![approval, question]));
    assert_eq!(folded.state, ThreadState::Approval);
    assert_eq!(
        folded.pending.iter().map(|one| one.id.0.as_str()).collect::<Vec<_>>(),
        ["b", "a"]
    );
}

#[test]
fn closed_requests_and_those_in_an_unknown_status_hold_nothing() {
    for (status, shown) in [
        ("resolved", false),
        ("expired", false),
        ("cancelled", false),
        ("saved", false),
        ("declined", false),
        ("being looked at", true),
    ] {
        let request = RequestFacts {
            status: status.to_owned(),
            ..request("a", "command", 1)
        };
        let folded = fold(&thread(vec![run(1, "running")], vec![request]));
        assert_eq!(
            (folded.state, !folded.pending.is_empty()),
            (ThreadState::Running, shown),
            "{status}"
        );
        assert!(
            folded.pending.iter().all(|one| !one.holds && !one.answerable),
            "{status}"
        );
    }
}
