//! One case, played: T3, the network, the gateway's process and its ledger under one clock that nobody waits for.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use t3code_mcp::gateway::tracking::Fate as Became;
use t3code_mcp::lifecycle::{Baseline, Watch};
use t3code_mcp::machine::decoded;
use t3code_mcp::protocol::{EnvironmentId, ThreadId};
use t3code_mcp::simulator::{Database, ModelOptions, Timing};
use t3code_mcp::store::{LEDGER_FILE, NewReceipt, Outcome, ReceiptKind, ReceiptUpdate, Store};
use tempfile::TempDir;

use super::case::{Case, Death, Fate, Mood, Sender, Step, THREADS, Way};
use super::gateway::{Gateway, PROJECT, Ways};
use super::hook::Hook;
use super::observer::Observer;

/// How long after both sides are there the connection stands.
const CONNECTS_AFTER: SignedDuration = SignedDuration::from_millis(200);
/// After the last step everything that goes on by itself ends within this time.
const COMES_TO_REST: SignedDuration = SignedDuration::from_mins(100);
/// And everything is delivered or given up within this.
const DELIVERED: SignedDuration = SignedDuration::from_hours(100);
/// For so long a gateway may not know what became of a message whose sender died or heard no answer.
const UNSURE: SignedDuration = SignedDuration::from_secs(30);
/// More happens in no case.
const MOST_HAPPENINGS: u32 = 20_000;

/// A ledger, and where it lies.
pub struct Ledger {
    _folder: TempDir,
    path: PathBuf,
    pub store: Store,
}

impl Ledger {
    /// In memory, where the system has a folder for that: what a power cut does is not the question here.
    pub async fn new() -> Self {
        let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let path = folder.path().join(LEDGER_FILE);
        let store = Store::open(&path).await.unwrap();
        Self {
            _folder: folder,
            path,
            store,
        }
    }

    async fn reopen(&mut self) {
        self.store.close().await;
        self.store = Store::open(&self.path).await.unwrap();
    }
}

/// A message that is still on its way to T3.
struct Arrival {
    at: Timestamp,
    command: Value,
}

pub struct World<'a> {
    case: &'a Case,
    ledger: &'a mut Ledger,
    pub machine: String,
    pub environment: EnvironmentId,
    now: Timestamp,
    database: Database,
    pub observer: Observer,
    pub hook: Hook,
    gateway: Option<Gateway>,
    /// When T3, the network and the gateway are there again.
    t3_back: Option<Timestamp>,
    network_back: Option<Timestamp>,
    gateway_back: Option<(Timestamp, bool)>,
    /// How the gateway is to die, and for how long.
    death: Option<(Death, u64, bool)>,
    arrivals: Vec<Arrival>,
    /// When the gateway was connected.
    pub online: Vec<(Timestamp, Timestamp)>,
    /// Until when the gateway may not know yet what became of a message.
    unsure: Timestamp,
    reads: usize,
    commands: u64,
    happenings: u32,
}

pub fn start() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().unwrap()
}

impl<'a> World<'a> {
    pub fn new(case: &'a Case, ledger: &'a mut Ledger, number: u64) -> Self {
        let now = start();
        let mut options = ModelOptions::recorded();
        options.environment_id = format!("environment-{number}");
        options.newer = case.server.newer;
        options.continues_after_restart = case.server.continues;
        options.archive_apart = case.server.archive_apart;
        for provider in &mut options.providers {
            provider.steers_inside = case.server.steers_inside;
        }
        if case.server.slow_checkpoints {
            options.timing = Timing {
                checkpoint: std::time::Duration::from_mins(5),
                ..options.timing
            };
        }
        let machine = format!("machine-{number}");
        Self {
            environment: options.environment_id.clone().into(),
            database: Database::new(options, now, PROJECT),
            hook: Hook::new(&machine, &case.answers),
            case,
            ledger,
            machine,
            now,
            observer: Observer::default(),
            gateway: None,
            t3_back: None,
            network_back: None,
            gateway_back: Some((now, false)),
            death: None,
            arrivals: Vec::new(),
            online: Vec::new(),
            unsure: now,
            reads: 0,
            commands: 0,
            happenings: 0,
        }
    }

