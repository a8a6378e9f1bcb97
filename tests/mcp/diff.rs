//! Diffs: of a run, of the thread, of what is too large, and where T3 has none.

use serde_json::{Value, json};
use t3code_mcp::fleet::Limits;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{Running, limited, machine, offline, rules, settings, start_online, start_over};

async fn simulated() -> Simulator {
    let options = SimulatorOptions {
        gate: true,
        bounded_runs: Some(1),
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

/// A thread whose runs did one thing each.
async fn thread(endpoint: &Running, prompts: &[&str]) -> Value {
    let mut arguments = json!({"project": "t3-smoke", "model": "codex/gpt-5"});
    for prompt in prompts {
        arguments["prompt"] = json!(prompt);
        let id = endpoint.answer("t3_dispatch", arguments).await["thread_id"].clone();
        if !prompt.starts_with("sleep") {
            endpoint
                .answer("t3_wait", json!({"thread_id": id, "timeout": 60}))
                .await;
        }
        arguments = json!({"thread_id": id});
    }
    arguments["thread_id"].clone()
}

fn paths(answer: &Value) -> Vec<&str> {
    let files = answer["files"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_run_and_the_whole_thread_show_what_they_changed() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let id = thread(
        &endpoint,
        &["edit a.rs 2", "fail here", "edit b.rs", "say nothing changed"],
    )
    .await;

    let first = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "1"})).await;
    assert_eq!(
        (first["source"].as_str(), paths(&first)),
        (Some("diff"), vec!["a.rs"]),
        "{first}"
    );
    assert_eq!(
        (&first["files"][0]["additions"], &first["files"][0]["change"]),
        (&json!(2), &json!("modified"))
    );
    assert!(
        first["diff"]
            .as_str()
            .unwrap()
            .starts_with("diff --git a/a.rs b/a.rs\n")
    );
    assert!(first.get("notes").is_none(), "{first}");

    let by_id = json!({"thread_id": id, "run": first["run_id"]});
    assert_eq!(endpoint.answer("t3_diff", by_id).await, first);

    let third = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "3"})).await;
    assert_eq!(paths(&third), ["b.rs"]);
    assert!(
        third["notes"][0].as_str().unwrap().contains("from ordinal 2"),
        "{third}"
    );

    let last = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "4"})).await;
    assert_eq!(
        (paths(&last), &last["notes"]),
        (vec![], &json!(["Nothing was changed."]))
    );

    let whole = endpoint.answer("t3_diff", json!({"thread_id": id})).await;
    assert_eq!(paths(&whole), ["a.rs", "b.rs"]);

    let failed = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "2"})).await;
    assert_eq!(failed["source"], "nothing");
    assert!(failed["notes"][0].as_str().unwrap().contains("failed"), "{failed}");

    for run in ["5", "0", "run:nowhere", "-1", "\u{202e}"] {
        let wrong = endpoint.error("t3_diff", json!({"thread_id": id, "run": run})).await;
        assert_eq!(wrong["code"], "invalid_request", "{run}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_left_out_and_said() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let id = thread(&endpoint, &["edit huge.lock 40000", "edit small.rs 3"]).await;
    let whole = endpoint.answer("t3_diff", json!({"thread_id": id})).await;
    assert_eq!(paths(&whole), ["huge.lock", "small.rs"]);
    assert_eq!(whole["files"][0]["lines_left_out"], 40_005);
    assert!(whole["files"][1].get("lines_left_out").is_none());
    assert!(whole["diff"].as_str().unwrap().starts_with("diff --git a/small.rs"));

    let first = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "1"})).await;
    let shown = first["diff"].as_str().unwrap().lines().count();
    assert!(shown > 100, "{shown}");
    assert_eq!(first["files"][0]["lines_left_out"], 40_005 - shown);
}

#[tokio::test]
async fn where_t3_tells_no_diff_its_numbers_are_told() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let hostile = "evil\u{202e}\u{1b}[31m.rs";
    let edit = format!("edit {hostile} 2");
    let id = thread(&endpoint, &["edit a.rs 2", "edit a.rs 3", &edit]).await;
    for tag in ["orchestration.getTurnDiff", "orchestration.getFullThreadDiff"] {
        simulator.faults().lack_procedure(tag);
    }
    let whole = endpoint.answer("t3_diff", json!({"thread_id": id})).await;
    assert_eq!(
        (whole["source"].as_str(), paths(&whole)),
        (Some("numbers"), vec!["a.rs", hostile]),
        "{whole}"
    );
    assert_eq!(whole["files"][0]["additions"], 5);
    assert!(
        whole["notes"][0].as_str().unwrap().contains("cannot tell diffs"),
        "{whole}"
    );
    let second = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "2"})).await;
    assert_eq!(second["files"][0]["additions"], 3);
    assert!(second.get("diff").is_none());
}

#[tokio::test]
async fn a_thread_at_work_has_the_diff_of_what_is_done() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let id = thread(&endpoint, &["edit a.rs", "sleep 600"]).await;
    let whole = endpoint.answer("t3_diff", json!({"thread_id": id})).await;
    assert_eq!(paths(&whole), ["a.rs"]);
    assert!(whole["notes"][0].as_str().unwrap().contains("ordinal 1"), "{whole}");
    let at_work = endpoint.answer("t3_diff", json!({"thread_id": id, "run": "2"})).await;
    assert_eq!(at_work["source"], "nothing");
    let idle = json!({"thread_id": simulator.seed_threads(1)[0]});
    assert_eq!(endpoint.answer("t3_diff", idle).await["source"], "nothing");
}

#[tokio::test]
async fn a_hidden_thread_has_no_diff_and_a_reader_may_look() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let id = thread(&endpoint, &["edit a.rs"]).await;
    let hidden = start_online(vec![machine("mac", &simulator, rules(&["web-*"]))], settings()).await;
    let there = hidden.error("t3_diff", json!({"thread_id": id})).await;
    let nowhere = hidden.error("t3_diff", json!({"thread_id": "nowhere"})).await;
    assert_eq!(there["code"], "thread_not_found");
    assert_eq!(
        there.to_string(),
        nowhere.to_string().replace("nowhere", id.as_str().unwrap())
    );
    let reader = Limits {
        read_only: true,
        ..Limits::default()
    };
    let reader = start_over(&simulator, limited(reader)).await;
    assert_eq!(
        reader.answer("t3_diff", json!({"thread_id": id})).await["source"],
        "diff"
    );
    simulator.stop().await;
    offline(&reader).await;
    assert_eq!(
        reader.error("t3_diff", json!({"thread_id": id})).await["code"],
        "machine_unreachable"
    );
}
