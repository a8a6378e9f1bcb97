//! The real binary, killed without a word: what it had accepted holds when it is started again.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stdio::Client;
use crate::support::{Machine, Place, until};

fn task() -> Value {
    json!({"machine": "sim", "project": "t3-smoke", "model": "codex/gpt-5", "prompt": "say once", "request_id": "r"})
}

fn killed(mut client: Client) {
    client.serve.signal(Signal::KILL);
    assert_eq!(client.serve.end(), None, "it was killed");
}

/// Every `completed` event of the thread, read from the beginning.
fn completed(client: &mut Client, id: u64, thread: &str) -> usize {
    let all = client.done(id, "t3_events", &json!({"limit": 100, "thread_id": thread}));
    let events = all["events"].as_array().unwrap();
    events.iter().filter(|event| event["event"] == "completed").count()
}

/// Waits for the thread's first event.
fn told(client: &mut Client, id: u64, thread: &str) -> Value {
    let all = client.done(id, "t3_events", &json!({"thread_id": thread, "wait": 25}));
    all["events"][0].clone()
}

#[test]
fn a_request_id_holds_and_its_end_is_told_once_over_kills() {
    let machine = Machine::start();
    let place = machine.place();
    let mut client = Client::start(&place);
    let first = client.done(1, "t3_dispatch", &task());
    assert_eq!(first["watch"], true);
    killed(client);
    let mut client = Client::start(&place);
    let again = client.done(1, "t3_dispatch", &task());
    assert_eq!(
        (&again["thread_id"], &again["run_id"], &again["existing"]),
        (&first["thread_id"], &first["run_id"], &json!(true))
    );
    let thread = first["thread_id"].as_str().unwrap();
    let event = told(&mut client, 2, thread);
    assert_eq!((&event["event"], &event["text"]), (&json!("completed"), &json!("once")));
    killed(client);
    let mut client = Client::start(&place);
    client.done(1, "t3_dispatch", &task());
    assert_eq!(completed(&mut client, 2, thread), 1);
    assert_eq!(
        (machine.simulator.thread_count(), machine.simulator.runs().len()),
        (1, 1)
    );
}

#[test]
fn what_was_being_sent_when_it_was_killed_is_there_once() {
    let machine = Machine::start();
    let place: Place = machine.place();
    let mut client = Client::start(&place);
    // T3 takes it and never says so.
    machine.faults.lose_next_answer(false);
    client.call(1, "t3_dispatch", &task());
    until("it was sent", || !machine.simulator.received().is_empty());
    killed(client);
    let mut client = Client::start(&place);
    let found = client.done(1, "t3_dispatch", &task());
    assert_eq!(found["existing"], true);
    let thread = found["thread_id"].as_str().unwrap();
    assert_eq!(told(&mut client, 2, thread)["event"], "completed");
    assert_eq!(completed(&mut client, 3, thread), 1);
    assert_eq!(
        (machine.simulator.thread_count(), machine.simulator.runs().len()),
        (1, 1)
    );
}

#[test]
fn a_call_with_many_items_that_a_kill_cut_off_is_completed_and_repeats_nothing() {
    let machine = Machine::start();
    let place = machine.place();
    let items: Vec<Value> = (0..9)
        .map(|n| json!({"machine": "sim", "project": "t3-smoke", "model": "codex/gpt-5", "prompt": format!("say {n}")}))
        .collect();
    let call = json!({"items": items, "request_id": "r"});
    let mut client = Client::start(&place);
    // T3 takes the first ones, whose answers do not come; the last ones have to wait for them.
    machine.faults.hold_answers(true);
    client.call(1, "t3_dispatch_many", &call);
    until("the first ones were sent", || machine.simulator.received().len() >= 6);
    killed(client);
    machine.faults.hold_answers(false);
    assert_eq!(machine.simulator.thread_count(), 6);

    let mut client = Client::start(&place);
    let answer = client.done(1, "t3_dispatch_many", &call);
    let results = answer["results"].as_array().unwrap();
    assert!(
        results.iter().all(|result| result["ok"]["run_id"].is_string()),
        "{answer}"
    );
    let existing = results.iter().filter(|result| result["ok"]["existing"] == true);
    assert_eq!(existing.count(), 6);
    for (n, result) in (2..).zip(results) {
        let event = told(&mut client, n, result["ok"]["thread_id"].as_str().unwrap());
        assert_eq!(event["text"], format!("{}", n - 2));
    }
    assert_eq!(
        (machine.simulator.thread_count(), machine.simulator.runs().len()),
        (9, 9)
    );
}
