//! Following T3: what two contracts differ in, and what a contract lacks for the tables, with the two states that are known and one made up.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Place, Ran, assert_snapshot};

fn newest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/t3/protocol-2/contract.json")
}

fn protocol_1() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/t3/protocol-1/contract.json")
}

/// T3 of August 2026.
fn older() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/protocol-2-older.json")
}

fn run(arguments: &[&str], paths: &[&Path]) -> Ran {
    let paths = paths.iter().map(|path| path.to_str().unwrap());
    let arguments: Vec<&str> = ["schema"]
        .into_iter()
        .chain(arguments.iter().copied())
        .chain(paths)
        .collect();
    Place::new().run(&arguments)
}

/// A T3 that nobody made: a status, a request kind, another name for a command, and a field that it wants.
fn made_up() -> Value {
    let text = std::fs::read_to_string(newest())
        .unwrap()
        .replace("\"run.interrupt\"", "\"run.stop\"");
    let mut contract: Value = serde_json::from_str(&text).unwrap();
    let defs = &mut contract["$defs"];
    defs["RunStatus"]["enum"].as_array_mut().unwrap().push(json!("paused"));
    defs["ProviderRequestKind"]["enum"]
        .as_array_mut()
        .unwrap()
        .push(json!("browser"));
    let message = &mut defs["CommandMessageDispatch"];
    message["properties"]["priority"] = json!({"type": "string"});
    message["required"].as_array_mut().unwrap().push(json!("priority"));
    contract
}

fn file(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.path(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// The tables with texts in place of others; each must stand once.
fn tables(place: &Place, replacements: &[(&str, &str, &str)]) -> PathBuf {
    let folder = place.path("tables");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["selection.toml", "selection-protocol-1.toml", "lifecycle.toml"] {
        let mut text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name)).unwrap();
        for (_, from, to) in replacements.iter().filter(|(table, ..)| *table == name) {
            assert_eq!(text.matches(from).count(), 1, "{from:?} must stand once in {name}");
            text = text.replace(from, to);
        }
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn what_came_since_august_is_found() {
    let ran = run(&["diff"], &[&older(), &newest()]);
    assert_eq!(ran.err, "");
    assert_snapshot!("diff", format!("exit status {}\n{}", ran.code.unwrap(), ran.out));
}

#[test]
fn the_way_back_breaks() {
    let ran = run(&["diff", "--json"], &[&newest(), &older()]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), ""));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let change = json!({"meaning": "breaks", "place": "Command", "what": "has lost the member `queue.resume`"});
    assert!(report["changes"].as_array().unwrap().contains(&change), "{}", ran.out);
}

#[test]
fn nothing_changed_is_said() {
    let ran = run(&["diff"], &[&newest(), newest().parent().unwrap()]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "0 break, 0 to decide, 0 harmless\n")
    );
}

#[test]
fn what_the_build_has_fits() {
    let ran = run(&["check"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "the contracts fit\n"));
    for contract in [newest(), protocol_1(), protocol_1().parent().unwrap().to_owned()] {
        let ran = run(&["check"], &[&contract]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "the contract fits\n"));
    }
}

#[test]
fn protocol_1_is_judged_by_its_own_tables() {
    let place = Place::new();
    let text = std::fs::read_to_string(protocol_1())
        .unwrap()
        .replace("\"thread.session.stop\"", "\"thread.session.end\"");
    let mut contract: Value = serde_json::from_str(&text).unwrap();
    let defs = &mut contract["$defs"];
    let words = |value: &mut Value, word: &str| value["enum"].as_array_mut().unwrap().push(json!(word));
    words(&mut defs["LatestTurn"]["properties"]["state"], "paused");
    words(&mut defs["ProviderApprovalDecision"], "acceptAlways");
    let start = &mut defs["CommandThreadTurnStart"];
    start["properties"]["priority"] = json!({"type": "string"});
    start["required"].as_array_mut().unwrap().push(json!("priority"));
    let contract = file(&place, "made-up.json", &contract.to_string());
    let ran = run(&["diff"], &[&protocol_1(), &contract]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(2), ""));
    assert_snapshot!("diff_protocol_1", ran.out);
    let ran = run(&["check"], &[&contract]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let shown = contract.parent().unwrap().to_str().unwrap();
    assert_snapshot!("check_protocol_1", ran.out.replace(shown, "…"));

    let decided = tables(
        &place,
        &[
            (
                "lifecycle.toml",
                "error = \"failed\"\n",
                "error = \"failed\"\npaused = \"running\"\n",
            ),
            (
                "selection-protocol-1.toml",
                "\"thread.session.stop\"",
                "\"thread.session.end\"",
            ),
            (
                "selection-protocol-1.toml",
                "CommandThreadTurnStart = [",
                "CommandThreadTurnStart = [\"priority\",",
            ),
            (
                "selection-protocol-1.toml",
                "[\"accept\", \"acceptForSession\"",
                "[\"accept\", \"acceptAlways\", \"acceptForSession\"",
            ),
        ],
    );
    let ran = run(&["check", "--tables", decided.to_str().unwrap()], &[&contract]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "the contract fits\n"));
}

