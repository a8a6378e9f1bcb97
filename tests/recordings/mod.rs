//! Reads the recordings under `fixtures/recordings`: what a client and a real T3 server said to each other, a line each.
//!
//! An entity that was sent before is written as what changed of it: `{"~": 7, "status": "completed"}` is the eighth entity of the
//! file with another status, `"~without"` names keys that it lost. An entity is an object with an `id` of text and more than three
//! keys that is no frame. Whoever reads a recording gets every line whole again.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests, each of which reads its own part"
)]

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

/// The changed entity: its place among those of the file.
const PLACE: &str = "~";
/// The keys that a changed entity lost.
const WITHOUT: &str = "~without";

/// Where the recordings are.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings")
}

/// The lines of a recording, by the name of its file without the ending.
pub fn lines(name: &str) -> Vec<Value> {
    let path = folder().join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut entities = Entities::default();
    text.lines()
        .map(|line| entities.whole(serde_json::from_str(line).expect("a line of JSON")))
        .collect()
}

/// A server's whole configuration, as `server.getConfig` tells it.
pub fn config() -> Value {
    let text = std::fs::read_to_string(folder().join("server-getConfig.json")).expect("the recorded configuration");
    serde_json::from_str::<Value>(&text).expect("JSON")["value"].take()
}

/// An item of a stream, with the connection that it came over and the call that it answers.
#[derive(Clone, Debug)]
pub struct Item {
    pub conn: String,
    pub tag: String,
    pub value: Value,
}

/// What came over the streams of a recording, in order.
pub fn items(name: &str) -> Vec<Item> {
    let mut tags = HashMap::new();
    let mut items = Vec::new();
    for line in lines(name) {
        let body = &line["body"];
        let conn = line["conn"].as_str().unwrap_or_default().to_owned();
        if body["_tag"] == "Request" {
            let tag = body["tag"].as_str().expect("a tag").to_owned();
            tags.insert((conn, body["id"].to_string()), tag);
        } else if let Some(values) = body["values"].as_array() {
            let tag = &tags[&(conn.clone(), body["requestId"].to_string())];
            items.extend(values.iter().map(|value| Item {
                conn: conn.clone(),
                tag: tag.clone(),
                value: value.clone(),
            }));
        }
    }
    items
}

/// A request over HTTP and its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub asked: Value,
    pub note: Value,
    pub answer: Value,
}

/// What was asked and answered over HTTP, in order.
pub fn answers(name: &str) -> Vec<Exchange> {
    let mut asked = Value::Null;
    let mut answers = Vec::new();
    for mut line in lines(name).into_iter().filter(|line| line["kind"] == "http") {
        let body = line["body"].take();
        if line["dir"] == "c2s" {
            asked = body;
        } else {
            answers.push(Exchange {
                asked: asked.take(),
                note: line["note"].take(),
                answer: body,
            });
        }
    }
    answers
}

/// The bodies of the whole threads that were read over HTTP, in order.
pub fn reads(name: &str) -> Vec<Value> {
    let bodies = answers(name).into_iter().map(|mut answer| answer.answer["body"].take());
    bodies.filter(|body| body["projection"].is_object()).collect()
}

/// Every entity as it was sent last, in the order of their first appearance.
#[derive(Default)]
struct Entities {
    all: Vec<Map<String, Value>>,
    places: HashMap<String, usize>,
}

impl Entities {
    fn whole(&mut self, value: Value) -> Value {
        match value {
            Value::Array(list) => list.into_iter().map(|value| self.whole(value)).collect(),
            Value::Object(map) => Value::Object(self.object(map)),
            plain => plain,
        }
    }

    fn object(&mut self, map: Map<String, Value>) -> Map<String, Value> {
        if let Some(place) = map.get(PLACE).and_then(Value::as_u64) {
            let place = usize::try_from(place).expect("a place");
            let mut entity = self.all.get(place).expect("an entity that was sent before").clone();
            for lost in map.get(WITHOUT).and_then(Value::as_array).into_iter().flatten() {
                entity.remove(lost.as_str().expect("a key"));
            }
            for (key, value) in map {
                if key != PLACE && key != WITHOUT {
                    let value = self.whole(value);
                    entity.insert(key, value);
                }
            }
            self.all[place].clone_from(&entity);
            return entity;
        }
        let map: Map<String, Value> = map.into_iter().map(|(key, value)| (key, self.whole(value))).collect();
        let is_entity = map.len() > 3 && !map.contains_key("_tag");
        if let Some(id) = map.get("id").and_then(Value::as_str).filter(|_| is_entity) {
            if let Some(place) = self.places.get(id) {
                self.all[*place].clone_from(&map);
            } else {
                self.places.insert(id.to_owned(), self.all.len());
                self.all.push(map.clone());
            }
        }
        map
    }
}
