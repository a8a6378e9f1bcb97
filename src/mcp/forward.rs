//! A call that is done elsewhere: passed on to the owner of the state directory, and to the next owner when that one dies.
//!
//! What may be repeated is; what may not, and was under way when its owner died, is answered as what it is: unknown. When this process
//! becomes the owner meanwhile, the call is done here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::request::Parts;
use rmcp::model::CallToolResult;
use tokio::sync::watch;

use crate::gateway::{Caller, Delivery, ErrorCode, Gateway, ToolError};
use crate::mcp::fate::Fate;
use crate::mcp::owner::{Owner, Passed, Unanswered, Unheard};
use crate::mcp::progress::Progress;
use crate::mcp::tool::{Again, Effect, Request, Route};
use crate::mcp::{caller, errors};

/// How long a call waits for an owner: longer than one that stops in order may keep the place. After a kill another takes over at once.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many owners may end over one call before it is given up: it may be what ends them.
const MOST_BROKEN: u32 = 3;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where calls are done.
#[derive(Clone, Debug)]
pub enum Place {
    /// By this process.
    Here(Arc<Gateway>),
    /// By the owner of the state directory.
    There(Arc<Owner>),
}

/// What became of a call that was passed on.
pub(super) enum Forwarded {
    /// It is answered.
    Done(Box<CallToolResult>),
    /// This process is the owner by now: the call is to be done here.
    Here(Arc<Gateway>),
}

/// In a result's `_meta`: the owner stops or hands over, and did nothing; the call is for the next one.
const MOVED_KEY: &str = "t3code-mcp/moved";

/// The answer of an owner that cannot see a call to its end.
pub(super) fn moved() -> CallToolResult {
    let error = ToolError::new(ErrorCode::Internal, "This process keeps the ledger no more.");
    let mut result = errors::failed(&error);
    result
        .meta
        .get_or_insert_default()
        .insert(MOVED_KEY.to_owned(), true.into());
    result
}

pub(super) fn is_moved(result: &CallToolResult) -> bool {
    result.meta.as_ref().is_some_and(|meta| meta.contains_key(MOVED_KEY))
}

/// Passes a call on until it is answered.
pub(super) async fn forward(
    mut place: watch::Receiver<Place>,
    route: &Route,
    request: &Request<'_>,
    begun: Instant,
) -> Forwarded {
    let parts = request.context.extensions.get::<Parts>();
    let fate = parts.and_then(|parts| parts.extensions.get::<Fate>()).cloned();
    let caller = match caller::caller(parts, request.stdio_origin, Delivery::default()) {
        Ok(caller) => caller,
        Err(error) => return failed(&error),
    };
    if let (Some(fate), Effect::Changes) = (&fate, route.effect) {
        // The owner is told what became of the answer, so it has to be known.
        fate.delivery().ask_to_be_sure();
    }
    let driver = Driver {
        route,
        request,
        caller: &caller,
        fate: fate.as_ref(),
        begun,
    };
    driver.drive(&mut place).await
}

/// One call on its way.
struct Driver<'a> {
    route: &'a Route,
    request: &'a Request<'a>,
    caller: &'a Caller,
    fate: Option<&'a Fate>,
    begun: Instant,
}

impl Driver<'_> {
    async fn drive(&self, place: &mut watch::Receiver<Place>) -> Forwarded {
        let mut so_far = SoFar {
            alone_since: Instant::now(),
            in_haste: false,
            broken: 0,
        };
        loop {
            let owner = match &*place.borrow_and_update() {
                Place::Here(gateway) => return Forwarded::Here(Arc::clone(gateway)),
                Place::There(owner) => Arc::clone(owner),
            };
            so_far.in_haste |= owner.stop().is_cancelled();
            let answered = tokio::select! {
                biased;
                answered = self.ask(&owner, so_far.in_haste) => answered,
                // Whoever reads is not heard; what changes something goes on at the owner's.
                () = self.gone() => return failed(&errors::unheard(self.name())),
                // Told to stop, this process answers its waits first: it asks once more how things stand.
                () = owner.stop().cancelled(), if !so_far.in_haste && self.route.effect == Effect::Reads => continue,
            };
            match answered {
                Ok((result, _)) if is_moved(&result) => so_far.alone_since = Instant::now(),
                Ok((result, unheard)) => {
                    self.tell(&owner, unheard);
                    return Forwarded::Done(Box::new(result));
                }
                Err(error) => {
                    tracing::debug!(tool = self.name(), %error, "the owner of the state directory did not answer");
                    match so_far.handle_unanswered(&error, self.route.again, Instant::now()) {
                        Next::Again => {}
                        Next::GivesUp if self.route.effect == Effect::Changes && so_far.broken > 0 => {
                            return failed(&unknown(self.name(), &error));
                        }
                        Next::GivesUp => return failed(&not_answered(self.name(), &error)),
                    }
                }
            }
            tokio::select! {
                _ = place.changed() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.gone() => return failed(&errors::unheard(self.name())),
            }
        }
    }

    async fn ask(&self, owner: &Owner, in_haste: bool) -> Result<(CallToolResult, Unheard), Unanswered> {
        let token = self.request.context.meta.get_progress_token();
        let progress = token.map(|token| Progress::new(self.request.context.peer.clone(), token, 0));
        let passed = Passed {
            tool: self.name(),
            arguments: &self.request.arguments,
            caller: self.caller,
            beats: progress.is_some(),
            under_way: if in_haste { Duration::MAX } else { self.begun.elapsed() },
        };
        let progress = progress.as_ref();
        let beat = |message: String| async move {
            if let Some(progress) = progress {
                progress
                    .tell(self.request.beats.fetch_add(1, Ordering::Relaxed), message)
                    .await;
            }
        };
        owner.call(&passed, beat).await
    }

    /// Nobody waits for the answer any more.
    async fn gone(&self) {
        let cancelled = &self.request.context.ct;
        match self.fate {
            Some(fate) => tokio::select! {
                () = cancelled.cancelled() => fate.withdraw(),
                () = fate.lost().cancelled() => {}
            },
            None => cancelled.cancelled().await,
        }
    }

    /// Tells the owner what becomes of the answer.
    fn tell(&self, owner: &Owner, unheard: Unheard) {
        match self.route.effect {
            Effect::Reads => {}
            Effect::Changes => {
                let fate = self.fate.cloned();
                owner.tasks().spawn(async move {
                    let heard = match fate {
                        Some(fate) => fate.settled().await,
                        // Over stdio the answer goes into the pipe right away.
                        None => true,
                    };
                    if heard {
                        unheard.heard().await;
                    }
                });
            }
        }
    }

    fn name(&self) -> &str {
        &self.route.tool.name
    }
}

