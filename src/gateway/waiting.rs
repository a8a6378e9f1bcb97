//! One thread that a wait watches: woken by its row or its machine, it reads the thread whenever the row might hide an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use crate::fleet::{FleetError, Found, Member};
use crate::gateway::compose::{self, Scene};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::memory::ThreadKey;
use crate::gateway::verdict::{Aim, For, Verdict, verdict};
use crate::gateway::view::ThreadView;
use crate::gateway::{Caller, Gateway, text, thread};
use crate::lifecycle::{RunState, ThreadState, observe_run};
use crate::machine::{MachineError, Thread, ThreadRow};
use crate::protocol::RunId;

/// How long after a read that failed for want of an answer the next one is tried, where nothing else wakes.
const RETRY: Duration = Duration::from_secs(2);

/// How many runs an error lists.
const RUNS_LISTED: usize = 5;

/// What a wait has to tell: about a run, or about the thread.
#[derive(Clone, Debug)]
enum Told {
    Run(RunId),
    Thread,
}

/// A thread that a wait watches. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    pub(super) found: Found,
    aim: Aim,
    changes: watch::Receiver<u64>,
    last: Option<Arc<Thread>>,
    done: Option<Told>,
    /// Why it cannot be waited for.
    failed: Option<ToolError>,
    waits_for: For,
    /// It was looked at once, whatever that showed.
    looked: bool,
    unlooked: &'a AtomicUsize,
    /// Since when the machine has answered no look, where its connection does not show that it is away.
    silent_since: Option<Timestamp>,
    /// A look is owed: the row changed since the last one, or none was made.
    owed: bool,
}

