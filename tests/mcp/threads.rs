//! The list of threads: states, pages, searches, what is hidden, and machines that are away.

use jiff::Timestamp;
use serde_json::{Value, json};
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{Running, limited, machine, offline, rules, settings, start_online, start_over};

async fn simulated() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.unwrap()
}

/// Starts a thread and waits until it rests or asks, or for its start where it sleeps.
async fn thread(endpoint: &Running, project: &str, prompt: &str) -> String {
    let started = endpoint
        .answer(
            "t3_dispatch",
            json!({"machine": "mac", "project": project, "prompt": prompt, "model": "codex/gpt-5"}),
        )
        .await;
    let id = started["thread_id"].as_str().unwrap().to_owned();
    if !prompt.contains("sleep") {
        endpoint
            .answer("t3_wait", json!({"thread_id": id, "timeout": 60}))
            .await;
    }
    id
}

/// Waits until T3's rows say, too, that nothing runs; they come after the threads, and a row that changes is read anew.
async fn rested(endpoint: &Running) {
    let rests = |answer: &Value| {
        let mut projects = answer["projects"].as_array().unwrap().iter();
        projects.all(|project| project["running"] == 0)
    };
    endpoint.until("t3_projects", json!({"machine": "mac"}), rests).await;
}

/// Id and state of each listed thread.
fn states(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let threads = answer["threads"].as_array().unwrap();
    threads
        .iter()
        .map(|thread| (text(&thread["thread_id"]), text(&thread["state"])))
        .collect()
}

fn ids(answer: &Value) -> Vec<String> {
    states(answer).into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn threads_come_newest_first_each_in_its_state() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let said = thread(&endpoint, "t3-smoke", "Say it.\nsay hello").await;
    let failed = thread(&endpoint, "t3-smoke", "fail badly").await;
    let asked = thread(&endpoint, "t3-smoke", "ask").await;
    let sleeps = thread(&endpoint, "t3-smoke", "sleep 600").await;
    let seeded = simulator.seed_threads(1).remove(0);
    endpoint
        .answer(
            "t3_wait",
            json!({"thread_ids": [said, failed, asked], "until": "all", "timeout": 60}),
        )
        .await;
    // The last was not made through the gateway, which sees it a moment later, and T3's rows come after the threads.
    let shown = |all: &Value| {
        let listed = states(all);
        listed.iter().any(|(id, _)| *id == seeded)
            && [(&said, "completed"), (&failed, "failed"), (&asked, "question")]
                .iter()
                .all(|(id, state)| listed.iter().any(|(known, is)| known == *id && is == state))
    };
    let all = endpoint.until("t3_threads", json!({}), shown).await;
    let mut listed = states(&all);
    let times: Vec<Timestamp> = all["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["updated_at"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "{times:?}");
    listed.sort();
    let at_work = listed.iter().find(|(id, _)| *id == sleeps).unwrap().1.clone();
    assert!(["starting", "running"].contains(&at_work.as_str()), "{at_work}");
    let mut expected: Vec<(String, String)> = [
        (&said, "completed"),
        (&failed, "failed"),
        (&asked, "question"),
        (&sleeps, at_work.as_str()),
    ]
    .into_iter()
    .map(|(id, state)| (id.clone(), state.to_owned()))
    .chain([(seeded, "idle".to_owned())])
    .collect();
    expected.sort();
    assert_eq!(listed, expected);
    assert!(
        all.get("next_cursor").is_none() && all["unreachable"] == json!([]),
        "{all}"
    );

    for (state, mut wanted) in [
        ("busy", vec![&asked, &sleeps]),
        ("attention", vec![&asked]),
        ("question", vec![&asked]),
        ("failed", vec![&failed]),
        ("completed", vec![&said]),
        ("interrupted", vec![]),
        ("archived", vec![]),
    ] {
        let answer = endpoint.answer("t3_threads", json!({"state": state})).await;
        let mut found = ids(&answer);
        found.sort();
        wanted.sort();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{state}: {answer}");
    }
    let asks = endpoint.answer("t3_threads", json!({"state": "attention"})).await;
    assert_eq!(asks["threads"][0]["pending"][0]["kind"], "question");
    assert_eq!(asks["threads"][0]["pending"][0]["answerable"], true);
}

#[tokio::test]
async fn the_rows_word_is_not_taken_for_an_end() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let id = thread(&endpoint, "t3-smoke", "sleep 600").await;
    endpoint
        .until("t3_thread", json!({"thread_id": id}), |view| view["state"] == "running")
        .await;
    let more = json!({"thread_id": id, "prompt": "say more", "when_busy": "queue"});
    let queued = endpoint.answer("t3_dispatch", more).await["run_id"].clone();
    endpoint
        .answer("t3_interrupt", json!({"thread_id": id, "run_id": queued}))
        .await;
    // T3's row says `cancelled` now, the word of the newest run.
    let listed = endpoint.answer("t3_threads", json!({"state": "cancelled"})).await;
    assert_eq!(ids(&listed), Vec::<String>::new());
    endpoint
        .until("t3_threads", json!({"state": "running"}), |listed| {
            ids(listed) == [id.as_str()]
        })
        .await;
}

