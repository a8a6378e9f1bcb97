//! Adding projects: judged by their path, never by what they are called.

use serde_json::json;
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{limited, machine, rules, settings, start_of, start_online, start_over};

async fn simulated(folders: &[&str]) -> Simulator {
    let mut options = SimulatorOptions::default();
    options
        .model
        .folders
        .extend(folders.iter().map(|folder| (*folder).to_owned()));
    Simulator::start(options).await.unwrap()
}

#[tokio::test]
async fn a_folder_becomes_a_project_once_and_takes_work_at_once() {
    let simulator = simulated(&["/srv/shop"]).await;
    let endpoint = start_over(&simulator, settings()).await;
    let added = endpoint
        .answer("t3_add_project", json!({"machine": "mac", "path": "/srv/shop/"}))
        .await;
    assert_eq!(
        (&added["title"], &added["path"], &added["existing"]),
        (&json!("shop"), &json!("/srv/shop"), &json!(false))
    );
    let dispatch = json!({"machine": "mac", "project": added["id"], "prompt": "say hello", "model": "codex/gpt-5"});
    assert_eq!(endpoint.answer("t3_dispatch", dispatch).await["project"], "shop");
    let again = json!({"machine": "mac", "path": "/srv/shop", "title": "Another name"});
    let again = endpoint.answer("t3_add_project", again).await;
    assert_eq!(
        (&again["id"], &again["title"], &again["existing"]),
        (&added["id"], &json!("shop"), &json!(true))
    );
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_project() {
    let simulator = simulated(&["/srv/shop"]).await;
    let endpoint = start_over(&simulator, settings()).await;
    simulator.faults().lose_next_answer(true);
    let added = endpoint
        .answer("t3_add_project", json!({"machine": "mac", "path": "/srv/shop"}))
        .await;
    assert_eq!(added["title"], "shop");
    let both = |all: &serde_json::Value| all["projects"].as_array().unwrap().len() == 2;
    endpoint.until("t3_projects", json!({}), both).await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_not_made() {
    let simulator = simulated(&[]).await;
    let endpoint = start_over(&simulator, settings()).await;
    let missing = endpoint
        .error("t3_add_project", json!({"machine": "mac", "path": "/srv/shpo"}))
        .await;
    assert_eq!(missing["code"], "operation_rejected");
    assert!(
        missing["message"]
            .as_str()
            .unwrap()
            .contains("There is no folder `/srv/shpo` on mac"),
        "{missing}"
    );
    assert_eq!(
        endpoint.answer("t3_projects", json!({})).await["projects"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for path in [
        "srv/shop",
        "/srv/../etc",
        "/srv/./shop",
        "",
        " /srv/shop",
        "~/shop",
        "/srv/sh\u{0}op",
    ] {
        let wrong = endpoint
            .error("t3_add_project", json!({"machine": "mac", "path": path}))
            .await;
        assert_eq!(wrong["code"], "invalid_request", "{path:?}");
    }
    let nowhere = endpoint
        .error("t3_add_project", json!({"machine": "pc", "path": "/srv/shop"}))
        .await;
    assert_eq!(nowhere["code"], "unknown_machine");
}

#[tokio::test]
async fn a_path_outside_the_allowlist_is_refused_whatever_its_title_and_whatever_is_there() {
    let simulator = simulated(&["/srv/web/shop", "/home/dev/other"]).await;
    simulator.add_project("project-secret", "secret", "/home/dev/secret");
    let own = Limits {
        projects: Some(Patterns::new(["/srv/*", "t3-smoke"]).unwrap()),
        ..Limits::default()
    };
    for endpoint in [
        start_online(
            vec![machine("mac", &simulator, rules(&["/srv/*", "t3-smoke"]))],
            settings(),
        )
        .await,
        start_over(&simulator, limited(own)).await,
    ] {
        let add = |path: &str| json!({"machine": "mac", "path": path, "title": "t3-smoke"});
        let there = endpoint.error("t3_add_project", add("/home/dev/secret")).await;
        let free = endpoint.error("t3_add_project", add("/home/dev/other")).await;
        let missing = endpoint.error("t3_add_project", add("/home/dev/nothing")).await;
        assert_eq!(there["code"], "invalid_request");
        for other in [free, missing] {
            let alike = other
                .to_string()
                .replace("other", "secret")
                .replace("nothing", "secret");
            assert_eq!(there.to_string(), alike);
        }
        assert!(there["hint"].as_str().unwrap().contains("/srv/*"), "{there}");
        // Shown by its title: found by its path.
        let shown = endpoint.answer("t3_add_project", add("/home/dev/t3-smoke")).await;
        assert_eq!(shown["existing"], true);
        endpoint.answer("t3_add_project", add("/srv/web/shop")).await;
    }
}

#[tokio::test]
async fn a_reader_adds_nothing_and_a_machine_that_is_away_says_so() {
    let simulator = simulated(&["/srv/shop"]).await;
    let reader = Limits {
        read_only: true,
        ..Limits::default()
    };
    let add = json!({"machine": "mac", "path": "/srv/shop"});
    let reader = start_over(&simulator, limited(reader)).await;
    assert_eq!(
        reader.error("t3_add_project", add.clone()).await["code"],
        "insufficient_scope"
    );
    simulator.stop().await;
    let endpoint = start_of(vec![machine("mac", &simulator, rules(&["*"]))], settings()).await;
    assert_eq!(
        endpoint.error("t3_add_project", add).await["code"],
        "machine_unreachable"
    );
}