    /// Plays the case to its end.
    pub async fn play(&mut self) {
        let case = self.case;
        for (pause, step) in &case.steps {
            let pause = SignedDuration::from_millis(i64::try_from(*pause).unwrap());
            self.advance(self.now + pause).await;
            self.step(step).await;
        }
        self.death = None;
        self.hook.mood = Mood::Up;
        let back = [self.t3_back, self.network_back, self.gateway_back.map(|(at, _)| at)];
        let back = back.into_iter().flatten().max().unwrap_or(self.now);
        self.advance(back.max(self.now) + COMES_TO_REST).await;
        let until = self.now + DELIVERED;
        while !self.hook.is_done() && self.now < until && self.hook.wrong.is_empty() {
            self.advance(self.now + SignedDuration::from_hours(1)).await;
        }
        self.leave();
        self.hook.verify(&self.ledger.store).await;
    }

    /// Takes what is left of the case out of everybody's way.
    pub async fn clean(&mut self) {
        let store = &self.ledger.store;
        let tracked = store.tracked().await.unwrap();
        let forget = tracked
            .into_iter()
            .map(|tracked| (tracked.machine, tracked.thread.thread));
        let batch = t3code_mcp::store::Batch {
            forget: forget.collect(),
            ..Default::default()
        };
        store.commit(batch).await.unwrap();
    }

    /// The receipts that nobody has taken up.
    pub async fn open_receipts(&self) -> usize {
        let open = self.ledger.store.open_receipts().await.unwrap();
        open.iter()
            .filter(|receipt| receipt.intent.machine == self.machine)
            .count()
    }

    pub fn store(&self) -> &Store {
        &self.ledger.store
    }

    fn leave(&mut self) {
        let now = self.now;
        if let Some(since) = self.gateway.as_mut().and_then(|gateway| gateway.disconnect(now)) {
            self.online.push((since, now));
        }
    }
}

// Time.
impl World<'_> {
    /// Everything until then happens.
    async fn advance(&mut self, until: Timestamp) {
        loop {
            self.pump().await;
            let Some(next) = self.next().filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            self.happen().await;
            self.happenings += 1;
            assert!(self.happenings < MOST_HAPPENINGS, "nothing comes to rest");
        }
        self.now = self.now.max(until);
    }

    fn next(&self) -> Option<Timestamp> {
        let t3 = self.database.poll_timeout().filter(|_| self.t3_back.is_none());
        let arrivals = self.arrivals.iter().map(|arrival| arrival.at);
        let back = [self.t3_back, self.network_back, self.gateway_back.map(|(at, _)| at)];
        let gateway = self.gateway.as_ref().and_then(Gateway::poll_timeout);
        let hook = self.gateway.as_ref().and_then(|_| self.hook.poll_timeout(self.now));
        let times = back.into_iter().flatten().chain(arrivals);
        times.chain(t3).chain(gateway).chain(hook).min()
    }

    async fn happen(&mut self) {
        let now = self.now;
        if self.t3_back.is_none() {
            self.database.handle_timeout(now);
        }
        if self.t3_back.is_some_and(|at| at <= now) {
            self.t3_back = None;
            self.database.handle_restart(now);
            self.observer.restarts.push(now);
        }
        if self.network_back.is_some_and(|at| at <= now) {
            self.network_back = None;
        }
        self.arrive();
        self.observe();
        if let Some((at, reopens)) = self.gateway_back
            && at <= now
        {
            self.gateway_back = None;
            if reopens {
                self.ledger.reopen().await;
            }
            let tracked = self.ledger.store.tracked().await.unwrap();
            let open = self.ledger.store.open_receipts().await.unwrap();
            self.gateway = Some(Gateway::start(&self.machine, tracked, open, now));
            self.unsure = now + UNSURE;
        }
        let reachable = self.reachable();
        let bounded = self.case.server.bounded;
        if let Some(gateway) = &mut self.gateway {
            if gateway.connects.is_some_and(|at| at <= now) {
                gateway.connect(&self.database, &self.environment, &self.case.server, now);
            }
            if gateway.online.is_none() && gateway.connects.is_none() && reachable {
                gateway.connects = Some(now + CONNECTS_AFTER);
            }
            gateway.happen(&self.database, bounded, now);
        }
        self.pump().await;
        if self.gateway.is_some() && self.hook.happen(&self.ledger.store, now).await {
            self.kill(2_000, false);
        }
    }

    /// T3's side is looked at by whoever is there.
    fn observe(&mut self) {
        let ids: Vec<String> = (0..THREADS).map(|thread| self.id(thread)).collect();
        for id in ids {
            let known = self.observer.threads.get(&id).map_or(0, |thread| thread.sequence);
            for (sequence, event) in self.database.events(&id, known) {
                self.observer.sees(&id, sequence, &event);
            }
        }
        if let Some(gateway) = &mut self.gateway {
            gateway.note(&self.database, self.now);
        }
    }

    /// The gateway keeps what it has to keep, and reads what it has to read.
    async fn pump(&mut self) {
        let now = self.now;
        while let Some(batch) = self.gateway.as_mut().and_then(|gateway| gateway.roster.poll_batch(now)) {
            if let Some((Death::BeforeCommit, down, reopens)) = self.death {
                self.kill(down, reopens);
                return;
            }
            let before = self.ledger.store.newest();
            let events = batch.events.clone();
            let committed = self.ledger.store.commit(batch).await.unwrap();
            let new = events.iter().filter(|event| committed.new.contains(&event.id));
            for (seq, event) in (before + 1..).zip(new) {
                self.hook.expects(seq, &event.id, &event.thread, now);
            }
            if let Some((Death::AfterCommit, down, reopens)) = self.death {
                self.kill(down, reopens);
                return;
            }
        }
        if let Some(gateway) = &mut self.gateway {
            let mut ways = Ways {
                list: &self.case.reads,
                next: &mut self.reads,
                bounded: self.case.server.bounded,
            };
            gateway.begin_reads(&self.database, &mut ways, now);
        }
    }

    fn reachable(&self) -> bool {
        self.t3_back.is_none() && self.network_back.is_none()
    }

    fn kill(&mut self, down: u64, reopens: bool) {
        self.leave();
        self.death = None;
        if self.gateway.take().is_some() {
            self.hook.dies();
            self.gateway_back = Some((self.later(down), reopens));
        }
    }

    fn later(&self, milliseconds: u64) -> Timestamp {
        self.now + SignedDuration::from_millis(i64::try_from(milliseconds).unwrap())
    }
}

