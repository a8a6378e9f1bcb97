//! What looks like tracked threads in the JSON file of the Python connector.
//!
//! Pure. Its form was never promised, so it is read by what it looks like: an object keyed by thread id whose values hold `machine`,
//! `project`, `title`, `watch` and `origin`, or whichever of these there are; at the top, or one level down under a key that speaks of
//! threads. Whatever else the file holds is passed over. Called by `import`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::gateway::is_origin;
use crate::protocol::ThreadId;

/// The fields by which a thread is known.
const FIELDS: [&str; 5] = ["machine", "project", "title", "watch", "origin"];

/// What a key one level up has in it where threads are below.
const SPEAKS_OF_THREADS: [&str; 3] = ["thread", "track", "watch"];

/// No thread's id is longer.
const LONGEST_ID: usize = 256;

/// A thread to take over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) machine: String,
    pub(super) thread: ThreadId,
    /// Its events are wanted.
    pub(super) watch: bool,
    pub(super) origin: Option<String>,
}

/// What is to be said of a thread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Remark {
    /// The key that it stands under; anything may be in it.
    pub(super) thread: String,
    /// Why, in a sentence without its end; what it quotes may hold anything, too.
    pub(super) why: String,
}

/// What a file holds.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Found {
    /// In the file's order of keys.
    pub(super) taken: Vec<Entry>,
    /// What was not taken.
    pub(super) left: Vec<Remark>,
    /// What was taken but for a part of it.
    pub(super) in_part: Vec<Remark>,
}

/// Why nothing of a file can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// It is no JSON, or nested too deep.
    #[error("it is no JSON ({0})")]
    NoJson(#[from] serde_json::Error),
    /// It is JSON without keys.
    #[error("it holds no JSON object")]
    NoObject,
}

/// Finds the threads; `machines` are those that are configured.
pub(super) fn threads(text: &[u8], machines: &[&str]) -> Result<Found, Unreadable> {
    let Value::Object(top) = serde_json::from_slice(text)? else {
        return Err(Unreadable::NoObject);
    };
    let mut reading = Reading {
        machines,
        seen: HashSet::new(),
        found: Found::default(),
    };
    for (key, value) in &top {
        match value {
            Value::Object(fields) if looks_like_a_thread(fields) => reading.thread(key, fields),
            Value::Object(below) if speaks_of_threads(key) => reading.map(below),
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            }
        }
    }
    Ok(reading.found)
}

/// A map below is keyed by ids: its own values are objects, and none is a field of a thread.
fn looks_like_a_thread(fields: &Map<String, Value>) -> bool {
    FIELDS
        .iter()
        .any(|field| fields.get(*field).is_some_and(|value| !value.is_object()))
}

fn speaks_of_threads(key: &str) -> bool {
    let key = key.to_lowercase();
    SPEAKS_OF_THREADS.iter().any(|word| key.contains(word))
}

struct Reading<'a> {
    machines: &'a [&'a str],
    seen: HashSet<(String, String)>,
    found: Found,
}

