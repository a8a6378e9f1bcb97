//! A server of protocol 1: what it holds, and how commands, the scripted agent and time change it.
//!
//! It takes the same scripts as its newer self and has the older one's traps: an interrupted turn that is shown as completed, an interrupt that
//! blocks the whole server, turns that a restart leaves running for ever, flags that stay set, messages that are merged or never run. No I/O and
//! no clock, like the newer model; unlike it, it keeps no events but the sequence of each change, since nobody here follows a thread's events.

mod calls;
mod commands;
mod streams;
mod turns;
mod views;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::model::{ModelOptions, Script, Stamp};
pub(crate) use calls::call;
pub(crate) use streams::OlderStream;

/// What happens when a timer runs out.
#[derive(Clone, Debug)]
enum Next {
    /// The agent is there: the turn begins that this message asked for.
    Begin {
        message: String,
        asked_at: Stamp,
        prompt: String,
    },
    /// The agent acts.
    Act,
    /// The agent has slept enough.
    Wake,
    /// The agent has heard of a decision or an answer, and says so.
    Hear(String),
    /// The turn ends.
    End,
    /// The adapter of an agent that was stopped at work says that it has no session any more.
    Lost,
    /// The checkpoint of a turn is captured.
    Checkpoint { turn: String, status: &'static str },
    /// The agent has stopped.
    Stopped,
    /// The agent is stopped.
    Dismissed,
    /// The agent that another one takes the place of is gone.
    Replaced,
}

/// A request that is open.
#[derive(Clone, Debug)]
struct Open {
    id: String,
    /// What an approval is for.
    kind: &'static str,
    question: bool,
    questions: Vec<Value>,
}

/// The turn at work.
#[derive(Clone, Debug)]
struct Work {
    turn: String,
    script: Script,
    open: Vec<Open>,
    /// Commands that are still to be approved.
    left: Vec<String>,
    said: u64,
}

/// A turn that was, for an upgrade.
#[derive(Clone, Debug)]
pub(crate) struct Was {
    pub turn: String,
    pub message: String,
    pub asked_at: Stamp,
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// What the shell and a read both show.
    pub head: Value,
    pub messages: Vec<Value>,
    pub activities: Vec<Value>,
    pub checkpoints: Vec<Value>,
    pub turns: Vec<Was>,
    pub archived: bool,
    pub deleted: bool,
    /// The agent's process died: what it is asked hangs until the session is stopped.
    dead: bool,
    work: Option<Work>,
    /// Outdated timers of the thread carry a lower number.
    generation: u64,
}

/// What a sequence was about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Subject {
    Project(usize),
    Thread(usize),
}

/// What it does not do that it should.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    /// Answers are taken and do not reach the agent.
    pub(crate) deaf: bool,
    /// The next command of this type is refused.
    pub(crate) next: Option<String>,
}

/// A whole database of protocol 1.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    options: ModelOptions,
    log: Vec<Subject>,
    projects: Vec<Value>,
    pub(crate) threads: Vec<Thread>,
    receipts: HashMap<String, Result<u64, String>>,
    timers: BTreeMap<(Stamp, u64), (usize, u64, Next)>,
    count: u64,
    started_at: Stamp,
    /// The worker that carries commands out waits for ever.
    wedged: bool,
    /// There are no routes for shell and threads, as on the oldest servers.
    pub(crate) routeless: bool,
    pub(crate) refusals: Refusals,
    /// Snapshots tell projects in a way that nobody can read.
    pub(crate) spoils_projects: bool,
}

impl Older {
    pub(crate) fn new(options: ModelOptions, now: Stamp) -> Self {
        Self {
            options,
            log: Vec::new(),
            projects: Vec::new(),
            threads: Vec::new(),
            receipts: HashMap::new(),
            timers: BTreeMap::new(),
            count: 0,
            started_at: now,
            wedged: false,
            routeless: false,
            refusals: Refusals::default(),
            spoils_projects: false,
        }
    }