// Steps.
impl World<'_> {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::RestartT3(down) => {
                if self.t3_back.is_none() {
                    self.t3_back = Some(self.later(*down));
                    self.leave();
                }
            }
            Step::Cut(away) => {
                self.network_back = self.network_back.max(Some(self.later(*away)));
                self.leave();
            }
            Step::Kill { when, down, reopen } => match when {
                Death::Now => self.kill(*down, *reopen),
                Death::BeforeCommit | Death::AfterCommit => self.death = Some((*when, *down, *reopen)),
            },
            Step::Receiver(mood) => self.hook.mood = *mood,
            Step::Switch { thread, on, origin } => self.switch(*thread, *on, *origin).await,
            Step::Send {
                thread,
                sender,
                way,
                prompt,
            } => self.send(*thread, *sender, *way, prompt).await,
            Step::Answer { .. }
            | Step::Interrupt { .. }
            | Step::CancelQueued { .. }
            | Step::Promote { .. }
            | Step::ResumeQueue { .. }
            | Step::Rename { .. }
            | Step::Archive { .. }
            | Step::Delete { .. } => self.manage(step),
        }
    }

    /// What a person does in front of T3, or a client by the gateway: T3 cannot tell.
    fn manage(&mut self, step: &Step) {
        let (Step::Answer { thread, .. }
        | Step::Interrupt { thread, .. }
        | Step::CancelQueued { thread }
        | Step::Promote { thread }
        | Step::ResumeQueue { thread }
        | Step::Rename { thread }
        | Step::Archive { thread, .. }
        | Step::Delete { thread }) = step
        else {
            return;
        };
        let id = self.id(*thread);
        let Some(seen) = self.observer.threads.get(&id).filter(|seen| seen.deleted.is_none()) else {
            return;
        };
        let active = seen.runs.iter().find(|run| run.worked && run.end.is_none());
        let queued = seen.runs.iter().find(|run| !run.worked && run.end.is_none());
        let request = seen.requests.iter().find(|request| request.until.is_none());
        let command = match (step, active, queued, request) {
            (Step::Answer { accept, .. }, _, _, Some(request)) => match (request.question, accept) {
                (true, true) => json!({"type": "runtime-request.respond", "requestId": request.id,
                    "answers": {"color": "Red"}}),
                (true, false) => json!({"type": "thread.user-input.dismiss", "requestId": request.id}),
                (false, _) => json!({"type": "runtime-request.respond", "requestId": request.id,
                    "decision": if *accept { "accept" } else { "cancel" }}),
            },
            (Step::Interrupt { hold, .. }, Some(run), _, _) => {
                json!({"type": "run.interrupt", "runId": run.id, "holdQueue": hold})
            }
            (Step::CancelQueued { .. }, _, Some(run), _) => json!({"type": "queued-run.cancel", "runId": run.id}),
            (Step::Promote { .. }, Some(run), Some(queued), _) => json!({"type": "queued-message.promote-to-steer",
                "queuedRunId": queued.id, "targetRunId": run.id}),
            (Step::ResumeQueue { .. }, ..) => json!({"type": "queue.resume"}),
            (Step::Rename { .. }, ..) => json!({"type": "thread.metadata.update", "title": "Another"}),
            (Step::Archive { archived: true, .. }, ..) => json!({"type": "thread.archive"}),
            (Step::Archive { archived: false, .. }, ..) => json!({"type": "thread.unarchive"}),
            (Step::Delete { .. }, ..) => json!({"type": "thread.delete"}),
            _ => return,
        };
        // What T3 refuses changes nothing.
        self.command(&id, command);
    }

    /// A command; true if T3 took it.
    fn command(&mut self, thread: &str, mut command: Value) -> bool {
        if self.t3_back.is_some() {
            return false;
        }
        self.commands += 1;
        command["commandId"] = json!(format!("command-{}", self.commands));
        command["threadId"] = json!(thread);
        let taken = self.take(&command);
        self.observe();
        taken
    }

    fn take(&mut self, command: &Value) -> bool {
        if command["type"] == "launch" {
            self.database.handle_launch(self.now, command).is_ok()
        } else {
            self.database.handle_command(self.now, command).is_ok()
        }
    }

    fn arrive(&mut self) {
        let now = self.now;
        let (come, rest) = std::mem::take(&mut self.arrivals)
            .into_iter()
            .partition(|arrival| arrival.at <= now);
        self.arrivals = rest;
        let come: Vec<Arrival> = come;
        for arrival in come {
            if self.reachable() {
                self.take(&arrival.command);
            }
        }
    }

    async fn send(&mut self, thread: usize, sender: Sender, way: Way, prompt: &str) {
        let id = self.id(thread);
        let seen = self.observer.threads.get(&id);
        if seen.is_some_and(|seen| seen.deleted.is_some()) || self.t3_back.is_some() {
            return;
        }
        let launches = seen.is_none_or(|seen| seen.sequence == 0);
        if launches && !self.arrivals.is_empty() {
            return;
        }
        let active = seen.and_then(|seen| seen.runs.iter().find(|run| run.worked && run.end.is_none()));
        let active = active.map(|run| run.id.clone());
        self.commands += 1;
        let message = format!("message-{}-{}", self.machine, self.commands);
        let mut command = if launches {
            json!({"type": "launch", "projectId": PROJECT, "title": "A thread",
                "modelSelection": {"instanceId": "grok", "model": "grok-build"},
                "runtimeMode": "approval-required", "interactionMode": "default",
                "workspaceStrategy": {"type": "root"},
                "initialMessage": {"messageId": message, "text": prompt, "attachments": []}})
        } else {
            let mode = match (way, active) {
                (Way::Steer, Some(run)) => json!({"type": "steer_active", "targetRunId": run}),
                (Way::Restart, Some(run)) => json!({"type": "restart_active", "targetRunId": run}),
                (Way::Plain, Some(_)) => json!({"type": "queue_after_active"}),
                (Way::Plain | Way::Steer | Way::Restart, None) => json!({"type": "start_immediately"}),
            };
            json!({"type": "message.dispatch", "messageId": message, "text": prompt, "attachments": [],
                "creationSource": "mcp", "dispatchMode": mode})
        };
        match sender {
            Sender::Person => {
                self.command(&id, command);
            }
            Sender::Us { watch, origin, fate } => {
                self.commands += 1;
                command["commandId"] = json!(format!("command-{}", self.commands));
                command["threadId"] = json!(id);
                let watch = Watch {
                    on: watch,
                    ..watch_of(origin)
                };
                self.dispatch(&id, &message, command, launches, watch, fate).await;
            }
        }
    }

    /// A client's message, by the gateway: receipt, wish, command, fate.
    async fn dispatch(&mut self, id: &str, message: &str, command: Value, launches: bool, watch: Watch, fate: Fate) {
        let connected = self.gateway.as_ref().is_some_and(|gateway| gateway.online.is_some());
        // What cannot be sent is refused to the client before anything is kept.
        if !connected {
            return;
        }
        let thread = ThreadId(id.to_owned());
        let before = self
            .database
            .thread(id, None)
            .map(|body| decoded::thread(&body).unwrap());
        let last = before.and_then(|before| before.facts.runs.into_iter().max_by_key(|run| run.ordinal));
        let receipt = NewReceipt {
            client: watch.client.clone().unwrap(),
            request: message.to_owned(),
            explicit: true,
            payload_hash: [0; 32],
            machine: self.machine.clone(),
            environment: Some(self.environment.clone()),
            thread: thread.clone(),
            message: message.to_owned().into(),
            kind: if launches {
                ReceiptKind::Launch
            } else {
                ReceiptKind::Continue
            },
            watch: watch.clone(),
            baseline: last.map(|run| Baseline {
                ordinal: run.ordinal,
                requested_at: run.requested_at,
            }),
            created_at: self.now,
            protocol: 2,
        };
        self.ledger.store.claim_receipt(&receipt).await.unwrap();
        self.observer.sends(id, message, watch);
        if let Some(gateway) = &mut self.gateway {
            gateway.roster.take_up(&receipt, false, self.now);
        }
        self.pump().await;
        match fate {
            Fate::DiesBefore => return self.kill(500, false),
            Fate::DiesMeanwhile(after) if launches => {
                let at = self.later(after);
                self.arrivals.push(Arrival { at, command });
                return self.kill(500, false);
            }
            Fate::DiesMeanwhile(_) | Fate::Known | Fate::AnswerLost | Fate::DiesAfter => {}
        }
        if self.gateway.is_none() {
            // It died as it kept what it was about to send.
            return;
        }
        let taken = self.take(&command);
        self.observe();
        if fate == Fate::DiesAfter {
            return self.kill(500, false);
        }
        let (became, outcome) = match (fate, taken) {
            (Fate::AnswerLost, _) => {
                self.unsure = self.now + UNSURE;
                (Became::Unknown, Outcome::Unknown)
            }
            (_, true) => (Became::Taken, Outcome::Started { run: None }),
            (_, false) => (Became::Nothing, Outcome::Nothing),
        };
        let update = ReceiptUpdate {
            sent: true,
            outcome: Some(outcome),
            ..ReceiptUpdate::default()
        };
        let store = &self.ledger.store;
        store.update_receipt(&receipt.client, message, &update).await.unwrap();
        if let Some(gateway) = &mut self.gateway {
            gateway.roster.settle(&thread, &receipt.message, became, self.now);
        }
        self.pump().await;
    }

    /// `t3_watch`, at a moment when the gateway knows what there is: what it means for what nobody has seen yet is nobody's promise.
    async fn switch(&mut self, thread: usize, on: bool, origin: u8) {
        let id = ThreadId(self.id(thread));
        let there = self.observer.threads.get(&id.0);
        if !there.is_some_and(|seen| seen.sequence > 0 && seen.deleted.is_none()) {
            return;
        }
        let now = self.now;
        let knows = |gateway: &Gateway| {
            let failed = gateway.failed.is_some_and(|at| at + SignedDuration::from_secs(6) > now);
            gateway.online.is_some_and(|since| since < now) && !failed
        };
        if now < self.unsure {
            return;
        }
        if !self.gateway.as_ref().is_some_and(knows) {
            return;
        }
        let death = self.death.take();
        self.settle().await;
        let watch = watch_of(origin);
        self.observer.switches(&id.0, on, &watch, now);
        if let Some(gateway) = &mut self.gateway {
            gateway.roster.switch(&id, on, watch, now);
        }
        self.settle().await;
        let begins = self.gateway.as_ref().is_some_and(|gateway| gateway.roster.begins(&id));
        assert!(!begins, "a thread that is there is not followed");
        self.death = death;
    }

    /// The gateway comes to know what there is, while the time stands still.
    async fn settle(&mut self) {
        let bounded = self.case.server.bounded;
        loop {
            self.pump().await;
            let Some(gateway) = &mut self.gateway else { return };
            if !gateway.hurry(self.now) {
                return;
            }
            gateway.happen(&self.database, bounded, self.now);
        }
    }

    fn id(&self, thread: usize) -> String {
        format!("thread-{}-{thread}", self.machine)
    }
}

fn watch_of(origin: u8) -> Watch {
    Watch {
        on: true,
        origin: (origin > 0).then(|| format!("chat:{origin}")),
        client: Some(format!("client-{}", origin % 2)),
    }
}
