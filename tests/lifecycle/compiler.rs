//! The table's compiler as a library, on a small table that is whole and on what breaks it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

// The build calls `build`, the tests call `compile`.
#[allow(dead_code, unreachable_pub)]
#[path = "../../build/lifecycle.rs"]
mod lifecycle;

const SMALL: &str = include_str!("small.toml");

/// What a protocol of the small table would export.
fn schema() -> Value {
    json!({"$defs": {
        "RunStatus": {"enum": ["running", "done"], "type": "string"},
        "RequestKind": {"anyOf": [{"enum": ["user_input"], "type": "string"}, {"type": "null"}]},
        "Request": {"type": "object", "properties": {
            "kind": {"$ref": "#/$defs/RequestKind"},
            "status": {"enum": ["pending", "resolved"], "type": "string"},
            "capability": {"anyOf": [
                {"type": "object", "properties": {"type": {"enum": ["live"], "type": "string"}}},
            ]},
        }},
    }})
}

fn compile(table: &str, schema: Value) -> Result<String, lifecycle::Refused> {
    lifecycle::compile(table, &BTreeMap::from([("protocol-2".to_owned(), schema)]))
}

/// The refusals of the small table with one text in place of another.
#[track_caller]
fn refusals(from: &str, to: &str) -> Vec<String> {
    assert_eq!(SMALL.matches(from).count(), 1, "{from:?} must stand once");
    compile(&SMALL.replace(from, to), schema())
        .expect_err("it must be refused")
        .0
}

/// `schemas/lifecycle.toml:N` of a text of the small table.
#[track_caller]
fn place(text: &str) -> String {
    let at = SMALL.find(text).expect("a text of the table");
    format!("schemas/lifecycle.toml:{}", SMALL[..at].matches('\n').count() + 1)
}

#[test]
fn a_whole_table_becomes_rust() {
    let rust = compile(SMALL, schema()).expect("it is whole");
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"),
        prepend_module_to_snapshot => true,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("small_machine", rust);
    });
}

#[test]
fn the_repositorys_table_passes_with_the_exported_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = tempfile::tempdir().expect("a directory");
    lifecycle::build(root, out.path()).expect("it passes");
    assert!(out.path().join("lifecycle.rs").exists());
}

#[test]
fn two_rows_for_one_pair_are_refused() {
    let refusals = refusals(
        "from = [\"completed\"]\non = [\"running\", \"completed\"]",
        "from = [\"completed\", \"running\"]\non = [\"running\", \"completed\"]",
    );
    assert_eq!(
        refusals,
        [
            format!(
                "{}: the row answers `running` on `running`, as does the row at {}: take the pair out of one of them",
                place("[[run.row]] # over"),
                place("[[run.row]] # works")
            ),
            format!(
                "{}: the row answers `running` on `completed`, as does the row at {}: take the pair out of one of them",
                place("[[run.row]] # over"),
                place("[[run.row]] # ends")
            ),
        ]
    );
}

#[test]
fn a_pair_that_stands_twice_in_one_row_is_refused() {
    let refusals = refusals("from = [\"completed\"]", "from = [\"completed\", \"completed\"]");
    assert_eq!(
        refusals,
        [
            format!(
                "{}: the row covers `completed` on `running` twice: name each once",
                place("[[run.row]] # over")
            ),
            format!(
                "{}: the row covers `completed` on `completed` twice: name each once",
                place("[[run.row]] # over")
            ),
        ]
    );
}

#[test]
fn a_pair_without_a_row_is_refused() {
    assert_eq!(
        refusals("on = [\"running\", \"completed\"]", "on = [\"completed\"]"),
        [
            "schemas/lifecycle.toml: the run state `completed` has no row for `running`: add them to the `from` and `on` of a \
          [[run.row]] with `to`, or with `ignore` and the reason"
        ]
    );
}

