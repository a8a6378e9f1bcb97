//! Pairing by the real binary: links and codes as T3 prints them, a process that serves meanwhile, and what lies on disk afterwards.

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use t3code_mcp::simulator::{Faults, Simulator, SimulatorOptions};
use tokio::runtime::Runtime;

use crate::receiver::Receiver;
use crate::support::{self, BEARER, Place, Ran, Running, http, until};

const MINUTE: Duration = Duration::from_mins(1);
const STATE: &str = "home/.local/state/t3code-mcp";

/// A T3 that takes no token but those that it gave.
struct T3 {
    simulator: Simulator,
    faults: Faults,
    _runtime: Runtime,
}

impl T3 {
    fn start() -> Self {
        Self::with(SimulatorOptions::default())
    }

    fn with(options: SimulatorOptions) -> Self {
        let runtime = Runtime::new().unwrap();
        let options = SimulatorOptions {
            token: Some("the-owners-own".to_owned()),
            ..options
        };
        let simulator = runtime.block_on(Simulator::start(options)).unwrap();
        Self {
            faults: simulator.faults(),
            simulator,
            _runtime: runtime,
        }
    }

    fn url(&self) -> String {
        self.simulator.url()
    }

    fn code(&self) -> String {
        self.faults.pairing_code(MINUTE)
    }

    fn link(&self) -> String {
        format!("{}/pair#token={}", self.url(), self.code())
    }

    /// A place whose config has it as `mac`, to be paired.
    fn place(&self, more: &str) -> Place {
        Place::new().config(&format!(
            "[machines.mac]\nurl = \"{}\"\npairing = true\nprojects = [\"*\"]\n{more}",
            self.url()
        ))
    }
}

fn serve(place: &Place, more: &[&str]) -> (Running, SocketAddr) {
    place.serve(more, &[("T3CODE_MCP_TOKEN", BEARER)])
}

/// The line by which it says, or has said, that.
fn said(running: &mut Running, wanted: &str) -> String {
    let line = running.said.lines().find(|line| line.contains(wanted));
    let line = line.map(str::to_owned);
    line.unwrap_or_else(|| running.until(wanted))
}

/// What a tool answers, as data; or its error.
fn call(address: SocketAddr, tool: &str, arguments: &Value) -> Value {
    let (_, result) = support::call(address, BEARER, tool, arguments);
    match result.get("structuredContent") {
        Some(facts) => facts.clone(),
        None => serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap(),
    }
}

fn machine(address: SocketAddr) -> Value {
    call(address, "t3_machines", &json!({}))["machines"][0].clone()
}

fn well(ran: &Ran) {
    assert_eq!(ran.code, Some(0), "{} {}", ran.out, ran.err);
}

fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(1), "{} {}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
}

fn file(place: &Place, machine: &str) -> PathBuf {
    place.path(&format!("{STATE}/credentials/{machine}.json"))
}

fn token(place: &Place, machine: &str) -> String {
    let kept: Value = serde_json::from_slice(&std::fs::read(file(place, machine)).unwrap()).unwrap();
    kept["token"].as_str().unwrap().to_owned()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// The files below that hold a secret.
fn holding(folder: &Path, secret: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, secret));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_link_makes_a_machine_of_a_gateway_that_runs_without_a_config() {
    let t3 = T3::start();
    let place = Place::new();
    let (mut serve_, address) = serve(&place, &[]);
    serve_.until("t3code-mcp pair mac '<link>'");
    assert_eq!(call(address, "t3_machines", &json!({})), json!({"machines": []}));

    let code = t3.code();
    let ran = place.run(&["pair", "box", &format!("'{}/pair#token={code}'", t3.url())]);
    well(&ran);
    assert!(
        ran.err.contains(&t3.url()) && ran.err.contains("(vm, T3 "),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("projects: *"), "{}", ran.out);
    assert!(
        ran.out.contains("orchestration:read, orchestration:operate\n"),
        "{}",
        ran.out
    );
    until("the machine is online", || machine(address)["online"] == true);
    let seen = machine(address);
    assert_eq!(
        (&seen["name"], &seen["credential"]),
        (&json!("box"), &json!({"state": "ok", "days_left": 29}))
    );

    let token_ = token(&place, "box");
    let path = file(&place, "box");
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(holding(&place.path(""), &token_), [path]);
    assert_eq!(holding(&place.path(""), &code), Vec::<PathBuf>::new());

    // With another name, too, it is known at the next start; and a second allowlist replaces the first.
    well(&place.run(&["pair", "box", &t3.link(), "--projects", "nothing-*, else"]));
    until("the allowlist is the new one", || {
        machine(address)["projects"] == json!(["nothing-*", "else"])
    });
    assert_eq!(call(address, "t3_projects", &json!({}))["projects"], json!([]));
    serve_.signal(Signal::TERM);
    assert_eq!(serve_.end(), Some(0));
    let (mut again, address) = serve(&place, &[]);
    until("the machine is there after a start", || {
        machine(address)["online"] == true
    });

    let forgotten = place.run(&["unpair", "box", "--json"]);
    well(&forgotten);
    let forgotten: Value = serde_json::from_str(&forgotten.out).unwrap();
    assert_eq!(forgotten, json!({"machine": "box", "forgotten": true}));
    until("the machine is gone", || {
        call(address, "t3_machines", &json!({})) == json!({"machines": []})
    });
    refused(&place.run(&["unpair", "box"]), &["box is not paired"]);
    again.signal(Signal::TERM);
    assert_eq!(again.end(), Some(0));
    for said in [&serve_.said, &again.said, &ran.out, &ran.err] {
        assert!(!said.contains(&token_) && !said.contains(&code), "{said}");
    }
}

