//! The session of a thread's agent and the newest turn, the only one that T3 shows with a state: what they say of a run.

use jiff::{SignedDuration, Timestamp};

use super::memory::Memory;
use super::{BadTime, maybe_time, time};
use crate::lifecycle::RunObservation;
use crate::lifecycle::protocol_1::observe_run;
use crate::protocol::v1;

/// How long after the order to stop a session its end may be told: of a message that came meanwhile it says nothing.
const STOPS_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// The newest turn.
pub(super) struct Newest {
    pub(super) id: String,
    pub(super) state: String,
    requested_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

/// The session of the thread's agent, and the newest turn.
pub(super) struct Session {
    status: String,
    active: Option<String>,
    updated_at: Option<Timestamp>,
    pub(super) newest: Option<Newest>,
    /// When the process ended that the session died with, at the latest.
    pub(super) orphaned_at: Option<Timestamp>,
    /// The newest turn died with it, whatever the session does since.
    pub(super) died: bool,
}

impl Session {
    pub(super) fn of(
        newest: Option<&v1::LatestTurn>,
        session: Option<&v1::Session>,
        memory: &Memory,
    ) -> Result<Self, BadTime> {
        let newest = match newest {
            Some(turn) => Some(Newest {
                id: turn.turn_id.0.clone(),
                state: turn.state.as_str().to_owned(),
                requested_at: time("latestTurn.requestedAt", &turn.requested_at)?,
                ended_at: maybe_time("latestTurn.completedAt", turn.completed_at.as_ref())?,
            }),
            None => None,
        };
        let Some(session) = session else {
            return Ok(Self {
                status: String::new(),
                active: None,
                updated_at: None,
                newest,
                orphaned_at: None,
                died: false,
            });
        };
        let updated_at = time("session.updatedAt", &session.updated_at)?;
        let at_work = matches!(session.status.as_str(), "running" | "starting");
        let orphaned_at = memory
            .started_at()
            .filter(|started_at| at_work && updated_at < *started_at);
        let mut died = false;
        if let Some(newest) = &newest {
            if orphaned_at.is_some() && observe_run(&newest.state) == RunObservation::Running {
                memory.handle_died(&newest.id);
            }
            died = memory.died(&newest.id);
        }
        Ok(Self {
            status: session.status.as_str().to_owned(),
            active: session.active_turn_id.as_ref().map(|turn| turn.0.clone()),
            updated_at: Some(updated_at),
            newest,
            orphaned_at,
            died,
        })
    }

    pub(super) fn is_at_work(&self, turn: &str) -> bool {
        !self.died
            && self
                .newest
                .as_ref()
                .is_some_and(|newest| newest.id == turn && observe_run(&newest.state) == RunObservation::Running)
    }

    /// The agent is at work, and this turn was heard of after the one that is shown as the newest: it is just beginning, or one that T3 never shows
    /// as the newest, since it was begun while another worked.
    pub(super) fn works_behind(&self, first_heard: Timestamp) -> bool {
        let later = self
            .newest
            .as_ref()
            .is_none_or(|newest| newest.requested_at < first_heard);
        later && self.orphaned_at.is_none() && matches!(self.status.as_str(), "running" | "starting")
    }

    /// The status of the newest turn's run, and when it ended.
    pub(super) fn outcome(&self, turn: &str, stopped: bool, said: bool) -> (&'static str, Option<Timestamp>) {
        let Some(newest) = &self.newest else {
            return ("running", None);
        };
        let ended_at = newest.ended_at.or(self.updated_at);
        if self.died {
            return ("interrupted", self.orphaned_at.or(ended_at));
        }
        let still_works = self.status == "running" && self.active.as_deref() == Some(turn);
        match observe_run(&newest.state) {
            // A diff may complete it before its time, and one that is stopped is shown so while its agent still works on it: a message would be taken
            // into it, and be lost with it.
            RunObservation::Completed | RunObservation::Interrupted if still_works => ("running", None),
            RunObservation::Running => ("running", None),
            _ if stopped => ("interrupted", ended_at),
            RunObservation::Completed if !said => ("interrupted", ended_at),
            other => (other.name(), ended_at),
        }
    }

    /// The status of the newest message's run where no turn has taken it.
    pub(super) fn without_turn(
        &self,
        asked_at: Timestamp,
        stopped: bool,
        archived: bool,
        waits: bool,
    ) -> (&'static str, Option<Timestamp>) {
        let since = self.updated_at.filter(|at| *at >= asked_at);
        match (self.status.as_str(), since) {
            _ if self.orphaned_at.is_some_and(|at| asked_at < at) => ("interrupted", self.orphaned_at),
            ("error", Some(at)) if stopped => ("interrupted", Some(at)),
            ("error", Some(at)) => ("failed", Some(at)),
            // That of an earlier turn may be told late.
            ("stopped" | "interrupted", Some(at))
                if stopped || !waits || at.duration_since(asked_at) > STOPS_WITHIN =>
            {
                ("interrupted", Some(at))
            }
            ("starting" | "running", _) if !archived => ("starting", None),
            _ if waits => ("starting", None),
            // No turn ever took it.
            _ => ("cancelled", Some(asked_at)),
        }
    }
}
