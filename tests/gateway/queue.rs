//! The runs that wait behind one at work.

use serde_json::{Value, json};
use t3code_mcp::fleet::Limits;
use t3code_mcp::gateway::{
    Caller, ErrorCode, InterruptArgs, QueueAction, QueueAfter, QueueAnswer, QueueArgs, ToolError, WhenBusy,
};
use t3code_mcp::machine::RuntimeMode;
use t3code_mcp::simulator::Simulator;

use crate::support::*;

fn on(thread: &str, action: QueueAction, run: Option<&str>) -> QueueArgs {
    QueueArgs {
        thread_id: thread.to_owned(),
        action,
        run_id: run.map(str::to_owned),
    }
}

impl House {
    async fn queue(&self, thread: &str, action: QueueAction, run: Option<&str>) -> Result<QueueAnswer, ToolError> {
        self.gateway.queue(&caller(), on(thread, action, run)).await
    }

    /// A thread at work with these prompts queued behind it: its id, the active run's, and theirs.
    async fn with_queue(&self, prompts: &[&str]) -> (String, String, Vec<String>) {
        let first = self.start("sleep 600").await;
        self.until(&first.thread_id, |view| view.state == "running").await;
        let mut queued = Vec::new();
        for text in prompts {
            let args = more(&first.thread_id, text, WhenBusy::Queue);
            queued.push(self.dispatch(args).await.unwrap().run_id.unwrap());
        }
        (first.thread_id, first.run_id.unwrap(), queued)
    }

    async fn stop_and_hold(&self, thread: &str) -> Option<String> {
        let args = InterruptArgs {
            thread_id: thread.to_owned(),
            run_id: None,
            queue: Some(QueueAfter::Hold),
        };
        self.gateway.interrupt(&caller(), args).await.unwrap().next_run
    }
}

fn ids(answer: &QueueAnswer) -> Vec<&str> {
    answer.queue.iter().map(|waits| waits.run_id.as_str()).collect()
}

/// The ids of the commands of that type that T3 received.
fn commands(simulator: &Simulator, kind: &str) -> Vec<String> {
    let received = simulator.received();
    let of_kind = received.iter().filter(|command| command["type"] == kind);
    of_kind
        .map(|command: &Value| command["commandId"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_queue_is_listed_in_its_order_and_a_cancelled_run_never_runs() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, active, queued) = house.with_queue(&["say two", "say three"]).await;
    let listed = house.queue(&thread, QueueAction::List, None).await.unwrap();
    assert_eq!(ids(&listed), queued);
    assert_eq!(
        (listed.state.as_str(), listed.active_run, listed.held, listed.outcome),
        ("running", Some(active), None, None)
    );
    assert_eq!(listed.queue[1].text.as_deref(), Some("say three"));

    let cancelled = house
        .queue(&thread, QueueAction::Cancel, Some(&queued[0]))
        .await
        .unwrap();
    assert_eq!(
        (ids(&cancelled), cancelled.outcome.as_deref()),
        (vec![queued[1].as_str()], Some("cancelled"))
    );
    // Again: it finds what the first one did, and sends nothing.
    let again = house
        .queue(&thread, QueueAction::Cancel, Some(&queued[0]))
        .await
        .unwrap();
    assert_eq!(again, cancelled);
    assert_eq!(commands(&simulator, "queued-run.cancel").len(), 1);
    house.interrupt(&thread, None).await.unwrap();
    assert_eq!(report(&house.ended(&thread).await), "three");
}

#[tokio::test]
async fn a_wait_goes_on_for_what_works_after_ones_own_queued_run_was_cancelled() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, _, queued) = house.with_queue(&["say two"]).await;
    let cancel = house.queue(&thread, QueueAction::Cancel, Some(&queued[0]));
    cancel.await.unwrap();
    let (waited, interrupted) = tokio::join!(house.ended(&thread), house.interrupt(&thread, None));
    interrupted.unwrap();
    // What became of the caller's own run is told with it.
    let own = waited.run.map(|run| (run.id, run.status));
    assert_eq!(
        (waited.state.as_str(), own),
        ("interrupted", Some((queued[0].clone(), "cancelled".to_owned())))
    );
}