#[test]
fn contracts_of_two_protocols_are_not_compared_and_others_than_known_not_judged() {
    let ran = run(&["diff"], &[&protocol_1(), &newest()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""));
    assert!(
        ran.err.contains("only contracts of one protocol can be compared"),
        "{}",
        ran.err
    );
    let place = Place::new();
    file(&place, "contract.json", r#"{"$defs": {}}"#);
    let folder = file(&place, "provenance.toml", "protocol = 3\n")
        .parent()
        .unwrap()
        .to_owned();
    let ran = run(&["check"], &[&folder]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(
        ran.err.contains("is of protocol 3; there are tables for 2 and 1 alone"),
        "{}",
        ran.err
    );
    file(&place, "provenance.toml", "protocol = \"two\"\n");
    let ran = run(&["diff"], &[&folder, &folder]);
    assert!(
        ran.code == Some(3) && ran.err.contains("provenance.toml"),
        "{}",
        ran.err
    );
    // Tables without those of the older protocol.
    let folder = tables(&place, &[]);
    std::fs::remove_file(folder.join("selection-protocol-1.toml")).unwrap();
    let ran = run(&["check", "--tables", folder.to_str().unwrap()], &[]);
    assert!(
        ran.code == Some(1) && ran.err.contains("selection-protocol-1.toml"),
        "{}",
        ran.err
    );
}

#[test]
fn a_command_whose_type_alone_has_another_name_is_told_of_once_as_one_that_has_gone_is() {
    let place = Place::new();
    let text = std::fs::read_to_string(newest()).unwrap();
    let renamed = text.replace("CommandRunInterrupt", "CommandRunHalt");
    let gone = renamed.replace("\"run.interrupt\"", "\"run.halt\"");
    for (text, told) in [
        (renamed, "sends.CommandRunInterrupt: "),
        (gone, "members.Command: lists `run.interrupt`"),
    ] {
        let ran = run(&["check"], &[&file(&place, "renamed.json", &text)]);
        assert_eq!(ran.code, Some(1), "{}", ran.out);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains(told), "{}", ran.out);
    }
}

#[test]
fn a_made_up_t3_stops_with_a_line_for_each_and_fits_once_each_is_decided() {
    let place = Place::new();
    let contract = file(&place, "made-up.json", &made_up().to_string());
    let ran = run(&["diff"], &[&newest(), &contract]);
    assert_eq!(ran.code, Some(2));
    assert_snapshot!("diff_made_up", ran.out);

    let ran = run(&["check"], &[&contract]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let shown = contract.parent().unwrap().to_str().unwrap();
    assert_snapshot!("check_made_up", ran.out.replace(shown, "…"));

    let decided = tables(
        &place,
        &[
            (
                "lifecycle.toml",
                "preparing = \"starting\"\n",
                "preparing = \"starting\"\npaused = \"running\"\n",
            ),
            (
                "lifecycle.toml",
                "mcp-elicitation = \"approval\"\n",
                "mcp-elicitation = \"approval\"\nbrowser = \"approval\"\n",
            ),
            ("selection.toml", "\"run.interrupt\"", "\"run.stop\""),
            (
                "selection.toml",
                "CommandMessageDispatch = [",
                "CommandMessageDispatch = [\"priority\",",
            ),
        ],
    );
    let ran = run(&["check", "--tables", decided.to_str().unwrap()], &[&contract]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "the contract fits\n"));
}

#[test]
fn tables_of_august_say_what_the_newest_adds() {
    // Against the older contract the tables of today have too much: each line says what to take out.
    let ran = run(&["check"], &[&older()]);
    assert_eq!(ran.code, Some(1));
    let shown = older().parent().unwrap().to_str().unwrap().to_owned();
    assert_snapshot!("check_older", ran.out.replace(&shown, "…"));
}

#[test]
fn a_type_is_shown_as_text_and_as_a_schema() {
    let ran = run(&["show", "CommandRunInterrupt"], &[]);
    assert_eq!(ran.code, Some(0));
    assert_snapshot!("show", ran.out);
    let ran = run(&["show", "CommandRunInterrupt", "--json"], &[]);
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(schema["properties"]["runId"]["$ref"], "#/$defs/RunId");
    let ran = run(&["show"], &[]);
    assert!(
        ran.out.contains("ThreadShell") && ran.out.starts_with("TYPE"),
        "{}",
        ran.out
    );
}

#[test]
fn wrong_names_are_told() {
    let ran = run(&["show", "CommandRunInterupt"], &[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("the nearest is CommandRunInterrupt"), "{}", ran.err);
    let place = Place::new();
    let ran = run(&["diff"], &[&place.path("nowhere.json"), &newest()]);
    assert!(ran.code == Some(3) && ran.err.contains("nowhere.json"), "{}", ran.err);
    let ran = run(&["check"], &[&file(&place, "no.json", "{")]);
    assert!(
        ran.code == Some(1) && ran.err.contains("export the contract again"),
        "{}",
        ran.err
    );
}