#[test]
fn a_state_that_no_row_leads_to_is_refused() {
    let lost = "[[run.state]]\nname = \"lost\"\nended = true\ndoc = \"Nowhere.\"\n\n";
    let table = SMALL
        .replacen("[[run.observation]]", &format!("{lost}[[run.observation]]"), 1)
        .replace("from = [\"completed\"]", "from = [\"completed\", \"lost\"]")
        .replace(
            "state = \"idle\"",
            "state = \"lost\"\nwhen = \"last_ended\"\ndoc = \"Lost.\"\n\n[[thread]]\nstate = \"idle\"",
        );
    let refusals = compile(&table, schema()).expect_err("it must be refused").0;
    assert_eq!(
        refusals,
        [
            "schemas/lifecycle.toml:26: no row leads to the run state `lost`: add a row with `to = \"lost\"`, or drop the state"
        ]
    );
}

#[test]
fn a_busy_state_that_can_never_be_left_is_refused() {
    // Running goes on for ever; only a run that was never seen at work ends.
    let table = SMALL.replace(
        "from = [\"unseen\", \"running\"]\non = [\"completed\"]",
        "from = [\"unseen\"]\non = [\"completed\"]",
    );
    let table = table.replace(
        "[[run.row]] # over",
        "[[run.row]]\nfrom = [\"running\"]\non = [\"completed\"]\nignore = \"no\"\n\n[[run.row]] # over",
    );
    let refusals = compile(&table, schema()).expect_err("it must be refused").0;
    assert_eq!(
        refusals,
        [format!(
            "{}: the busy run state `running` can never be left for an end: add a row from it to one of completed",
            place("[[run.state]]\nname = \"running\"")
        )]
    );
}

#[test]
fn a_run_status_of_the_schema_that_the_table_lacks_is_refused() {
    let mut schema = schema();
    schema["$defs"]["RunStatus"]["enum"] = json!(["running", "done", "hibernating"]);
    let refusals = compile(SMALL, schema).expect_err("it must be refused").0;
    assert_eq!(
        refusals,
        [format!(
            "{}: `RunStatus` of the schema of protocol-2 has the word `hibernating`, which [mapping.protocol-2.run_status] lacks: \
             decide what it means and add `hibernating = \"…\"` with one of completed, running",
            place("at = [\"RunStatus\"]")
        )]
    );
}

#[test]
fn a_request_kind_of_the_schema_that_the_table_lacks_is_refused() {
    let mut schema = schema();
    schema["$defs"]["RequestKind"]["anyOf"][0]["enum"] = json!(["user_input", "mcp-elicitation"]);
    let refusals = compile(SMALL, schema).expect_err("it must be refused").0;
    assert_eq!(
        refusals,
        [format!(
            "{}: `Request.kind` of the schema of protocol-2 has the word `mcp-elicitation`, which \
             [mapping.protocol-2.request_kind] lacks: decide what it means and add `mcp-elicitation = \"…\"` with one of question",
            place("at = [\"Request.kind\"]")
        )]
    );
}

#[test]
fn request_statuses_and_capabilities_of_the_schema_that_the_table_lacks_are_refused() {
    let mut schema = schema();
    schema["$defs"]["Request"]["properties"]["status"]["enum"] = json!(["pending", "resolved", "expired"]);
    let arms = &mut schema["$defs"]["Request"]["properties"]["capability"]["anyOf"];
    *arms = json!([arms[0], {"type": "object", "properties": {"type": {"enum": ["message"]}}}]);
    let refusals = compile(SMALL, schema).expect_err("it must be refused").0;
    assert_eq!(refusals.len(), 2);
    assert!(
        refusals[0].contains("has the word `expired`, which [mapping.protocol-2.request_status] lacks"),
        "{}",
        refusals[0]
    );
    assert!(
        refusals[1].contains("has the word `message`, which [mapping.protocol-2.capability] lacks"),
        "{}",
        refusals[1]
    );
}

#[test]
fn a_mapped_word_that_the_schema_does_not_have_is_refused() {
    assert_eq!(
        refusals("done = \"completed\"", "finished = \"completed\"\ndone = \"completed\""),
        [format!(
            "{}: the schema of protocol-2 does not have the word `finished`: mend the spelling, or drop the line if T3 dropped the \
             word",
            place("done = \"completed\"")
        )]
    );
}

