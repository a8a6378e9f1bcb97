//! What became of each turn: which message it serves, and how it ended.
//!
//! A message begins a turn, or is merged into the one at work. Only the newest turn has a state, and an interrupted one may be shown as
//! completed, so an end is told by, in this order: what we stopped or saw interrupted, an answer that cancelled, a checkpoint that is missing, an error, and whether
//! the agent said anything at all. An end without an answer is never a success. Pure, but for what [`Memory`] adds.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::memory::Memory;
use super::session::Session;
use super::settling::is_settling;
use super::{BadTime, CANCEL, maybe_time, time};
use crate::lifecycle::protocol_1::observe_run;
use crate::lifecycle::{RunFacts, RunObservation};
use crate::protocol::{MessageId, RunId, ThreadId, v1};

/// How long T3 itself takes a message that no turn has taken for one that waits.
const WAITS_FOR: SignedDuration = SignedDuration::from_mins(2);

/// The kind of the activity that tells of a checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint.captured";
/// How the kinds of activities begin that an agent is at work in.
const WORK: [&str; 3] = ["tool.", "approval.", "user-input."];
/// The kind of the activity that tells how an approval was decided.
const APPROVED: &str = "approval.resolved";

/// The runs of a thread and what belongs to them.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// In the order of their messages.
    pub(super) runs: Vec<RunFacts>,
    /// When each was asked for.
    asked_at: Vec<Timestamp>,
    /// The newest turn of each.
    began: Vec<Option<String>>,
    /// The turns of each run, by the run's place.
    turns: HashMap<String, usize>,
    /// The run that each user message began or was merged into.
    of_message: HashMap<String, RunId>,
    /// The agent of the newest run ended its turn by itself and had said nothing.
    pub(super) silent: bool,
    /// The newest turn died with an earlier server process.
    pub(super) orphaned: bool,
}

impl Served {
    /// The run of a turn.
    pub(super) fn of_turn(&self, turn: &str) -> Option<&RunFacts> {
        self.turns.get(turn).and_then(|place| self.runs.get(*place))
    }

    /// The turn is the one that works for its run.
    pub(super) fn works(&self, turn: &str) -> bool {
        let place = self.turns.get(turn).copied();
        place.is_some_and(|place| {
            let status = self.runs.get(place).map(|run| run.status.as_str());
            let began = self.began.get(place).and_then(Option::as_deref);
            status == Some(RunObservation::Running.name()) && began == Some(turn)
        })
    }

    /// The run of a user message.
    pub(super) fn of_message(&self, message: &str) -> Option<RunId> {
        self.of_message.get(message).cloned()
    }

    /// The run of what the agent said in a turn at a time: T3 moves a message of a stopped turn to the next one, which had not been
    /// asked for when it was said.
    pub(super) fn of_answer(&self, turn: Option<&str>, at: Timestamp) -> Option<RunId> {
        let place = self.place_of_answer(turn, at)?;
        self.runs.get(place).map(|run| run.id.clone())
    }

    fn place_of_answer(&self, turn: Option<&str>, at: Timestamp) -> Option<usize> {
        let asked_before = |place: &usize| self.asked_at.get(*place).is_some_and(|asked| *asked <= at);
        let own = turn.and_then(|turn| self.turns.get(turn)).copied().filter(asked_before);
        own.or_else(|| (0..self.asked_at.len()).rev().find(asked_before))
    }

    /// Finds which message began which turn. The messages that began a run of their own, by their place, each with its turn.
    fn serve<'a>(&mut self, asked: &[Asked], turns: &Turns<'a>, session: &Session) -> Vec<(usize, Option<&'a str>)> {
        let mut owned: Vec<(usize, Option<&str>)> = Vec::new();
        for (place, message) in asked.iter().enumerate() {
            let until = asked.get(place + 1).map(|next| next.at);
            let within = |at: Timestamp| at >= message.at && until.is_none_or(|until| at < until);
            let mut own: Vec<(&str, Timestamp)> = turns
                .first
                .iter()
                .filter(|(_, at)| within(**at))
                .map(|(turn, at)| (*turn, *at))
                .collect();
            // Of those that were first heard of at one time, as where an answer moved to a later turn, the one that was over first began here.
            own.sort_by_key(|(turn, at)| (*at, Reverse(turns.last.get(turn).copied()), *turn));
            let began = own.last().map(|(turn, _)| *turn);
            let before = owned.iter().rev().find_map(|(_, turn)| *turn);
            let merged = began.is_none()
                && before.is_some_and(|turn| {
                    let at_work_then = turns.acted.get(turn).is_some_and(|acted| *acted > message.at);
                    at_work_then || session.is_at_work(turn)
                });
            if !merged {
                owned.push((place, began));
                self.asked_at.push(message.at);
                self.began.push(began.map(str::to_owned));
            }
            let run = owned.last().and_then(|(place, _)| asked.get(*place));
            if let Some(run) = run {
                self.of_message.insert(message.id.0.clone(), RunId(run.id.0.clone()));
            }
            let place = owned.len().saturating_sub(1);
            for (turn, _) in own {
                self.turns.insert(turn.to_owned(), place);
            }
        }
        owned
    }
}

