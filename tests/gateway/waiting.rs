//! How waits end.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use t3code_mcp::gateway::{
    ANSWER_CHARS, DispatchAnswer, DispatchArgs, ErrorCode, GatewaySettings, ProgressSink, ProjectsArgs, Tick, Until,
    WaitArgs, WhenBusy,
};
use t3code_mcp::simulator::Simulator;

use crate::support::*;

#[derive(Default)]
struct Beats(Mutex<Vec<Tick>>);

impl ProgressSink for Beats {
    fn tick(&self, tick: Tick) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(tick);
        Box::pin(async {})
    }
}

async fn impatient(simulator: &Simulator) -> House {
    let settings_of_gateway = GatewaySettings {
        wait_without_progress: Duration::from_millis(300),
        ..GatewaySettings::default()
    };
    let house = house_of(
        vec![(settings("mac", &simulator.url()), rules(&["*"]))],
        settings_of_gateway,
    );
    house.online("mac").await;
    house
}

/// Stops the run at T3, as somebody else would, however the gateway can or cannot reach it.
fn stop_at_t3(simulator: &Simulator, run: &DispatchAnswer) {
    let stop = json!({"type": "run.interrupt", "commandId": "theirs", "threadId": run.thread_id, "runId": run.run_id});
    simulator.command(&stop).unwrap();
}

fn once(thread: &str) -> WaitArgs {
    WaitArgs {
        timeout: None,
        ..wait_for(thread)
    }
}

#[tokio::test]
async fn a_wait_that_runs_out_is_no_error_and_says_not_to_start_again() {
    let simulator = simulator().await;
    let house = impatient(&simulator).await;
    let started = house.start("sleep 600").await;
    let waited = house.wait(once(&started.thread_id)).await.unwrap();
    assert_eq!((waited.timed_out, waited.still_running), (true, true));
    assert!(waited.note.unwrap().contains("do not start it again"));
}

#[tokio::test]
async fn a_wait_for_what_rests_returns_at_once() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("say one").await;
    house.ended(&started.thread_id).await;
    let again = house.wait(wait_for(&started.thread_id)).await.unwrap();
    assert_eq!((again.still_running, again.timed_out), (false, false));
}

#[tokio::test]
async fn a_run_older_than_the_last_dispatch_is_never_told() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("say one").await;
    house.ended(&first.thread_id).await;
    for n in 0..5 {
        let text = format!("say again {n}");
        let next = house
            .dispatch(more(&first.thread_id, &text, WhenBusy::Reject))
            .await
            .unwrap();
        let view = house.ended(&first.thread_id).await;
        assert_eq!(
            (view.run.map(|run| run.id), view.state.as_str()),
            (next.run_id, "completed")
        );
    }
}

#[tokio::test]
async fn a_wait_for_a_named_run_ends_with_that_run() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.start("sleep 1").await;
    house
        .dispatch(more(&first.thread_id, "sleep 600", WhenBusy::Queue))
        .await
        .unwrap();
    let args = WaitArgs {
        run_id: first.run_id.clone(),
        ..wait_for(&first.thread_id)
    };
    let view = house.wait(args).await.unwrap().thread.unwrap();
    assert_eq!(
        view.run.map(|run| (run.id, run.status)),
        first.run_id.map(|id| (id, "completed".to_owned()))
    );
    let wrong = WaitArgs {
        run_id: Some("nope".to_owned()),
        ..wait_for(&first.thread_id)
    };
    assert_eq!(code(house.wait(wrong).await), Some(ErrorCode::InvalidRequest));
}

#[tokio::test]
async fn of_several_threads_any_returns_with_the_first_and_all_with_the_last() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let slow = house.start("sleep 600").await.thread_id;
    let fast = house.start("say fast").await.thread_id;
    let both = |until| WaitArgs {
        thread_ids: Some(vec![slow.clone(), fast.clone()]),
        timeout: Some(25),
        until: Some(until),
        ..WaitArgs::default()
    };
    let any = house.wait(both(Until::Any)).await.unwrap();
    assert_eq!((any.done, any.still_running), (Some(vec![fast.clone()]), true));
    house.interrupt(&slow, None).await.unwrap();
    let all = house.wait(both(Until::All)).await.unwrap();
    assert_eq!(
        (all.done, all.still_running),
        (Some(vec![slow.clone(), fast.clone()]), false)
    );
    assert_eq!(all.threads.unwrap().len(), 2);
}