#[tokio::test]
async fn a_queued_message_is_steered_into_the_active_run_once() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, active, queued) = house.with_queue(&["say two"]).await;
    let steered = house
        .queue(&thread, QueueAction::Steer, Some(&queued[0]))
        .await
        .unwrap();
    assert_eq!(
        (steered.outcome.as_deref(), steered.run_id.as_ref(), steered.queue.len()),
        (Some("steered"), Some(&active), 0)
    );
    let again = house
        .queue(&thread, QueueAction::Steer, Some(&queued[0]))
        .await
        .unwrap();
    assert_eq!((again.outcome, again.run_id), (steered.outcome, steered.run_id));
    assert_eq!(commands(&simulator, "queued-message.promote-to-steer").len(), 1);
    let gone = house.queue(&thread, QueueAction::Cancel, Some(&queued[0])).await;
    let error = gone.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains(&active), "{error}");
}

#[tokio::test]
async fn a_held_queue_ends_a_wait_and_goes_on_when_it_is_resumed() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let (thread, _, queued) = house.with_queue(&["say two", "say three"]).await;
    assert_eq!(house.stop_and_hold(&thread).await, None);
    let view = house.ended(&thread).await;
    assert_eq!((view.state.as_str(), view.held), ("queued", Some(true)));
    let busy = house
        .dispatch(more(&thread, "say x", WhenBusy::Reject))
        .await
        .unwrap_err();
    assert!(busy.hint.as_ref().unwrap().contains("t3_queue"), "{busy}");
    let listed = house.queue(&thread, QueueAction::List, None).await.unwrap();
    assert_eq!(
        (listed.held, ids(&listed)),
        (Some(true), queued.iter().map(String::as_str).collect())
    );
    // Nothing runs that it could be put into.
    let error = house
        .queue(&thread, QueueAction::Steer, Some(&queued[0]))
        .await
        .unwrap_err();
    assert!(error.hint.as_ref().unwrap().contains("resume"), "{error}");

    let resumed = house.queue(&thread, QueueAction::Resume, None).await.unwrap();
    assert_eq!((resumed.outcome.as_deref(), resumed.held), (Some("resumed"), None));
    assert_eq!(report(&house.ended(&thread).await), "three");
    let again = house.queue(&thread, QueueAction::Resume, None).await.unwrap();
    assert_eq!(again.outcome.as_deref(), Some("not_held"));
    assert_eq!(commands(&simulator, "queue.resume").len(), 1);
}

#[tokio::test]
async fn a_queue_moves_on_only_for_who_may_go_on_in_its_thread() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let (thread, _, queued) = house.with_queue(&["say two"]).await;
    let low = limited(Limits {
        max_runtime_mode: Some(RuntimeMode::ApprovalRequired),
        ..Limits::default()
    });
    let steer = house
        .gateway
        .queue(&low, on(&thread, QueueAction::Steer, Some(&queued[0])))
        .await;
    assert_eq!(steer.unwrap_err().code, ErrorCode::RuntimeModeEscalationDenied);
    house.stop_and_hold(&thread).await;
    let resume = house.gateway.queue(&low, on(&thread, QueueAction::Resume, None)).await;
    assert_eq!(resume.unwrap_err().code, ErrorCode::RuntimeModeEscalationDenied);
    let view = house.ended(&thread).await;
    assert_eq!(view.held, Some(true));
    // Less work is no more than it may.
    let cancel = on(&thread, QueueAction::Cancel, Some(&queued[0]));
    house.gateway.queue(&low, cancel).await.unwrap();
}

#[tokio::test]
async fn a_t3_that_cannot_hold_its_queue_is_not_said_to() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, _, queued) = house.with_queue(&["say two"]).await;
    let args = InterruptArgs {
        thread_id: thread,
        run_id: None,
        queue: Some(QueueAfter::Hold),
    };
    let answer = house.gateway.interrupt(&caller(), args).await.unwrap();
    assert_eq!(answer.next_run.as_ref(), Some(&queued[0]));
    assert!(answer.note.unwrap().contains("did not hold"));
}