#[test]
fn a_wait_goes_on_while_the_credential_is_renewed_and_the_old_one_ends() {
    let t3 = T3::start();
    let place = t3.place("");
    well(&place.run(&["pair", "mac", &t3.code()]));
    let old = token(&place, "mac");
    let (mut serve_, address) = serve(&place, &[]);
    until("the machine is online", || machine(address)["online"] == true);
    let dispatched = call(
        address,
        "t3_dispatch",
        &json!({"project": "t3-smoke", "prompt": "sleep 4"}),
    );
    let thread = dispatched["thread_id"].as_str().unwrap().to_owned();
    let waiting = std::thread::spawn(move || call(address, "t3_wait", &json!({"thread_id": thread, "timeout": 30})));

    let link = format!("http://localhost:1/pair#token={}", t3.code());
    let ran = place.run(&["pair", "mac", &link]);
    well(&ran);
    assert!(
        ran.err.contains("the code goes to"),
        "T3 knows itself by another address: {}",
        ran.err
    );
    serve_.until("moves over");
    serve_.until("connected");
    t3.faults.revoke_token(&old);
    let waited = waiting.join().unwrap();
    assert_eq!(waited["state"], "completed", "{waited}");
    assert!(waited.get("unreachable_since").is_none(), "{waited}");
    assert_eq!(machine(address)["online"], true);
    let status = call(address, "t3_status", &json!({"machine": "mac"}))["machines"][0].clone();
    assert_eq!(status["credential"]["from"], "pairing");
    assert_eq!(status["credential"]["expiring_soon"], false);
    assert!(status["stream"]["lag_ms"].is_u64(), "{status}");
    assert_eq!(status["deliveries"], json!({"waiting": 0, "dead": 0}));
    let ran = place.run(&["status"]);
    well(&ran);
    assert!(ran.out.contains("ok, 29 days"), "{}", ran.out);

    // Unpaired, the machine stays in the config and says what it wants.
    well(&place.run(&["unpair", "mac"]));
    until("the machine wants to be paired", || {
        machine(address)["credential"]["state"] == "needs_pairing"
    });
    let failed = call(
        address,
        "t3_dispatch",
        &json!({"project": "t3-smoke", "prompt": "say no"}),
    );
    assert_eq!(failed["code"], "needs_pairing", "{failed}");
    let ran = place.run(&["status", "--json"]);
    assert_eq!(ran.code, Some(1));
    let status: Value = serde_json::from_str(&ran.out).unwrap();
    let renew = status["machines"][0]["credential"]["renew"].as_str().unwrap();
    assert!(renew.contains("t3code-mcp pair mac '<link>'"), "{renew}");
    well(&place.run(&["pair", "mac", &t3.code()]));
    until("the machine is back", || machine(address)["online"] == true);
}

