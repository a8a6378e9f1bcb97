//! `t3_watch` and `t3_events`: who is told what.

use std::time::Duration;

use serde_json::{Value, json};
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::gateway::{
    ANSWER_CHARS, Caller, DispatchArgs, ErrorCode, EventsAnswer, EventsArgs, ToolError, WatchAnswer, WatchArgs,
    WhenBusy,
};
use t3code_mcp::store::{Batch, NewEvent};
use t3code_mcp::watch;
use tempfile::tempdir;

use crate::support::*;

fn unwatched(text: &str) -> DispatchArgs {
    DispatchArgs {
        watch: Some(false),
        ..prompt(text)
    }
}

fn ids(answer: &WatchAnswer) -> (Vec<&str>, Vec<&str>) {
    (
        answer.watched.iter().map(|view| view.thread_id.as_str()).collect(),
        answer.unwatched.iter().map(|view| view.thread_id.as_str()).collect(),
    )
}

impl KeptHouse {
    async fn switch(&self, caller: &Caller, thread: &str, enabled: bool) -> Result<WatchAnswer, ToolError> {
        let args = WatchArgs {
            thread_id: Some(thread.to_owned()),
            enabled: Some(enabled),
        };
        tokio::time::timeout(PATIENCE, self.gateway.watch(caller, args))
            .await
            .expect("it is switched")
    }

    async fn events_for(&self, caller: &Caller, args: EventsArgs) -> Result<EventsAnswer, ToolError> {
        tokio::time::timeout(PATIENCE, self.gateway.events(caller, args, None))
            .await
            .expect("the call comes to its end")
    }

    /// Keeps events as the watch does.
    async fn tell(&self, events: Vec<NewEvent>) {
        let batch = Batch {
            events,
            ..Batch::default()
        };
        self.store.commit(batch).await.unwrap();
    }
}

fn event(id: &str, body: &Value) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        occurred_at: "2026-11-30T10:00:00Z".parse().unwrap(),
        machine: "mac".to_owned(),
        thread: "thread".to_owned().into(),
        project_id: Some("project-t3-smoke".to_owned().into()),
        client: Some("tester".to_owned()),
        kind: "completed".to_owned(),
        body: body.to_string(),
        deliver: false,
    }
}

/// Events `e0`, `e1`, … of the project that the machine has.
fn numbered(numbers: std::ops::Range<usize>) -> Vec<NewEvent> {
    numbers
        .map(|n| event(&format!("e{n}"), &json!({"id": format!("e{n}"), "project": "t3-smoke"})))
        .collect()
}

fn told(answer: &EventsAnswer) -> Vec<&str> {
    answer
        .events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect()
}

fn behind(cursor: &str) -> EventsArgs {
    EventsArgs {
        cursor: Some(cursor.to_owned()),
        ..EventsArgs::default()
    }
}

#[tokio::test]
async fn what_was_dispatched_is_watched_and_what_was_not_to_be_is_listed_as_such() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let on = house.start("sleep 600").await;
    let off = house.dispatch(unwatched("sleep 600")).await.unwrap();
    assert_eq!((on.watch, off.watch), (true, false));
    house.until(&off.thread_id, |view| view.state == "running").await;
    let listed = house.gateway.watch(&caller(), WatchArgs::default()).await.unwrap();
    assert_eq!(
        ids(&listed),
        (vec![on.thread_id.as_str()], vec![off.thread_id.as_str()])
    );
    let hidden = limited(Limits {
        projects: Some(Patterns::new(["other-*"]).unwrap()),
        ..Limits::default()
    });
    let listed = house.gateway.watch(&hidden, WatchArgs::default()).await.unwrap();
    assert_eq!(ids(&listed), (vec![], vec![]));
    house.end().await;
}

