//! The gateway's side of a case: the real roster and mirror, driven as their machine's keeper drives them, and its clients' sends.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use t3code_mcp::lifecycle::{Limits, ReadNeed};
use t3code_mcp::machine::mirror::{Effect, Mirror};
use t3code_mcp::machine::{RuntimeMode, Thread, decoded};
use t3code_mcp::protocol::{EnvironmentId, ThreadId};
use t3code_mcp::simulator::Database;
use t3code_mcp::store::{Receipt, Tracked};
use t3code_mcp::watch::{Outcome, Roster, WatchSettings};

use super::case::{ReadWay, Server};
use super::check::FINISH_TIMEOUT;

/// What the shell shows is grouped so long.
const WINDOW: SignedDuration = SignedDuration::from_millis(50);
/// So many reads at a time, as the keeper's.
const READS_AT_ONCE: usize = 6;
/// The one project.
pub const PROJECT: &str = "t3-smoke";

/// What T3 answers to a read: none is that it does not know the thread.
type Answer = Option<String>;

/// A read on its way.
struct Reading {
    thread: ThreadId,
    need: ReadNeed,
    era: u64,
    ends: Timestamp,
    way: ReadWay,
    /// What T3 had as it began, where that counts.
    began: Option<Answer>,
}

/// A gateway that lives.
pub struct Gateway {
    pub roster: Roster,
    mirror: Mirror,
    pub online: Option<Timestamp>,
    /// When it tries to connect.
    pub connects: Option<Timestamp>,
    /// Up to which sequence the shell stream was read.
    told: u64,
    window: Option<Timestamp>,
    reads: Vec<Reading>,
    /// When a read last failed.
    pub failed: Option<Timestamp>,
    /// The threads whose last read failed: the next one does not.
    failing: BTreeSet<ThreadId>,
}

/// What reads are to be like.
pub struct Ways<'a> {
    pub list: &'a [ReadWay],
    pub next: &'a mut usize,
    pub bounded: Option<usize>,
}

impl Gateway {
    /// As the keeper begins.
    pub fn start(machine: &str, tracked: Vec<Tracked>, open: Vec<Receipt>, now: Timestamp) -> Self {
        let settings = WatchSettings {
            limits: Limits {
                finish_timeout: FINISH_TIMEOUT,
                stall_after: None,
            },
            unreachable_after: None,
            deliver: true,
            final_word: true,
        };
        let mut roster = Roster::new(machine, RuntimeMode::FullAccess, settings, now);
        for tracked in tracked.into_iter().filter(|tracked| tracked.machine == machine) {
            roster.load(tracked, now);
        }
        for receipt in open.into_iter().filter(|receipt| receipt.intent.machine == machine) {
            roster.take_up(&receipt.intent, true, now);
        }
        Self {
            roster,
            mirror: Mirror::default(),
            online: None,
            connects: None,
            told: 0,
            window: None,
            reads: Vec::new(),
            failed: None,
            failing: BTreeSet::new(),
        }
    }