    /// The newest sequence.
    pub(crate) fn head(&self) -> u64 {
        u64::try_from(self.log.len()).unwrap_or(u64::MAX)
    }

    pub(crate) fn projects(&self) -> &[Value] {
        &self.projects
    }

    /// Whether the worker waits for ever.
    pub(crate) fn is_wedged(&self) -> bool {
        self.wedged
    }

    pub(crate) fn poll_timeout(&self) -> Option<Stamp> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn handle_timeout(&mut self, now: Stamp) {
        while let Some(entry) = self.timers.first_entry() {
            let (due, _) = *entry.key();
            if due > now {
                break;
            }
            let (thread, generation, next) = entry.remove();
            let current = self.threads.get(thread).map(|thread| thread.generation);
            if current == Some(generation) || matches!(next, Next::Checkpoint { .. }) {
                self.run_timer(thread, next, due);
            }
        }
    }

    /// The process dies and begins again: nothing is written about what ran.
    pub(crate) fn handle_restart(&mut self, now: Stamp) {
        self.timers.clear();
        self.wedged = false;
        self.started_at = now;
        for thread in &mut self.threads {
            thread.work = None;
            thread.generation += 1;
        }
    }

    fn run_timer(&mut self, ix: usize, next: Next, now: Stamp) {
        match next {
            Next::Begin {
                message,
                asked_at,
                prompt,
            } => self.begin(ix, &message, asked_at, &prompt, now),
            Next::Act => self.act(ix, now),
            Next::Wake => self.say_and_end(ix, "slept.", now),
            Next::Hear(text) => self.heard(ix, &text, now),
            Next::End => self.end(ix, now),
            Next::Lost => self.lost(ix, now),
            Next::Checkpoint { turn, status } => self.capture(ix, &turn, status, now),
            Next::Stopped => self.stopped(ix, now),
            Next::Dismissed => self.stop_session(ix, now),
            Next::Replaced => self.replaced(ix, now),
        }
    }

    fn set_timer(&mut self, ix: usize, at: Stamp, next: Next) {
        let Some(generation) = self.threads.get(ix).map(|thread| thread.generation) else {
            return;
        };
        self.count += 1;
        self.timers.insert((at, self.count), (ix, generation, next));
    }

    fn fresh(&mut self, what: &str) -> String {
        self.count += 1;
        format!("{what}-{}", self.count)
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.threads.iter().position(|thread| thread.head["id"] == id)
    }

    /// Changes a thread and writes the change down.
    fn change(&mut self, ix: usize, now: Stamp, change: impl FnOnce(&mut Thread)) {
        if let Some(thread) = self.threads.get_mut(ix) {
            change(thread);
            thread.head["updatedAt"] = json!(now);
            self.log.push(Subject::Thread(ix));
        }
    }

    fn activity(&mut self, ix: usize, now: Stamp, (tone, kind): (&str, &str), turn: Option<&str>, payload: &Value) {
        let id = self.fresh("activity");
        let activity = json!({
            "id": id, "tone": tone, "kind": kind, "summary": kind, "payload": payload, "turnId": turn, "createdAt": now,
        });
        self.change(ix, now, |thread| thread.activities.push(activity));
    }

    /// The session of a thread's agent, as it is set from now on.
    fn session(&mut self, ix: usize, now: Stamp, status: &str, turn: Option<&str>, error: Option<&str>) {
        self.change(ix, now, |thread| {
            let head = &mut thread.head;
            head["session"] = json!({
                "threadId": head["id"], "status": status, "providerName": head["modelSelection"]["instanceId"],
                "providerInstanceId": head["modelSelection"]["instanceId"], "runtimeMode": head["runtimeMode"],
                "activeTurnId": turn, "lastError": error, "updatedAt": now,
            });
        });
    }

    fn is_archived(&self, ix: usize) -> bool {
        self.threads.get(ix).is_some_and(|thread| thread.archived)
    }

    fn is_at_work(&self, ix: usize) -> bool {
        self.threads.get(ix).is_some_and(|thread| thread.work.is_some())
    }
}

/// A text field of a command.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