#[tokio::test]
async fn pages_hold_while_threads_move() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let seeded = simulator.seed_threads(7);
    endpoint
        .until("t3_threads", json!({"limit": 50}), |all| ids(all).len() == seeded.len())
        .await;
    let mut told = Vec::new();
    let mut arguments = json!({"limit": 2, "project": "t3-smoke"});
    let mut newer = Value::Null;
    loop {
        let page = endpoint.answer("t3_threads", arguments.clone()).await;
        told.extend(ids(&page));
        newer = if page["newer"].is_null() {
            newer
        } else {
            page["newer"].clone()
        };
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        // What was told moves to the front, and so does one that was not.
        if told.len() == 2 {
            for id in [&told[0], seeded.iter().find(|id| !told.contains(id)).unwrap()] {
                let rename = json!({"type": "thread.metadata.update", "commandId": format!("rename-{id}"), "threadId": id, "title": "Renamed"});
                simulator.command(&rename).unwrap();
            }
            let renamed = |first: &Value| {
                let mut threads = first["threads"].as_array().unwrap().iter();
                threads.all(|thread| thread["title"] == "Renamed")
            };
            endpoint.until("t3_threads", json!({"limit": 2}), renamed).await;
        }
        arguments["cursor"] = json!(cursor);
    }
    assert_eq!(told.len(), 6, "one moved away before its page: {told:?}");
    assert_eq!(newer, 2);
    let mut once = told.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), told.len(), "{told:?}");

    let first = endpoint.answer("t3_threads", json!({"limit": 2})).await;
    let cursor = first["next_cursor"].clone();
    for wrong in [
        json!({"limit": 2, "cursor": cursor, "project": "t3-smoke"}),
        json!({"cursor": "seed-0"}),
        json!({"limit": 0}),
        json!({"limit": 51}),
        json!({"query": "x"}),
        json!({"state": "gone"}),
    ] {
        assert_eq!(
            endpoint.error("t3_threads", wrong.clone()).await["code"],
            "invalid_request",
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn t3_searches_where_it_can_and_the_gateway_where_it_cannot() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let deep = thread(&endpoint, "t3-smoke", "Mend the CHECKOUT.\nsay done").await;
    endpoint
        .answer("t3_dispatch", json!({"thread_id": deep, "prompt": "say bye"}))
        .await;
    endpoint
        .answer("t3_wait", json!({"thread_id": deep, "timeout": 60}))
        .await;
    let titled = endpoint
        .answer(
            "t3_dispatch",
            json!({"project": "t3-smoke", "prompt": "say x", "title": "Other work", "model": "codex/gpt-5"}),
        )
        .await["thread_id"]
        .clone();
    let found = endpoint.answer("t3_threads", json!({"query": " done "})).await;
    assert_eq!(ids(&found), [deep.as_str()], "{found}");
    assert_eq!(found["searched"], json!([{"machine": "mac", "by": "t3"}]));
    assert_eq!(found["threads"][0]["found"]["source"], "message");

    simulator.faults().lack_procedure("orchestration.searchThreads");
    let found = endpoint
        .answer("t3_threads", json!({"query": "mend the checkout"}))
        .await;
    assert_eq!(ids(&found), [deep], "{found}");
    assert_eq!(found["searched"], json!([{"machine": "mac", "by": "gateway"}]));
    // The shell shows a new thread a moment after its dispatch was answered.
    let found = endpoint
        .until("t3_threads", json!({"query": "OTHER"}), |found| !ids(found).is_empty())
        .await;
    assert_eq!(json!(ids(&found)), json!([titled]), "{found}");
    assert_eq!(found["threads"][0]["found"]["source"], "title");
}

#[tokio::test]
async fn threads_of_other_threads_agents_come_when_asked_for() {
    let simulator = simulated().await;
    let seeded = simulator.seed_threads(1).remove(0);
    let endpoint = start_over(&simulator, settings()).await;
    assert_eq!(ids(&endpoint.answer("t3_threads", json!({})).await), [seeded.as_str()]);
    let shell = endpoint
        .http
        .get(format!("{}/api/orchestration/shell", simulator.url()))
        .bearer_auth("any")
        .send()
        .await;
    let shell: Value = serde_json::from_str(&shell.unwrap().text().await.unwrap()).unwrap();
    let mut child = shell["threads"][0].clone();
    child["id"] = json!("child");
    child["lineage"] = json!({"parentThreadId": seeded, "relationshipToParent": "subagent", "rootThreadId": seeded});
    let item =
        json!({"kind": "thread.updated", "sequence": simulator.head() + 1, "location": "active", "thread": child});
    simulator.faults().push_shell_item(item);
    let listed = endpoint
        .until("t3_threads", json!({"subagents": true}), |listed| {
            ids(listed).len() == 2
        })
        .await;
    let marked = listed["threads"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|thread| thread["subagent"] == true);
    assert_eq!(marked.map(|thread| &thread["thread_id"]).collect::<Vec<_>>(), ["child"]);
    assert_eq!(ids(&endpoint.answer("t3_threads", json!({})).await), [seeded]);
}

#[tokio::test]
async fn what_is_hidden_is_in_no_list_and_found_by_no_search() {
    let simulator = simulated().await;
    simulator.add_project("project-secret", "secret", "/srv/secret");
    let open = start_over(&simulator, settings()).await;
    thread(&open, "secret", "The hidden treasure.\nsay done").await;
    let shown = thread(&open, "t3-smoke", "The shown treasure.\nsay done").await;
    open.until("t3_threads", json!({"query": "treasure"}), |found| {
        ids(found).len() == 2
    })
    .await;
    rested(&open).await;

    let by_rules = start_online(vec![machine("mac", &simulator, rules(&["t3-*"]))], settings()).await;
    let narrow = Limits {
        projects: Some(Patterns::new(["t3-*"]).unwrap()),
        read_only: true,
        ..Limits::default()
    };
    let by_client = start_over(&simulator, limited(narrow)).await;
    for endpoint in [by_rules, by_client] {
        for arguments in [json!({}), json!({"query": "treasure"}), json!({"state": "completed"})] {
            let answer = endpoint
                .until("t3_threads", arguments.clone(), |answer| !ids(answer).is_empty())
                .await;
            assert_eq!(ids(&answer), [shown.as_str()], "{arguments}");
            assert!(
                !answer.to_string().contains("secret") && !answer.to_string().contains("hidden"),
                "{answer}"
            );
        }
        let hidden = endpoint.error("t3_threads", json!({"project": "secret"})).await;
        let unknown = endpoint.error("t3_threads", json!({"project": "nowhere"})).await;
        assert_eq!(hidden["code"], "project_not_found");
        assert_eq!(hidden.to_string(), unknown.to_string().replace("nowhere", "secret"));
        assert_eq!(
            endpoint.error("t3_threads", json!({"machine": "pc"})).await["code"],
            "unknown_machine"
        );
    }
}

#[tokio::test]
async fn a_machine_that_is_away_keeps_what_was_seen_and_claims_no_end() {
    let (mac, pc) = (simulated().await, simulated().await);
    let machines = vec![machine("mac", &mac, rules(&["*"])), machine("pc", &pc, rules(&["*"]))];
    let endpoint = start_online(machines, settings()).await;
    let seen = thread(&endpoint, "t3-smoke", "say one").await;
    rested(&endpoint).await;
    assert_eq!(
        ids(&endpoint.answer("t3_threads", json!({"state": "completed"})).await),
        [seen.as_str()]
    );
    let unseen = thread(&endpoint, "t3-smoke", "say two").await;
    pc.seed_threads(1);
    endpoint
        .until("t3_threads", json!({"machine": "pc"}), |there| !ids(there).is_empty())
        .await;
    mac.stop().await;
    offline(&endpoint).await;
    let all = endpoint.answer("t3_threads", json!({})).await;
    assert_eq!(all["unreachable"][0]["machine"], "mac");
    let listed = states(&all);
    let state = |id: &str| listed.iter().find(|(known, _)| known == id).unwrap().1.as_str();
    assert_eq!(
        (state(&seen), state(&unseen), state("seed-0")),
        ("completed", "unknown", "idle")
    );
    let ended = endpoint.answer("t3_threads", json!({"state": "completed"})).await;
    assert_eq!((ids(&ended), &ended["unread"]), (vec![seen], &json!(1)));
    assert_eq!(
        endpoint.answer("t3_threads", json!({"state": "busy"})).await["threads"],
        json!([])
    );
    assert_eq!(
        endpoint.error("t3_threads", json!({"project": "nowhere"})).await["code"],
        "machine_unreachable"
    );
}

#[tokio::test]
async fn hostile_text_and_many_threads_stay_within_an_answer() {
    let simulator = simulated().await;
    let endpoint = start_over(&simulator, settings()).await;
    let ids_of_seeds = simulator.seed_threads(50);
    for id in &ids_of_seeds {
        let title = format!("{id} \u{202e}\u{1b}[31m\n\"}}]{}", "\\\u{7}\n".repeat(400));
        let rename = json!({"type": "thread.metadata.update", "commandId": format!("rename-{id}"), "threadId": id, "title": title});
        simulator.command(&rename).unwrap();
    }
    // They were not made through the gateway, which sees them a moment later.
    endpoint
        .until("t3_projects", json!({}), |shown| shown["projects"][0]["threads"] == 50)
        .await;
    let mut told = Vec::new();
    let mut arguments = json!({"limit": 50});
    loop {
        // The answer's size is looked at by whoever asks.
        let page = endpoint.answer("t3_threads", arguments.clone()).await;
        told.extend(ids(&page));
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = json!(cursor),
            None => break,
        }
    }
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 50);
}