#[tokio::test]
async fn a_thread_that_cannot_be_waited_for_fails_no_wait_for_others() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let good = house.start("sleep 1").await.thread_id;
    let both = WaitArgs {
        thread_ids: Some(vec!["nope".to_owned(), good.clone()]),
        timeout: Some(25),
        until: Some(Until::All),
        ..WaitArgs::default()
    };
    let waited = house.wait(both).await.unwrap();
    assert_eq!(
        (waited.done, waited.still_running),
        (Some(vec!["nope".to_owned(), good]), false)
    );
    let threads = waited.threads.unwrap();
    assert_eq!(threads[0].error.as_ref().unwrap().class, "thread_not_found");
    assert_eq!((threads[1].state.as_str(), &threads[1].error), ("completed", &None));
}

#[tokio::test]
async fn any_tells_of_every_thread_that_has_ended() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        ids.push(house.start(&format!("say {n}")).await.thread_id);
    }
    for id in &ids {
        house.until(id, |view| view.state == "completed").await;
    }
    let any = WaitArgs {
        thread_ids: Some(ids.clone()),
        timeout: Some(25),
        ..WaitArgs::default()
    };
    // A gateway that has read none of them yet.
    let waited = crate::support::house(&simulator).await.wait(any).await.unwrap();
    assert_eq!((waited.done, waited.still_running), (Some(ids), false));
}

/// A client that takes no heartbeat.
struct Stuck;

impl ProgressSink for Stuck {
    fn tick(&self, _: Tick) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_client_that_takes_no_heartbeat_gets_its_answer_all_the_same() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 1").await;
    let caller = caller();
    let wait = house.gateway.wait(&caller, wait_for(&started.thread_id), Some(&Stuck));
    let waited = tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    assert_eq!(waited.thread.unwrap().state, "completed");
}

#[tokio::test]
async fn wrong_arguments_are_refused() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let many = Some(vec!["x".to_owned(); 51]);
    for args in [
        WaitArgs::default(),
        WaitArgs {
            timeout: Some(4),
            ..wait_for("x")
        },
        WaitArgs {
            timeout: Some(3_601),
            ..wait_for("x")
        },
        WaitArgs {
            thread_ids: Some(vec![]),
            ..WaitArgs::default()
        },
        WaitArgs {
            thread_ids: many,
            ..WaitArgs::default()
        },
        WaitArgs {
            thread_ids: Some(vec!["y".to_owned()]),
            ..wait_for("x")
        },
        WaitArgs {
            thread_ids: Some(vec!["y".to_owned()]),
            run_id: Some("r".to_owned()),
            ..WaitArgs::default()
        },
    ] {
        assert_eq!(code(house.wait(args).await), Some(ErrorCode::InvalidRequest));
    }
    assert_eq!(
        code(house.wait(wait_for("nope")).await),
        Some(ErrorCode::ThreadNotFound)
    );
}

#[tokio::test]
async fn a_wait_outlasts_a_machine_that_goes_away() {
    let simulator = simulator().await;
    let house = impatient(&simulator).await;
    let started = house.start("sleep 600").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    simulator.stop().await;
    eventually("the gateway notices", || !house.is_online("mac")).await;
    let away = house.wait(once(&started.thread_id)).await.unwrap();
    assert!(away.still_running && away.thread.unwrap().unreachable_since.is_some());
    let (waited, ()) = tokio::join!(house.wait(wait_for(&started.thread_id)), async {
        stop_at_t3(&simulator, &started);
        simulator.resume().await.unwrap();
    });
    assert_eq!(waited.unwrap().thread.unwrap().state, "interrupted");
}

