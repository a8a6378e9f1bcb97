//! Moving in from the Python connector: the real binary on its JSON file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stdio::Client;
use crate::support::{Machine, Place};

const STATE: &str = "T3CODE_MCP_STATE";

/// The folder in which the connector's file lies.
fn folder(place: &Place) -> PathBuf {
    let folder = place.path("home/connector");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A thread that somebody else made.
fn thread(client: &mut Client, id: u64, prompt: &str) -> String {
    let made = client.done(
        id,
        "t3_dispatch",
        &json!({"project": "t3-smoke", "prompt": prompt, "watch": false}),
    );
    made["thread_id"].as_str().unwrap().to_owned()
}

/// Every event, as kind, thread and origin.
fn events(client: &mut Client, id: u64) -> Vec<(String, String, String)> {
    let all = client.done(id, "t3_events", &json!({"limit": 100}));
    let word = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let all = all["events"].as_array().unwrap().iter();
    all.map(|event| (word(event, "event"), word(event, "thread_id"), word(event, "origin")))
        .collect()
}

#[test]
fn what_the_connector_tracked_is_followed_from_where_it_left_off_over_kills_and_its_file_stays() {
    let machine = Machine::start();
    let elsewhere = machine.place();
    let mut client = Client::start(&elsewhere);
    let ended = thread(&mut client, 1, "say before");
    client.done(2, "t3_wait", &json!({"thread_id": ended, "timeout": 60}));
    let asking = thread(&mut client, 3, "ask1");
    client.done(4, "t3_wait", &json!({"thread_id": asking, "timeout": 60}));
    // Long enough that they end when they are followed.
    let working = thread(&mut client, 5, "sleep 12");
    let unwatched = thread(&mut client, 6, "sleep 12");
    client.serve.signal(Signal::KILL);
    drop(client);

    let place = machine.place();
    let folder = folder(&place);
    let (file, ledger) = (folder.join("tracked.json"), folder.join("tracked.db"));
    let text = json!({
        "version": 2,
        "threads": {
            ended.as_str(): {"machine": "sim", "project": "t3-smoke", "title": "x", "watch": true, "origin": "chat:ended"},
            asking.as_str(): {"origin": "chat:asking"},
            working.as_str(): {"machine": "sim", "watch": true, "origin": "chat:working"},
            unwatched.as_str(): {"machine": "sim", "watch": false, "origin": "chat:unwatched"},
            "elsewhere": {"machine": "sold\u{1b}[2J", "watch": true},
        }
    });
    let text = serde_json::to_vec_pretty(&text).unwrap();
    std::fs::write(&file, &text).unwrap();
    let state = file.to_str().unwrap();

    // Killed while the threads are taken over and read.
    for (start, life) in [0, 10, 40, 150].into_iter().enumerate() {
        let mut client = Client::start_with(&place, &[(STATE, state)]);
        let line = client.serve.until("were taken over");
        let counts = if start == 0 {
            "taken=4 watched=3 taken_before=0 not_taken=1"
        } else {
            "taken=0 watched=0 taken_before=4 not_taken=1"
        };
        assert!(line.contains(counts), "{line}");
        let line = client.serve.until("not taken over");
        assert!(
            line.contains("elsewhere") && line.contains("is not configured"),
            "{line}"
        );
        assert!(!client.serve.said.contains("\u{1b}[2J"));
        std::thread::park_timeout(Duration::from_millis(life));
        client.serve.signal(Signal::KILL);
    }

    let mut client = Client::start_with(&place, &[(STATE, state)]);
    let told = client.done(1, "t3_events", &json!({"thread_id": working, "wait": 30}));
    assert_eq!(told["events"][0]["event"], "completed", "{told}");
    let mut expected = vec![
        ("completed".to_owned(), working.clone(), "chat:working".to_owned()),
        ("question".to_owned(), asking.clone(), "chat:asking".to_owned()),
    ];
    let sorted = |mut events: Vec<(String, String, String)>| {
        events.sort();
        events
    };
    assert_eq!(sorted(events(&mut client, 2)), expected);
    client.serve.signal(Signal::KILL);
    drop(client);

    // It goes on as with threads of one's own.
    let mut client = Client::start_with(&place, &[(STATE, state)]);
    let all = client.done(1, "t3_events", &json!({"thread_id": asking, "limit": 100}));
    client.done(
        2,
        "t3_answer",
        &json!({"thread_id": asking, "answers": {"color": "Red"}}),
    );
    let more = json!({"thread_id": asking, "cursor": all["cursor"], "wait": 30});
    assert_eq!(client.done(3, "t3_events", &more)["events"][0]["event"], "completed");
    expected.push(("completed".to_owned(), asking.clone(), "chat:asking".to_owned()));
    expected.sort();
    assert_eq!(sorted(events(&mut client, 4)), expected);
    assert_eq!(std::fs::read(&file).unwrap(), text, "the file was changed");
    assert!(ledger.is_file() && !folder.join("t3code-mcp.db").exists());
}

#[test]
fn a_file_that_cannot_be_taken_over_is_no_reason_not_to_start() {
    let machine = Machine::start();
    let place = machine.place();
    let folder = folder(&place);
    let file = |name: &str, text: &[u8]| std::fs::write(folder.join(name), text).unwrap();
    file("no.json", b"{\"threads\": ");
    file("list.json", b"[1, 2]");
    file("target", b"{\"t1\": {\"title\": \"x\"}}");
    std::os::unix::fs::symlink(folder.join("target"), folder.join("link.json")).unwrap();
    let large = std::fs::File::create(folder.join("large.json")).unwrap();
    large.set_len(17 * 1024 * 1024).unwrap();
    for (name, problem) in [
        ("no.json", "no JSON"),
        ("list.json", "no JSON object"),
        ("link.json", "symbolic link"),
        ("large.json", "larger than 16 MiB"),
    ] {
        let state = folder.join(name);
        let mut client = Client::start_with(&place, &[(STATE, state.to_str().unwrap())]);
        let machines = client.done(1, "t3_machines", &json!({}));
        assert_eq!(machines["machines"][0]["name"], "sim");
        client.serve.signal(Signal::KILL);
        client.serve.end();
        let said = &client.serve.said;
        let line = said.lines().find(|line| line.contains("nothing is taken over"));
        assert!(line.is_some_and(|line| line.contains(problem)), "{problem}: {said}");
    }
    // One that is not there yet is nobody's.
    let state = folder.join("new.json");
    let mut client = Client::start_with(&place, &[(STATE, state.to_str().unwrap())]);
    client.done(1, "t3_machines", &json!({}));
    assert!(!state.exists() && folder.join("new.db").is_file());
}