#[test]
fn a_place_that_the_schema_does_not_have_is_refused() {
    let refusals = refusals("at = [\"RunStatus\"]", "at = [\"RunState\"]");
    assert_eq!(
        refusals[0],
        format!(
            "{}: the schema of protocol-2 has no words at `RunState`: look for where T3 moved them and name that place",
            place("at = [\"RunStatus\"]")
        )
    );
}

#[test]
fn a_protocol_without_a_schema_is_refused() {
    let refused = lifecycle::compile(SMALL, &BTreeMap::new())
        .expect_err("it must be refused")
        .0;
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0].contains("there is no schema of protocol-2: export schemas/t3/protocol-2/contract.json"),
        "{}",
        refused[0]
    );
}

#[test]
fn a_word_that_maps_to_nothing_is_refused() {
    assert_eq!(
        refusals("done = \"completed\"", "done = \"complete\""),
        [format!(
            "{}: `complete` is nothing to map to: use one of completed, running",
            place("done = \"completed\"")
        )]
    );
}

#[test]
fn an_unknown_run_status_that_would_be_an_end_is_refused() {
    assert_eq!(
        refusals("unknown = \"running\"", "unknown = \"completed\""),
        [format!(
            "{}: an unknown run status would lead to `completed`: map it to an observation of a run that goes on",
            place("unknown = \"running\"")
        )]
    );
}

#[test]
fn names_that_do_not_exist_are_refused() {
    for (from, to, message) in [
        (
            "from = [\"completed\"]",
            "from = [\"complete\"]",
            "there is no run state `complete`: declare it, or use one of completed, running, unseen",
        ),
        (
            "to = \"running\"",
            "to = \"runing\"",
            "there is no run state `runing`: declare it",
        ),
        (
            "on = [\"running\", \"completed\"]",
            "on = [\"running\", \"done\"]",
            "there is no run observation `done`: declare it",
        ),
        (
            "emit = \"completed\"",
            "emit = \"finished\"",
            "there is no event `finished`: declare it, or use one of completed, question",
        ),
        (
            "asks = \"asked\"",
            "asks = \"begged\"",
            "there is no request observation `begged`: declare it",
        ),
        (
            "thread = \"question\"",
            "thread = \"puzzle\"",
            "no [[thread]] row folds the class `question`: add one",
        ),
    ] {
        let refusals = refusals(from, to);
        assert!(
            refusals.iter().any(|one| one.contains(message)),
            "{message}: {refusals:#?}"
        );
        assert!(refusals[0].starts_with("schemas/lifecycle.toml:"), "{}", refusals[0]);
    }
}

#[test]
fn a_key_that_the_table_does_not_know_is_refused() {
    let refusals = refusals("ignore = \"it is over\"", "ignores = \"it is over\"");
    assert!(refusals[0].contains("unknown field `ignores`"), "{}", refusals[0]);
    assert!(refusals[0].contains("line"), "{}", refusals[0]);
}

#[test]
fn a_row_that_leads_nowhere_or_contradicts_itself_is_refused() {
    for (from, to, message) in [
        (
            "ignore = \"it is over\"",
            "",
            "leads nowhere: give it `to`, or `ignore` with the reason",
        ),
        (
            "ignore = \"it is over\"",
            "to = \"completed\"\nignore = \"it is over\"",
            "both leads to a state and ignores",
        ),
        (
            "ignore = \"it is over\"",
            "emit = \"completed\"\nignore = \"it is over\"",
            "ignores and yet tells something",
        ),
        ("from = [\"completed\"]", "from = []", "covers nothing"),
    ] {
        let refusals = refusals(from, to);
        assert!(refusals[0].starts_with(&place("[[run.row]] # over")), "{}", refusals[0]);
        assert!(refusals[0].contains(message), "{}", refusals[0]);
    }
}