impl<'a> Watched<'a> {
    /// Counts itself among `unlooked` until its first look is over.
    pub(super) fn new(
        gateway: &'a Gateway,
        caller: &'a Caller,
        found: Found,
        run: Option<RunId>,
        quiet: bool,
        unlooked: &'a AtomicUsize,
    ) -> Self {
        unlooked.fetch_add(1, Ordering::Relaxed);
        let dispatched = gateway
            .memory
            .dispatched(&caller.client, &key(&found))
            .filter(|dispatched| !dispatched.told)
            .map(|dispatched| dispatched.message);
        Self {
            changes: found.member.machine.watch_thread(&found.id),
            gateway,
            caller,
            aim: Aim { run, dispatched, quiet },
            found,
            last: None,
            done: None,
            failed: None,
            waits_for: For::default(),
            looked: false,
            unlooked,
            silent_since: None,
            owed: true,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some() || self.failed.is_some()
    }

    /// Why it cannot be waited for.
    pub(super) fn failure(&self) -> Option<&ToolError> {
        self.failed.as_ref()
    }

    /// Returns when there is something to tell. May be dropped and called again at any time.
    pub(super) async fn until_done(&mut self) {
        while !self.is_done() {
            let (gateway, member) = (self.gateway, Arc::clone(&self.found.member));
            tokio::select! {
                biased;
                () = taken_away(gateway, &member) => {
                    self.failed = Some(self.not_there());
                    self.handle_looked();
                }
                () = self.step() => {}
            }
        }
    }

    fn not_there(&self) -> ToolError {
        let id = self.found.id.clone();
        let unpaired = Vec::new();
        FleetError::ThreadNotFound { id, unpaired }.into()
    }

    /// Waits for the next change, and looks.
    async fn step(&mut self) {
        if !self.owed {
            self.change().await;
            self.owed = true;
        }
        // Marked before the read: a change during it wakes again.
        self.changes.mark_unchanged();
        let asked = Timestamp::now();
        let seen = self.look().await;
        match &seen {
            Err(error) if is_away(error) => _ = self.silent_since.get_or_insert(asked),
            Ok(_) | Err(_) => self.silent_since = None,
        }
        self.handle_looked();
        match seen {
            Ok(Verdict::Done(run)) => self.done = Some(run.map_or(Told::Thread, Told::Run)),
            Ok(Verdict::Waits(waits_for)) => {
                self.waits_for = waits_for;
                self.owed = false;
            }
            Ok(Verdict::NoSuchRun | Verdict::NotInThisPart) => self.failed = Some(self.no_such_run()),
            Err(error) if is_away(&error) => self.pause().await,
            Err(error) => self.failed = Some(ToolError::from_machine(self.found.member.name(), &error)),
        }
    }

    fn handle_looked(&mut self) {
        if !self.looked {
            self.looked = true;
            self.unlooked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the thread still exists for the caller: its project may have been renamed or removed, or the thread moved, meanwhile.
    pub(super) fn judge_again(&mut self) {
        let project = self
            .row()
            .map_or_else(|| self.found.project.id.clone(), |row| row.project.clone());
        if let Some(project) = self.found.member.project(&self.caller.limits, &project) {
            self.found.project = project;
        } else {
            self.failed = Some(self.not_there());
        }
    }

    /// What the caller is told of this thread.
    pub(super) fn view(&self) -> ThreadView {
        let member = &self.found.member;
        let scene = Scene {
            machine: member.name(),
            project: &self.found.project.title,
            turns: usize::try_from(thread::TURNS).unwrap_or(1),
            now: Timestamp::now(),
            ceiling: member.ceiling(&self.caller.limits),
            unreachable_since: self.unreachable_since(),
            run: self.told_run(),
        };
        match (&self.last, self.row()) {
            (Some(thread), Some(row)) if self.done.is_none() && row.sequence > thread.sequence => {
                let mut view = compose::view(&scene, &self.gateway.standing(member, thread));
                // The row is newer than the read and shows that it goes on.
                compose::state_of_row(&row).as_str().clone_into(&mut view.state);
                view
            }
            (Some(thread), _) => compose::view(&scene, &self.gateway.standing(member, thread)),
            (None, Some(row)) => compose::view_of_row(&scene, &row),
            (None, None) => ThreadView {
                thread_id: self.found.id.to_string(),
                machine: member.name().to_owned(),
                project: self.found.project.title.clone(),
                state: ThreadState::Running.as_str().to_owned(),
                last_activity_at: scene.now.to_string(),
                unreachable_since: scene.unreachable_since.map(|at| at.to_string()),
                ..ThreadView::default()
            },
        }
    }

    /// State and last activity, in a few words.
    pub(super) fn activity(&self) -> String {
        let Some(row) = self.row() else {
            return "waiting for the thread to show".to_owned();
        };
        let state = compose::state_of_row(&row);
        let ago = Timestamp::now().duration_since(row.updated_at).as_secs().max(0);
        match self.unreachable_since() {
            Some(since) => format!("{} unreachable since {since}", self.found.member.name()),
            None => format!("{}, last activity {ago} s ago", state.as_str()),
        }
    }

    /// The caller is told what came of its dispatch: if that is an end, its next wait is about what comes after.
    pub(super) fn tell(&self) {
        if let (true, Some(message)) = (self.ended(), &self.aim.dispatched) {
            self.gateway
                .memory
                .told(&self.caller.client, &key(&self.found), message);
        }
    }

    fn unreachable_since(&self) -> Option<Timestamp> {
        let status = self.found.member.machine.status();
        status.unreachable_since.or(self.silent_since)
    }

    fn told_run(&self) -> Option<&RunId> {
        match &self.done {
            Some(Told::Run(run)) => Some(run),
            Some(Told::Thread) | None => None,
        }
    }

    fn ended(&self) -> bool {
        let (Some(run), Some(thread)) = (self.told_run(), &self.last) else {
            return false;
        };
        let standing = self.gateway.standing(&self.found.member, thread);
        standing.run(run).is_some_and(|run| standing.run_state(run).is_ended())
    }

    async fn look(&mut self) -> Result<Verdict, MachineError> {
        if self.row().is_some_and(|row| self.surely_busy(&row)) {
            return Ok(Verdict::Waits(self.waits_for.clone()));
        }
        let machine = &self.found.member.machine;
        let mut thread = self.gateway.read_and_show(&self.found.member, &self.found.id).await?;
        let mut said = verdict(&self.gateway.standing(&self.found.member, &thread), &self.aim);
        if said == Verdict::NotInThisPart {
            thread = machine.read_whole_thread(&self.found.id).await?;
            said = verdict(&self.gateway.standing(&self.found.member, &thread), &self.aim);
        }
        self.last = Some(thread);
        Ok(said)
    }

    /// The row alone shows that what is waited for is at work.
    fn surely_busy(&self, row: &ThreadRow) -> bool {
        let works = |word: &str| match RunState::INITIAL.on(observe_run(word)).to.thread() {
            Some(ThreadState::Running | ThreadState::Starting) => true,
            Some(_) | None => false,
        };
        let counts = match &self.waits_for {
            For::Run(run) => row.active_run.as_ref() == Some(run),
            For::Thread => row.active_run.is_some(),
            For::Unseen => false,
        };
        counts && row.pending.is_none() && row.activity.as_deref().is_some_and(works)
    }

    fn no_such_run(&self) -> ToolError {
        let runs: Vec<String> = self
            .last
            .iter()
            .flat_map(|thread| thread.facts.runs.iter().rev().take(RUNS_LISTED))
            .map(|run| run.id.to_string())
            .collect();
        let run = self.aim.run.as_ref().map(ToString::to_string).unwrap_or_default();
        ToolError::new(
            ErrorCode::InvalidRequest,
            format!("The thread {} has no run `{}`.", self.found.id, text::quoted(&run)),
        )
        .listing("Its newest runs", &runs)
    }

    fn row(&self) -> Option<Arc<ThreadRow>> {
        self.found.member.machine.thread(&self.found.id)
    }

    async fn change(&mut self) {
        // A run that stays in `finishing` ends by the clock, and nothing wakes for that.
        let clock = self.gateway.settings.finish_timeout.max(Duration::from_millis(100));
        let finishing = self
            .row()
            .is_some_and(|row| compose::state_of_row(&row) == ThreadState::Finishing);
        tokio::select! {
            changed = self.changes.changed() => {
                if changed.is_err() {
                    // The watcher is gone with its machine: watch anew.
                    self.changes = self.found.member.machine.watch_thread(&self.found.id);
                    tokio::time::sleep(RETRY).await;
                }
            }
            () = tokio::time::sleep(clock), if finishing => {}
        }
    }

    async fn pause(&mut self) {
        tokio::select! {
            _ = self.changes.changed() => {}
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// The machine was unpaired: it and its threads do not exist any more. A gateway that stops is no reason to say so.
async fn taken_away(gateway: &Gateway, member: &Arc<Member>) {
    member.gone().await;
    let members = gateway.fleet.members();
    if members.iter().any(|other| Arc::ptr_eq(other, member)) {
        std::future::pending::<()>().await;
    }
}

/// The thread's key in memory.
pub(super) fn key(found: &Found) -> ThreadKey {
    (found.member.name().to_owned(), found.id.clone())
}

/// The machine does not answer, which a wait outlasts.
fn is_away(error: &MachineError) -> bool {
    match error {
        // Something else answers where T3 should: a proxy while T3 restarts.
        MachineError::Unreachable { .. }
        | MachineError::Timeout(_)
        | MachineError::AnswerLost { .. }
        | MachineError::NotT3 { .. } => true,
        MachineError::Rejected { .. }
        | MachineError::Defect { .. }
        | MachineError::ThreadNotFound
        | MachineError::NeedsPairing { .. }
        | MachineError::InsufficientScope { .. }
        | MachineError::ProtocolUnsupported { .. }
        | MachineError::Decode(_)
        | MachineError::NeedsNewer(_)
        | MachineError::Unsafe(_) => false,
    }
}
