//! Work without a project: T3's scratch project, where the operator allows it.

use serde_json::json;
use t3code_mcp::fleet::{Limits, Patterns, Rules};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{limited, machine, rules, settings, start_online};

async fn simulated(gate: bool) -> Simulator {
    let options = SimulatorOptions {
        gate,
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

fn scratching(patterns: &[&str]) -> Rules {
    Rules {
        scratch: true,
        model: Some("codex/gpt-5".to_owned()),
        ..rules(patterns)
    }
}

#[tokio::test]
async fn a_dispatch_without_a_project_works_in_the_scratch_folder() {
    let simulator = simulated(true).await;
    let endpoint = start_online(vec![machine("mac", &simulator, scratching(&["web-*"]))], settings()).await;
    let started = endpoint.answer("t3_dispatch", json!({"prompt": "say hello"})).await;
    assert_eq!(started["path"], "/home/dev/.t3/base/scratch");
    let id = &started["thread_id"];
    let view = endpoint
        .answer("t3_wait", json!({"thread_id": id, "timeout": 60}))
        .await;
    assert_eq!(
        (&view["state"], &view["project"]),
        (&json!("completed"), &json!("Scratch"))
    );
    // The allowlist shows it and nothing else.
    let projects = endpoint.answer("t3_projects", json!({})).await;
    assert_eq!(projects["projects"].as_array().unwrap().len(), 1, "{projects}");
    assert_eq!(
        endpoint.answer("t3_threads", json!({})).await["threads"][0]["thread_id"],
        *id
    );
    assert_eq!(
        endpoint.answer("t3_machines", json!({})).await["machines"][0]["scratch"],
        true
    );
    let again = endpoint.answer("t3_dispatch", json!({"prompt": "say more"})).await;
    assert_eq!(again["path"], started["path"]);

    // Another gateway knows it from the beginning, and one without the setting does not.
    let other = start_online(vec![machine("mac", &simulator, scratching(&["web-*"]))], settings()).await;
    assert_eq!(
        other.answer("t3_thread", json!({"thread_id": id})).await["state"],
        "completed"
    );
    let without = start_online(vec![machine("mac", &simulator, rules(&["web-*"]))], settings()).await;
    assert_eq!(
        without.error("t3_thread", json!({"thread_id": id})).await["code"],
        "thread_not_found"
    );
    let refused = without.error("t3_dispatch", json!({"prompt": "say hello"})).await;
    assert_eq!(refused["code"], "invalid_request");
    assert!(
        without.answer("t3_machines", json!({})).await["machines"][0]
            .get("scratch")
            .is_none()
    );
}

#[tokio::test]
async fn a_repeated_dispatch_without_a_project_finds_the_first() {
    let simulator = simulated(true).await;
    let endpoint = start_online(vec![machine("mac", &simulator, scratching(&["*"]))], settings()).await;
    let dispatch = json!({"prompt": "say hello", "request_id": "once"});
    let first = endpoint.answer("t3_dispatch", dispatch.clone()).await;
    let again = endpoint.answer("t3_dispatch", dispatch).await;
    assert_eq!(
        (&again["thread_id"], &again["existing"]),
        (&first["thread_id"], &json!(true))
    );
    assert_eq!(simulator.thread_count(), 1);
}

#[tokio::test]
async fn a_server_without_a_scratch_folder_says_so() {
    let simulator = simulated(false).await;
    let endpoint = start_online(vec![machine("mac", &simulator, scratching(&["*"]))], settings()).await;
    let refused = endpoint.error("t3_dispatch", json!({"prompt": "say hello"})).await;
    assert_eq!(refused["code"], "invalid_request");
    assert!(
        refused["message"].as_str().unwrap().contains("no scratch folder"),
        "{refused}"
    );
    assert_eq!(refused["valid"], json!(["t3-smoke"]));
    assert_eq!(simulator.thread_count(), 0);
    endpoint
        .answer("t3_dispatch", json!({"project": "t3-smoke", "prompt": "say hello"}))
        .await;
}

#[tokio::test]
async fn a_client_with_projects_of_its_own_needs_a_pattern_for_it() {
    let simulator = simulated(true).await;
    for (patterns, allowed) in [(["t3-*"], false), (["Scr*"], true)] {
        let own = Limits {
            projects: Some(Patterns::new(patterns).unwrap()),
            ..Limits::default()
        };
        let endpoint = start_online(vec![machine("mac", &simulator, scratching(&["t3-*"]))], limited(own)).await;
        if allowed {
            endpoint.answer("t3_dispatch", json!({"prompt": "say hello"})).await;
        } else {
            let refused = endpoint.error("t3_dispatch", json!({"prompt": "say hello"})).await;
            assert_eq!(refused["code"], "invalid_request");
            assert!(!refused.to_string().contains("Scratch"), "{refused}");
        }
    }
    let reader = Limits {
        read_only: true,
        ..Limits::default()
    };
    let reader = start_online(vec![machine("mac", &simulator, scratching(&["*"]))], limited(reader)).await;
    assert_eq!(
        reader.error("t3_dispatch", json!({"prompt": "x"})).await["code"],
        "insufficient_scope"
    );
}
