//! `/metrics` as a scraper reads it: line by line by the rules of the text format 0.0.4, and what each number says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;
use t3code_mcp::fleet::{Limits, Patterns};
use t3code_mcp::http::HttpSettings;
use t3code_mcp::machine::RuntimeMode;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use crate::support::{
    ALICE, PATIENCE, Running, limited, machine, online, rules, settings, start, start_kept, start_online,
};

/// What a scrape says: numbers by name with labels.
type Scraped = BTreeMap<String, f64>;

async fn text(endpoint: &Running) -> String {
    let url = format!("{}/metrics", endpoint.url);
    let response = endpoint.http.get(url).bearer_auth(ALICE).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    response.text().await.unwrap()
}

async fn scrape(endpoint: &Running) -> Scraped {
    read(&text(endpoint).await)
}

/// Reads it as the format says; anything else fails.
fn read(text: &str) -> Scraped {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    assert!(text.ends_with('\n') && !text.contains('\r'));
    let (mut scraped, mut family, mut families) = (Scraped::new(), None, BTreeSet::new());
    let mut helped = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(families.insert(name.to_owned()), "{name} stands together: {line}");
            helped = Some(name.to_owned());
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(helped.as_deref(), Some(name));
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = Some(name.to_owned());
            continue;
        }
        let (labelled, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = labelled.split_once('{').unwrap_or((labelled, "}"));
        assert_eq!(family.as_deref(), Some(name), "{line}");
        let labels = labels.strip_suffix('}').unwrap();
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once("=\"").unwrap();
            let value = value.strip_suffix('"').unwrap_or(value);
            assert!(is_name(name) && !value.contains(['"', '\\']), "{line}");
        }
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite(), "{line}");
        assert!(scraped.insert(labelled.to_owned(), value).is_none(), "twice: {line}");
    }
    scraped
}