#[tokio::test]
async fn a_queue_that_a_restart_of_t3_holds_is_resumed() {
    let simulator = newer_simulator().await;
    let house = house(&simulator).await;
    let (thread, _, _) = house.with_queue(&["say two"]).await;
    simulator.restart().await.unwrap();
    let held = house.until(&thread, |view| view.held == Some(true)).await;
    assert_eq!(held.state, "queued");
    let resumed = house.queue(&thread, QueueAction::Resume, None).await.unwrap();
    assert_eq!(resumed.outcome.as_deref(), Some("resumed"));
    house.until(&thread, |view| report(view) == "two").await;
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_happens_once() {
    for cut in [true, false] {
        let simulator = newer_simulator().await;
        let house = house(&simulator).await;
        let (thread, active, queued) = house.with_queue(&["say two", "say three", "say four"]).await;
        // Whether nobody knew what became of a change: a busy computer takes longer to connect again than a call waits.
        let mut unknown = false;
        let mut change = async |action: QueueAction, run: Option<&str>| {
            simulator.faults().lose_next_answer(cut);
            loop {
                match house.queue(&thread, action, run).await {
                    Err(error) if error.code == ErrorCode::OutcomeUnknown => unknown = true,
                    done => break done.unwrap(),
                }
            }
        };
        let cancelled = change(QueueAction::Cancel, Some(&queued[0])).await;
        assert_eq!(cancelled.outcome.as_deref(), Some("cancelled"));
        let steered = change(QueueAction::Steer, Some(&queued[1])).await;
        assert_eq!(
            (steered.outcome.as_deref(), steered.run_id),
            (Some("steered"), Some(active))
        );
        house.stop_and_hold(&thread).await;
        let resumed = change(QueueAction::Resume, None).await;
        let outcome = resumed.outcome.as_deref();
        assert!(
            outcome == Some("resumed") || unknown && outcome == Some("not_held"),
            "{resumed:?}"
        );
        for kind in ["queued-run.cancel", "queued-message.promote-to-steer", "queue.resume"] {
            let mut sent = commands(&simulator, kind);
            assert!(sent.len() > 1 || unknown, "{kind} was asked for again");
            sent.dedup();
            assert_eq!(sent.len(), 1, "{kind} is one command");
        }
        house.until(&thread, |view| report(view) == "four").await;
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_told_in_the_callers_words() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, active, queued) = house.with_queue(&["say two"]).await;
    let error = house.queue(&thread, QueueAction::Cancel, None).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"][0].as_str()),
        (ErrorCode::InvalidRequest, Some(queued[0].as_str()))
    );
    for (action, run) in [
        (QueueAction::Cancel, Some("nope")),
        (QueueAction::List, Some(queued[0].as_str())),
        (QueueAction::Resume, Some(queued[0].as_str())),
    ] {
        assert_eq!(
            code(house.queue(&thread, action, run).await),
            Some(ErrorCode::InvalidRequest)
        );
    }
    let error = house
        .queue(&thread, QueueAction::Cancel, Some(&active))
        .await
        .unwrap_err();
    assert!(error.hint.as_ref().unwrap().contains("t3_interrupt"), "{error}");
    assert_eq!(
        house
            .queue(&thread, QueueAction::Steer, Some(&active))
            .await
            .unwrap()
            .outcome
            .as_deref(),
        Some("started"),
        "it is at work already"
    );
    assert_eq!(
        code(house.queue("nowhere", QueueAction::List, None).await),
        Some(ErrorCode::ThreadNotFound)
    );
    let reader: Caller = limited(Limits {
        read_only: true,
        ..Limits::default()
    });
    let reads = house.gateway.queue(&reader, on(&thread, QueueAction::List, None)).await;
    assert_eq!(reads.unwrap().queue.len(), 1);
    let changes = on(&thread, QueueAction::Cancel, Some(&queued[0]));
    assert_eq!(
        code(house.gateway.queue(&reader, changes).await),
        Some(ErrorCode::InsufficientScope)
    );
    assert_eq!(
        house.queue(&thread, QueueAction::List, None).await.unwrap().queue.len(),
        1
    );
}

