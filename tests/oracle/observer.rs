//! An observer on T3's own history, who was never away: what each run came to, whom it is reported to, and what was asked.
//!
//! It takes every event of the simulator's model as it is logged, and shares no code with the trackers.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::Value;
use t3code_mcp::lifecycle::Watch;

pub const NOBODY: Watch = Watch {
    on: false,
    origin: None,
    client: None,
};

/// What was seen of a thread.
#[derive(Debug, Default)]
pub struct Thread {
    /// Up to which event.
    pub sequence: u64,
    pub runs: Vec<Run>,
    pub requests: Vec<Request>,
    pub deleted: Option<Timestamp>,
    latest: Option<Watch>,
    every: bool,
    messages: HashMap<String, String>,
    /// Messages of the gateway's clients, sent or about to be.
    ours: HashMap<String, Watch>,
}

#[derive(Debug)]
pub struct Run {
    pub id: String,
    pub thread: String,
    pub requested_at: Timestamp,
    pub message: String,
    pub continues: Option<String>,
    /// It was in another state than queued, and not ended.
    pub worked: bool,
    /// Since when it is finishing, once it was.
    pub finishing: Option<Timestamp>,
    /// What it ended as, and when.
    pub end: Option<(Timestamp, String)>,
    /// Whom it is reported to, since when.
    pub watches: Vec<(Timestamp, Watch)>,
    /// It was open when its thread was deleted, and in the queue.
    pub deleted: Option<bool>,
}

impl Run {
    pub fn watch(&self) -> &Watch {
        self.watches.last().map_or(&NOBODY, |(_, watch)| watch)
    }

    /// Whether it was watched at some time between, and all the time.
    pub fn watched(&self, from: Timestamp, to: Timestamp) -> (bool, bool) {
        let mut some = false;
        let mut all = true;
        for (at, (since, watch)) in self.watches.iter().enumerate() {
            let until = self.watches.get(at + 1).map_or(Timestamp::MAX, |(next, _)| *next);
            if *since <= to && until >= from {
                some |= watch.on;
                all &= watch.on;
            }
        }
        (some, some && all)
    }
}

#[derive(Debug)]
pub struct Request {
    pub id: String,
    pub run: String,
    pub question: bool,
    /// The question outlives its run.
    pub outlives: bool,
    pub from: Timestamp,
    /// When it was closed.
    pub until: Option<Timestamp>,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Observer {
    pub threads: BTreeMap<String, Thread>,
    /// When T3 was restarted.
    pub restarts: Vec<Timestamp>,
}

impl Observer {
    /// A message of a client of the gateway is about to be sent.
    pub fn sends(&mut self, thread: &str, message: &str, watch: Watch) {
        let thread = self.threads.entry(thread.to_owned()).or_default();
        thread.ours.insert(message.to_owned(), watch);
    }

    /// The thread's events are switched.
    pub fn switches(&mut self, thread: &str, on: bool, watch: &Watch, now: Timestamp) {
        let thread = self.threads.entry(thread.to_owned()).or_default();
        thread.every = on;
        thread.latest = on.then(|| watch.clone());
        for (message, sent) in &mut thread.ours {
            if !thread.messages.contains_key(message) && sent.on != on {
                *sent = if on {
                    watch.clone()
                } else {
                    Watch { on, ..sent.clone() }
                };
            }
        }
        for run in &mut thread.runs {
            let known = run.watch().clone();
            if run.end.is_none() && known.on != on {
                let new = if on { watch.clone() } else { Watch { on, ..known } };
                run.watches.push((now, new));
            }
        }
    }

