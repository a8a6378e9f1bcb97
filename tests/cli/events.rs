//! `events`: the ledger as a person reads it, beside the process that keeps it and after that one ended.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::stdio::Client;
use crate::support::{Machine, Place, until};

fn place(machine: &Machine, hook: SocketAddr) -> Place {
    Place::new().config(&format!(
        "[machines.sim]\nurl = \"{}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n[hook]\nurl = \"http://{hook}/hook\"\n",
        machine.simulator.url()
    ))
}

fn listed(place: &Place) -> Vec<Value> {
    let ran = place.run(&["events", "list", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let all: Value = serde_json::from_str(&ran.out).unwrap();
    all["events"].as_array().unwrap().clone()
}

#[test]
fn a_delivered_event_is_listed_shown_and_not_sent_twice() {
    let machine = Machine::start();
    let place = place(&machine, Receiver::start().address);
    let mut client = Client::start(&place);
    client.done(1, "t3_dispatch", &json!({"project": "t3-smoke", "prompt": "say it"}));
    let delivered = |place: &Place| {
        let mut listed = listed(place);
        listed.retain(|listed| listed["delivery"]["state"] == "delivered");
        listed
    };
    until("it is delivered", || !delivered(&place).is_empty());
    let taken = delivered(&place);
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(
        (&taken[0]["event"]["event"], &taken[0]["event"]["text"]),
        (&json!("completed"), &json!("it"))
    );

    let id = taken[0]["event"]["id"].as_str().unwrap();
    let shown = place.run(&["events", "show", id, "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown.out).unwrap()["event"]["id"], id);
    let again = place.run(&["events", "retry", id]);
    assert_ne!(again.code, Some(0));
    assert!(again.err.contains("not sent twice"), "{}", again.err);
    let nothing = place.run(&["events", "show", "evt_0"]);
    assert!(nothing.err.contains("there is no event `evt_0`"), "{}", nothing.err);
}

#[test]
fn settings_stand_before_or_behind_what_is_done() {
    let place = Place::new();
    let (config, state) = (place.path("cwd/elsewhere.toml"), place.path("kept"));
    std::fs::write(&config, "").unwrap();
    let settings = [
        "--config",
        config.to_str().unwrap(),
        "--state-dir",
        state.to_str().unwrap(),
    ];
    let told = |arguments: &[&str]| place.run(arguments).err;
    let before: Vec<&str> = ["events"].into_iter().chain(settings).chain(["list"]).collect();
    let behind: Vec<&str> = ["events", "list"].into_iter().chain(settings).collect();
    assert!(told(&before).contains("/kept"), "{}", told(&before));
    assert_eq!(told(&behind), told(&before));
    let wrong = told(&["events", "list", "--config", "/nowhere/t3code.toml"]);
    assert!(wrong.contains("/nowhere/t3code.toml"), "{wrong}");
}

#[test]
fn a_sample_says_whether_the_hook_takes_it() {
    let machine = Machine::start();
    let ran = place(&machine, Receiver::start().address).run(&["events", "test", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let outcome: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&outcome["delivered"], &outcome["status"]), (&json!(true), &json!(204)));

    // Nobody listens at this port, and none is given it.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let ran = place(&machine, nobody).run(&["events", "test"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.out.contains("no answer"), "{}", ran.out);
}

#[test]
fn without_a_ledger_or_a_hook_it_says_so() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run(&["events", "list"]);
    assert!(ran.err.contains("there is no ledger"), "{}", ran.err);
    let ran = place.run(&["events", "test"]);
    assert!(ran.err.contains("no hook is configured"), "{}", ran.err);
}
