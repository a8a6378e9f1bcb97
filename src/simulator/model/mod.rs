//! The deciding core of the simulator: what T3 holds and how commands, the scripted agent and time change it.
//!
//! It does no I/O and reads no clock: `now` is a parameter, and timers are values that [`Model::poll_timeout`] tells. The server
//! around it calls [`Model::handle_command`] and its siblings for what clients send, and [`Model::handle_timeout`] when time has
//! passed. It never forgets an event: a client can ask for any of them again.

mod agent;
mod begin;
mod checkpoints;
mod commands;
mod dispatch;
mod entities;
mod events;
mod import;
mod interrupt;
mod items;
mod launch;
mod lookup;
mod names;
mod projection;
mod projects;
mod queue;
mod requests;
mod restart;
mod runs;
mod settings;
mod stamp;
mod steer;
mod thread;
mod tools;
mod turns;
mod views;

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

pub(crate) use agent::{Script, heard, option_of, outcome, questions};
pub use entities::RunStatus;
pub(crate) use projects::{Project, ProjectError};
pub use settings::{ModelOptions, Provider, ProviderModel, Timing};
pub(crate) use stamp::Stamp;
pub use views::RunOutline;

use commands::Receipt;
use names::Uuids;
use thread::Thread;

/// What a logged event was about.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub(crate) enum Subject {
    /// A thread, by its place.
    Thread(usize),
    /// A project, by its place.
    Project(usize),
}

/// What happens when a thread's timer runs out.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The workspace of a launched run is ready.
    Prepared,
    /// The provider is there: the run runs.
    Attach,
    /// The agent begins its turn.
    Turn,
    /// The agent acts.
    Act,
    /// The agent has slept enough.
    Wake,
    /// The agent hears of a decision.
    Hear,
    /// The checkpoint is captured.
    Checkpoint,
    /// The agent has stopped.
    Stopped,
    /// A background command has ended, whatever its thread does.
    Background,
    /// A thread's title is made, whatever its run does.
    Title,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    thread: usize,
    generation: u64,
    next: Next,
}

/// A whole T3 database and its scripted agents.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    options: ModelOptions,
    head: u64,
    /// What each sequence was about; the first is 1.
    log: Vec<Subject>,
    projects: Vec<Project>,
    threads: Vec<Thread>,
    by_id: HashMap<String, usize>,
    receipts: HashMap<String, Receipt>,
    timers: BTreeMap<(Stamp, u64), Timer>,
    timer_count: u64,
    uuids: Uuids,
    /// T3's own words to send others for, as a newer server might.
    words: HashMap<String, String>,
}

impl Model {
    /// An empty database.
    pub(crate) fn new(options: ModelOptions) -> Self {
        let uuids = Uuids::new(&options.environment_id);
        Self {
            options,
            head: 0,
            log: Vec::new(),
            projects: Vec::new(),
            threads: Vec::new(),
            by_id: HashMap::new(),
            receipts: HashMap::new(),
            timers: BTreeMap::new(),
            timer_count: 0,
            uuids,
            words: HashMap::new(),
        }
    }

    /// The newest sequence.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// What it was told about itself.
    pub(crate) fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// The place of a thread.
    pub(crate) fn find(&self, thread: &str) -> Option<usize> {
        self.by_id.get(thread).copied()
    }

    /// Lets a provider be switched off or on.
    pub(crate) fn set_provider_enabled(&mut self, instance: &str, enabled: bool) {
        for provider in &mut self.options.providers {
            if provider.instance == instance {
                provider.enabled = enabled;
            }
        }
    }

    /// Shows fields of a provider as they are named here.
    pub(crate) fn show_provider(&mut self, instance: &str, fields: &Value) {
        for provider in &mut self.options.providers {
            if provider.instance == instance {
                provider.shown = fields.clone();
            }
        }
    }

    /// Sends `other` wherever a run's status is `own`, as a newer server with more words might.
    pub(crate) fn set_word(&mut self, own: &str, other: &str) {
        self.words.insert(own.to_owned(), other.to_owned());
    }

    /// When something happens by itself next.
    pub(crate) fn poll_timeout(&self) -> Option<Stamp> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// Lets everything happen that was due by `now`, in its order, each at its own time.
    pub(crate) fn handle_timeout(&mut self, now: Stamp) {
        while let Some(entry) = self.timers.first_entry() {
            let (due, _) = *entry.key();
            if due > now {
                break;
            }
            let timer = entry.remove();
            let current = self.threads.get(timer.thread).map(|thread| thread.generation);
            if current == Some(timer.generation) || matches!(timer.next, Next::Background | Next::Title) {
                self.run_timer(timer.thread, timer.next, due);
            }
        }
    }

    fn run_timer(&mut self, thread: usize, next: Next, now: Stamp) {
        match next {
            Next::Prepared => self.finish_preparing(thread, now),
            Next::Attach => self.attach(thread, now),
            Next::Turn => self.begin_turn(thread, now),
            Next::Act => self.act(thread, now),
            Next::Wake => self.wake(thread, now),
            Next::Hear => self.hear(thread, now),
            Next::Checkpoint => self.capture(thread, now),
            Next::Stopped => self.stopped(thread, now),
            Next::Background => self.end_background(thread, now),
            Next::Title => self.keep_title(thread, now),
        }
    }

    fn set_timer(&mut self, thread: usize, at: Stamp, next: Next) {
        let Some(generation) = self.threads.get(thread).map(|thread| thread.generation) else {
            return;
        };
        self.timer_count += 1;
        self.timers.insert(
            (at, self.timer_count),
            Timer {
                thread,
                generation,
                next,
            },
        );
    }

    /// Whatever the thread's agent was about to do, it does no longer.
    fn drop_timers(&mut self, thread: usize) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.generation += 1;
        }
    }

    fn driver(&self, instance: &str) -> String {
        self.options
            .provider(instance)
            .map_or_else(|| instance.to_owned(), |provider| provider.driver.clone())
    }
}

/// Reads a text field of a command that its schema has accepted.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