    /// When something of it happens next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let reads = self.reads.iter().map(|read| read.ends);
        let times = reads.chain(self.connects).chain(self.window);
        times.chain(self.roster.poll_timeout()).min()
    }

    /// The connection stands. A resumed stream brings no snapshot.
    pub fn connect(&mut self, database: &Database, environment: &EnvironmentId, server: &Server, now: Timestamp) {
        let (resumes, archive) = (server.newer, server.archive_apart);
        self.connects = None;
        self.online = Some(now);
        if resumes && self.mirror.has_base() {
            self.take_items(database);
        } else {
            let shell = decoded::shell_item(&database.shell().unwrap()).unwrap();
            self.mirror.handle_shell(shell);
            self.told = database.head();
        }
        if archive {
            // What changes in it later, the shell shows as well.
            let archive = decoded::archive_item(&database.archive().unwrap()).unwrap();
            self.mirror.handle_archive(archive);
        }
        while self.mirror.poll_effect().is_some() {}
        self.roster.handle_online(Some(environment), now);
        for id in self.roster.ids() {
            self.show(&id, now);
        }
    }

    /// The connection is gone; gives since when it stood.
    pub fn disconnect(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.connects = None;
        self.window = None;
        // What was asked for may still be answered, when it counts no more; what T3 has not looked at yet is not.
        self.reads.retain(|read| read.began.is_some());
        let since = self.online.take()?;
        self.roster.handle_away(now);
        Some(since)
    }

    /// T3 may have logged something.
    pub fn note(&mut self, database: &Database, now: Timestamp) {
        if self.online.is_some() && self.window.is_none() && database.head() > self.told {
            self.window = Some(now + WINDOW);
        }
    }

    /// What the shell shows comes now.
    pub fn hurry(&mut self, now: Timestamp) -> bool {
        let reads = self.reads.iter_mut();
        for read in reads {
            read.ends = now;
            read.way.fails = false;
            read.began = None;
        }
        self.window = self.window.map(|_| now);
        self.window.is_some() || !self.reads.is_empty()
    }

    /// Does what is due.
    pub fn happen(&mut self, database: &Database, bounded: Option<usize>, now: Timestamp) {
        if self.window.is_some_and(|window| window <= now) {
            self.window = None;
            self.take_items(database);
            let mut changed = BTreeSet::new();
            while let Some(effect) = self.mirror.poll_effect() {
                match effect {
                    Effect::ThreadChanged(id) | Effect::ThreadRemoved(id) => {
                        changed.insert(id);
                    }
                    Effect::ProjectsChanged | Effect::Reset => changed.extend(self.roster.ids()),
                }
            }
            for id in changed {
                if self.roster.holds(&id) {
                    self.show(&id, now);
                }
            }
        }
        let (ended, rest) = std::mem::take(&mut self.reads)
            .into_iter()
            .partition(|read| read.ends <= now);
        self.reads = rest;
        let ended: Vec<Reading> = ended;
        for read in ended {
            self.end_read(read, database, bounded, now);
        }
        if self.roster.poll_timeout().is_some_and(|due| due <= now) {
            self.roster.handle_time(now);
        }
    }

    /// Begins the reads that are wanted.
    pub fn begin_reads(&mut self, database: &Database, ways: &mut Ways<'_>, now: Timestamp) {
        while self.reads.len() < READS_AT_ONCE
            && let Some((thread, need, era)) = self.roster.poll_read()
        {
            let way = ways.list[*ways.next % ways.list.len()];
            *ways.next += 1;
            let began = way.early.then(|| look(database, &thread, need, ways.bounded));
            self.reads.push(Reading {
                thread,
                need,
                era,
                ends: now + SignedDuration::from_millis(i64::try_from(way.milliseconds).unwrap()),
                way,
                began,
            });
        }
    }

    fn end_read(&mut self, read: Reading, database: &Database, bounded: Option<usize>, now: Timestamp) {
        let Reading {
            thread,
            need,
            era,
            way,
            began,
            ..
        } = read;
        if !way.fails || !self.failing.insert(thread.clone()) {
            self.failing.remove(&thread);
        } else {
            self.failed = Some(now);
            self.roster.handle_read(&thread, era, Outcome::Failed, None, now);
            return;
        }
        let body = began.unwrap_or_else(|| look(database, &thread, need, bounded));
        let read: Option<Thread> = body.map(|body| decoded::thread(&body).unwrap());
        let outcome = read.as_ref().map_or(Outcome::NotFound, Outcome::Read);
        let project = read.as_ref().map(|_| PROJECT);
        self.roster.handle_read(&thread, era, outcome, project, now);
    }

    fn take_items(&mut self, database: &Database) {
        for item in database.shell_items(self.told, database.head()) {
            self.mirror.handle_shell(decoded::shell_item(&item).unwrap());
        }
        self.told = database.head();
    }

    fn show(&mut self, id: &ThreadId, now: Timestamp) {
        let row = self.mirror.thread(id);
        let project = row.as_ref().map(|_| PROJECT);
        self.roster.handle_row(id, row.as_deref(), project, now);
    }
}

fn look(database: &Database, thread: &ThreadId, need: ReadNeed, bounded: Option<usize>) -> Option<String> {
    match need {
        ReadNeed::Part => database.thread(&thread.0, bounded),
        ReadNeed::Whole => database.thread(&thread.0, None),
    }
}