#[tokio::test]
async fn a_wait_begun_while_a_machine_hangs_goes_on_and_ends_when_it_is_back() {
    let simulator = simulator().await;
    let house = impatient(&simulator).await;
    let started = house.start("sleep 600").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    // Nothing tells yet that it hangs.
    simulator.faults().hang(true);
    let unnoticed = house.wait(once(&started.thread_id)).await.unwrap();
    assert!(unnoticed.still_running && unnoticed.timed_out, "{unnoticed:?}");
    simulator.faults().drop_sockets();
    eventually("the gateway notices", || !house.is_online("mac")).await;
    let noticed = house.wait(once(&started.thread_id)).await.unwrap();
    assert!(noticed.still_running && noticed.thread.unwrap().unreachable_since.is_some());
    let (waited, ()) = tokio::join!(house.wait(wait_for(&started.thread_id)), async {
        stop_at_t3(&simulator, &started);
        simulator.faults().hang(false);
    });
    assert_eq!(waited.unwrap().thread.unwrap().state, "interrupted");
}

#[tokio::test]
async fn a_thread_that_was_seen_is_waited_for_although_its_machine_no_longer_shows_it() {
    let simulator = simulator().await;
    let house = impatient(&simulator).await;
    let started = house.start("sleep 600").await;
    house.until(&started.thread_id, |view| view.state == "running").await;
    let threads = async || {
        let projects = house
            .gateway
            .projects(&caller(), ProjectsArgs::default())
            .await
            .unwrap();
        projects.projects.iter().map(|project| project.threads).sum::<usize>()
    };
    assert_eq!(threads().await, 1);
    let gone = async {
        while threads().await > 0 {
            // Again each time: a row of the thread that was on its way brings it back.
            simulator.faults().push_shell_item(json!({
                "kind": "thread.removed", "sequence": simulator.head() + 1, "location": "active",
                "threadId": started.thread_id,
            }));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("the mirror lets go of it");
    simulator.faults().hang(true);
    simulator.faults().drop_sockets();
    eventually("the gateway notices", || !house.is_online("mac")).await;
    let away = house.wait(once(&started.thread_id)).await.unwrap();
    assert!(away.still_running && away.thread.unwrap().unreachable_since.is_some());
    let unseen = house.wait(wait_for("unseen")).await.unwrap_err();
    assert_eq!(unseen.code, ErrorCode::MachineUnreachable);
    let (waited, ()) = tokio::join!(house.wait(wait_for(&started.thread_id)), async {
        stop_at_t3(&simulator, &started);
        simulator.faults().hang(false);
    });
    assert_eq!(waited.unwrap().thread.unwrap().state, "interrupted");
}

#[tokio::test]
async fn a_thread_on_a_machine_that_was_never_reached_is_not_waited_for() {
    let simulator = simulator().await;
    simulator.faults().hang(true);
    let machines = vec![(settings("mac", &simulator.url()), rules(&["*"]))];
    let house = house_of(machines, GatewaySettings::default());
    // Far longer than the test's own patience: it fails when the first snapshot has not come.
    let wait = WaitArgs {
        timeout: Some(600),
        ..wait_for("some-thread")
    };
    let error = house.wait(wait).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::MachineUnreachable);
    assert!(error.message.contains("mac"), "{error}");
}

#[tokio::test]
async fn open_waits_are_answered_when_the_gateway_stops() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("sleep 600").await;
    let beats = Beats::default();
    let caller = caller();
    let wait = house.gateway.wait(&caller, wait_for(&started.thread_id), Some(&beats));
    let (waited, ()) = tokio::join!(
        async { tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap() },
        async {
            eventually("the first heartbeat comes at once", || {
                !beats.0.lock().unwrap().is_empty()
            })
            .await;
            house.stop.cancel();
        }
    );
    assert_eq!((waited.still_running, waited.timed_out), (true, false));
}

#[tokio::test]
async fn a_message_may_be_as_long_as_it_likes_and_the_answer_stays_within_its_size() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("big 300").await;
    let waited = house.wait(wait_for(&started.thread_id)).await.unwrap();
    let written = serde_json::to_string(&waited).unwrap();
    assert!(written.chars().count() <= 24_000, "{}", written.chars().count());
    assert!(waited.thread.unwrap().truncated.unwrap().final_message_chars.unwrap() > 200_000);
}