#[tokio::test]
async fn a_thread_that_somebody_else_started_is_watched_from_its_switch_on() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    // Another gateway stands for a person: this one knows nothing of its thread.
    let person = house(&simulator).await;
    let thread = person.start("say before").await.thread_id;
    person.ended(&thread).await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let watcher = Caller {
        origin: Some("chat:7".to_owned()),
        ..Caller::named("watcher")
    };
    let on = house.switch(&watcher, &thread, true).await.unwrap();
    assert_eq!(ids(&on), (vec![thread.as_str()], vec![]));
    let kept = house.store.tracked().await.unwrap();
    assert!(
        kept.iter()
            .any(|kept| kept.thread.thread.0 == thread && kept.thread.every)
    );
    person
        .dispatch(more(&thread, "say after", WhenBusy::Reject))
        .await
        .unwrap();
    let events = house.until_events(1).await;
    let body: Value = serde_json::from_str(&events[0].body).unwrap();
    assert_eq!(
        (&body["event"], &body["origin"], &body["client"], &body["text"]),
        (
            &json!("completed"),
            &json!("chat:7"),
            &json!("watcher"),
            &json!("after")
        )
    );
    let off = house.switch(&watcher, &thread, false).await.unwrap();
    assert_eq!(ids(&off), (vec![], vec![thread.as_str()]));
    // What was before the switch, and what comes after it was switched off, is not told.
    person.ended(&thread).await;
    person
        .dispatch(more(&thread, "say untold", WhenBusy::Reject))
        .await
        .unwrap();
    person.ended(&thread).await;
    let last = house.dispatch(prompt("say told")).await.unwrap();
    let events = house.until_events(2).await;
    assert_eq!((events.len(), &events[1].thread.0), (2, &last.thread_id));
    house.end().await;
}

#[tokio::test]
async fn only_who_dispatched_a_run_or_has_no_limits_turns_its_events_off() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let thread = house.start("sleep 600").await.thread_id;
    let limits = Limits {
        machines: Some(vec!["mac".to_owned()]),
        ..Limits::default()
    };
    let other = Caller {
        limits: limits.clone(),
        ..Caller::named("other")
    };
    let own = limited(limits);
    let reader = limited(Limits {
        read_only: true,
        ..Limits::default()
    });
    assert_eq!(
        code(house.switch(&other, &thread, false).await),
        Some(ErrorCode::InsufficientScope)
    );
    assert_eq!(
        code(house.switch(&reader, &thread, false).await),
        Some(ErrorCode::InsufficientScope)
    );
    assert_eq!(ids(&house.switch(&own, &thread, false).await.unwrap()).0.len(), 0);
    house.switch(&own, &thread, true).await.unwrap();
    assert_eq!(
        ids(&house.switch(&Caller::named("admin"), &thread, false).await.unwrap())
            .0
            .len(),
        0
    );
    assert!(house.watched().await.is_empty());
    house.end().await;
}

#[tokio::test]
async fn a_cursor_goes_on_from_where_the_last_answer_ended() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let none = house.events_for(&caller(), EventsArgs::default()).await.unwrap();
    assert_eq!((told(&none), none.truncated), (vec![], None));
    house.tell(numbered(0..5)).await;
    let all = house.events_for(&caller(), behind(&none.cursor)).await.unwrap();
    assert_eq!(told(&all), ["e0", "e1", "e2", "e3", "e4"]);
    // By twos, over a restart.
    let two = |cursor: &str| EventsArgs {
        limit: Some(2),
        ..behind(cursor)
    };
    let first = house.events_for(&caller(), two(&none.cursor)).await.unwrap();
    assert_eq!(told(&first), ["e0", "e1"]);
    house.end().await;
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let second = house.events_for(&caller(), two(&first.cursor)).await.unwrap();
    assert_eq!((told(&second), second.truncated), (vec!["e2", "e3"], None));
    // Without a cursor: the newest, oldest first, and the way on from them.
    let newest = house
        .events_for(
            &caller(),
            EventsArgs {
                limit: Some(2),
                ..EventsArgs::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(told(&newest), ["e3", "e4"]);
    let rest = house.events_for(&caller(), behind(&newest.cursor)).await.unwrap();
    assert_eq!((told(&rest), &rest.cursor), (vec![], &newest.cursor));
    // Of another ledger, of the future.
    let identity = newest.cursor.rsplit_once('.').unwrap().0;
    let other = newest.cursor.replace(identity, &uuid::Uuid::new_v4().to_string());
    for strange in [other, format!("{identity}.99")] {
        let found = house.events_for(&caller(), behind(&strange)).await.unwrap();
        assert_eq!((found.truncated, found.events.len()), (Some(true), 5), "{strange}");
    }
    // What is none tells nothing, the newest events least of all.
    for garbage in ["?", "", "other.3"] {
        let refused = house.events_for(&caller(), behind(garbage)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidRequest, "{garbage}");
        assert!(refused.hint.as_ref().unwrap().contains("leave it out"), "{refused}");
    }
    let other = EventsArgs {
        thread_id: Some("another".to_owned()),
        ..behind(&none.cursor)
    };
    assert_eq!(told(&house.events_for(&caller(), other).await.unwrap()).len(), 0);
    house.end().await;
}

#[tokio::test]
async fn a_call_that_waits_is_woken_by_the_event_and_by_nothing_that_is_hidden() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let machines = vec![(settings("mac", &simulator.url()), rules(&["t3-smoke"]))];
    let house = KeptHouse::start(folder.path(), machines).await;
    house.online("mac").await;
    // It has shown its projects.
    house.start("say warm").await;
    house.until_events(1).await;
    let start = house.events_for(&caller(), EventsArgs::default()).await.unwrap().cursor;
    let args = EventsArgs {
        wait: Some(25),
        ..behind(&start)
    };
    let caller = caller();
    let mut call = Box::pin(house.gateway.events(&caller, args, None));
    let hidden = NewEvent {
        project_id: Some("hidden".to_owned().into()),
        ..event("hidden", &json!({"id": "hidden", "project": "t3-smoke-not"}))
    };
    let elsewhere = NewEvent {
        machine: "gone".to_owned(),
        ..event("elsewhere", &json!({"id": "elsewhere", "project": "t3-smoke"}))
    };
    for untold in [hidden, elsewhere] {
        tokio::select! {
            said = &mut call => panic!("nothing was to be told: {said:?}"),
            () = house.tell(vec![untold]) => {}
        }
    }
    house.tell(numbered(0..1)).await;
    let woken = tokio::time::timeout(PATIENCE, call)
        .await
        .expect("it is woken")
        .unwrap();
    assert_eq!((told(&woken), woken.truncated), (vec!["e0"], None));
    house.end().await;
}

