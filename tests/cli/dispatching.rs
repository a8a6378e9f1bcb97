//! The commands that dispatch, wait, read, answer and interrupt: beside a process that owns the state directory, and without one.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::pty::OnTerminal;
use crate::stdio::Client;
use crate::support::{Machine, Place, Ran, Running, assert_snapshot};

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// Dispatches and gives the thread.
fn dispatch(place: &Place, prompt: &str) -> String {
    let ran = place.run_with_token(&["dispatch", "--json", prompt]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    json(&ran)["thread_id"].as_str().unwrap().to_owned()
}

/// The kinds of the events in the ledger, oldest first.
fn events(place: &Place) -> Vec<String> {
    let all = json(&place.run_with_token(&["events", "list", "--json"]));
    let events = all["events"].as_array().unwrap().iter().rev();
    events
        .map(|entry| entry["event"]["event"].as_str().unwrap().to_owned())
        .collect()
}

/// The events once there are that many. A command that owns the state ends with its own reading and may leave an event to the next owner.
fn settled(place: &Place, thread: &str, count: usize) -> Vec<String> {
    for _ in 0..20 {
        let told = events(place);
        if told.len() >= count {
            return told;
        }
        place.run_with_token(&["wait", thread]);
    }
    events(place)
}

/// What differs between two runs: ids, times, ports.
fn steady(text: &str) -> String {
    let id = regex::Regex::new(r"[0-9a-f]{8}-[0-9a-f-]{27}|evt_[0-9a-f]+").unwrap();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z").unwrap();
    let took = regex::Regex::new(r", \d+ s").unwrap();
    let text = id.replace_all(text, "<id>");
    let text = time.replace_all(&text, "<time>");
    took.replace_all(&text, ", <time>").into_owned()
}

#[test]
fn without_an_owner_a_command_is_it_and_what_it_starts_is_written_down() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run_with_token(&["dispatch", "-p", "t3-smoke", "Say it.\nsay hello"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert_snapshot!("dispatched", steady(&ran.out));
    let thread = dispatch(&place, "say again");
    // The wait keeps the ledger meanwhile, and makes the events of both.
    let ran = place.run_with_token(&["wait", &thread]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_snapshot!("waited", steady(&ran.out));
    let ran = place.run_with_token(&["thread", &thread]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.contains("    | again"), "{}", ran.out);
    let seen = json(&place.run_with_token(&["thread", &thread, "--turns", "1", "--json"]));
    assert_eq!(
        (&seen["state"], &seen["thread_id"]),
        (&json!("completed"), &json!(thread))
    );
    assert_eq!(settled(&place, &thread, 2), ["completed", "completed"]);
}

#[test]
fn beside_an_owner_a_command_works_through_it() {
    let machine = Machine::start();
    let place = machine.place();
    let mut owner = Client::start(&place);
    let ran = place.run_with_token(&["dispatch", "--wait", "--json", "say through it"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let answer = json(&ran);
    assert_eq!(answer["wait"]["state"], "completed");
    assert_eq!(answer["dispatch"]["thread_id"], answer["wait"]["thread_id"]);
    let events = owner.done(1, "t3_events", &json!({"wait": 20}));
    assert_eq!(events["events"][0]["thread_id"], answer["dispatch"]["thread_id"]);
    assert_eq!(events["events"][0]["text"], "through it");
    let listed = place.run_with_token(&["machines"]);
    assert!(listed.out.contains("online"), "{listed:?}");
}

#[test]
fn a_request_id_starts_the_work_once_whoever_owns_the_state() {
    let machine = Machine::start();
    let place = machine.place();
    let task = [
        "dispatch",
        "--json",
        "--request-id",
        "nightly",
        "--no-watch",
        "say once",
    ];
    let first = json(&place.run_with_token(&task));
    assert_eq!(first["watch"], false);
    let _owner = Client::start(&place);
    let again = json(&place.run_with_token(&task));
    assert_eq!(
        (&again["thread_id"], &again["existing"]),
        (&first["thread_id"], &json!(true))
    );
    assert_eq!(machine.simulator.thread_count(), 1);
}

#[test]
fn every_argument_gets_there() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run_with_token(&[
        "dispatch",
        "-m",
        "sim",
        "-p",
        "t3-smoke",
        "--title",
        "A title",
        "--model",
        "codex/gpt-5",
        "--runtime-mode",
        "approval-required",
        "--interaction-mode",
        "plan",
        "--json",
        "say hi",
    ]);
    let answer = json(&ran);
    assert_eq!(
        (&answer["title"], &answer["model"], &answer["runtime_mode"]),
        (&json!("A title"), &json!("codex/gpt-5"), &json!("approval-required"))
    );
    let thread = answer["thread_id"].as_str().unwrap();
    place.run_with_token(&["wait", thread]);
    let more = json(&place.run_with_token(&[
        "dispatch",
        "--thread-id",
        thread,
        "--when-busy",
        "queue",
        "--json",
        "say more",
    ]));
    assert_eq!(more["thread_id"], answer["thread_id"]);
    let wrong = place.run_with_token(&["dispatch", "--option", "nonsense=1", "--model", "codex/gpt-5", "say hi"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), ""));
    assert!(wrong.err.starts_with("error: model_unavailable: "), "{}", wrong.err);
    let wrong = place.run_with_token(&["dispatch", "--when-busy", "never", "say hi"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("restart"), "{}", wrong.err);
}

#[test]
fn a_prompt_comes_from_a_file_or_from_stdin() {
    let machine = Machine::start();
    let place = machine
        .place()
        .file("cwd/task.md", "Do it.\nsay from the file\n", 0o600);
    let ran = place.run_with_token(&["dispatch", "--file", "task.md", "--wait"]);
    assert!(ran.out.contains("    | from the file"), "{ran:?}");
    let mut child = place
        .command_with_token(&["dispatch", "--wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"say from stdin").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap(), &place);
    assert!(ran.out.contains("    | from stdin"), "{ran:?}");
    let ran = place.run_with_token(&["dispatch"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("the prompt is empty"), "{ran:?}");
}

#[test]
fn a_question_is_answered_by_flags_and_an_approval_decided() {
    let machine = Machine::start();
    let place = machine.place();
    let ran = place.run_with_token(&["dispatch", "--wait", "--json", "ask"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let thread = json(&ran)["dispatch"]["thread_id"].as_str().unwrap().to_owned();
    let ran = place.run_with_token(&["answer", &thread]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert_snapshot!("nobody_to_ask", steady(&ran.err));
    let ran = place.run_with_token(&["answer", &thread, "-a", "color=Red"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.contains("invalid_request") && ran.err.contains("extras"),
        "{ran:?}"
    );
    let ran = place.run_with_token(&["answer", &thread, "-a", "color=Red", "-a", "extras=A", "-a", "extras=B"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let ran = place.run_with_token(&["wait", &thread]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.out.contains(r#""Which color?":["Red"],"Which extras?":["A","B"]"#),
        "{}",
        ran.out
    );

    let ran = place.run_with_token(&[
        "dispatch",
        "--wait",
        "--json",
        "--runtime-mode",
        "approval-required",
        "approve rm -rf x",
    ]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let thread = json(&ran)["wait"]["thread_id"].as_str().unwrap().to_owned();
    let answered = json(&place.run_with_token(&["answer", &thread, "--decision", "decline", "--json"]));
    assert_eq!(answered["thread_id"], json!(thread));
    let ran = place.run_with_token(&["answer", &thread]);
    assert!(ran.err.contains("the thread asks nothing"), "{ran:?}");
    let ran = place.run_with_token(&["answer", &thread, "--decision", "accept", "--dismiss"]);
    assert_eq!(ran.code, Some(2), "one or the other");
}

#[test]
fn on_a_terminal_it_asks_what_the_thread_asks() {
    let machine = Machine::start();
    let place = machine.place();
    let thread = dispatch(&place, "ask");
    let asked = place.run_with_token(&["wait", &thread]);
    assert_eq!(asked.code, Some(3));
    assert!(
        asked.out.ends_with(&format!("next: t3code-mcp answer {thread}\n")),
        "{}",
        asked.out
    );
    let mut terminal = OnTerminal::start(place.command_with_token(&["answer", &thread]));
    terminal.until(|shown| shown.contains("Which color?") && shown.ends_with("> "));
    terminal.keys("\n");
    terminal.until(|shown| shown.contains("it must be answered") && shown.ends_with("> "));
    terminal.keys("9\n");
    terminal.until(|shown| shown.contains("9 is none of its options, 1 to 2") && shown.ends_with("> "));
    terminal.keys("2\n");
    terminal.until(|shown| shown.contains("Which extras?") && shown.ends_with("> "));
    terminal.keys("1,2\n");
    terminal.until_shown("answered ");
    terminal.until_shown(&format!("next: t3code-mcp wait {thread}"));
    assert_eq!(terminal.end(), Some(0), "{}", terminal.shown());
    let ran = place.run_with_token(&["wait", &thread]);
    assert!(
        ran.out.contains(r#""Which color?":["Blue"],"Which extras?":["A","B"]"#),
        "{}",
        ran.out
    );
}

#[test]
fn a_wait_runs_out_a_run_is_interrupted_and_the_exit_code_says_so() {
    let machine = Machine::start();
    let place = machine.place();
    let thread = dispatch(&place, "sleep 600");
    let ran = place.run_with_token(&["wait", &thread, "--timeout", "5"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let plain = ["starting", "running", "waiting for the thread to show"];
    let first = ran.err.lines().next().unwrap_or_default();
    assert!(plain.contains(&first), "a change is a plain line: {}", ran.err);
    assert!(ran.err.contains("the work goes on"), "{}", ran.err);
    let ran = place.run_with_token(&["interrupt", &thread]);
    // T3 may still work on it when the command has waited long enough.
    let said = [
        "the run on sim is interrupted\n",
        "the run on sim is interrupting; T3 still works on it\n",
    ];
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(said.contains(&ran.out.as_str()), "{}", ran.out);
    assert_eq!(place.run_with_token(&["wait", &thread, "--json"]).code, Some(1));
    let ran = place.run_with_token(&["interrupt", &thread]);
    assert!(ran.err.starts_with("error: thread_not_interruptible: "), "{ran:?}");
}

#[test]
fn a_queue_is_listed_and_changed() {
    let machine = Machine::newer();
    let place = machine.place();
    let thread = dispatch(&place, "sleep 600");
    let refused = place.run_with_token(&["dispatch", "--thread-id", &thread, "more"]);
    assert!(
        refused
            .err
            .contains("→ Wait with `t3code-mcp wait`, or pass `--when-busy queue`"),
        "{}",
        refused.err
    );
    let behind = |prompt: &str| {
        let ran = place.run_with_token(&[
            "dispatch",
            "--thread-id",
            &thread,
            "--when-busy",
            "queue",
            "--json",
            prompt,
        ]);
        json(&ran)["run_id"].as_str().unwrap().to_owned()
    };
    let (second, third) = (behind("say second"), behind("say third"));
    let listed = json(&place.run_with_token(&["queue", &thread, "--json"]));
    assert_eq!(
        (&listed["queue"][0]["run_id"], &listed["queue"][1]["run_id"]),
        (&json!(second), &json!(third))
    );
    let ran = place.run_with_token(&["queue", &thread, "--cancel", &second]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(
        ran.out.starts_with("cancelled\n") && ran.out.contains("say third"),
        "{}",
        ran.out
    );
    place.run_with_token(&["interrupt", &thread, "--queue", "hold"]);
    assert_eq!(
        place.run_with_token(&["wait", &thread]).code,
        Some(3),
        "its queue is held"
    );
    let ran = place.run_with_token(&["queue", &thread, "--resume"]);
    assert!(ran.out.starts_with("resumed\n"), "{ran:?}");
    assert_eq!(place.run_with_token(&["wait", &thread]).code, Some(0));
    let ran = place.run_with_token(&["queue", &thread, "--resume", "--cancel", &third]);
    assert_eq!(ran.code, Some(2), "one thing at a time");
}

#[test]
fn several_threads_are_waited_for_together() {
    let machine = Machine::start();
    let place = machine.place();
    let _owner = Client::start(&place);
    let (fast, slow) = (dispatch(&place, "say fast"), dispatch(&place, "sleep 600"));
    let any = place.run_with_token(&["wait", &fast, &slow, "--json"]);
    assert_eq!((any.code, &json(&any)["done"]), (Some(0), &json!([fast])));
    let all = place.run_with_token(&["wait", &fast, &slow, "--until", "all", "--timeout", "5", "--json"]);
    assert_eq!((all.code, &json(&all)["still_running"]), (Some(4), &json!(true)));
}

#[test]
fn what_is_refused_is_told_in_the_same_words_with_an_owner_and_without() {
    let machine = Machine::start();
    let place = machine.place();
    let wrong: [&[&str]; 5] = [
        &["thread", "nothing"],
        &["wait", "nothing"],
        &["interrupt", "nothing"],
        &["dispatch", "-p", "shop", "say it"],
        &["dispatch", "-m", "mac", "say it"],
    ];
    let told = |place: &Place| {
        let mut all = String::new();
        for arguments in wrong {
            let ran = place.run_with_token(arguments);
            assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}");
            all.push_str(&ran.err);
        }
        all
    };
    let alone = told(&place);
    assert_snapshot!("refused", steady(&alone));
    let _owner = Client::start(&place);
    assert_eq!(told(&place), alone);
}

#[test]
fn ctrl_c_ends_the_wait_and_not_the_work() {
    let machine = Machine::start();
    let place = machine.place();
    let thread = dispatch(&place, "sleep 600");
    for signal in [Signal::INT, Signal::TERM] {
        let mut waiting = Running::start(place.command_with_token(&["wait", &thread]));
        waiting.until("ing");
        waiting.signal(signal);
        assert_eq!(waiting.end(), Some(1), "{}", waiting.said);
        assert!(waiting.said.contains("what was started goes on"), "{}", waiting.said);
    }
    assert_eq!(
        json(&place.run_with_token(&["thread", &thread, "--json"]))["state"],
        "running"
    );
}

#[test]
fn a_wait_outlives_the_owner_it_went_through() {
    let machine = Machine::start();
    let place = machine.place();
    let mut owner = Client::start(&place);
    let thread = dispatch(&place, "sleep 6");
    let mut waiting = Running::start(place.command_with_token(&["wait", &thread, "--json"]));
    waiting.until("ing");
    owner.serve.signal(Signal::KILL);
    owner.serve.end();
    assert_eq!(waiting.end(), Some(0), "{}", waiting.said);
    // It kept the ledger from then on.
    assert_eq!(settled(&place, &thread, 1), ["completed"]);
}

#[test]
fn on_a_terminal_a_wait_is_one_line_that_goes_away() {
    let machine = Machine::start();
    let place = machine.place();
    let thread = dispatch(&place, "sleep 9");
    let mut terminal = OnTerminal::start(place.command_with_token(&["wait", &thread]));
    terminal.until(|shown| shown.matches("\r\u{1b}[Kwaiting for ").count() >= 2);
    assert_eq!(terminal.end(), Some(0));
    let shown = terminal.until_shown("slept.");
    let after = shown.rsplit("\u{1b}[K").next().unwrap();
    assert!(!after.contains("waiting for"), "{after:?}");
}

#[test]
fn hostile_text_of_a_thread_does_nothing_to_the_terminal() {
    let machine = Machine::start();
    let place = machine.place();
    let evil = "\u{1b}[2J\u{9b}1A\u{202e}\u{200b}\u{7}error: forged";
    let prompt = format!("{evil} {}\nsay {evil}", "long ".repeat(3_000));
    let ran = place.run_with_token(&["dispatch", "--wait", &prompt]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let thread = json(&place.run_with_token(&["dispatch", "--wait", "--json", &prompt]));
    let thread = thread["dispatch"]["thread_id"].as_str().unwrap();
    let shown = [
        ran,
        place.run_with_token(&["thread", thread]),
        place.run_with_token(&["thread", thread, "--json"]),
        place.run_with_token(&["wait", thread]),
        place.run_with_token(&["thread", evil]),
        place.run_with_token(&["interrupt", thread, "--run-id", evil]),
        place.run_with_token(&["answer", thread, "--request-id", evil, "--decision", evil]),
    ];
    for ran in shown {
        let hidden =
            |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'));
        assert!(!ran.out.contains(hidden) && !ran.err.contains(hidden), "{ran:?}");
        assert!(
            !ran.out.contains("\nerror: forged") && !ran.err.contains("\nerror: forged"),
            "{ran:?}"
        );
        let ours = |line: &str| {
            [
                "error: ",
                "  → ",
                "waiting for ",
                "queued",
                "starting",
                "running",
                "finishing",
                "completed",
            ]
            .iter()
            .any(|begin| line.starts_with(begin))
        };
        assert!(ran.err.lines().all(ours), "{ran:?}");
    }
}

#[test]
fn the_whole_way_on_a_machine_of_protocol_1() {
    let machine = Machine::older();
    let place = machine.place();
    let thread = dispatch(&place, "say hello");
    let waited = place.run_with_token(&["wait", "--json", &thread]);
    let view = json(&waited);
    assert_eq!((waited.code, &view["state"]), (Some(0), &json!("completed")), "{view}");
    let thread = dispatch(&place, "ask1");
    let asked = json(&place.run_with_token(&["wait", "--json", &thread]));
    assert_eq!(asked["state"], "question", "{asked}");
    let stopped = json(&place.run_with_token(&["interrupt", "--json", &thread]));
    assert_eq!(stopped["state"], "interrupted", "{stopped}");
    assert!(!machine.simulator.is_wedged());
}
