//! When a wait ends, fact by fact.

use super::*;
use crate::gateway::samples::{request, run, run_id, thread};
use crate::machine::{BackgroundTask, Thread};

fn says(thread: &Thread, aim: &Aim) -> Verdict {
    verdict(&Standing::of(thread, Vec::new()), aim)
}

fn dispatched(ordinal: u64) -> Aim {
    Aim {
        dispatched: Some(MessageId(format!("m-{ordinal}"))),
        ..Aim::default()
    }
}

fn named(ordinal: u64) -> Aim {
    Aim {
        run: Some(run_id(ordinal)),
        ..Aim::default()
    }
}

#[test]
fn an_idle_thread_has_nothing_to_wait_for() {
    assert_eq!(says(&thread(vec![]), &Aim::default()), Verdict::Done(None));
}

#[test]
fn without_a_dispatch_of_its_own_a_wait_lasts_until_the_thread_rests() {
    let busy = thread(vec![run(1, "completed"), run(2, "running")]);
    assert_eq!(says(&busy, &Aim::default()), Verdict::Waits(For::Thread));
    let rests = thread(vec![run(1, "completed"), run(2, "completed")]);
    assert_eq!(says(&rests, &Aim::default()), Verdict::Done(Some(run_id(2))));
}

#[test]
fn a_run_older_than_the_callers_dispatch_is_never_told() {
    let not_there_yet = thread(vec![run(1, "completed")]);
    assert_eq!(says(&not_there_yet, &dispatched(2)), Verdict::Waits(For::Unseen));
    let queued = thread(vec![run(1, "completed"), run(2, "queued")]);
    assert_eq!(says(&queued, &dispatched(2)), Verdict::Waits(For::Run(run_id(2))));
}

#[test]
fn a_run_that_was_dispatched_is_told_although_another_works() {
    let later = thread(vec![run(1, "completed"), run(2, "running")]);
    assert_eq!(says(&later, &dispatched(1)), Verdict::Done(Some(run_id(1))));
}

#[test]
fn a_promoted_message_is_followed_into_its_run() {
    let mut taken = run(2, "cancelled");
    taken.started_at = None;
    taken.promoted_into = Some(run_id(1));
    let mut promoted = thread(vec![run(1, "running"), taken]);
    for message in &mut promoted.messages {
        message.run = Some(run_id(1));
    }
    assert_eq!(says(&promoted, &dispatched(2)), Verdict::Waits(For::Run(run_id(1))));
    assert_eq!(says(&promoted, &named(2)), Verdict::Waits(For::Run(run_id(1))));
}

#[test]
fn a_continuation_is_followed() {
    let mut next = run(2, "running");
    next.continuation_of = Some(run_id(1));
    let continued = thread(vec![run(1, "cancelled"), next]);
    assert_eq!(says(&continued, &named(1)), Verdict::Waits(For::Run(run_id(2))));
}

#[test]
fn what_holds_a_run_ends_every_wait() {
    for kind in ["user_input", "command", "auth_refresh", "something_new"] {
        let mut asks = thread(vec![run(1, "running")]);
        asks.facts.requests = vec![request("r", kind, 1)];
        assert_eq!(says(&asks, &dispatched(1)), Verdict::Done(None), "{kind}");
    }
    let mut calls = thread(vec![run(1, "running")]);
    calls.facts.requests = vec![request("r", "dynamic_tool_call", 1)];
    assert_eq!(says(&calls, &Aim::default()), Verdict::Waits(For::Thread));
}

#[test]
fn a_held_queue_ends_a_wait() {
    let mut waits = run(2, "queued");
    waits.queue_held = true;
    let held = thread(vec![run(1, "completed"), waits]);
    assert_eq!(says(&held, &Aim::default()), Verdict::Done(None));
    assert_eq!(says(&held, &dispatched(2)), Verdict::Done(Some(run_id(2))));
}

#[test]
fn quiet_waits_for_background_work_too() {
    let mut ended = thread(vec![run(1, "completed")]);
    ended.background = vec![BackgroundTask {
        kind: "command".to_owned(),
        title: None,
    }];
    let quiet = Aim {
        quiet: true,
        ..dispatched(1)
    };
    assert_eq!(says(&ended, &quiet), Verdict::Waits(For::Unseen));
    assert_eq!(says(&ended, &dispatched(1)), Verdict::Done(Some(run_id(1))));
}

#[test]
fn a_run_that_was_never_there_is_said_so_and_one_beyond_a_bounded_read_needs_the_whole() {
    let mut thread = thread(vec![run(5, "completed")]);
    assert_eq!(says(&thread, &named(9)), Verdict::NoSuchRun);
    thread.partial = true;
    assert_eq!(says(&thread, &named(1)), Verdict::NotInThisPart);
}

#[test]
fn a_deleted_thread_ends_every_wait() {
    let mut gone = thread(vec![run(1, "running")]);
    gone.facts.deleted = true;
    assert_eq!(says(&gone, &named(1)), Verdict::Done(None));
}

#[test]
fn a_run_that_finishes_for_too_long_counts_as_ended() {
    let finishing = thread(vec![run(1, "waiting")]);
    assert_eq!(says(&finishing, &named(1)), Verdict::Waits(For::Run(run_id(1))));
    let timed_out = Standing::of(&finishing, vec![run_id(1)]);
    assert_eq!(verdict(&timed_out, &named(1)), Verdict::Done(Some(run_id(1))));
}