impl Reading<'_> {
    fn map(&mut self, threads: &Map<String, Value>) {
        for (id, value) in threads {
            match value {
                Value::Object(fields) => self.thread(id, fields),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    self.leave(id, "its value is no object".to_owned());
                }
            }
        }
    }

    fn thread(&mut self, id: &str, fields: &Map<String, Value>) {
        match self.machine(id, fields) {
            Ok(machine) => {
                if self.seen.insert((machine.clone(), id.to_owned())) {
                    let entry = Entry {
                        machine,
                        thread: id.to_owned().into(),
                        watch: self.watch(id, fields),
                        origin: self.origin(id, fields),
                    };
                    self.found.taken.push(entry);
                }
            }
            Err(why) => self.leave(id, why),
        }
    }

    /// The configured machine that the thread is on.
    fn machine(&self, id: &str, fields: &Map<String, Value>) -> Result<String, String> {
        let is_id = (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_id {
            return Err("its key is no thread id".to_owned());
        }
        match (fields.get("machine"), self.machines) {
            (Some(Value::String(name)), machines) if machines.contains(&name.as_str()) => Ok(name.clone()),
            (Some(Value::String(name)), _) => Err(format!("its machine {name:?} is not configured")),
            (None | Some(Value::Null), [only]) => Ok((*only).to_owned()),
            (None | Some(Value::Null), []) => Err("it names no machine, and none is configured".to_owned()),
            (None | Some(Value::Null), _) => Err("it names no machine, and several are configured".to_owned()),
            (Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)), _) => {
                Err("its machine is no text".to_owned())
            }
        }
    }

    /// Whether its events are wanted: as when it was dispatched, unless the file says otherwise.
    fn watch(&mut self, id: &str, fields: &Map<String, Value>) -> bool {
        match fields.get("watch") {
            Some(Value::Bool(watch)) => *watch,
            None | Some(Value::Null) => true,
            Some(Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
                // An event too many is better than one that never comes.
                self.remark(id, "its watch is neither true nor false: it is watched");
                true
            }
        }
    }

    fn origin(&mut self, id: &str, fields: &Map<String, Value>) -> Option<String> {
        match fields.get("origin") {
            Some(Value::String(origin)) if is_origin(origin) => Some(origin.clone()),
            None | Some(Value::Null) => None,
            Some(Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                self.remark(
                    id,
                    "its origin is not 1 to 1024 visible ASCII characters and is left out",
                );
                None
            }
        }
    }

    fn leave(&mut self, id: &str, why: String) {
        let thread = id.to_owned();
        self.found.left.push(Remark { thread, why });
    }

    fn remark(&mut self, id: &str, why: &str) {
        self.found.in_part.push(Remark {
            thread: id.to_owned(),
            why: why.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: &Value, machines: &[&str]) -> Found {
        threads(value.to_string().as_bytes(), machines).unwrap()
    }

    fn entry(machine: &str, thread: &str, watch: bool, origin: Option<&str>) -> Entry {
        Entry {
            machine: machine.to_owned(),
            thread: thread.to_owned().into(),
            watch,
            origin: origin.map(str::to_owned),
        }
    }

    fn reasons(remarks: &[Remark]) -> Vec<(&str, &str)> {
        let each = remarks.iter();
        each.map(|remark| (remark.thread.as_str(), remark.why.as_str()))
            .collect()
    }

    #[test]
    fn threads_stand_at_the_top_or_under_a_key_that_speaks_of_them() {
        let threads = json!({
            "t1": {"machine": "mac", "project": "p", "title": "x", "watch": true, "origin": "chat:1"},
            "t2": {"machine": "box", "watch": false, "more": {"of": "it"}},
        });
        let expected = [
            entry("mac", "t1", true, Some("chat:1")),
            entry("box", "t2", false, None),
        ];
        assert_eq!(read(&threads, &["mac", "box"]).taken, expected);
        for key in ["threads", "tracked", "watchedThreads"] {
            let file = json!({"version": 3, "saved_at": "today", "pending": [1], key: threads});
            let found = read(&file, &["mac", "box"]);
            assert_eq!((found.taken.as_slice(), found.left.len()), (&expected[..], 0), "{key}");
        }
    }

    #[test]
    fn what_does_not_speak_of_threads_is_passed_over() {
        let file = json!({"machines": {"mac": {"url": "http://x", "title": "Mac"}}, "hook": {"url": "x"}, "none": {}});
        assert_eq!(read(&file, &["mac"]), Found::default());
    }

    #[test]
    fn without_a_machine_the_only_one_is_meant() {
        let file = json!({"threads": {"t1": {"title": "x"}, "t2": {}, "t3": {"machine": null}}});
        assert_eq!(read(&file, &["mac"]).taken.len(), 3);
        let found = read(&file, &["mac", "box"]);
        assert!(found.taken.is_empty());
        assert_eq!(
            reasons(&found.left)[0],
            ("t1", "it names no machine, and several are configured")
        );
    }

    #[test]
    fn what_cannot_be_taken_is_said_with_its_reason() {
        let file = json!({"threads": {
            "t1": {"machine": "gone\u{1b}"}, "t2": {"machine": 4}, "a b": {"machine": "mac"}, "t3": 5, "": {"title": "x"},
        }});
        let mut left = read(&file, &["mac"]).left;
        left.sort_by(|one, other| one.thread.cmp(&other.thread));
        assert_eq!(
            reasons(&left),
            [
                ("", "its key is no thread id"),
                ("a b", "its key is no thread id"),
                ("t1", "its machine \"gone\\u{1b}\" is not configured"),
                ("t2", "its machine is no text"),
                ("t3", "its value is no object"),
            ]
        );
    }

    #[test]
    fn an_origin_that_is_none_is_left_out_and_an_odd_watch_watches() {
        let long = "x".repeat(1_025);
        let file = json!({"t1": {"origin": "a b"}, "t2": {"origin": long}, "t3": {"watch": "no", "origin": ["x"]}});
        let found = read(&file, &["mac"]);
        assert!(found.taken.iter().all(|entry| entry.watch && entry.origin.is_none()));
        assert_eq!((found.taken.len(), found.in_part.len()), (3, 4));
    }

    #[test]
    fn a_thread_that_stands_twice_is_taken_once() {
        let file = json!({"t1": {"title": "x"}, "threads": {"t1": {"title": "x"}}});
        assert_eq!(read(&file, &["mac"]).taken.len(), 1);
    }

    #[test]
    fn what_is_no_json_object_is_an_error() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "nonsense", "{\"a\": \u{1b}}", deep.as_str()] {
            assert!(matches!(threads(text.as_bytes(), &["mac"]), Err(Unreadable::NoJson(_))));
        }
        assert!(matches!(threads(b"[{}]", &["mac"]), Err(Unreadable::NoObject)));
        assert!(threads(b"\xff\xfe{}", &["mac"]).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop_oneof![Just("mac".to_owned()), any::<String>()].prop_map(Value::from),
        ];
        let key = prop_oneof![
            prop::sample::select(FIELDS.to_vec()).prop_map(str::to_owned),
            Just("threads".to_owned()),
            any::<String>(),
        ];
        leaf.prop_recursive(4, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_file_gives_only_threads_that_can_be_followed(file in any_json()) {
            if let Ok(found) = threads(file.to_string().as_bytes(), &["mac"]) {
                for entry in found.taken {
                    prop_assert_eq!(entry.machine, "mac");
                    prop_assert!(!entry.thread.0.is_empty() && entry.thread.0.is_ascii());
                    prop_assert!(entry.origin.is_none_or(|origin| is_origin(&origin)));
                }
            }
        }

        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = threads(&bytes, &["mac"]);
        }
    }
}