#[tokio::test]
async fn a_call_that_waits_ends_when_its_time_is_over_or_the_gateway_stops() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let waiting = |wait| EventsArgs {
        wait: Some(wait),
        ..EventsArgs::default()
    };
    let over = house.events_for(&caller(), waiting(1)).await.unwrap();
    assert!(over.events.is_empty());
    let call = {
        let gateway = std::sync::Arc::clone(&house.gateway);
        let args = waiting(3_000);
        tokio::spawn(async move { gateway.events(&caller(), args, None).await })
    };
    house.stop.cancel();
    let stopped = tokio::time::timeout(PATIENCE, call)
        .await
        .expect("it ends")
        .unwrap()
        .unwrap();
    assert_eq!(stopped.cursor, over.cursor);
    assert_eq!(
        code(house.events_for(&caller(), waiting(3_601)).await),
        Some(ErrorCode::InvalidRequest)
    );
    house.end().await;
}

#[tokio::test]
async fn events_of_what_a_caller_may_not_see_do_not_exist_for_it() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    // It has shown its projects.
    house.start("say warm").await;
    house.until_events(1).await;
    let seen = |limits: Limits| {
        let house = &house;
        async move {
            let caller = Caller {
                limits,
                ..Caller::named("other")
            };
            house
                .events_for(&caller, EventsArgs::default())
                .await
                .unwrap()
                .events
                .len()
        }
    };
    let of = |projects: &str| Limits {
        projects: Some(Patterns::new([projects]).unwrap()),
        ..Limits::default()
    };
    assert_eq!(seen(Limits::default()).await, 1);
    assert_eq!(seen(of("/home/dev/*")).await, 1);
    assert_eq!(seen(of("other-*")).await, 0);
    let elsewhere = Limits {
        machines: Some(vec!["other".to_owned()]),
        ..Limits::default()
    };
    assert_eq!(seen(elsewhere).await, 0);
    house.end().await;
    // The allowlist as it is now.
    let machines = vec![(settings("mac", &simulator.url()), rules(&["other-*"]))];
    let house = KeptHouse::start(folder.path(), machines).await;
    let hidden = house.events_for(&caller(), EventsArgs::default()).await.unwrap();
    assert_eq!(told(&hidden).len(), 0);
    house.end().await;
}

#[tokio::test]
async fn events_are_there_while_their_machine_is_away() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    house.start("say one").await;
    house.until_events(1).await;
    house.end().await;
    simulator.stop().await;
    let house = KeptHouse::away(folder.path(), &simulator).await;
    let found = house.events_for(&caller(), EventsArgs::default()).await.unwrap();
    assert_eq!((found.events.len(), found.truncated), (1, None));
    // By its path alone nobody can tell whether it may be shown: it says so.
    let by_path = limited(Limits {
        projects: Some(Patterns::new(["/home/dev/*"]).unwrap()),
        ..Limits::default()
    });
    let found = house.events_for(&by_path, EventsArgs::default()).await.unwrap();
    assert_eq!((found.events.len(), found.truncated), (0, Some(true)));
    house.end().await;
}

