//! Several dispatches in one call.

use std::sync::Arc;

use t3code_mcp::fleet::Limits;
use t3code_mcp::gateway::{
    ANSWER_CHARS, Caller, Delivery, DispatchAnswer, DispatchArgs, DispatchManyAnswer, DispatchManyArgs, ErrorCode,
    GatewaySettings, ToolError, WhenBusy,
};

use crate::support::*;

fn batch(items: Vec<DispatchArgs>, request_id: Option<&str>) -> DispatchManyArgs {
    DispatchManyArgs {
        items,
        request_id: request_id.map(str::to_owned),
    }
}

/// So many, `say 0` and so on.
fn says(count: usize) -> Vec<DispatchArgs> {
    (0..count).map(|n| prompt(&format!("say {n}"))).collect()
}

impl House {
    async fn many(&self, args: DispatchManyArgs) -> Result<DispatchManyAnswer, ToolError> {
        let caller = caller();
        let answer = self.gateway.dispatch_many(&caller, args).await;
        caller.delivery.answered();
        answer
    }
}

fn oks(answer: &DispatchManyAnswer) -> Vec<&DispatchAnswer> {
    let results = answer.results.iter();
    results
        .map(|result| result.ok.as_ref().expect("it was dispatched"))
        .collect()
}

fn threads(answer: &DispatchManyAnswer) -> Vec<&str> {
    oks(answer).iter().map(|ok| ok.thread_id.as_str()).collect()
}

#[tokio::test]
async fn each_item_has_its_result_in_order_and_one_that_fails_stops_no_other() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let mut items = says(4);
    items[1].project = Some("shop".to_owned());
    items[2].prompt = " ".to_owned();
    let answer = house.many(batch(items, None)).await.unwrap();
    let codes: Vec<_> = answer
        .results
        .iter()
        .map(|result| result.error.as_ref().map(|error| error.code.as_str()))
        .collect();
    assert_eq!(codes, [None, Some("project_not_found"), Some("invalid_request"), None]);
    assert_eq!(answer.results[1].error.as_ref().unwrap().extra["valid"][0], "t3-smoke");
    let last = answer.results[3].ok.as_ref().unwrap();
    assert_eq!(report(&house.ended(&last.thread_id).await), "3");
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn an_item_with_an_id_of_its_own_is_the_same_call_alone_and_among_equal_ones() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let named = |id: &str| DispatchArgs {
        request_id: Some(id.to_owned()),
        ..prompt("say it")
    };
    let answer = house.many(batch(vec![named("a"), named("b")], None)).await.unwrap();
    let made: Vec<String> = threads(&answer).into_iter().map(str::to_owned).collect();
    for (id, thread) in ["b", "a"].into_iter().zip(made.iter().rev()) {
        let again = house.many(batch(vec![named(id)], None)).await.unwrap();
        assert_eq!(threads(&again), [thread], "{id}");
    }
    let turned = house.many(batch(vec![named("b"), named("a")], None)).await.unwrap();
    assert_eq!(threads(&turned), [&made[1], &made[0]]);
    assert_eq!(simulator.runs().len(), 2);
}

#[tokio::test]
async fn no_more_than_six_are_at_work_on_one_machine() {
    let (one, other) = (simulator().await, simulator().await);
    let machines = vec![
        (settings("one", &one.url()), rules(&["*"])),
        (settings("other", &other.url()), rules(&["*"])),
    ];
    let house = Arc::new(house_of(machines, GatewaySettings::default()));
    house.online("one").await;
    house.online("other").await;
    let mut items = says(16);
    for (n, item) in items.iter_mut().enumerate() {
        item.machine = Some(if n % 4 == 0 { "other" } else { "one" }.to_owned());
    }
    // Nothing is answered: what was sent is all that can be.
    let begun = |simulator: &t3code_mcp::simulator::Simulator| simulator.received().len();
    house
        .many(batch(vec![items[0].clone(), items[1].clone()], None))
        .await
        .unwrap();
    one.faults().hold_answers(true);
    other.faults().hold_answers(true);
    let call = tokio::spawn({
        let house = Arc::clone(&house);
        async move { house.many(batch(items, None)).await }
    });
    eventually("as many as may", || begun(&one) == 7 && begun(&other) == 5).await;
    // The other's have all begun, so that all had their chance.
    assert_eq!((begun(&one), begun(&other)), (7, 5));
    one.faults().hold_answers(false);
    other.faults().hold_answers(false);
    let answer = call.await.unwrap().unwrap();
    assert_eq!(oks(&answer).len(), 16);
    assert_eq!((one.thread_count(), other.thread_count()), (13, 5));
}

#[tokio::test]
async fn a_repetition_finds_what_was_started_and_starts_what_is_missing() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let first = house.many(batch(says(5), Some("r"))).await.unwrap();
    let again = house.many(batch(says(5), Some("r"))).await.unwrap();
    assert_eq!(threads(&again), threads(&first));
    assert!(oks(&again).iter().all(|ok| ok.existing == Some(true)));
    // Another gateway remembers nothing, and still finds them.
    let later = crate::support::house(&simulator)
        .await
        .many(batch(says(5), Some("r")))
        .await
        .unwrap();
    assert_eq!(threads(&later), threads(&first));
    assert_eq!(simulator.runs().len(), 5);
}

