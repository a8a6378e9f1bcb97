//! When a call is found again, and when never.

use proptest::prelude::*;

use super::*;

fn args(prompt: &str) -> DispatchArgs {
    DispatchArgs {
        prompt: prompt.to_owned(),
        ..DispatchArgs::default()
    }
}

fn call<'a>(client: &'a str, request_id: Option<&'a str>, prompt: &str, delivery: &'a Delivery) -> Call<'a> {
    Call {
        client,
        request_id,
        hash: payload_hash(&args(prompt)),
        delivery,
    }
}

fn open(receipts: &mut Receipts, call: &Call<'_>) -> Arc<Receipt> {
    let fresh = || uuid::Uuid::new_v4().to_string();
    receipts.open(call, "mac", None, fresh).expect("no other arguments")
}

#[test]
fn the_request_id_is_no_part_of_the_arguments() {
    let with_id = DispatchArgs {
        request_id: Some("r".to_owned()),
        ..args("x")
    };
    assert_eq!(payload_hash(&with_id), payload_hash(&args("x")));
    assert_ne!(payload_hash(&args("y")), payload_hash(&args("x")));
}

#[test]
fn the_same_request_id_finds_the_call_however_its_answer_was_delivered() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("c", Some("r"), "x", &delivery));
    delivery.answered();
    let found = receipts.find(&call("c", Some("r"), "x", &Delivery::default()), Instant::now());
    assert!(found.is_ok_and(|f| f.is_some_and(|(r, m)| r.thread == first.thread && m == Matched::RequestId)));
}

#[test]
fn the_same_request_id_with_other_arguments_is_refused() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    open(&mut receipts, &call("c", Some("r"), "x", &delivery));
    let other = call("c", Some("r"), "y", &delivery);
    assert_eq!(receipts.find(&other, Instant::now()).err(), Some(OtherArguments));
    assert_eq!(
        receipts.open(&other, "mac", None, String::new).err(),
        Some(OtherArguments)
    );
}

#[test]
fn request_ids_of_two_clients_are_two() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("a", Some("r"), "x", &delivery));
    let second = open(&mut receipts, &call("b", Some("r"), "x", &delivery));
    assert_ne!(first.thread, second.thread);
}

#[test]
fn an_equal_call_finds_one_whose_answer_was_lost_and_only_for_two_minutes() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    open(&mut receipts, &call("c", None, "x", &delivery));
    delivery.lost();
    let later = Instant::now() + IMPLICIT_WINDOW + Duration::from_secs(1);
    let retry = Delivery::default();
    assert_eq!(
        receipts.find(&call("c", None, "x", &retry), later).map(|f| f.is_some()),
        Ok(false)
    );
    let found = receipts.find(&call("c", None, "x", &retry), Instant::now());
    assert_eq!(found.map(|f| f.map(|(_, m)| m)), Ok(Some(Matched::Implicit)));
}

#[test]
fn an_equal_call_finds_one_whose_caller_is_away_unless_it_came_back_and_read() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    open(&mut receipts, &call("c", None, "x", &delivery));
    let found = |receipts: &Receipts| {
        let retry = Delivery::default();
        let found = receipts.find(&call("c", None, "x", &retry), Instant::now());
        // The look hands the receipt over; what is asked here is only whether it was found.
        if let Ok(Some((receipt, _))) = &found {
            receipt.hand_over(&delivery);
        }
        found.map(|found| found.is_some())
    };
    delivery.away();
    assert_eq!(found(&receipts), Ok(true));
    delivery.back();
    assert_eq!(found(&receipts), Ok(false));
    delivery.away();
    delivery.answered();
    assert_eq!(found(&receipts), Ok(false));
    delivery.lost();
    assert_eq!(delivery.state(), Some(Delivered::Answered));
}

#[test]
fn once_the_retry_was_answered_a_third_call_is_new() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    open(&mut receipts, &call("c", None, "x", &delivery));
    delivery.lost();
    let retry = Delivery::default();
    assert!(
        receipts
            .find(&call("c", None, "x", &retry), Instant::now())
            .is_ok_and(|f| f.is_some())
    );
    retry.answered();
    let third = Delivery::default();
    assert!(
        receipts
            .find(&call("c", None, "x", &third), Instant::now())
            .is_ok_and(|f| f.is_none())
    );
}

#[test]
fn an_unknown_outcome_is_found_although_its_answer_was_written() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let receipt = open(&mut receipts, &call("c", None, "x", &delivery));
    receipt.mark_unknown(Instant::now());
    delivery.answered();
    assert!(
        receipts
            .find(&call("c", None, "x", &Delivery::default()), Instant::now())
            .is_ok_and(|f| f.is_some())
    );
}

#[derive(Clone, Debug)]
struct Step {
    client: u8,
    prompt: u8,
    request: Option<u8>,
    answered: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (0u8..2, 0u8..2, proptest::option::of(0u8..3), any::<bool>()).prop_map(|(client, prompt, request, answered)| Step {
        client,
        prompt,
        request,
        answered,
    })
}

proptest! {
    #[test]
    fn an_answered_call_is_never_merged_and_a_request_id_always_is(steps in proptest::collection::vec(step(), 1..30)) {
        let mut receipts = Receipts::new();
        // What each receipt's last answer came to, by thread.
        let mut answered = std::collections::HashMap::new();
        let mut by_request = std::collections::HashMap::new();
        for step in steps {
            let (client, request) = (step.client.to_string(), step.request.map(|r| r.to_string()));
            let prompt = step.prompt.to_string();
            let delivery = Delivery::default();
            let call = call(&client, request.as_deref(), &prompt, &delivery);
            let used = request.clone().and_then(|r| by_request.get(&(client.clone(), r)).cloned());
            let receipt = match receipts.find(&call, Instant::now()) {
                Err(OtherArguments) => {
                    prop_assert!(used.is_some_and(|(hash, _): (PayloadHash, ThreadId)| hash != call.hash));
                    continue;
                }
                Ok(Some((receipt, Matched::Implicit))) => {
                    prop_assert_eq!(answered.get(&receipt.thread), Some(&false));
                    receipt
                }
                Ok(Some((receipt, Matched::RequestId))) => {
                    prop_assert_eq!(used.map(|(_, thread)| thread), Some(receipt.thread.clone()));
                    receipt
                }
                Ok(None) => {
                    prop_assert!(used.is_none());
                    open(&mut receipts, &call)
                }
            };
            if let Some(request) = request.clone() {
                by_request.insert((client.clone(), request), (call.hash, receipt.thread.clone()));
            }
            if step.answered { delivery.answered() } else { delivery.lost() }
            answered.insert(receipt.thread.clone(), step.answered);
        }
    }
}