#[tokio::test]
async fn an_answer_stays_within_its_size_and_the_cursor_points_to_its_last_event() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let start = house.events_for(&caller(), EventsArgs::default()).await.unwrap().cursor;
    let text = "x".repeat(7_900);
    let large = (0..7)
        .map(|n| {
            event(
                &format!("e{n}"),
                &json!({"id": format!("e{n}"), "project": "t3-smoke", "text": text}),
            )
        })
        .collect();
    house.tell(large).await;
    let (mut cursor, mut seen) = (start, Vec::new());
    while seen.len() < 7 {
        let answer = house.events_for(&caller(), behind(&cursor)).await.unwrap();
        assert!(serde_json::to_string(&answer).unwrap().chars().count() <= ANSWER_CHARS);
        assert!(!answer.events.is_empty());
        seen.extend(told(&answer).into_iter().map(str::to_owned));
        cursor = answer.cursor;
    }
    assert_eq!(seen, ["e0", "e1", "e2", "e3", "e4", "e5", "e6"]);
    // The newest that fit.
    let newest = house.events_for(&caller(), EventsArgs::default()).await.unwrap();
    assert_eq!(told(&newest), ["e5", "e6"]);
    house.end().await;
}

#[tokio::test]
async fn without_a_ledger_nothing_is_promised() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    assert!(!house.start("say one").await.watch);
    assert_eq!(
        code(house.gateway.events(&caller(), EventsArgs::default(), None).await),
        Some(ErrorCode::Internal)
    );
    tokio::time::timeout(
        Duration::from_secs(5),
        house.gateway.watch(&caller(), WatchArgs::default()),
    )
    .await
    .expect("at once")
    .unwrap_err();
}

#[tokio::test]
async fn a_token_that_is_refused_is_told_once_however_often_the_gateway_starts() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    for token in ["lost", "other"] {
        simulator.faults().revoke_token(token);
    }
    for (token, wanted) in [("lost", 1), ("lost", 1), ("other", 2)] {
        let mut machine = settings("mac", &simulator.url());
        machine.token = Some(token.to_owned().into());
        let house = KeptHouse::start(folder.path(), vec![(machine, rules(&["*"]))]).await;
        let before = house.store.counts().commits;
        let member = house.gateway.fleet().members()[0].clone();
        let telling = tokio::spawn(watch::tell_credential(member, house.store.clone(), house.stop.clone()));
        let tried = async {
            while house.store.counts().commits == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, tried)
            .await
            .expect("it is kept, or known");
        let events = house.events().await;
        assert_eq!(events.len(), wanted, "{token}");
        assert!(
            events
                .iter()
                .all(|event| event.kind == "credential" && event.body.contains("needs_pairing"))
        );
        house.end().await;
        telling.await.unwrap();
    }
}

#[tokio::test]
async fn who_goes_right_after_an_end_was_shown_leaves_its_event_behind() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let member = house.gateway.fleet().members()[0].clone();
    for told in 1..=5 {
        let started = house.start("say one").await;
        let thread = started.thread_id.into();
        let mut shell = member.machine.watch_shell();
        let ended = async {
            loop {
                shell.mark_unchanged();
                let row = member.machine.thread(&thread);
                if row.is_some_and(|row| row.latest_run_completed_at.is_some()) {
                    return;
                }
                shell.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
        house.gateway.caught_up(PATIENCE).await;
        assert_eq!(house.events().await.len(), told);
    }
    house.end().await;
}

#[tokio::test]
async fn nobody_tells_of_the_credential_of_a_machine_that_is_gone() {
    let (simulator, folder) = (simulator().await, tempdir().unwrap());
    let house = KeptHouse::over(folder.path(), &simulator).await;
    let fleet = house.gateway.fleet();
    let member = fleet.members()[0].clone();
    let telling = tokio::spawn(watch::tell_credential(member, house.store.clone(), house.stop.clone()));
    assert!(fleet.dismiss("mac"));
    tokio::time::timeout(PATIENCE, telling)
        .await
        .expect("it ends with its machine")
        .unwrap();
    house.end().await;
}
