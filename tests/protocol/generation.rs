//! The build: what it makes of small contracts, and what it refuses, each with file, place and remedy.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::build::schema::{Contract, Selection};
use super::build::{Error, generate};

const CONTRACT: &str = "contract.json";
const SELECTION: &str = "selection.toml";

fn generated(defs: &Value, selection: &str) -> Result<String, Error> {
    let contract = Contract::parse(CONTRACT, &json!({ "$defs": defs }).to_string())?;
    generate(&contract, &Selection::parse(SELECTION, selection)?)
}

/// Generates with a type named `Root` that is read.
fn read(defs: &Value) -> Result<String, Error> {
    generated(defs, "read.roots = [\"Root\"]\nsent.roots = []")
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": true })
}

fn member(tag: &str, word: &str, field: &str) -> Value {
    object(
        &json!({ tag: { "type": "string", "enum": [word] }, field: { "type": "string" } }),
        &[tag, field],
    )
}

/// Refused, with these at the places of file, type and field, and in the sentence.
fn assert_refused(result: Result<String, Error>, file: &str, at: &str, what: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.file.as_str(), error.at.as_str()), (file, at), "{error}");
    assert!(error.what.contains(what), "{error}");
    assert!(
        !error.mend.is_empty() && error.to_string().contains(&error.mend),
        "{error}"
    );
}

#[test]
fn a_root_that_the_contract_lacks_is_refused() {
    let result = generated(
        &json!({ "Run": object(&json!({}), &[]) }),
        "read.roots = [\"Runn\"]\nsent.roots = []",
    );
    assert_refused(result, SELECTION, "read.roots", "names `Runn`");
}

#[test]
fn a_member_that_the_union_lacks_is_refused_with_those_it_has() {
    let defs = json!({ "Root": { "anyOf": [member("kind", "a", "x"), member("kind", "b", "y")] } });
    let result = generated(
        &defs,
        "read.roots = [\"Root\"]\nsent.roots = []\nmembers.Root = [\"a\", \"c\"]",
    );
    assert!(result.as_ref().unwrap_err().mend.contains("a, b"));
    assert_refused(result, SELECTION, "members.Root", "lists `c`");
}

#[test]
fn a_key_that_the_selection_does_not_know_is_refused() {
    let result = generated(&json!({}), "read.roots = []\nsent.roots = []\nmember.Root = []");
    assert_refused(result, SELECTION, "the file", "unknown field `member`");
}

#[test]
fn a_contract_that_is_no_json_is_refused() {
    assert_refused(
        Contract::parse(CONTRACT, "{").map(|_| String::new()),
        CONTRACT,
        "$defs",
        "EOF",
    );
}

#[test]
fn a_reference_to_nothing_is_refused_at_its_field() {
    let result = read(&json!({ "Root": object(&json!({ "status": { "$ref": "#/$defs/Gone" } }), &[]) }));
    assert_refused(result, CONTRACT, "Root.status", "refers to `Gone`");
}

#[test]
fn a_union_that_no_tag_tells_apart_is_refused_at_its_field() {
    let arms = json!({ "anyOf": [object(&json!({ "x": { "type": "string" } }), &[]), object(&json!({ "y": { "type": "string" } }), &[])] });
    let result = read(&json!({ "Root": object(&json!({ "items": { "type": "array", "items": arms } }), &["items"]) }));
    assert_refused(result, CONTRACT, "Root.items[]", "no tag tells apart");
}

#[test]
fn ids_of_several_kinds_in_one_place_are_text() {
    let id = json!({ "type": "string" });
    let either = json!({ "anyOf": [{ "$ref": "#/$defs/ProjectId" }, { "$ref": "#/$defs/ThreadId" }] });
    let text =
        read(&json!({ "ProjectId": id, "ThreadId": id, "Root": object(&json!({ "id": either }), &["id"]) })).unwrap();
    assert!(text.contains("pub id: ::std::string::String"), "{text}");
    let number = json!({ "anyOf": [{ "$ref": "#/$defs/ThreadId" }, { "$ref": "#/$defs/Order" }] });
    let defs =
        json!({ "ThreadId": id, "Order": { "type": "integer" }, "Root": object(&json!({ "id": number }), &["id"]) });
    assert_refused(read(&defs), CONTRACT, "Root.id", "no tag tells apart");
}

