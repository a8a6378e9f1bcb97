//! Whether T3 may show more in a moment of the end that a thread shows.

use jiff::{SignedDuration, Timestamp};

use super::memory::Memory;
use super::session::Session;
use super::turns::{CHECKPOINT, Served};
use crate::lifecycle::RunObservation;
use crate::lifecycle::protocol_1::observe_run;
use crate::protocol::{ThreadId, v1};

/// How long after the end of a turn its checkpoint is waited for.
const SETTLES_WITHIN: SignedDuration = SignedDuration::from_secs(1);
/// An end no longer ago than this is news.
const ENDED_LATELY: SignedDuration = SignedDuration::from_secs(3);

/// The newest turn has just ended, and its checkpoint may still come: it tells what was changed, and that the turn was stopped where nothing else
/// does. Where no turn before left one, none comes.
pub(super) fn is_settling(
    thread: &v1::Thread,
    session: &Session,
    served: &Served,
    memory: &Memory,
    now: Timestamp,
) -> bool {
    let Some(newest) = &session.newest else { return false };
    let Some(run) = served.of_turn(&newest.id) else {
        return false;
    };
    let before = memory.last_read(&ThreadId(thread.id.0.clone()));
    let is_over = match observe_run(&newest.state) {
        RunObservation::Completed => run.completed_at.is_some() && !session.died,
        _ => false,
    };
    if !is_over {
        return false;
    }
    let was_at_work = before.is_some_and(|before| {
        let mut runs = before.runs.iter();
        runs.any(|known| known.id == run.id && known.completed_at.is_none())
    });
    let ended_at = newest.ended_at.unwrap_or(now);
    let lately = was_at_work || now.duration_since(ended_at).abs() < ENDED_LATELY;
    let since = memory.ended_since(&newest.id, lately, now);
    let captured = thread.activities.iter().any(|activity| {
        let of_it = activity.turn_id.as_ref().is_some_and(|turn| turn.0 == newest.id);
        activity.kind == CHECKPOINT && of_it
    });
    let leaves_any = !thread.checkpoints.is_empty() || served.runs.len() == 1;
    leaves_any && !captured && since.is_some_and(|since| now.duration_since(since) < SETTLES_WITHIN)
}
