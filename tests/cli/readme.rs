//! The README's facts are the program's: what can be generated is compared, and written anew with `UPDATE_README=1`; what is prose must
//! name everything that there is and nothing that there is not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use t3code_mcp::config::settings;
use t3code_mcp::lifecycle::{REQUEST_DIAGRAM, RUN_DIAGRAM};

use crate::support::{Place, Running};

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))
}

fn readme() -> String {
    std::fs::read_to_string(path()).unwrap()
}

/// Holds the part between two marks against what it should be.
fn compare(mark: &str, wanted: &str) {
    // The tests of one file run side by side.
    static WRITING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = WRITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = readme();
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("the README lacks {begin}")) + begin.len();
    let to = text.find(&end).unwrap_or_else(|| panic!("the README lacks {end}"));
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(path(), format!("{}{wanted}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert_eq!(
        &text[from..to],
        wanted,
        "run: UPDATE_README=1 cargo test --test cli readme"
    );
}

#[test]
fn the_table_of_settings_is_the_programs() {
    compare("settings", &settings::markdown());
}

#[test]
fn the_diagrams_are_the_lifecycles() {
    compare("run", &format!("```mermaid\n{RUN_DIAGRAM}```\n"));
    compare("request", &format!("```mermaid\n{REQUEST_DIAGRAM}```\n"));
}

#[test]
fn the_demo_prints_what_the_readme_shows() {
    let ran = Place::new().run(&["demo"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // Ports and clocks are others in each run.
    let mut shown = String::from("```text\n");
    for line in ran.out.lines().filter(|line| !line.starts_with("    … ")) {
        match line.split_once("127.0.0.1:") {
            Some((before, rest)) => {
                let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                writeln!(shown, "{before}127.0.0.1:…{after}").unwrap();
            }
            None => writeln!(shown, "{line}").unwrap(),
        }
    }
    shown.push_str("```\n");
    compare("demo", &shown);
}

/// The tools as a client sees them.
fn tools() -> Vec<Value> {
    let place = Place::new();
    let mut command = place.command(&["serve", "--stdio"]);
    command.stdin(Stdio::piped());
    let mut serve = Running::start(command);
    let mut stdin = serve.child.stdin.take().unwrap();
    let mut lines = BufReader::new(serve.child.stdout.take().unwrap()).lines();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
        "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    writeln!(stdin, "{hello}").unwrap();
    lines.next().unwrap().unwrap();
    writeln!(
        stdin,
        "{}",
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
    )
    .unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).unwrap();
    let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    answer["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn each_tool_and_each_of_its_arguments_is_explained_and_no_other() {
    let text = readme();
    let tools = tools();
    let names: BTreeSet<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let explained: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert_eq!(explained, names);
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        let section = text.split(&format!("### `{name}`\n")).nth(1).unwrap();
        let section = section.split("\n#").next().unwrap();
        for argument in tool["inputSchema"]["properties"]
            .as_object()
            .into_iter()
            .flat_map(|properties| properties.keys())
        {
            assert!(
                section.contains(&format!("`{argument}`")),
                "{name}: {argument} is not explained"
            );
        }
    }
}

#[test]
fn each_command_that_the_readme_shows_is_one() {
    let help = Place::new().run(&["--help"]).out;
    let text = readme();
    let shown = text.match_indices("t3code-mcp ").map(|(at, found)| {
        let rest = &text[at + found.len()..];
        rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default()
    });
    let commands: BTreeSet<&str> = shown.filter(|word| !word.is_empty()).collect();
    assert!(commands.len() > 3, "{commands:?}");
    for command in commands {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "`t3code-mcp {command}` is no command"
        );
    }
}
