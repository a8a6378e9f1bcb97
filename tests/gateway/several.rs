//! Several machines, hidden projects, limited clients.

use serde_json::json;
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::gateway::{
    AnswerArgs, DispatchArgs, ErrorCode, GatewaySettings, InterruptArgs, MachinesArgs, ProjectsArgs, ThreadArgs,
    ThreadsArgs, WhenBusy,
};
use t3code_mcp::machine::MachineSettings;

use crate::support::*;

/// An address that refuses connections: nobody else is given that port, either.
const NOWHERE: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_machine_that_is_down_fails_no_call_about_others() {
    let simulator = simulator().await;
    let machines = vec![
        (settings("mac", &simulator.url()), rules(&["*"])),
        (settings("away", NOWHERE), rules(&["*"])),
    ];
    let house = house_of(machines, GatewaySettings::default());
    house.online("mac").await;
    let shown = house
        .gateway
        .projects(&caller(), ProjectsArgs::default())
        .await
        .unwrap();
    assert_eq!(
        shown.projects.iter().map(|p| p.machine.as_str()).collect::<Vec<_>>(),
        ["mac"]
    );
    assert_eq!(
        shown.unreachable.iter().map(|u| u.machine.as_str()).collect::<Vec<_>>(),
        ["away"]
    );

    let on_mac = DispatchArgs {
        machine: Some("mac".to_owned()),
        ..prompt("say one")
    };
    let started = house.dispatch(on_mac).await.unwrap();
    assert_eq!(report(&house.ended(&started.thread_id).await), "one");
    // An unknown thread may be on the machine that does not answer.
    let args = ThreadArgs {
        thread_id: "unknown".to_owned(),
        turns: None,
    };
    let error = house.gateway.thread(&caller(), args).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["machine"].as_str()),
        (ErrorCode::MachineUnreachable, Some("away"))
    );
    // On a machine that was named, what is wrong with another one is no answer.
    let elsewhere = DispatchArgs {
        machine: Some("mac".to_owned()),
        ..more("unknown", "say two", WhenBusy::Reject)
    };
    let error = house.dispatch(elsewhere).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ThreadNotFound);
    // What can be no id is asked of nobody.
    for id in [String::new(), "  ".to_owned(), "x".repeat(2_000)] {
        let args = ThreadArgs {
            thread_id: id,
            turns: None,
        };
        let error = house.gateway.thread(&caller(), args).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
    }
    let machines = house
        .gateway
        .machines(&caller(), MachinesArgs::default())
        .unwrap()
        .machines;
    assert_eq!(
        machines
            .iter()
            .map(|m| (m.online, m.error.is_some()))
            .collect::<Vec<_>>(),
        [(true, false), (false, true)]
    );
}

#[tokio::test]
async fn a_machine_that_hangs_delays_no_call_about_others() {
    let (good, hangs) = (simulator().await, simulator().await);
    hangs.faults().hang(true);
    let machines = || {
        vec![
            (settings("mac", &good.url()), rules(&["*"])),
            (settings("slow", &hangs.url()), rules(&["*"])),
        ]
    };
    let mut house = house_of(machines(), GatewaySettings::default());
    // A call about the machine that hangs still waits for it when the other's run has come to its end. It waits only for some
    // seconds, which may be too short on a busy computer.
    let mut undelayed = false;
    for _ in 0..5 {
        house.online("mac").await;
        let on = |machine: &str| DispatchArgs {
            machine: Some(machine.to_owned()),
            ..prompt("say one")
        };
        let on_mac = async {
            let started = house.dispatch(on("mac")).await.unwrap();
            house.ended(&started.thread_id).await
        };
        undelayed = tokio::select! {
            biased;
            said = house.dispatch(on("slow")) => {
                assert_eq!(code(said), Some(ErrorCode::MachineUnreachable));
                false
            }
            ended = on_mac => report(&ended) == "one",
        };
        if undelayed {
            break;
        }
        house = house_of(machines(), GatewaySettings::default());
    }
    assert!(undelayed, "it never came to its end while the other call waited");
    let shown = house
        .gateway
        .projects(&caller(), ProjectsArgs::default())
        .await
        .unwrap();
    assert_eq!((shown.projects.len(), shown.unreachable.len()), (1, 1));
}

