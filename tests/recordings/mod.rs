//! Reads the recordings under `fixtures/recordings`: what a client and a real T3 server said to each other, a line each.
//!
//! An entity that was sent before is written as what changed of it: `{"~": 7, "status": "completed"}` is the eighth entity of the
//! file with another status, `"~without"` names keys that it lost. An entity is an object with an `id` of text and more than three
//! keys that is no frame. Whoever reads a recording gets every line whole again.

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
            self.all[place] = entity.clone();
            return entity;
        }
        let map: Map<String, Value> = map.into_iter().map(|(key, value)| (key, self.whole(value))).collect();
        let is_entity = map.len() > 3 && !map.contains_key("_tag");
        if let Some(id) = map.get("id").and_then(Value::as_str).filter(|_| is_entity) {
            match self.places.get(id) {
                Some(place) => self.all[*place] = map.clone(),
                None => {
                    self.places.insert(id.to_owned(), self.all.len());
                    self.all.push(map.clone());
                }
            }
        }
        map
    }
}