#[tokio::test]
async fn a_wait_over_several_machines_is_partial_while_one_is_away_and_finds_its_thread_when_it_is_back() {
    let (near, far) = (simulator().await, simulator().await);
    let machines = || {
        vec![
            (settings("near", &near.url()), rules(&["*"])),
            (settings("far", &far.url()), rules(&["*"])),
        ]
    };
    let first = house_of(machines(), GatewaySettings::default());
    first.online("near").await;
    first.online("far").await;
    let start = async |machine: &str, text: &str| {
        let args = DispatchArgs {
            machine: Some(machine.to_owned()),
            ..prompt(text)
        };
        first.dispatch(args).await.unwrap().thread_id
    };
    let (here, there) = (start("near", "say here").await, start("far", "sleep 3").await);
    first.until(&there, |view| view.state != "starting").await;
    far.stop().await;
    // It was away from the beginning: nobody knows yet whose the thread is.
    let house = house_of(machines(), GatewaySettings::default());
    house.online("near").await;
    let both = |until| WaitArgs {
        thread_ids: Some(vec![there.clone(), here.clone()]),
        timeout: Some(25),
        until: Some(until),
        ..WaitArgs::default()
    };
    let any = house.wait(both(Until::Any)).await.unwrap();
    assert_eq!((any.done, any.still_running), (Some(vec![here.clone()]), true));
    let threads = any.threads.unwrap();
    assert_eq!(
        (
            threads[0].error.as_ref().unwrap().class.as_str(),
            threads[1].state.as_str()
        ),
        ("machine_unreachable", "completed")
    );
    assert_eq!(threads[0].machine, "far");
    let (all, ()) = tokio::join!(house.wait(both(Until::All)), async {
        far.resume().await.unwrap();
    });
    let all = all.unwrap();
    assert_eq!(
        (all.done, all.still_running),
        (Some(vec![there.clone(), here.clone()]), false)
    );
    assert_eq!(all.threads.unwrap()[0].machine, "far");
}

#[tokio::test]
async fn a_machine_that_hangs_is_named_where_others_have_something_to_tell() {
    let (near, far) = (simulator().await, simulator().await);
    far.faults().hang(true);
    let machines = vec![
        (settings("near", &near.url()), rules(&["*"])),
        (settings("far", &far.url()), rules(&["*"])),
    ];
    let house = house_of(machines, GatewaySettings::default());
    house.online("near").await;
    let here = DispatchArgs {
        machine: Some("near".to_owned()),
        ..prompt("say here")
    };
    let here = house.dispatch(here).await.unwrap().thread_id;
    let any = WaitArgs {
        thread_ids: Some(vec!["elsewhere".to_owned(), here.clone()]),
        timeout: Some(25),
        ..WaitArgs::default()
    };
    let waited = house.wait(any).await.unwrap();
    assert_eq!(waited.done, Some(vec![here]));
    let threads = waited.threads.unwrap();
    let error = threads[0].error.as_ref().unwrap();
    assert_eq!(
        (error.class.as_str(), threads[0].machine.as_str()),
        ("machine_unreachable", "far")
    );
    assert!(error.message.contains("far"), "{}", error.message);
}

#[tokio::test]
async fn fifty_threads_are_waited_for_together_and_fit_into_one_answer() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(house.start("sleep 1").await.thread_id);
    }
    let all = WaitArgs {
        thread_ids: Some(ids.clone()),
        timeout: Some(25),
        until: Some(Until::All),
        ..WaitArgs::default()
    };
    let waited = house.wait(all).await.unwrap();
    assert!(serde_json::to_string(&waited).unwrap().len() <= ANSWER_CHARS);
    assert_eq!((waited.done, waited.still_running), (Some(ids), false));
}

#[tokio::test]
async fn a_wait_ends_when_its_machine_is_unpaired() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("sleep 600").await.thread_id;
    let (waited, dismissed) = tokio::join!(house.wait(wait_for(&thread)), async {
        tokio::task::yield_now().await;
        house.gateway.fleet().dismiss("mac")
    });
    assert!(dismissed);
    assert_eq!(waited.unwrap_err().code, ErrorCode::ThreadNotFound);
}