#[tokio::test]
async fn of_several_machines_one_has_to_be_named() {
    let (a, b) = (simulator().await, simulator().await);
    let machines = vec![
        (settings("a", &a.url()), rules(&["*"])),
        (settings("b", &b.url()), rules(&["*"])),
    ];
    let house = house_of(machines, GatewaySettings::default());
    house.online("a").await;
    house.online("b").await;
    assert_eq!(
        code(house.dispatch(prompt("say x")).await),
        Some(ErrorCode::InvalidRequest)
    );
    let unknown = DispatchArgs {
        machine: Some("c".to_owned()),
        ..prompt("say x")
    };
    let error = house.dispatch(unknown).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["valid"][1].as_str()),
        (ErrorCode::UnknownMachine, Some("b"))
    );
    // A thread is found on whichever has it.
    let on_b = DispatchArgs {
        machine: Some("b".to_owned()),
        ..prompt("say on b")
    };
    let started = house.dispatch(on_b).await.unwrap();
    assert_eq!(house.ended(&started.thread_id).await.machine, "b");
}

#[tokio::test]
async fn what_is_hidden_answers_like_what_is_not_there_in_every_tool() {
    let simulator = simulator().await;
    let open = house(&simulator).await;
    let thread = open.start("sleep 600").await.thread_id;
    for (house, caller) in [
        (house_with(&simulator, rules(&["other-*"])).await, caller()),
        (
            house_with(&simulator, rules(&["*"])).await,
            limited(Limits {
                projects: Some(Patterns::new(["other-*"]).unwrap()),
                ..Limits::default()
            }),
        ),
    ] {
        let gateway = &house.gateway;
        assert!(
            gateway
                .projects(&caller, ProjectsArgs::default())
                .await
                .unwrap()
                .projects
                .is_empty()
        );
        let answers = |id: &str| {
            let (gateway, caller, id) = (gateway.clone(), caller.clone(), id.to_owned());
            async move {
                let said = [
                    gateway
                        .thread(
                            &caller,
                            ThreadArgs {
                                thread_id: id.clone(),
                                turns: None,
                            },
                        )
                        .await
                        .unwrap_err(),
                    gateway.wait(&caller, wait_for(&id), None).await.unwrap_err(),
                    gateway
                        .dispatch(&caller, more(&id, "say x", WhenBusy::Queue))
                        .await
                        .unwrap_err(),
                    gateway
                        .interrupt(
                            &caller,
                            InterruptArgs {
                                thread_id: id.clone(),
                                ..Default::default()
                            },
                        )
                        .await
                        .unwrap_err(),
                    gateway
                        .answer(
                            &caller,
                            AnswerArgs {
                                thread_id: id.clone(),
                                decision: Some("accept".to_owned()),
                                ..Default::default()
                            },
                        )
                        .await
                        .unwrap_err(),
                ];
                said.map(|error| (error.code, error.message.replace(&id, "ID"), error.hint))
            }
        };
        assert_eq!(answers(&thread).await, answers("unknown").await);
        let project = |name: &str| {
            let (gateway, caller, args) = (
                gateway.clone(),
                caller.clone(),
                DispatchArgs {
                    project: Some(name.to_owned()),
                    ..prompt("say x")
                },
            );
            let name = name.to_owned();
            async move {
                let error = gateway.dispatch(&caller, args).await.unwrap_err();
                (error.code, error.message.replace(&name, "NAME"), error.hint)
            }
        };
        assert_eq!(project("t3-smoke").await, project("unknown").await);
    }
    assert_eq!(simulator.runs().len(), 1);
}

#[tokio::test]
async fn a_client_that_may_only_read_changes_nothing() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("sleep 600").await.thread_id;
    let reader = limited(Limits {
        read_only: true,
        ..Limits::default()
    });
    let gateway = &house.gateway;
    let stopped = gateway
        .interrupt(
            &reader,
            InterruptArgs {
                thread_id: thread.clone(),
                ..Default::default()
            },
        )
        .await;
    let answered = gateway
        .answer(
            &reader,
            AnswerArgs {
                thread_id: thread.clone(),
                decision: Some("accept".to_owned()),
                ..Default::default()
            },
        )
        .await;
    let dispatched = gateway.dispatch(&reader, prompt("say x")).await;
    assert_eq!(
        [code(stopped), code(answered), code(dispatched)],
        [Some(ErrorCode::InsufficientScope); 3]
    );
    assert!(
        gateway
            .thread(
                &reader,
                ThreadArgs {
                    thread_id: thread,
                    turns: None
                }
            )
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_machine_that_a_client_may_not_use_does_not_exist_for_it() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("say one").await.thread_id;
    let elsewhere = limited(Limits {
        machines: Some(vec!["other".to_owned()]),
        ..Limits::default()
    });
    assert!(
        house
            .gateway
            .machines(&elsewhere, MachinesArgs::default())
            .unwrap()
            .machines
            .is_empty()
    );
    let on_mac = DispatchArgs {
        machine: Some("mac".to_owned()),
        ..prompt("say x")
    };
    assert_eq!(
        code(house.gateway.dispatch(&elsewhere, on_mac).await),
        Some(ErrorCode::UnknownMachine)
    );
    let args = ThreadArgs {
        thread_id: thread,
        turns: None,
    };
    assert_eq!(
        code(house.gateway.thread(&elsewhere, args).await),
        Some(ErrorCode::ThreadNotFound)
    );
}