#[test]
fn a_table_that_could_tell_twice_is_refused() {
    assert_eq!(
        refusals("ignore = \"it was told\"", "to = \"pending\"\nemit = \"question\""),
        [
            format!(
                "{}: after the row at {} has told `question`, the request can come to `pending` and tell again on `asked`: drop \
                 `emit` here, or the way from `pending` to `pending`",
                place("[[request.row]] # asked"),
                place("[[request.row]] # asks")
            ),
            format!(
                "{}: after the row at {} has told `question`, the request can come to `pending` and tell again on `asked`: drop \
                 `emit` here, or the way from `pending` to `pending`",
                place("[[request.row]] # asked"),
                place("[[request.row]] # asked")
            ),
            "schemas/lifecycle.toml: the request state `unseen` becomes `pending` on `asked`, and `pending` when that is observed \
             again: a repeated observation must change nothing, so let `pending` stay on it"
                .to_owned(),
            "schemas/lifecycle.toml: the request state `pending` becomes `pending` on `asked`, and `pending` when that is observed \
             again: a repeated observation must change nothing, so let `pending` stay on it"
                .to_owned(),
        ]
    );
}

#[test]
fn an_observation_whose_repetition_moves_on_is_refused() {
    let refusals = refusals("ignore = \"it was told\"", "to = \"closed\"");
    assert!(
        refusals[0].contains(
            "the request state `unseen` becomes `pending` on `asked`, and `closed` when that is observed again"
        ),
        "{}",
        refusals[0]
    );
}

#[test]
fn states_that_make_no_sense_are_refused() {
    for (from, to, message) in [
        (
            "busy = true\ndoc = \"At work.\"",
            "doc = \"At work.\"",
            "`running` must be either busy or ended",
        ),
        (
            "ended = true\ndoc = \"Closed.\"",
            "busy = true\nvoid = true\ndoc = \"Closed.\"",
            "`closed` is void, so it must be ended",
        ),
        (
            "[run]\ninitial = \"unseen\"",
            "[run]\ninitial = \"running\"",
            "`running` is the first: it is neither busy nor ended",
        ),
        (
            "name = \"live\"",
            "name = \"Live Wire\"",
            "`Live Wire` cannot be a name: write it in snake_case",
        ),
        (
            "name = \"question\"\ndoc = \"Asked.\"",
            "name = \"completed\"\ndoc = \"Asked.\"",
            "the event `completed` stands already at schemas/lifecycle.toml:1",
        ),
    ] {
        let refusals = refusals(from, to);
        assert!(
            refusals.iter().any(|one| one.contains(message)),
            "{message}: {refusals:#?}"
        );
    }
}

#[test]
fn an_event_that_nothing_tells_is_refused() {
    assert_eq!(
        refusals("to = \"pending\"\nemit = \"question\"", "to = \"pending\""),
        [format!(
            "{}: no row tells the event `question`: give a row `emit = \"question\"`, or drop the event",
            place("[[event]]\nname = \"question\"")
        )]
    );
}

#[test]
fn a_fold_with_holes_or_idle_steps_is_refused() {
    for (from, to, message) in [
        (
            "state = \"running\"\nwhen = \"run\"\n",
            "state = \"waiting\"\nwhen = \"run\"\n",
            "no [[thread]] row folds the run state `running`",
        ),
        (
            "state = \"completed\"\nwhen = \"last_ended\"\n",
            "state = \"failed\"\nwhen = \"last_ended\"\n",
            "nothing leads to the thread state `failed`",
        ),
        (
            "thread = \"question\"\n",
            "",
            "the class `question` holds a run, so it needs `thread`",
        ),
        (
            "when = \"otherwise\"",
            "when = \"deleted\"",
            "exactly one [[thread]] row has `when = \"otherwise\"`, and it is the last",
        ),
    ] {
        let refusals = refusals(from, to);
        assert!(
            refusals.iter().any(|one| one.contains(message)),
            "{message}: {refusals:#?}"
        );
    }
}