#[test]
fn a_code_that_does_not_work_says_which_and_a_link_that_hides_something_is_refused() {
    let t3 = T3::start();
    let place = Place::new();
    let used = t3.link();
    well(&place.run(&["pair", "box", &used]));
    refused(&place.run(&["pair", "box", &used]), &["was used for box before"]);
    refused(
        &place.run(&["pair", "other", &used]),
        &["does not take this code", "t3 pair"],
    );
    let expired = format!("{}?token={}", t3.url(), t3.faults.pairing_code(Duration::ZERO));
    refused(
        &place.run(&["pair", "box", &expired]),
        &["has expired", "Make a new one"],
    );
    let less = t3.faults.pairing_code_for(&["orchestration:read"], MINUTE);
    refused(
        &place.run(&["pair", "box", &less, &t3.url()]),
        &["grants less than orchestration:read and orchestration:operate", "spent"],
    );
    let code = t3.code();
    let host = t3.url().replace("http://", "");
    for hostile in [
        format!("http://t3.example@{host}/pair#token={code}"),
        format!("http://{host}/pair"),
        format!("http://{host}/elsewhere#token={code}"),
        format!("http://{host}/pair#token={code}&token={code}"),
        format!("ws://{host}/pair#token={code}"),
        format!("http://{host}/pair?host=evil#token={code}"),
    ] {
        let ran = place.run(&["pair", "box", &hostile]);
        refused(&ran, &["the link"]);
        assert!(!ran.err.contains(&code), "{}", ran.err);
    }
    refused(&place.run(&["pair", "../box", &t3.link()]), &["has a name"]);
    refused(
        &place.run(&["pair", "new", &code]),
        &["the code alone does not say where"],
    );
    refused(
        &place.run(&["pair", "new", &code, "http://127.0.0.1:1"]),
        &["The code was not used"],
    );
    // After all that the code is still good, and the machine still paired.
    well(&place.run(&["pair", "box", &code]));
    assert_eq!(
        std::fs::read_dir(file(&place, "box").parent().unwrap())
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn another_t3_than_the_one_that_was_paired_is_shown_neither_token_nor_code() {
    let t3 = T3::start();
    let place = Place::new();
    well(&place.run(&["pair", "box", &t3.link()]));
    let first = token(&place, "box");
    let (mut serve_, address) = serve(&place, &[]);
    until("the machine is online", || machine(address)["online"] == true);
    t3.faults.fresh_database("11111111-2222-4333-8444-555555555555");
    serve_.until("it is not shown the token");
    // It says so before it shows so.
    until("its credential is to be renewed", || {
        machine(address)["credential"]["state"] == "needs_pairing"
    });

    let link = t3.link();
    let ran = place.run(&["pair", "box", &link]);
    refused(
        &ran,
        &["another T3", "11111111-2222-4333-8444-555555555555", "--replace"],
    );
    assert_eq!(token(&place, "box"), first, "the credential is the old one");
    well(&place.run(&["pair", "box", &link, "--replace"]));
    until("the machine is back", || machine(address)["online"] == true);

    // What goes on there when it is unpaired is told to its end, as of a machine that is in no config any more.
    let work = json!({"project": "t3-smoke", "prompt": "sleep 60"});
    let dispatched = call(address, "t3_dispatch", &work);
    assert_eq!(dispatched["watch"], true, "{dispatched}");
    well(&place.run(&["unpair", "box"]));
    until("its end is told", || {
        let told = call(address, "t3_events", &json!({}));
        told["events"].as_array().unwrap().iter().any(|event| {
            event["thread_id"] == dispatched["thread_id"]
                && event["event"] == "interrupted"
                && event["reason"] == "not_visible"
        })
    });
}

#[test]
fn a_machine_of_the_config_is_paired_where_the_config_says() {
    let t3 = T3::start();
    let place = t3
        .place("[machines.by_variable]\nurl = \"http://127.0.0.1:1\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n");
    let code = t3.code();
    let elsewhere = format!("http://192.0.2.1:3773/pair#token={code}");
    refused(
        &place.run(&["pair", "mac", &elsewhere]),
        &["http://192.0.2.1:3773/", "the code was not sent"],
    );
    refused(
        &place.run(&["pair", "mac", &code, "http://127.0.0.1:2"]),
        &["http://127.0.0.1:2/", "the code was not sent"],
    );
    refused(
        &place.run(&["pair", "mac", &code, "--projects", "a"]),
        &["Leave --projects out"],
    );
    refused(
        &place.run(&["pair", "by_variable", &code]),
        &["T3_TOKEN", "pairing = true"],
    );
    let doctor = place.run(&["doctor"]);
    assert!(doctor.out.contains("✗ mac: it is not paired"), "{}", doctor.out);
    well(&place.run(&["pair", "mac", &code, "--json"]));
    assert!(place.run(&["doctor"]).out.contains("✓ mac: it was paired at"));
}

#[test]
fn agents_pair_only_where_the_operator_lets_them_and_the_code_goes_nowhere_else() {
    let t3 = T3::with(SimulatorOptions {
        gate: true,
        ..SimulatorOptions::default()
    });
    let code = t3.code();
    let place = t3.place("");
    {
        let (_serve, address) = serve(&place, &[]);
        let refused = call(address, "t3_pair", &json!({"machine": "mac", "code": code}));
        assert_eq!(refused["code"], "insufficient_scope", "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("agent_pairing = true"));
    }
    let place = t3.place("agent_pairing = true\n");
    let (serve_, address) = serve(&place, &[]);
    let wrong = call(address, "t3_pair", &json!({"machine": "mac", "code": "no code"}));
    assert_eq!(wrong["code"], "invalid_request", "{wrong}");
    // The link says another host: only its code counts.
    let link = format!("http://192.0.2.1:3773/pair#token={code}");
    let paired = call(address, "t3_pair", &json!({"machine": "mac", "code": link}));
    assert_eq!(paired["url"], format!("{}/", t3.url()), "{paired}");
    assert_eq!(paired["scopes"], json!(["orchestration:read", "orchestration:operate"]));
    until("the machine is online", || machine(address)["online"] == true);
    let again = call(address, "t3_pair", &json!({"machine": "mac", "code": code}));
    assert_eq!(again["code"], "invalid_request", "{again}");
    assert!(again["message"].as_str().unwrap().contains("was used for mac before"));
    drop(serve_);
    assert_eq!(holding(&place.path(""), &token(&place, "mac")), [file(&place, "mac")]);
}

#[test]
fn the_end_of_a_credential_is_told_ahead_and_not_missed() {
    let t3 = T3::start();
    let hook = Receiver::start();
    let place = t3.place(&format!(
        "[hook]\nurl = \"http://{}/hook\"\ncredentials = true\n",
        hook.address
    ));
    t3.faults.token_life(Duration::from_secs(20));
    well(&place.run(&["pair", "mac", &t3.code()]));
    let (mut serve_, address) = serve(&place, &[]);
    let line = said(&mut serve_, "the credential ends within a day");
    assert!(line.contains("t3code-mcp pair mac"), "{line}");
    let soon = json!({"state": "expiring_soon", "days_left": 0});
    until("it ends soon", || machine(address)["credential"] == soon);
    said(&mut serve_, "the credential has ended");
    let status = call(address, "t3_status", &json!({}))["machines"][0].clone();
    assert_eq!(
        (&status["online"], &status["credential"]["state"]),
        (&json!(false), &json!("needs_pairing"))
    );
    assert!(status["error"].as_str().unwrap().contains("needs_pairing"), "{status}");
    until("both are told", || hook.received().len() == 2);
    let told: Vec<Value> = hook.received();
    let of = |event: &Value| (event["event"].clone(), event["machine"].clone(), event["state"].clone());
    assert_eq!(
        of(&told[0]),
        (json!("credential"), json!("mac"), json!("expiring_soon"))
    );
    assert_eq!(of(&told[1]), (json!("credential"), json!("mac"), json!("expired")));
    assert!(
        told[1]["credential"]["renew"].as_str().unwrap().contains("t3 pair"),
        "{told:?}"
    );
    let listed = call(address, "t3_events", &json!({}));
    assert_eq!(listed["events"].as_array().unwrap().len(), 2, "{listed}");
    well(&place.run(&["events", "list"]));
}

#[test]
fn a_link_at_the_start_is_used_once() {
    let t3 = T3::start();
    let place = Place::new();
    let link = t3.link();
    for start in 0..2 {
        let (mut serve_, address) = serve(&place, &[&link]);
        until("the machine is online", || machine(address)["online"] == true);
        assert_eq!(machine(address)["name"], "t3");
        serve_.signal(Signal::TERM);
        assert_eq!(serve_.end(), Some(0));
        assert_eq!(serve_.said.contains("was used before"), start == 1, "{}", serve_.said);
    }
    let bad = place.run(&["serve", "--port", "0", "http://127.0.0.1:1/pair#token=ABCDEFGHIJKL"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.err.contains("The code was not used"), "{}", bad.err);

    // By the variable: one that does not work is no reason not to serve.
    let place = Place::new();
    for (link, wanted) in [
        (t3.link(), "paired by the link"),
        ("nonsense".to_owned(), "T3_PAIRING_URL was not used"),
    ] {
        let mut command = place.command(&["serve", "--port", "0"]);
        command.env("T3_PAIRING_URL", &link);
        let mut running = Running::start(command);
        running.until(wanted);
        running.until("listens on");
    }
}

#[test]
fn links_and_open_files_in_place_of_a_credential_are_left_alone() {
    let t3 = T3::start();
    let place = Place::new();
    well(&place.run(&["pair", "box", &t3.link()]));
    let path = file(&place, "box");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let code = t3.code();
    refused(&place.run(&["pair", "box", &code, &t3.url()]), &["others can read it"]);
    let mut running = place.start(&["serve", "--port", "0"]);
    running.until("others can read it");
    drop(running);
    let elsewhere = place.path("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    let before = std::fs::read(&elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    refused(
        &place.run(&["pair", "box", &code, &t3.url(), "--replace"]),
        &["symbolic link"],
    );
    assert_eq!(std::fs::read(&elsewhere).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
    well(&place.run(&["pair", "box", &code, &t3.url()]));
}

/// The thread's events once there are some.
fn told(address: SocketAddr, thread: &Value) -> Vec<(Value, Value)> {
    let told = call(address, "t3_events", &json!({"thread_id": thread, "wait": 30}));
    let events = told["events"].as_array().unwrap().iter();
    events
        .map(|event| (event["event"].clone(), event["reason"].clone()))
        .collect()
}

#[test]
fn a_credential_that_cannot_be_used_at_a_start_ends_nothing_of_its_machine() {
    let t3 = T3::start();
    let place = Place::new();
    well(&place.run(&["pair", "box", &t3.link()]));
    let (mut first, address) = serve(&place, &[]);
    until("the machine is online", || machine(address)["online"] == true);
    let work = json!({"project": "t3-smoke", "prompt": "sleep 4"});
    let thread = call(address, "t3_dispatch", &work)["thread_id"].clone();
    first.signal(Signal::TERM);
    assert_eq!(first.end(), Some(0));

    let path = file(&place, "box");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (mut second, address) = serve(&place, &[]);
    said(&mut second, "they wait for one that is");
    assert_eq!(call(address, "t3_machines", &json!({})), json!({"machines": []}));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    until("the machine is back", || machine(address)["online"] == true);
    assert_eq!(told(address, &thread), [(json!("completed"), Value::Null)]);
}

#[test]
fn who_takes_over_goes_on_with_what_was_paired_after_its_start() {
    let t3 = T3::start();
    let place = Place::new();
    let (first, address) = serve(&place, &[]);
    let (mut second, after) = serve(&place, &[]);
    well(&place.run(&["pair", "box", &t3.link()]));
    until("the machine is online", || machine(address)["online"] == true);
    let work = json!({"project": "t3-smoke", "prompt": "sleep 4"});
    let thread = call(address, "t3_dispatch", &work)["thread_id"].clone();
    first.signal(Signal::KILL);
    said(&mut second, "this process keeps the ledger now");
    assert_eq!(told(after, &thread), [(json!("completed"), Value::Null)]);
    assert!(!second.said.contains("is not configured any more"), "{}", second.said);
}

#[test]
fn a_process_behind_the_owner_follows_what_is_paired() {
    let t3 = T3::start();
    let place = Place::new();
    let (_first, _) = serve(&place, &[]);
    let (mut second, behind) = serve(&place, &[]);
    said(&mut second, "calls are passed on to it");
    let there = || call(behind, "t3_machines", &json!({}));
    assert_eq!(there(), json!({"machines": []}));

    well(&place.run(&["pair", "box", &t3.link()]));
    until("the machine is online", || machine(behind)["online"] == true);
    assert_eq!(machine(behind)["name"], "box");
    let health = http(behind, &format!("GET /healthz HTTP/1.1\nHost: {behind}"), "");
    assert!(health.contains("\"box\""), "{health}");
    let work = json!({"project": "t3-smoke", "prompt": "say done"});
    let thread = call(behind, "t3_dispatch", &work)["thread_id"].clone();
    let ended = call(behind, "t3_wait", &json!({"thread_id": thread}));
    assert_eq!(ended["state"], "completed", "{ended}");

    // Narrower, and wider again.
    for (patterns, shown) in [("nothing-*", 0), ("nothing-*,t3-*", 1)] {
        well(&place.run(&["pair", "box", &t3.link(), "--projects", patterns]));
        // It holds where both allow it: what is narrower at once, what is wider when the owner has it too.
        until("the allowlist is the new one", || {
            let patterns: Vec<_> = patterns.split(',').collect();
            let projects = call(behind, "t3_projects", &json!({}))["projects"].clone();
            machine(behind)["projects"] == json!(patterns) && projects.as_array().unwrap().len() == shown
        });
    }
    well(&place.run(&["unpair", "box"]));
    until("the machine is gone", || there() == json!({"machines": []}));
    let health = http(behind, &format!("GET /healthz HTTP/1.1\nHost: {behind}"), "");
    assert!(!health.contains("\"box\""), "{health}");
}

#[test]
fn what_is_said_of_a_credential_is_said_once_whatever_its_machines_rules_become() {
    let t3 = T3::start();
    let hook = Receiver::start();
    let place = Place::new().config(&format!(
        "[hook]\nurl = \"http://{}/hook\"\ncredentials = true\n",
        hook.address
    ));
    well(&place.run(&["pair", "box", &t3.link()]));
    let (mut serve_, address) = serve(&place, &[]);
    until("the machine is online", || machine(address)["online"] == true);
    for patterns in ["a-*", "t3-*"] {
        well(&place.run(&["pair", "box", &t3.link(), "--projects", patterns]));
        until("the rules are the new ones", || {
            machine(address)["projects"] == json!([patterns])
        });
    }
    // Credentials that T3 never took: no end is known of them, and each of them is refused once.
    let path = file(&place, "box");
    for round in 1..=2 {
        let good = std::fs::read_to_string(&path).unwrap();
        let draft = path.with_extension("draft");
        let never_taken = format!("never.taken.{round}");
        std::fs::write(&draft, good.replace(&token(&place, "box"), &never_taken)).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
        until("it is told", || hook.received().len() >= round);
        well(&place.run(&["pair", "box", &t3.link(), "--projects", "t3-*"]));
        until("the machine is back", || machine(address)["online"] == true);
    }
    // The ends of each are in the ledger before the next are told.
    let listed = call(address, "t3_events", &json!({}))["events"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    serve_.signal(Signal::TERM);
    assert_eq!(serve_.end(), Some(0));
}

#[test]
fn a_credential_that_cannot_be_used_is_named_with_what_mends_it() {
    let t3 = T3::start();
    let place = Place::new();
    well(&place.run(&["pair", "box", &t3.link()]));
    let path = file(&place, "box");
    let mend = "t3code-mcp unpair box";
    let looks = |wrong: &str| {
        let doctor = place.run(&["doctor"]);
        assert_eq!(doctor.code, Some(1), "{}", doctor.out);
        for word in [
            "✗ box: its credential cannot be used",
            "credentials/box.json",
            wrong,
            mend,
            "t3code-mcp pair box '<link>'",
        ] {
            assert!(doctor.out.contains(word), "{word}: {}", doctor.out);
        }
        assert!(!doctor.out.contains("no machine is configured"), "{}", doctor.out);
        refused(&place.run(&["status"]), &["credentials/box.json", wrong, mend]);
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    looks("others can read it (mode 0644)");
    std::fs::write(&path, "{").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    looks("holds no credential");
    // What it says is what mends it.
    well(&place.run(&["unpair", "box"]));
    well(&place.run(&["pair", "box", &t3.link()]));
    well(&place.run(&["doctor"]));

    // Beside one that is well, it is told all the same.
    well(&place.run(&["pair", "second", &t3.link()]));
    std::fs::write(&path, "{").unwrap();
    let status = place.run(&["status"]);
    assert_eq!(status.code, Some(1), "{}", status.out);
    assert!(
        status.out.contains("second") && status.err.contains("credentials/box.json"),
        "{}",
        status.err
    );
}
