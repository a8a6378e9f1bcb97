//! The commands that ask: against a simulated T3, each a process of its own.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::support::{Machine, Place, Running, until};

/// A simulated T3 and a place that is configured for it.
fn simulated(token: &str) -> (Running, Place) {
    let place = Place::new();
    let mut simulate = place.start(&["simulate", "--port", "0", "--token", "the-right-token"]);
    let address = simulate.address();
    let config = format!("[machines.sim]\nurl = \"http://{address}\"\ntoken_env = \"T3_TOKEN\"\nprojects = [\"*\"]\n");
    let place = place
        .config(&config)
        .file("cwd/variables", &format!("T3_TOKEN={token}\n"), 0o600);
    (simulate, place)
}

fn run(place: &Place, arguments: &[&str]) -> crate::support::Ran {
    let mut all = arguments.to_vec();
    all.extend(["--env-file", "variables"]);
    place.run(&all)
}

#[test]
fn the_demo_goes_the_whole_way() {
    let ran = Place::new().run(&["demo"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    for step in [
        "t3_dispatch:",
        "the thread's state is question",
        "→",
        "t3_answer:",
        "the thread's state is completed",
        "    | ",
        "done:",
    ] {
        assert!(ran.out.contains(step), "{step} is missing: {}", ran.out);
    }
}

#[test]
fn machines_and_projects_are_listed_for_people_and_for_programs() {
    let (_simulate, place) = simulated("the-right-token");
    let machines = run(&place, &["machines"]);
    assert_eq!(
        (machines.code, machines.err.as_str()),
        (Some(0), ""),
        "{}",
        machines.out
    );
    assert!(machines.out.contains("online"), "{}", machines.out);
    let machines: Value = serde_json::from_str(&run(&place, &["machines", "--json"]).out).unwrap();
    assert_eq!(machines["machines"][0]["protocol"], 2);
    let projects = run(&place, &["projects"]);
    assert!(projects.out.contains("t3-smoke"), "{}", projects.out);
    let projects: Value = serde_json::from_str(&run(&place, &["projects", "sim", "--json"]).out).unwrap();
    assert_eq!(projects["projects"][0]["title"], "t3-smoke");
    let models = run(&place, &["models"]);
    assert_eq!((models.code, models.err.as_str()), (Some(0), ""), "{}", models.out);
    for shown in [
        "codex/gpt-5",
        "reasoningEffort=medium|low|high|xhigh",
        "claudeAgent: disabled, Claude is disabled in T3 Code settings.",
    ] {
        assert!(models.out.contains(shown), "{shown}: {}", models.out);
    }
    let models: Value =
        serde_json::from_str(&run(&place, &["models", "sim", "--query", "slow", "--json"]).out).unwrap();
    assert_eq!(models["models"][0]["model"], "fake-slow");
    let unknown = run(&place, &["projects", "mac"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("unknown_machine") && unknown.err.contains("sim"),
        "{}",
        unknown.err
    );
}

#[test]
fn threads_are_listed_for_people_and_for_programs() {
    let (simulate, place) = simulated("the-right-token");
    let none = run(&place, &["threads"]);
    assert_eq!((none.code, none.err.as_str()), (Some(0), ""), "{}", none.out);
    assert!(none.out.starts_with("updated"), "{}", none.out);
    let answer: Value =
        serde_json::from_str(&run(&place, &["threads", "sim", "--state", "busy", "--json"]).out).unwrap();
    assert_eq!(answer, serde_json::json!({"threads": [], "unreachable": []}));
    let wrong = run(&place, &["threads", "--state", "gone"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("attention"), "{}", wrong.err);
    let unknown = run(&place, &["threads", "--project", "nowhere"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("project_not_found") && unknown.err.contains("t3-smoke"),
        "{}",
        unknown.err
    );
    drop(simulate);
    let away = run(&place, &["threads"]);
    assert_eq!(away.code, Some(1));
    assert!(away.err.contains("sim: "), "{}", away.err);
}

#[test]
fn a_simulated_machine_tells_a_program_where_it_listens() {
    let place = Place::new();
    let mut simulate = place.start(&["simulate", "--port", "0", "--json"]);
    let mut line = String::new();
    BufReader::new(simulate.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["project"], "t3-smoke");
    assert_eq!(told["url"], format!("http://{}", simulate.address()));
}

#[test]
fn a_simulated_machine_is_paired_by_one_link_after_the_other() {
    let place = Place::new();
    let mut simulate = place.start(&["simulate", "--port", "0"]);
    let link = |line: &str| line.split('\'').nth(1).unwrap().to_owned();
    let first = link(&simulate.until("pair it:"));
    let paired = place.run(&["pair", "first", &first]);
    assert_eq!(paired.code, Some(0), "{paired:?}");
    let second = link(&simulate.until("that link was used; the next one:"));
    let paired = place.run(&["pair", "second", &second]);
    assert_eq!(paired.code, Some(0), "{paired:?}");
}

#[test]
fn where_nothing_can_be_kept_each_command_says_what_to_do() {
    let (_simulate, place) = simulated("the-right-token");
    let file = place.path("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("state");
    for command in ["serve", "token", "doctor", "dispatch", "events"] {
        let mut arguments = vec![command, "--state-dir", below.to_str().unwrap()];
        arguments.extend(match command {
            "dispatch" => &["--project", "t3-smoke", "say it"][..],
            "events" => &["list"],
            _ => &[],
        });
        let ran = run(&place, &arguments);
        assert_eq!(ran.code, Some(1), "{command}: {ran:?}");
        let told = if command == "doctor" { &ran.out } else { &ran.err };
        assert!(
            told.contains("/file/state") && told.contains("--state-dir"),
            "{command}: {ran:?}"
        );
    }
    let nobody = Place::new().run(&["doctor"]);
    assert!(nobody.out.contains("t3code-mcp pair mac '<link>'"), "{}", nobody.out);
}

#[test]
fn doctor_finds_a_machine_well() {
    let (_simulate, place) = simulated("the-right-token");
    let doctor = run(&place, &["doctor"]);
    assert_eq!((doctor.code, doctor.err.as_str()), (Some(0), ""), "{}", doctor.out);
    assert!(
        doctor.out.contains("the token is accepted") && doctor.out.contains("1 of its 1 projects"),
        "{}",
        doctor.out
    );
    assert!(!doctor.out.contains('✗'), "{}", doctor.out);
}

#[test]
fn doctor_says_what_is_wrong_with_a_machine_and_what_to_do() {
    let (mut simulate, place) = simulated("a-wrong-token");
    let doctor = run(&place, &["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(
        doctor.out.contains("✗ sim: the token is not accepted"),
        "{}",
        doctor.out
    );
    assert!(doctor.out.contains("→ Create a new token"), "{}", doctor.out);
    assert!(!doctor.out.contains("a-wrong-token"));
    let report: Value = serde_json::from_str(&run(&place, &["doctor", "--json"]).out).unwrap();
    assert_eq!(report["ok"], false);

    simulate.signal(rustix::process::Signal::TERM);
    assert_eq!(simulate.end(), Some(0));
    let doctor = run(&place, &["doctor"]);
    assert!(doctor.out.contains("cannot be reached"), "{}", doctor.out);
    let machines = run(&place, &["machines"]);
    assert!(machines.out.contains("offline"), "{}", machines.out);
    assert_eq!(machines.code, Some(1), "none is online");
    let projects = run(&place, &["projects"]);
    assert_eq!(projects.code, Some(1));
    assert!(projects.err.contains("sim: "), "{}", projects.err);
}

#[test]
fn doctor_names_a_variable_that_is_not_set_and_patterns_that_match_nothing() {
    let (_simulate, place) = simulated("the-right-token");
    let unset = place.run(&["doctor"]);
    assert_eq!(unset.code, Some(1));
    assert!(
        unset
            .out
            .contains("✗ sim: the environment variable T3_TOKEN is not set"),
        "{}",
        unset.out
    );
    let text = std::fs::read_to_string(place.path("cwd/t3code.toml"))
        .unwrap()
        .replace("[\"*\"]", "[\"web-*\"]");
    let place = place.config(&text);
    let hidden = run(&place, &["doctor"]);
    assert_eq!(hidden.code, Some(1));
    assert!(
        hidden
            .out
            .contains("none of its 1 projects matches projects = [\"web-*\"]"),
        "{}",
        hidden.out
    );
}

#[test]
fn doctor_names_the_words_that_the_process_which_serves_has_met() {
    let machine = Machine::start();
    let place = machine.place().file("cwd/variables", "T3_TOKEN=any\n", 0o600);
    let mut serve = place.start(&["serve", "--port", "0", "--env-file", "variables"]);
    serve.until("listens on http://");
    let machines =
        || serde_json::from_str::<Value>(&run(&place, &["machines", "--json"]).out).unwrap()["machines"][0].clone();
    // Met by who is connected when it comes, and shown to nobody later.
    let dreamt = json!({"kind": "thread.dreamt", "sequence": 1_000_000});
    until("the word is met", || {
        machine.faults.push_shell_item(dreamt.clone());
        machines()["unknown_words"]["stream item `thread.dreamt`"].is_u64()
    });
    machine.faults.rename_status("running", "pondering");
    let work = ["dispatch", "sleep 60", "--project", "t3-smoke"];
    assert_eq!(run(&place, &work).code, Some(0));
    until("the status is met", || {
        machines()["unknown_words"]["run status `pondering`"].is_u64()
    });
    let doctor = run(&place, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "it is no fault of the machine: {}", doctor.out);
    for word in [
        "stream item `thread.dreamt` (",
        "run status `pondering`",
        "update t3code-mcp",
    ] {
        assert!(doctor.out.contains(word), "{word}: {}", doctor.out);
    }
}
