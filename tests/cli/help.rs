//! What a person reads who asks how it is used, or uses it wrongly.

use std::fmt::Write as _;

use crate::support::{Place, assert_snapshot};

#[test]
fn every_command_explains_itself_with_examples() {
    let place = Place::new();
    let mut all = String::new();
    for command in [
        "",
        "serve",
        "demo",
        "doctor",
        "token",
        "machines",
        "pair",
        "unpair",
        "status",
        "projects",
        "models",
        "threads",
        "dispatch",
        "wait",
        "thread",
        "answer",
        "interrupt",
        "queue",
        "watch",
        "smoke",
        "events",
        "schema",
        "schema show",
        "schema diff",
        "schema check",
        "simulate",
        "completions",
    ] {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let ran = place.run(&arguments);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
        assert!(ran.out.contains("Example"), "{command} has no example");
        writeln!(all, "$ t3code-mcp {}\n{}", arguments.join(" "), ran.out).unwrap();
    }
    assert_snapshot!("help", all);
}

#[test]
fn a_wrong_flag_names_the_right_one() {
    let ran = Place::new().run(&["serve", "--prot", "9"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("'--port'"), "{}", ran.err);
    assert_eq!(ran.out, "");
}

#[test]
fn a_wrong_config_is_told_whole_on_stderr_and_fails() {
    let place = Place::new().config("[server]\nprot = 1\n[machines.mac]\ntoken = \"sesame\"\n");
    for arguments in [
        &["serve"][..],
        &["token"],
        &["machines"],
        &["projects"],
        &["models"],
        &["threads"],
        &[],
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{arguments:?}");
        assert_snapshot!("wrong_config", ran.err);
    }
    let ran = place.run(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    assert_snapshot!("wrong_config_by_doctor", ran.out);
}

#[test]
fn completions_know_the_commands() {
    let ran = Place::new().run(&["completions", "bash"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("simulate") && ran.out.contains("--state-dir"));
}
