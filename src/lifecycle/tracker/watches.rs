//! Whom each run is reported to: the message that made, steered or moved into it decides, else the run that it continues, else
//! what the thread's last message asked for.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::{EventKind, ReadFacts, Reason, RunKey, Started, Told, Tracker, UNWATCHED, later};
use crate::lifecycle::{Dispatched, RunFacts, RunState, TrackedThread, Watch};
use crate::protocol::{MessageId, RunId};

/// How long after it was sent a message that T3 took may be missing from the thread: reads and writes may overtake each other.
pub(super) const LOST_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// A message of ours that speaks for a run.
struct Claim {
    run: RunId,
    message: MessageId,
    watch: Watch,
    /// When it was sent, if the message was not in a run before.
    sent: Option<Timestamp>,
}

/// What decides about the runs that nobody dispatched, in time.
enum Moment<'a> {
    /// A message of ours was sent.
    Sent(&'a Claim),
    /// Somebody else asked for a run.
    Asked(&'a RunFacts),
}

impl Tracker {
    /// Gives each run the watch that the read says it has.
    pub(super) fn assign_watches(&mut self, read: &ReadFacts<'_>, fresh: &[RunId]) {
        let claims = in_order(self.claims(read), read);
        let fact = |id: &RunId| read.facts.runs.iter().find(|fact| fact.id == *id);
        // The one that came last decides.
        for claim in &claims {
            self.grant(claim);
        }
        // The others take what the thread's last message before them asked for. A message that made a run came no later than it.
        let mut moments: Vec<(Timestamp, Moment<'_>)> = Vec::new();
        for claim in &claims {
            let made = fresh.contains(&claim.run) && is_first(claim, &claims);
            let asked = fact(&claim.run).filter(|_| made).map(|fact| fact.requested_at);
            if let Some(sent) = claim.sent {
                moments.push((asked.map_or(sent, |asked| asked.max(sent)), Moment::Sent(claim)));
            }
        }
        for id in fresh {
            let is_claimed = claims.iter().any(|claim| claim.run == *id);
            if let Some(fact) = fact(id).filter(|_| !is_claimed) {
                moments.push((fact.requested_at, Moment::Asked(fact)));
            }
        }
        moments.sort_by_key(|(at, _)| *at);
        for (_, moment) in moments {
            match moment {
                Moment::Sent(claim) => self.thread.latest = claim.watch.clone(),
                Moment::Asked(fact) => self.inherit(fact),
            }
        }
    }

    /// The messages of ours that are found in another run than before, or in a run for the first time, oldest first.
    fn claims(&mut self, read: &ReadFacts<'_>) -> Vec<Claim> {
        let owner: HashMap<&MessageId, &RunId> = owned(read).collect();
        let tracked = |id: &RunId| self.thread.runs.iter().any(|run| run.id == *id);
        let owner = |message: &MessageId| owner.get(message).copied().filter(|id| tracked(id)).cloned();
        let mut claims = Vec::new();
        for run in &self.thread.runs {
            if let Some(message) = &run.message
                && let Some(into) = owner(message)
                && into != run.id
            {
                claims.push(Claim {
                    run: into,
                    message: message.clone(),
                    watch: run.watch.clone(),
                    sent: None,
                });
            }
        }
        let mut found: Vec<Claim> = Vec::new();
        for sent in &self.thread.dispatched {
            if let Some(run) = owner(&sent.message) {
                found.push(Claim {
                    run,
                    message: sent.message.clone(),
                    watch: sent.watch.clone(),
                    sent: Some(sent.at),
                });
            }
        }
        found.sort_by_key(|claim| claim.sent);
        claims.extend(found);
        // A message speaks once for the run that it is found in.
        for claim in &claims {
            self.thread.dispatched.retain(|sent| sent.message != claim.message);
            for run in &mut self.thread.runs {
                if run.message.as_ref() == Some(&claim.message) {
                    run.message = None;
                }
            }
        }
        claims
    }

    /// The run is reported as the message wants.
    fn grant(&mut self, claim: &Claim) {
        let every = self.thread.every;
        let Some(run) = self.thread.runs.iter_mut().find(|run| run.id == claim.run) else {
            return;
        };
        run.watch = watched(claim.watch.clone(), every);
        run.message = Some(claim.message.clone());
        if claim.sent.is_some() {
            self.started.push_back(Started {
                message: claim.message.clone(),
                run: RunKey {
                    id: run.id.clone(),
                    requested_at: run.requested_at,
                },
            });
        }
    }

    /// A run that nobody dispatched takes what the one had that it continues, or what the thread's last message asked for.
    fn inherit(&mut self, fact: &RunFacts) {
        let continued = fact.continuation_of.as_ref();
        let before = continued.and_then(|before| self.thread.runs.iter().find(|run| run.id == *before));
        let watch = before.map_or(&self.thread.latest, |before| &before.watch).clone();
        let watch = watched(watch, self.thread.every);
        if let Some(run) = self.thread.runs.iter_mut().find(|run| run.id == fact.id) {
            run.watch = watch;
        }
    }

    /// Switches everything that is still to come on or off.
    pub(super) fn switch(&mut self, enabled: bool, watch: Watch) {
        self.thread.every = enabled;
        let runs = self.thread.runs.iter_mut().map(|run| &mut run.watch);
        let sent = self.thread.dispatched.iter_mut().map(|sent| &mut sent.watch);
        for known in runs.chain(sent).filter(|known| known.on != enabled) {
            if enabled {
                *known = Watch {
                    on: true,
                    ..watch.clone()
                };
            } else {
                known.on = false;
            }
        }
        self.thread.latest = if enabled {
            Watch { on: true, ..watch }
        } else {
            UNWATCHED
        };
    }

    /// Nothing will ever come of the thread.
    pub(super) fn forget_wishes(&mut self) {
        self.thread.every = false;
        self.thread.latest = UNWATCHED;
    }

    /// Ends the wait for messages that T3 took and that the thread as a whole lacks.
    pub(super) fn miss_messages(&mut self, read: &ReadFacts<'_>, now: Timestamp) {
        if !read.partial {
            let is_lost = |sent: &Dispatched| is_missed(sent, read, now);
            self.lose_messages(is_lost, Reason::Gone, now);
        }
    }

    /// Tells of messages whose runs can no longer be seen.
    pub(super) fn lose_messages(&mut self, is_lost: impl Fn(&Dispatched) -> bool, reason: Reason, now: Timestamp) {
        let (lost, kept) = std::mem::take(&mut self.thread.dispatched)
            .into_iter()
            .partition(is_lost);
        self.thread.dispatched = kept;
        let lost: Vec<Dispatched> = lost;
        self.told
            .extend(lost.into_iter().filter(|sent| sent.watch.on).map(|sent| Told {
                kind: EventKind::Interrupted,
                run: None,
                request: None,
                message: Some(sent.message),
                away_since: None,
                state: match reason {
                    Reason::Gone => RunState::Gone.as_str(),
                    Reason::NotVisible => RunState::NotVisible.as_str(),
                },
                watch: sent.watch,
                at: now,
                reason: Some(reason),
                unconfirmed: false,
                continues_in: None,
            }));
    }
}

/// Claims in the order in which they came: as the message was sent or, if it was moved, as the run ended that it came from. The clocks are
/// two, so T3's word goes before: it names the message that was moved into a run or steered it last, but for those that its agent took into
/// the running turn.
fn in_order(mut claims: Vec<Claim>, read: &ReadFacts<'_>) -> Vec<Claim> {
    let runs = &read.facts.runs;
    let is_named = |claim: &Claim| {
        let mut named = runs.iter().filter(|fact| fact.id == claim.run);
        named.any(|fact| fact.user_message == claim.message)
    };
    let named_steers = claims.iter().filter(|claim| is_named(claim));
    let named_steers: HashMap<RunId, Timestamp> = named_steers
        .filter_map(|claim| claim.sent.map(|sent| (claim.run.clone(), sent)))
        .collect();
    claims.sort_by_cached_key(|claim| {
        let is_origin =
            |from: &&RunFacts| from.promoted_into.as_ref() == Some(&claim.run) && from.user_message == claim.message;
        let origin = runs.iter().find(is_origin);
        let is_moved = claim.sent.is_none() || origin.is_some();
        let moved_at = origin.and_then(|from| from.completed_at);
        let named = is_named(claim);
        let came = match (moved_at, named_steers.get(&claim.run)) {
            (Some(moved_at), Some(steered_at)) if !named => Some(moved_at.min(*steered_at)),
            (moved_at, _) => moved_at.or(claim.sent),
        };
        (is_moved && named, came, !is_moved)
    });
    claims
}

/// Of the messages of ours in its run, it was sent first.
fn is_first(claim: &Claim, claims: &[Claim]) -> bool {
    let of_run = claims.iter().filter(|other| other.run == claim.run);
    of_run.filter_map(|other| other.sent).min() == claim.sent
}

/// A watch where every run of the thread may be watched.
fn watched(watch: Watch, every: bool) -> Watch {
    Watch {
        on: watch.on || every,
        ..watch
    }
}

/// Messages and the runs that they belong to.
fn owned<'a>(read: &ReadFacts<'a>) -> impl Iterator<Item = (&'a MessageId, &'a RunId)> {
    let messages = read.messages.iter();
    messages.filter_map(|(message, run)| run.as_ref().map(|run| (message, run)))
}

/// The runs that messages of ours are in whose runs were not seen yet.
pub(super) fn owners(read: &ReadFacts<'_>, thread: &TrackedThread) -> HashSet<RunId> {
    let ours = |message: &MessageId| thread.dispatched.iter().any(|sent| sent.message == *message);
    let found = owned(read).filter(|(message, _)| ours(message));
    found.map(|(_, run)| run.clone()).collect()
}

/// T3 took the message long ago, and the read lacks it.
fn is_missed(sent: &Dispatched, read: &ReadFacts<'_>, now: Timestamp) -> bool {
    let is_there = || read.messages.iter().any(|(message, _)| *message == sent.message);
    sent.settled && later(sent.at, LOST_AFTER) <= now && !is_there()
}

/// The read lacks a message that T3 took long ago.
pub(super) fn misses_any(thread: &TrackedThread, read: &ReadFacts<'_>, now: Timestamp) -> bool {
    thread.dispatched.iter().any(|sent| is_missed(sent, read, now))
}