/// What a call has met on its way.
struct SoFar {
    /// Since when no owner has been there.
    alone_since: Instant,
    /// This process is told to stop.
    in_haste: bool,
    /// How many owners were lost after the call was sent: it may have been done.
    broken: u32,
}

/// What becomes of a call without an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Again,
    GivesUp,
}

impl SoFar {
    fn handle_unanswered(&mut self, error: &Unanswered, again: Again, now: Instant) -> Next {
        let may_come = match error {
            Unanswered::Refused(_) => false,
            Unanswered::Nobody(_) => true,
            Unanswered::Broken(_) | Unanswered::Silent => {
                self.broken += 1;
                self.alone_since = now;
                // One that says nothing is still there: nobody takes its place.
                !matches!(error, Unanswered::Silent)
            }
        };
        let in_time = !self.in_haste && now.duration_since(self.alone_since) < PATIENCE && self.broken < MOST_BROKEN;
        let may_repeat = self.broken == 0 || again == Again::Freely;
        if may_come && in_time && may_repeat {
            Next::Again
        } else {
            Next::GivesUp
        }
    }
}

fn failed(error: &ToolError) -> Forwarded {
    Forwarded::Done(Box::new(errors::failed(error)))
}

/// It was sent, and whether it was done nobody knows.
fn unknown(tool: &str, error: &Unanswered) -> ToolError {
    ToolError::new(
        ErrorCode::OutcomeUnknown,
        format!(
            "The process that keeps the gateway's ledger was lost while {tool} was under way ({error}); whether it was done is not known."
        ),
    )
    .hint("Look with t3_thread before you try again; an equal t3_dispatch finds what this one started.")
}

/// It was not done.
fn not_answered(tool: &str, error: &Unanswered) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("{tool} was not answered by the process that keeps the gateway's ledger ({error})."),
    )
    .hint("Tell the operator: that process, or its socket in the state directory, does not work. Then call again.")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn so_far() -> SoFar {
        SoFar {
            alone_since: Instant::now(),
            in_haste: false,
            broken: 0,
        }
    }

    fn nobody() -> Unanswered {
        Unanswered::Nobody(io::ErrorKind::ConnectionRefused.into())
    }

    fn broken() -> Unanswered {
        Unanswered::Broken("reset".to_owned())
    }

    #[test]
    fn what_was_not_sent_is_sent_again_until_patience_ends() {
        let mut so_far = so_far();
        let begun = so_far.alone_since;
        assert_eq!(so_far.handle_unanswered(&nobody(), Again::Never, begun), Next::Again);
        let late = begun + PATIENCE;
        assert_eq!(so_far.handle_unanswered(&nobody(), Again::Freely, late), Next::GivesUp);
        assert_eq!(so_far.broken, 0, "it was not done");
    }

    #[test]
    fn what_may_have_been_done_is_repeated_only_where_that_does_no_harm_and_not_for_ever() {
        let now = Instant::now();
        assert_eq!(so_far().handle_unanswered(&broken(), Again::Never, now), Next::GivesUp);
        let mut so_far = so_far();
        for _ in 1..MOST_BROKEN {
            assert_eq!(so_far.handle_unanswered(&broken(), Again::Freely, now), Next::Again);
        }
        assert_eq!(so_far.handle_unanswered(&broken(), Again::Freely, now), Next::GivesUp);
    }

    #[test]
    fn a_refusal_after_a_loss_does_not_undo_that_it_may_have_been_done() {
        let (mut so_far, now) = (so_far(), Instant::now());
        so_far.handle_unanswered(&broken(), Again::Freely, now);
        let refused = Unanswered::Refused("no".to_owned());
        assert_eq!(so_far.handle_unanswered(&refused, Again::Freely, now), Next::GivesUp);
        assert_eq!(so_far.broken, 1);
    }

    #[test]
    fn who_is_silent_or_in_haste_is_not_waited_for() {
        let now = Instant::now();
        assert_eq!(
            so_far().handle_unanswered(&Unanswered::Silent, Again::Freely, now),
            Next::GivesUp
        );
        let mut in_haste = SoFar {
            in_haste: true,
            ..so_far()
        };
        assert_eq!(in_haste.handle_unanswered(&nobody(), Again::Freely, now), Next::GivesUp);
    }
}