/// The status of a run for T3's word of its newest turn.
pub(super) fn word(state: &str) -> &'static str {
    observe_run(state).name()
}

/// A user message.
struct Asked {
    id: MessageId,
    at: Timestamp,
}

/// What is known of the turns apart from how they ended.
struct Turns<'a> {
    /// When each turn was first heard of.
    first: HashMap<&'a str, Timestamp>,
    /// When each turn was last heard of.
    last: HashMap<&'a str, Timestamp>,
    /// When each turn's agent last did something. Its checkpoint comes later, and with it the time that T3 shows as its end; so may counts of
    /// tokens, and word of tasks that outlive it.
    acted: HashMap<&'a str, Timestamp>,
    /// Those whose checkpoint is missing, or that an answer cancelled.
    stopped: HashSet<&'a str>,
    /// Those whose checkpoint failed.
    failed: HashSet<&'a str>,
}

/// The runs of a thread, as it is shown now.
pub(super) fn runs(thread: &v1::Thread, memory: &Memory, now: Timestamp) -> Result<Served, BadTime> {
    let id = ThreadId(thread.id.0.clone());
    let asked = asked(thread)?;
    let turns = turns(thread, memory)?;
    let session = Session::of(thread.latest_turn.as_ref(), thread.session.as_ref(), memory)?;
    let sent_at = |message: &Asked| memory.sent_at(&message.id).unwrap_or(message.at);
    let start_failures = start_failures(thread)?;
    let mut served = Served::default();
    let owned = served.serve(&asked, &turns, &session);
    let answered = answered(thread, &served)?;
    for (index, (place, turn)) in owned.iter().enumerate() {
        let Some(message) = asked.get(*place) else { continue };
        let until = owned
            .get(index + 1)
            .and_then(|(next, _)| asked.get(*next))
            .map(|next| next.at);
        let within = |at: Timestamp| at >= message.at && until.is_none_or(|until| at < until);
        let run = RunId(message.id.0.clone());
        let stopped = memory.was_stopped(&id, &run, *turn) || turn.is_some_and(|turn| turns.stopped.contains(turn));
        let (status, ended_at) = match *turn {
            Some(turn) if session.newest.as_ref().is_some_and(|newest| newest.id == turn) => {
                let (status, ended_at) = session.outcome(turn, stopped, answered.contains(&index));
                if status != RunObservation::Running.name() {
                    memory.handle_end(turn, status);
                }
                (status, ended_at)
            }
            Some(turn) if !stopped && turns.first.get(turn).is_some_and(|first| session.works_behind(*first)) => {
                (RunObservation::Running.name(), None)
            }
            Some(turn) => {
                let status = match memory.end(turn) {
                    _ if stopped => "interrupted",
                    Some(known) => known,
                    None if turns.failed.contains(turn) => "failed",
                    None if answered.contains(&index) => "completed",
                    None => "interrupted",
                };
                // Its checkpoint may come after the next prompt; it was over by then all the same.
                let last = turns.last.get(turn).copied();
                (status, last.into_iter().chain(until).min())
            }
            None if start_failures.iter().any(|at| within(*at)) => {
                ("failed", start_failures.iter().copied().find(|at| within(*at)))
            }
            None if until.is_none() => {
                let waits = thread.archived_at.is_none() && now.duration_since(sent_at(message)) < WAITS_FOR;
                session.without_turn(message.at, stopped, thread.archived_at.is_some(), waits)
            }
            // It never ran: as one that was taken out of a queue.
            None => ("cancelled", until),
        };
        let began_at = turn.map(|_| message.at);
        served.runs.push(RunFacts {
            id: run,
            ordinal: u64::try_from(index + 1).unwrap_or(u64::MAX),
            status: status.to_owned(),
            requested_at: message.at,
            started_at: began_at.or((status == "failed" || status == "interrupted").then_some(message.at)),
            completed_at: ended_at,
            queue_held: false,
            queue_position: None,
            promoted_into: None,
            continuation_of: None,
            user_message: message.id.clone(),
        });
    }
    served.orphaned = session.orphaned_at.is_some();
    served.silent = served.runs.len().checked_sub(1).is_some_and(|last| {
        let turn = served.began.get(last).and_then(Option::as_deref);
        let newest = session
            .newest
            .as_ref()
            .filter(|newest| Some(newest.id.as_str()) == turn);
        let stopped = |turn: &str| turns.stopped.contains(turn) || memory.was_turn_stopped(turn);
        let run = served.runs.get(last);
        newest.is_some_and(|newest| {
            observe_run(&newest.state) == RunObservation::Completed && !session.died && !stopped(&newest.id)
        }) && run.is_some_and(|run| run.status == "interrupted" && !memory.was_stopped(&id, &run.id, turn))
    });
    memory.handle_settling(&id, is_settling(thread, &session, &served, memory, now));
    memory.handle_orphan(&id, served.orphaned);
    memory.handle_read(&id, &served.runs, owned.last().and_then(|(_, turn)| *turn));
    Ok(served)
}