#[tokio::test]
async fn an_interrupt_names_the_run_that_is_next_and_a_cancelled_one_is_followed_by_none() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, _, queued) = house.with_queue(&["say two", "sleep 600"]).await;
    let taken_off = house.interrupt(&thread, Some(&queued[0])).await.unwrap();
    assert_eq!(taken_off.next_run, None, "what was at work goes on");
    let stopped = house.interrupt(&thread, None).await.unwrap();
    assert_eq!(
        (stopped.state.as_str(), stopped.next_run.as_ref()),
        ("interrupted", Some(&queued[1]))
    );
}

#[tokio::test]
async fn who_comes_second_is_told_what_became_of_the_run() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (thread, active, queued) = house.with_queue(&["say two", "say three", "say four"]).await;
    // At the same time.
    let steer = || house.queue(&thread, QueueAction::Steer, Some(&queued[0]));
    let (first, second) = tokio::join!(steer(), steer());
    for steered in [first.unwrap(), second.unwrap()] {
        assert_eq!(
            (steered.outcome.as_deref(), steered.run_id.as_ref()),
            (Some("steered"), Some(&active))
        );
    }
    // Another client was first, and the stream has not shown it yet.
    let promote = json!({
        "type": "queued-message.promote-to-steer", "commandId": "by-another", "threadId": thread,
        "queuedRunId": queued[1], "targetRunId": active,
    });
    simulator.command(&promote).unwrap();
    let steered = house
        .queue(&thread, QueueAction::Steer, Some(&queued[1]))
        .await
        .unwrap();
    assert_eq!(
        (steered.outcome.as_deref(), steered.run_id.as_ref()),
        (Some("steered"), Some(&active))
    );
    let cancel = json!({
        "type": "queued-run.cancel", "commandId": "by-another-too", "threadId": thread, "runId": queued[2],
    });
    simulator.command(&cancel).unwrap();
    let gone = house
        .queue(&thread, QueueAction::Steer, Some(&queued[2]))
        .await
        .unwrap_err();
    assert_eq!(gone.code, ErrorCode::InvalidRequest);
    assert!(gone.message.contains("was taken out of the queue"), "{gone}");
}

#[tokio::test]
async fn who_may_not_go_on_in_a_thread_stops_it_and_starts_nothing_by_that() {
    let low = limited(Limits {
        max_runtime_mode: Some(RuntimeMode::ApprovalRequired),
        ..Limits::default()
    });
    let stop = |thread: &str| InterruptArgs {
        thread_id: thread.to_owned(),
        ..InterruptArgs::default()
    };
    let newer = newer_simulator().await;
    let house_ = house(&newer).await;
    let (thread, _, _) = house_.with_queue(&["say two"]).await;
    let stopped = house_.gateway.interrupt(&low, stop(&thread)).await.unwrap();
    assert_eq!((stopped.state.as_str(), &stopped.next_run), ("interrupted", &None));
    assert!(stopped.note.unwrap().contains("resume"));
    assert_eq!(house_.ended(&thread).await.held, Some(true));
    house_.queue(&thread, QueueAction::Resume, None).await.unwrap();
    assert_eq!(report(&house_.ended(&thread).await), "two");

    // A T3 that cannot hold goes on, and that is said.
    let older = simulator().await;
    let house_ = house(&older).await;
    let (thread, _, queued) = house_.with_queue(&["say two"]).await;
    let stopped = house_.gateway.interrupt(&low, stop(&thread)).await.unwrap();
    assert_eq!(stopped.next_run.as_ref(), Some(&queued[0]));
    assert!(stopped.note.unwrap().contains("more than this client could start"));

    // Who may go on there lets it go on.
    let (thread, _, queued) = house_.with_queue(&["say two"]).await;
    let stopped = house_.interrupt(&thread, None).await.unwrap();
    assert_eq!((stopped.next_run.as_ref(), stopped.note), (Some(&queued[0]), None));
}