#[tokio::test]
async fn a_request_id_is_not_used_for_other_items_not_even_for_more_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = simulator().await;
    let kept = KeptHouse::over(folder.path(), &simulator).await;
    kept.many(batch(says(3), Some("r"))).await.unwrap();
    for items in [
        says(4),
        says(2),
        vec![prompt("say 0"), prompt("say 1"), prompt("say x")],
    ] {
        assert_eq!(
            code(kept.many(batch(items, Some("r"))).await),
            Some(ErrorCode::InvalidRequest)
        );
    }
    kept.end().await;
    let kept = KeptHouse::over(folder.path(), &simulator).await;
    assert_eq!(
        code(kept.many(batch(says(4), Some("r"))).await),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(simulator.runs().len(), 3);
    // What never came to anything may be put right.
    let wrong: Vec<_> = says(2)
        .into_iter()
        .map(|item| DispatchArgs {
            project: Some("shop".to_owned()),
            ..item
        })
        .collect();
    let failed = kept.many(batch(wrong, Some("s"))).await.unwrap();
    assert!(failed.results.iter().all(|result| result.ok.is_none()));
    let right = kept.many(batch(says(2), Some("s"))).await.unwrap();
    assert_eq!(oks(&right).len(), 2);
    kept.end().await;
}

#[tokio::test]
async fn without_a_request_id_each_item_is_found_by_an_equal_one_if_the_answer_was_lost() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    // Two of them are equal, and are two all the same.
    let items = || vec![prompt("say one"), prompt("say one"), prompt("say two")];
    let lost = Caller {
        delivery: Delivery::reported(),
        ..caller()
    };
    let call = house.gateway.dispatch_many(&lost, batch(items(), None));
    let first = tokio::time::timeout(PATIENCE, call)
        .await
        .expect("it waits for nobody")
        .unwrap();
    assert_eq!(simulator.runs().len(), 3);
    lost.delivery.lost();
    let mut more = items();
    more.push(prompt("say three"));
    let again = house.many(batch(more, None)).await.unwrap();
    assert_eq!(threads(&again)[..3], threads(&first));
    let existing: Vec<_> = oks(&again).iter().map(|ok| ok.existing).collect();
    assert_eq!(existing, [Some(true), Some(true), Some(true), None]);
    // That one was answered.
    let anew = house.many(batch(items(), None)).await.unwrap();
    assert!(oks(&anew).iter().all(|ok| ok.existing.is_none()));
    assert_eq!(simulator.runs().len(), 7);
}

#[tokio::test]
async fn two_calls_with_the_same_items_the_other_way_round_do_not_wait_for_each_other() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let (a, b) = (prompt("say a"), prompt("say b"));
    let calls = [vec![a.clone(), b.clone()], vec![b, a]].map(|items| {
        let caller = Caller {
            delivery: Delivery::reported(),
            ..caller()
        };
        let gateway = Arc::clone(&house.gateway);
        async move {
            let answer = gateway.dispatch_many(&caller, batch(items, None)).await;
            caller.delivery.answered();
            answer.unwrap()
        }
    });
    let [one, other] = calls;
    let both = futures_util::future::join(one, other);
    let (one, other) = tokio::time::timeout(PATIENCE, both)
        .await
        .expect("neither waits for ever");
    // Each was answered: they are four.
    assert!(oks(&one).iter().chain(&oks(&other)).all(|ok| ok.existing.is_none()));
    assert_eq!(simulator.runs().len(), 4);
}

#[tokio::test]
async fn a_client_that_hangs_up_stops_no_item() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    house.start("say warm").await;
    {
        let caller = caller();
        let call = house.gateway.dispatch_many(&caller, batch(says(20), None));
        let mut call = std::pin::pin!(call);
        assert!(futures_util::poll!(&mut call).is_pending());
    }
    eventually("all of them start", || simulator.runs().len() == 21).await;
}

#[tokio::test]
async fn what_a_broken_connection_kept_from_starting_is_started_by_a_repetition() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    let started = house.start("say one").await;
    house.ended(&started.thread_id).await;
    simulator.faults().lose_next_answer(true);
    let items = || {
        vec![
            more(&started.thread_id, "say more", WhenBusy::Reject),
            prompt("say new"),
            prompt("say other"),
        ]
    };
    // One loses its answer, and with it the connection: the others may not even get to T3.
    house.many(batch(items(), Some("r"))).await.unwrap();
    let answer = house.many(batch(items(), Some("r"))).await.unwrap();
    assert_eq!(threads(&answer)[0], started.thread_id);
    assert_eq!(report(&house.ended(&started.thread_id).await), "more");
    assert_eq!(simulator.runs().len(), 4);
}

#[tokio::test]
async fn too_many_none_or_a_reader_start_nothing_and_long_errors_stay_within_the_answer() {
    let simulator = simulator().await;
    let house = house(&simulator).await;
    for items in [Vec::new(), says(21)] {
        assert_eq!(
            code(house.many(batch(items, None)).await),
            Some(ErrorCode::InvalidRequest)
        );
    }
    assert_eq!(
        code(house.many(batch(says(1), Some(""))).await),
        Some(ErrorCode::InvalidRequest)
    );
    let reader = limited(Limits {
        read_only: true,
        ..Limits::default()
    });
    assert_eq!(
        code(house.gateway.dispatch_many(&reader, batch(says(1), None)).await),
        Some(ErrorCode::InsufficientScope)
    );
    let long: Vec<_> = (0..20)
        .map(|n| DispatchArgs {
            project: Some(format!("{n}{}", "x".repeat(3_000))),
            machine: Some("mac".to_owned()),
            ..prompt("say x")
        })
        .collect();
    let answer = house.many(batch(long, None)).await.unwrap();
    assert!(serde_json::to_string(&answer).unwrap().len() <= ANSWER_CHARS);
    assert!(simulator.runs().is_empty());
}
