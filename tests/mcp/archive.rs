//! Archiving and restoring, on servers that show the archive in the shell and on those that keep it apart.

use serde_json::json;
use t3code_mcp::fleet::Limits;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{limited, machine, offline, rules, settings, start_online, start_over};

async fn simulated(gate: bool) -> Simulator {
    let options = SimulatorOptions {
        gate,
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

#[tokio::test]
async fn a_thread_goes_into_the_archive_and_comes_back() {
    for gate in [false, true] {
        let simulator = simulated(gate).await;
        let endpoint = start_over(&simulator, settings()).await;
        let dispatch = json!({"project": "t3-smoke", "prompt": "say hello", "model": "codex/gpt-5"});
        let id = endpoint.answer("t3_dispatch", dispatch).await["thread_id"].clone();
        endpoint
            .answer("t3_wait", json!({"thread_id": id, "timeout": 60}))
            .await;

        let done = endpoint.answer("t3_archive", json!({"thread_id": id})).await;
        assert_eq!(
            (&done["archived"], &done["changed"]),
            (&json!(true), &json!(true)),
            "{done}"
        );
        let again = endpoint
            .answer("t3_archive", json!({"thread_id": id, "archived": true}))
            .await;
        assert_eq!(again["changed"], false);
        assert_eq!(endpoint.answer("t3_threads", json!({})).await["threads"], json!([]));
        // T3's row of its end may come later than the end.
        let archive = endpoint
            .until("t3_threads", json!({"state": "archived"}), |archive| {
                archive["threads"][0]["state"] == "completed"
            })
            .await;
        assert_eq!(archive["threads"][0]["thread_id"], id);
        assert_eq!(
            (&archive["threads"][0]["state"], &archive["threads"][0]["archived"]),
            (&json!("completed"), &json!(true))
        );
        let more = endpoint
            .error("t3_dispatch", json!({"thread_id": id, "prompt": "say more"}))
            .await;
        assert!(more.to_string().contains("t3_archive"), "{more}");

        let back = endpoint
            .answer("t3_archive", json!({"thread_id": id, "archived": false}))
            .await;
        assert_eq!((&back["archived"], &back["changed"]), (&json!(false), &json!(true)));
        let listed = endpoint.answer("t3_threads", json!({})).await;
        assert_eq!(listed["threads"][0]["thread_id"], id);
    }
}

#[tokio::test]
async fn a_thread_that_works_is_not_archived() {
    let simulator = simulated(false).await;
    let endpoint = start_over(&simulator, settings()).await;
    let dispatch = json!({"project": "t3-smoke", "prompt": "sleep 600"});
    let id = endpoint.answer("t3_dispatch", dispatch).await["thread_id"].clone();
    let busy = endpoint.error("t3_archive", json!({"thread_id": id})).await;
    assert_eq!(busy["code"], "thread_busy");
    assert!(
        simulator
            .received()
            .iter()
            .all(|command| command["type"] != "thread.archive")
    );
    endpoint.answer("t3_interrupt", json!({"thread_id": id})).await;
    assert_eq!(
        endpoint.answer("t3_archive", json!({"thread_id": id})).await["changed"],
        true
    );
}

#[tokio::test]
async fn who_may_not_see_or_change_a_thread_does_not_archive_it() {
    let simulator = simulated(false).await;
    let id = simulator.seed_threads(1).remove(0);
    let hidden = start_online(vec![machine("mac", &simulator, rules(&["web-*"]))], settings()).await;
    let there = hidden.error("t3_archive", json!({"thread_id": id})).await;
    let nowhere = hidden.error("t3_archive", json!({"thread_id": "nowhere"})).await;
    assert_eq!(there["code"], "thread_not_found");
    assert_eq!(there.to_string(), nowhere.to_string().replace("nowhere", &id));

    let reader = Limits {
        read_only: true,
        ..Limits::default()
    };
    let reader = start_over(&simulator, limited(reader)).await;
    let refused = reader.error("t3_archive", json!({"thread_id": id})).await;
    assert_eq!(refused["code"], "insufficient_scope");

    let open = start_over(&simulator, settings()).await;
    let delete = json!({"type": "thread.delete", "commandId": "delete", "threadId": id});
    simulator.command(&delete).unwrap();
    open.until("t3_threads", json!({}), |all| all["threads"] == json!([]))
        .await;
    assert_eq!(
        open.error("t3_archive", json!({"thread_id": id})).await["code"],
        "thread_not_found"
    );
    simulator.stop().await;
    offline(&open).await;
    let away = open.error("t3_archive", json!({"thread_id": "nowhere"})).await;
    assert_eq!(away["code"], "machine_unreachable");
}