/// Waits until the numbers are so.
async fn until(endpoint: &Running, so: impl Fn(&Scraped) -> bool) -> Scraped {
    let look = async {
        loop {
            let scraped = scrape(endpoint).await;
            if so(&scraped) {
                return scraped;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look)
        .await
        .expect("the numbers come to it")
}

async fn simulator() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.unwrap()
}

#[tokio::test]
async fn the_numbers_follow_what_happens() {
    let simulator = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let endpoint = start_kept(
        folder.path(),
        vec![machine("mac", &simulator, rules(&["*"]))],
        settings(),
    )
    .await;
    online(&endpoint).await;
    endpoint.answer("t3_dispatch", json!({"prompt": "say one"})).await;
    let asks = endpoint.answer("t3_dispatch", json!({"prompt": "ask"})).await;
    let thread = &asks["thread_id"];
    let view = endpoint
        .answer("t3_wait", json!({"thread_id": thread, "timeout": 30}))
        .await;
    assert_eq!(view["state"], "question");
    assert_eq!(
        endpoint.error("t3_thread", json!({"thread_id": "x"})).await["code"],
        "thread_not_found"
    );
    endpoint.error("t3_nothing", json!({})).await;

    let scraped = until(&endpoint, |scraped| {
        scraped["t3code_mcp_events_total{kind=\"question\"}"] > 0.0
            && scraped["t3code_mcp_events_total{kind=\"completed\"}"] > 0.0
            // T3's row of the ended one may come after the event, and the end of its watching, too.
            && scraped["t3code_mcp_machine_busy_threads{machine=\"mac\"}"] < 1.5
            && scraped["t3code_mcp_machine_watched_runs{machine=\"mac\"}"] < 1.5
    })
    .await;
    for (name, value) in [
        ("t3code_mcp_owner", 1.0),
        ("t3code_mcp_machine_up{machine=\"mac\"}", 1.0),
        ("t3code_mcp_machine_connections_total{machine=\"mac\"}", 1.0),
        ("t3code_mcp_machine_threads{machine=\"mac\"}", 2.0),
        ("t3code_mcp_machine_busy_threads{machine=\"mac\"}", 1.0),
        ("t3code_mcp_machine_watched_runs{machine=\"mac\"}", 1.0),
        ("t3code_mcp_machine_deliveries_waiting{machine=\"mac\"}", 0.0),
        ("t3code_mcp_machine_deliveries_dead{machine=\"mac\"}", 0.0),
        ("t3code_mcp_events_total{kind=\"question\"}", 1.0),
        ("t3code_mcp_events_total{kind=\"completed\"}", 1.0),
        ("t3code_mcp_events_total{kind=\"failed\"}", 0.0),
        ("t3code_mcp_delivery_attempts_total{outcome=\"delivered\"}", 0.0),
        ("t3code_mcp_oldest_waiting_delivery_seconds", 0.0),
        ("t3code_mcp_calls_total{tool=\"t3_dispatch\",code=\"ok\"}", 2.0),
        (
            "t3code_mcp_calls_total{tool=\"t3_thread\",code=\"thread_not_found\"}",
            1.0,
        ),
        (
            "t3code_mcp_calls_total{tool=\"(unknown)\",code=\"invalid_request\"}",
            1.0,
        ),
        ("t3code_mcp_calls_open{tool=\"t3_wait\"}", 0.0),
        ("t3code_mcp_store_commits_total{outcome=\"failed\"}", 0.0),
    ] {
        assert_eq!(scraped.get(name), Some(&value), "{name}: {scraped:#?}");
    }
    let version = format!("t3code_mcp_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(scraped.get(&version), Some(&1.0));
    assert!(scraped["t3code_mcp_store_commits_total{outcome=\"committed\"}"] >= 2.0);
    assert!(scraped["t3code_mcp_machine_silent_seconds{machine=\"mac\"}"] < 60.0);
    assert!(scraped["t3code_mcp_machine_credential_days_left{machine=\"mac\"}"] > 20.0);
    assert!(scraped["process_start_time_seconds"] > 1.6e9);
}

#[tokio::test]
async fn an_open_wait_counts_and_a_machine_that_went_away_says_why() {
    let simulator = simulator().await;
    let endpoint = Arc::new(start_online(vec![machine("mac", &simulator, rules(&["*"]))], settings()).await);
    let works = endpoint.answer("t3_dispatch", json!({"prompt": "sleep 600"})).await;
    let (waits, thread) = (Arc::clone(&endpoint), works["thread_id"].clone());
    let waiting = tokio::spawn(async move {
        waits
            .answer("t3_wait", json!({"thread_id": thread, "timeout": 600}))
            .await
    });
    let open = "t3code_mcp_calls_open{tool=\"t3_wait\"}";
    until(&endpoint, |scraped| scraped[open] > 0.5).await;
    simulator.stop().await;
    let problem = "t3code_mcp_machine_problem{machine=\"mac\",code=\"machine_unreachable\"}";
    let scraped = until(&endpoint, |scraped| scraped.contains_key(problem)).await;
    assert!(scraped["t3code_mcp_machine_up{machine=\"mac\"}"] < 0.5);
    assert!(!scraped.contains_key("t3code_mcp_machine_silent_seconds{machine=\"mac\"}"));
    // Without a ledger nothing is said of one.
    assert!(!scraped.keys().any(|name| name.starts_with("t3code_mcp_events_total")));
    waiting.abort();
}

#[tokio::test]
async fn what_t3_says_is_no_label() {
    let simulator = simulator().await;
    let endpoint = start_online(vec![machine("mac", &simulator, rules(&["*"]))], settings()).await;
    endpoint
        .answer("t3_dispatch", json!({"prompt": "say one", "title": "a\"} 1\nforged 2"}))
        .await;
    let text = text(&endpoint).await;
    read(&text);
    assert!(!text.contains("forged") && !text.contains("t3-smoke"), "{text}");
}

#[tokio::test]
async fn it_lies_behind_the_bearer_and_is_not_for_who_sees_some_machines_only() {
    let status = async |endpoint: &Running, token: Option<&str>| {
        let request = endpoint.http.get(format!("{}/metrics", endpoint.url));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let endpoint = start(settings()).await;
    assert_eq!(status(&endpoint, None).await.0, 401);
    assert_eq!(status(&endpoint, Some("wrong")).await.0, 401);
    let posted = endpoint
        .http
        .post(format!("{}/metrics", endpoint.url))
        .bearer_auth(ALICE);
    assert_eq!(posted.send().await.unwrap().status(), 405);

    let of = |limits: Limits| -> HttpSettings { limited(limits) };
    for limits in [
        Limits {
            machines: Some(vec!["mac".to_owned()]),
            ..Limits::default()
        },
        Limits {
            projects: Some(Patterns::new(["shop"]).unwrap()),
            ..Limits::default()
        },
    ] {
        let endpoint = start(of(limits)).await;
        let (code, told) = status(&endpoint, Some(ALICE)).await;
        assert_eq!(code, 403, "{told}");
        assert!(
            told.contains("insufficient_scope") && !told.contains("t3code_mcp_"),
            "{told}"
        );
    }
    let reader = Limits {
        read_only: true,
        max_runtime_mode: Some(RuntimeMode::ApprovalRequired),
        ..Limits::default()
    };
    assert_eq!(status(&start(of(reader)).await, Some(ALICE)).await.0, 200);
}