#[test]
fn a_choice_between_an_object_and_a_word_is_refused() {
    let arms = json!({ "anyOf": [object(&json!({ "x": { "type": "string" } }), &[]), { "type": "string" }] });
    let result = read(&json!({ "Root": object(&json!({ "mixed": arms }), &[]) }));
    assert_refused(result, CONTRACT, "Root.mixed", "is a union that no tag tells apart");
}

#[test]
fn two_members_with_one_tag_that_differ_are_refused() {
    let mut other = member("kind", "a", "x");
    other["properties"]["x"] = json!({ "type": "boolean" });
    let arms = json!({ "anyOf": [{ "$ref": "#/$defs/One" }, { "$ref": "#/$defs/Two" }] });
    let result = read(&json!({ "Root": arms, "One": member("kind", "a", "x"), "Two": other }));
    assert_refused(result, CONTRACT, "Root", "two members with the tag `a`");
}

#[test]
fn a_member_that_is_used_on_its_own_is_refused() {
    let arms = json!({ "anyOf": [{ "$ref": "#/$defs/One" }, member("kind", "b", "y")] });
    let root = object(&json!({ "union": arms, "alone": { "$ref": "#/$defs/One" } }), &[]);
    let result = read(&json!({ "Root": root, "One": member("kind", "a", "x") }));
    assert_refused(result, CONTRACT, "One", "used on its own");
}

#[test]
fn a_form_that_the_build_does_not_know_is_refused_at_its_field() {
    let result = read(&json!({ "Root": object(&json!({ "odd": { "type": ["string", "boolean"] } }), &[]) }));
    assert_refused(result, CONTRACT, "Root.odd", "a form that the build does not know");
}

/// A contract with the constructs that need care: see the comments of `build/normalise.rs`.
fn small() -> Value {
    let nothing = json!({ "type": "null" });
    let fallback = object(&json!({ "kind": { "type": "string" } }), &["kind"]);
    json!({
        "ThreadId": { "type": "string" },
        "Mode": { "type": "string", "enum": ["plan", "unknown"] },
        "Item": { "anyOf": [{ "$ref": "#/$defs/ItemText" }, object(&json!({ "kind": { "enum": ["done"], "type": "string" } }), &["kind"]), fallback] },
        "ItemText": member("kind", "text", "text"),
        "Root": object(&json!({
            "id": { "$ref": "#/$defs/ThreadId" },
            "mode": { "anyOf": [{ "$ref": "#/$defs/Mode" }, nothing] },
            "items": { "type": "array", "items": { "$ref": "#/$defs/Item" } },
            "ordinal": { "type": "integer", "minimum": 1 },
            "labels": { "anyOf": [{ "type": "array", "items": { "type": "string" } }, nothing] },
            "endedAt": { "anyOf": [{ "type": "string" }, nothing] },
        }), &["id", "items", "ordinal", "endedAt"]),
        "Update": object(&json!({
            "id": { "$ref": "#/$defs/ThreadId" },
            "mode": { "$ref": "#/$defs/Mode" },
            "branch": { "anyOf": [{ "type": "string" }, nothing, nothing] },
        }), &["id", "mode"]),
    })
}

#[test]
fn the_text_of_a_small_contract() {
    let text = generated(&small(), "read.roots = [\"Root\"]\nsent.roots = [\"Update\"]").unwrap();
    insta::with_settings!({snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"), prepend_module_to_snapshot => true}, {
        insta::assert_snapshot!(text);
    });
}

#[test]
fn the_same_schemas_give_the_same_text() {
    let text = || generated(&small(), "read.roots = [\"Root\"]\nsent.roots = [\"Update\"]").unwrap();
    assert_eq!(text(), text());
}

#[test]
fn the_contracts_are_the_files_that_were_exported() {
    for protocol in ["protocol-1", "protocol-2"] {
        is_as_exported(protocol);
    }
}

fn is_as_exported(protocol: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("schemas/t3")
        .join(protocol);
    let provenance: toml::Table = std::fs::read_to_string(folder.join("provenance.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let contract = std::fs::read(folder.join(provenance["file"].as_str().unwrap())).unwrap();
    let mut hash = String::new();
    for byte in Sha256::digest(&contract) {
        write!(hash, "{byte:02x}").unwrap();
    }
    assert_eq!(
        provenance["sha256"].as_str(),
        Some(hash.as_str()),
        "the contract was edited, or its provenance was not"
    );
    let contract: Value = serde_json::from_slice(&contract).unwrap();
    for root in provenance["roots"].as_array().unwrap() {
        assert!(contract["$defs"].get(root.as_str().unwrap()).is_some(), "{root}");
    }
}
