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

type Claimed = Result<(Arc<Receipt>, Option<Matched>), OtherArguments>;

fn claim_at(receipts: &mut Receipts, call: &Call<'_>, now: Instant) -> Claimed {
    receipts.claim(call, now, None, || uuid::Uuid::new_v4().to_string())
}

fn claim(receipts: &mut Receipts, call: &Call<'_>) -> Claimed {
    claim_at(receipts, call, Instant::now())
}

/// A first call, and that it found nothing.
fn open(receipts: &mut Receipts, call: &Call<'_>) -> Arc<Receipt> {
    let (receipt, matched) = claim(receipts, call).expect("no other arguments");
    assert_eq!(matched, None);
    receipt
}

/// Whether an equal call would find the receipt.
fn is_found(receipts: &mut Receipts, receipt: &Arc<Receipt>) -> bool {
    let delivery = Delivery::default();
    let found = claim(receipts, &call("c", None, "x", &delivery)).expect("no other arguments");
    if found.1.is_none() {
        receipts.forget_unsent(&found.0);
    }
    Arc::ptr_eq(&found.0, receipt)
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
    let found = claim(&mut receipts, &call("c", Some("r"), "x", &Delivery::default()));
    assert!(found.is_ok_and(|(r, m)| Arc::ptr_eq(&r, &first) && m == Some(Matched::RequestId)));
}

#[test]
fn the_same_request_id_with_other_arguments_is_refused() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    open(&mut receipts, &call("c", Some("r"), "x", &delivery));
    let other = call("c", Some("r"), "y", &delivery);
    assert_eq!(claim(&mut receipts, &other).err(), Some(OtherArguments));
}

#[test]
fn a_request_id_whose_call_sent_nothing_may_be_used_again_and_one_that_did_may_not() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let other = call("c", Some("r"), "y", &delivery);
    let first = open(&mut receipts, &call("c", Some("r"), "x", &delivery));
    let waits = claim(&mut receipts, &call("c", Some("r"), "x", &delivery));
    receipts.forget_unsent(&first);
    assert_eq!(
        claim(&mut receipts, &other).err(),
        Some(OtherArguments),
        "an equal call waits"
    );
    drop(waits);
    receipts.forget_unsent(&first);
    let second = open(&mut receipts, &other);
    second.progress.try_lock().expect("nobody works on it").sent = true;
    receipts.forget_unsent(&second);
    assert_eq!(
        claim(&mut receipts, &call("c", Some("r"), "x", &delivery)).err(),
        Some(OtherArguments)
    );
}

#[test]
fn request_ids_of_two_clients_are_two() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("a", Some("r"), "x", &delivery));
    let second = open(&mut receipts, &call("b", Some("r"), "x", &delivery));
    assert_ne!(first.intent("mac").thread(), second.intent("mac").thread());
}

#[test]
fn an_equal_call_finds_one_whose_answer_was_lost_and_only_for_two_minutes() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("c", None, "x", &delivery));
    assert!(!is_found(&mut receipts, &first), "it still runs");
    delivery.lost();
    let (retry, later) = (
        Delivery::default(),
        Instant::now() + IMPLICIT_WINDOW + Duration::from_secs(1),
    );
    let late = claim_at(&mut receipts, &call("c", None, "x", &retry), later);
    assert_eq!(late.map(|(_, m)| m), Ok(None));
    let in_time = claim(&mut receipts, &call("c", None, "x", &retry));
    assert!(in_time.is_ok_and(|(r, m)| Arc::ptr_eq(&r, &first) && m == Some(Matched::Implicit)));
}

#[test]
fn an_equal_call_finds_one_whose_caller_is_away_unless_it_came_back_and_read() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("c", None, "x", &delivery));
    delivery.away();
    assert!(is_found(&mut receipts, &first));
    delivery.back();
    assert!(!is_found(&mut receipts, &first));
    delivery.away();
    delivery.answered();
    assert!(!is_found(&mut receipts, &first));
    delivery.lost();
    assert_eq!(delivery.state(), Some(Delivered::Answered));
}

#[test]
fn once_the_retry_was_answered_well_a_third_call_is_new() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("c", None, "x", &delivery));
    delivery.lost();
    let retry = Delivery::default();
    first.handle_end(true, &Outcome::Started { run: None }, &retry, Instant::now());
    retry.answered();
    assert!(!is_found(&mut receipts, &first));
}

#[test]
fn a_retry_that_fails_leaves_the_loss_to_be_found_although_its_failure_was_delivered() {
    for outcome in [Outcome::Unknown, Outcome::Started { run: None }] {
        let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
        let first = open(&mut receipts, &call("c", None, "x", &delivery));
        first.handle_end(false, &outcome, &delivery, Instant::now());
        delivery.answered();
        assert!(is_found(&mut receipts, &first), "{outcome:?}");
        let retry = Delivery::default();
        first.handle_end(false, &outcome, &retry, Instant::now());
        retry.answered();
        assert!(is_found(&mut receipts, &first), "{outcome:?}");
    }
}

#[test]
fn a_definite_refusal_that_was_delivered_ends_the_search() {
    let (mut receipts, delivery) = (Receipts::new(), Delivery::default());
    let first = open(&mut receipts, &call("c", None, "x", &delivery));
    first.handle_end(false, &Outcome::Unknown, &delivery, Instant::now());
    delivery.answered();
    first.handle_end(false, &Outcome::NotStarted, &Delivery::default(), Instant::now());
    assert!(!is_found(&mut receipts, &first));
}

#[derive(Clone, Debug)]
struct Step {
    client: u8,
    prompt: u8,
    request: Option<u8>,
    good: bool,
    answered: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (
        0u8..2,
        0u8..2,
        proptest::option::of(0u8..3),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(client, prompt, request, good, answered)| Step {
            client,
            prompt,
            request,
            good,
            answered,
        })
}

proptest! {
    #[test]
    fn what_was_well_answered_is_never_merged_and_a_request_id_always_is(steps in proptest::collection::vec(step(), 1..30)) {
        let mut receipts = Receipts::new();
        // Whether each receipt's caller knows what became of the work, by client and request.
        let mut known = std::collections::HashMap::new();
        let mut by_request = std::collections::HashMap::new();
        for step in steps {
            let (client, request) = (step.client.to_string(), step.request.map(|r| r.to_string()));
            let prompt = step.prompt.to_string();
            let delivery = Delivery::default();
            let call = call(&client, request.as_deref(), &prompt, &delivery);
            let used = request.clone().and_then(|r| by_request.get(&(client.clone(), r)).copied());
            let Ok((receipt, matched)) = claim(&mut receipts, &call) else {
                prop_assert!(used.is_some_and(|hash: PayloadHash| hash != call.hash));
                continue;
            };
            let key = (client.clone(), receipt.request.clone());
            match matched {
                Some(Matched::Implicit) => prop_assert_eq!(known.get(&key), Some(&false)),
                Some(Matched::RequestId) => prop_assert_eq!(used, Some(call.hash)),
                None => prop_assert!(used.is_none() && !known.contains_key(&key)),
            }
            if let Some(request) = request.clone() {
                by_request.insert((client.clone(), request), call.hash);
            }
            receipt.handle_end(step.good, &Outcome::Started { run: None }, &delivery, Instant::now());
            if step.answered { delivery.answered() } else { delivery.lost() }
            known.insert(key, step.good && step.answered);
        }
    }
}