fn asked(thread: &v1::Thread) -> Result<Vec<Asked>, BadTime> {
    let mut asked = Vec::new();
    for message in thread.messages.iter().filter(|message| message.role.as_str() == "user") {
        asked.push(Asked {
            id: MessageId(message.id.0.clone()),
            at: time("messages.createdAt", &message.created_at)?,
        });
    }
    asked.sort_by_key(|message| message.at);
    Ok(asked)
}

/// The places of the runs in which the agent said something, or proposed a plan.
fn answered(thread: &v1::Thread, served: &Served) -> Result<HashSet<usize>, BadTime> {
    let mut answered = HashSet::new();
    let said = |message: &&v1::Message| message.role.as_str() == "assistant" && !message.text.trim().is_empty();
    for message in thread.messages.iter().filter(said) {
        let at = time("messages.createdAt", &message.created_at)?;
        let turn = message.turn_id.as_ref().map(|turn| turn.0.as_str());
        answered.extend(served.place_of_answer(turn, at));
    }
    for plan in thread.proposed_plans.iter().flatten() {
        let at = time("proposedPlans.createdAt", &plan.created_at)?;
        let turn = plan.turn_id.as_ref().map(|turn| turn.0.as_str());
        answered.extend(served.place_of_answer(turn, at));
    }
    Ok(answered)
}

/// When a turn could not be started.
fn start_failures(thread: &v1::Thread) -> Result<Vec<Timestamp>, BadTime> {
    let failures = thread
        .activities
        .iter()
        .filter(|activity| activity.kind == "provider.turn.start.failed");
    failures
        .map(|activity| time("activities.createdAt", &activity.created_at))
        .collect()
}

fn turns<'a>(thread: &'a v1::Thread, memory: &Memory) -> Result<Turns<'a>, BadTime> {
    let mut turns = Turns {
        first: HashMap::new(),
        last: HashMap::new(),
        acted: HashMap::new(),
        stopped: HashSet::new(),
        failed: HashSet::new(),
    };
    let mut heard: Vec<(&str, Timestamp)> = Vec::new();
    let mut acted: Vec<(&str, Timestamp)> = Vec::new();
    for activity in &thread.activities {
        let Some(turn) = &activity.turn_id else { continue };
        let at = time("activities.createdAt", &activity.created_at)?;
        heard.push((&turn.0, at));
        if WORK.iter().any(|work| activity.kind.starts_with(work)) {
            acted.push((&turn.0, at));
        }
        let says = |field: &str, word: &str| activity.payload.get(field).and_then(Value::as_str) == Some(word);
        // Whoever cancelled it, and whether or not anybody remembers.
        if activity.kind == CHECKPOINT && says("status", "missing")
            || activity.kind == APPROVED && says("decision", CANCEL)
        {
            turns.stopped.insert(&turn.0);
        }
    }
    for checkpoint in &thread.checkpoints {
        heard.push((
            &checkpoint.turn_id.0,
            time("checkpoints.completedAt", &checkpoint.completed_at)?,
        ));
        if checkpoint.status.as_str() == "error" {
            turns.failed.insert(&checkpoint.turn_id.0);
        }
    }
    for message in &thread.messages {
        if let Some(turn) = &message.turn_id {
            let at = time("messages.createdAt", &message.created_at)?;
            heard.push((&turn.0, at));
            acted.push((&turn.0, at));
        }
    }
    for (turn, at) in acted {
        let last = turns.acted.entry(turn).or_insert(at);
        *last = at.max(*last);
    }
    for (turn, at) in heard {
        let first = turns.first.entry(turn).or_insert(at);
        *first = at.min(*first);
        let last = turns.last.entry(turn).or_insert(at);
        *last = at.max(*last);
    }
    if let Some(newest) = &thread.latest_turn {
        let requested_at = time("latestTurn.requestedAt", &newest.requested_at)?;
        memory.handle_requested(&newest.turn_id.0, requested_at);
        let ended_at = maybe_time("latestTurn.completedAt", newest.completed_at.as_ref())?;
        let last = turns.last.entry(&newest.turn_id.0).or_insert(requested_at);
        *last = (*last).max(ended_at.unwrap_or(requested_at));
        turns.first.insert(&newest.turn_id.0, requested_at);
        if newest.state.as_str() == "interrupted" {
            memory.handle_turn_stopped(&newest.turn_id.0);
        }
    }
    // When a turn was asked for is better than when it was first heard of: messages move between turns.
    for (turn, first) in &mut turns.first {
        if let Some(requested_at) = memory.requested_at(turn) {
            *first = requested_at;
        }
    }
    Ok(turns)
}