    /// T3 logged something of a thread.
    pub fn sees(&mut self, id: &str, sequence: u64, text: &str) {
        let thread = self.threads.entry(id.to_owned()).or_default();
        thread.sequence = sequence;
        // Most of what T3 logs is of no concern here.
        let wanted = [
            "\"type\":\"run.",
            "\"type\":\"message.",
            "\"type\":\"runtime-",
            "\"type\":\"thread.del",
        ];
        if !wanted.iter().any(|word| text.contains(word)) {
            return;
        }
        let item: Value = serde_json::from_str(text).unwrap();
        let event = &item["event"];
        let payload = &event["payload"];
        let now = time(&event["occurredAt"]);
        match event["type"].as_str().unwrap() {
            "run.created" => thread.sees_run(payload, now),
            "run.updated" => thread.sees_change(payload, now),
            "message.updated" if payload["role"] == "user" => thread.sees_message(payload, now),
            "runtime-request.updated" => thread.sees_request(payload, word(&event["runId"]), now),
            "thread.deleted" => {
                thread.deleted = Some(now);
                for run in thread.runs.iter_mut().filter(|run| run.end.is_none()) {
                    run.deleted = Some(!run.worked);
                }
            }
            _ => {}
        }
    }
}

impl Thread {
    pub fn run(&self, id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == id)
    }

    fn watched(&self, watch: Watch) -> Watch {
        Watch {
            on: watch.on || self.every,
            ..watch
        }
    }

    fn sees_run(&mut self, payload: &Value, now: Timestamp) {
        let message = word(&payload["userMessageId"]);
        let continues = payload["restartContinuationOfRunId"].as_str().map(str::to_owned);
        let watch = if let Some(watch) = self.ours.get(&message).cloned() {
            self.latest = Some(watch.clone());
            self.watched(watch)
        } else {
            let before = continues.as_deref().and_then(|id| self.run(id));
            let watch = before.map(|run| run.watch().clone()).or_else(|| self.latest.clone());
            self.watched(watch.unwrap_or(NOBODY))
        };
        let id = word(&payload["id"]);
        self.messages.insert(message.clone(), id.clone());
        self.runs.push(Run {
            id,
            thread: word(&payload["threadId"]),
            requested_at: time(&payload["requestedAt"]),
            message,
            continues,
            worked: false,
            finishing: None,
            end: None,
            watches: vec![(now, watch)],
            deleted: None,
        });
        self.sees_change(payload, now);
    }

    fn sees_change(&mut self, payload: &Value, now: Timestamp) {
        let id = word(&payload["id"]);
        let Some(run) = self.runs.iter_mut().find(|run| run.id == id) else {
            return;
        };
        match payload["status"].as_str().unwrap() {
            "queued" => {}
            "preparing" | "starting" | "running" => run.worked = true,
            "waiting" => {
                run.finishing.get_or_insert(now);
            }
            end => {
                assert!(run.end.is_none(), "the simulator ends {id} twice");
                run.end = Some((now, end.to_owned()));
            }
        }
    }

    fn sees_message(&mut self, payload: &Value, now: Timestamp) {
        let (message, run) = (word(&payload["id"]), word(&payload["runId"]));
        let before = self.messages.insert(message.clone(), run.clone());
        if before.as_ref() == Some(&run) {
            return;
        }
        let Some(watch) = self.ours.get(&message).cloned() else {
            return;
        };
        let moved = before.and_then(|before| self.run(&before).map(|run| run.watch().clone()));
        if moved.is_none() {
            self.latest = Some(watch.clone());
        }
        let watch = moved.unwrap_or(watch);
        let watch = self.watched(watch);
        if let Some(run) = self.runs.iter_mut().find(|known| known.id == run) {
            run.watches.push((now, watch));
        }
    }

    fn sees_request(&mut self, payload: &Value, run: String, now: Timestamp) {
        let id = word(&payload["id"]);
        let pending = payload["status"] == "pending";
        match self.requests.iter_mut().find(|request| request.id == id) {
            Some(request) if !pending => {
                request.until.get_or_insert(now);
            }
            Some(_) => {}
            None => self.requests.push(Request {
                id,
                run,
                question: payload["kind"] == "user_input",
                outlives: payload["responseCapability"]["type"] == "message",
                from: time(&payload["createdAt"]),
                until: (!pending).then_some(now),
            }),
        }
    }

    /// A message that was moved into another run than the one that it made.
    pub fn moved(&self, run: &Run) -> bool {
        self.messages.get(&run.message).is_some_and(|now| *now != run.id)
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}