#[tokio::test]
async fn a_machine_that_was_never_paired_hides_nobodys_mistake() {
    let (simulator, new) = (simulator().await, simulator().await);
    let unpaired = MachineSettings {
        token: None,
        ..settings("new", &new.url())
    };
    let unknown = || ThreadArgs {
        thread_id: "unknown".to_owned(),
        turns: None,
    };
    let machines = vec![
        (settings("mac", &simulator.url()), rules(&["*"])),
        (unpaired.clone(), rules(&["*"])),
    ];
    let house = house_of(machines, GatewaySettings::default());
    house.online("mac").await;
    let error = house.gateway.thread(&caller(), unknown()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ThreadNotFound);
    let hint = error.hint.unwrap();
    assert!(hint.contains("new") && hint.contains("t3_status"), "{hint}");
    // Who names it is told what is wrong with it.
    let there = DispatchArgs {
        machine: Some("new".to_owned()),
        ..more("unknown", "say two", WhenBusy::Reject)
    };
    let error = house.dispatch(there).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["machine"].as_str()),
        (ErrorCode::NeedsPairing, Some("new"))
    );

    // Where no other was asked, nobody knows.
    let house = house_of(vec![(unpaired.clone(), rules(&["*"]))], GatewaySettings::default());
    let error = house.gateway.thread(&caller(), unknown()).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["machine"].as_str()),
        (ErrorCode::NeedsPairing, Some("new"))
    );
    assert!(error.message.contains("`unknown`"), "{error}");

    // One that is away may have it, whatever else is not paired.
    let machines = vec![
        (unpaired, rules(&["*"])),
        (settings("mac", &simulator.url()), rules(&["*"])),
        (settings("away", NOWHERE), rules(&["*"])),
    ];
    let house = house_of(machines, GatewaySettings::default());
    house.online("mac").await;
    let error = house.gateway.thread(&caller(), unknown()).await.unwrap_err();
    assert_eq!(
        (error.code, error.extra["machine"].as_str()),
        (ErrorCode::MachineUnreachable, Some("away"))
    );
    assert!(error.message.contains("`unknown`"), "{error}");
}

#[tokio::test]
async fn what_was_dispatched_is_in_the_next_list() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    for number in 1..=3 {
        let started = house.start("sleep 60").await;
        let listed = house.gateway.threads(&caller(), ThreadsArgs::default()).await.unwrap();
        let ids: Vec<_> = listed.threads.iter().map(|thread| thread.thread_id.as_str()).collect();
        assert!(ids.contains(&started.thread_id.as_str()), "{ids:?}");
        let started = house.start("sleep 60").await;
        let counted = house
            .gateway
            .projects(&caller(), ProjectsArgs::default())
            .await
            .unwrap();
        assert_eq!(counted.projects[0].threads, 2 * number, "{}", started.thread_id);
    }
}

#[tokio::test]
async fn a_list_after_a_dispatch_shows_its_run_although_the_stream_is_past_it_with_another_thread() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let thread = house.start("say one").await.thread_id;
    house.ended(&thread).await;
    let machine = &house.gateway.fleet().members()[0].machine;
    let id = thread.clone().into();
    eventually("its row is the last", || {
        machine.thread(&id).is_some_and(|row| row.sequence == simulator.head())
    })
    .await;
    let state = async || {
        let listed = house.gateway.threads(&caller(), ThreadsArgs::default()).await.unwrap();
        listed.threads[0].state.clone()
    };
    assert_eq!(state().await, "completed");
    let far = simulator.head() + 1_000_000;
    simulator.faults().push_shell_item(
        json!({"kind": "thread.removed", "sequence": far, "location": "active", "threadId": "another"}),
    );
    eventually("the stream is past it", || machine.sequence() >= far).await;
    simulator.faults().hold_shell(true);
    house
        .dispatch(more(&thread, "sleep 600", WhenBusy::Reject))
        .await
        .unwrap();
    // The list looks first.
    let (listed, ()) = tokio::join!(state(), async { simulator.faults().hold_shell(false) });
    assert_ne!(listed, "completed");
}
