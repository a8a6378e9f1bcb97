//! A call that is done elsewhere: passed on to the owner of the state directory, and to the next owner when that one dies.
//!
//! What may be repeated is; what may not, and was under way when its owner died, is answered as what it is: unknown. When this process
//! becomes the owner meanwhile, the call is done here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// How long a call waits for an owner. Another process takes over within a second.
const PATIENCE: Duration = Duration::from_secs(10);

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
pub(super) enum Forwarded<'a> {
    /// It is answered.
    Done(CallToolResult),
    /// This process is the owner by now: the call is to be done here.
    Here(Arc<Gateway>, Request<'a>),
}

/// Passes a call on until it is answered.
pub(super) async fn forward<'a>(
    mut place: watch::Receiver<Place>,
    route: &Route,
    request: Request<'a>,
) -> Forwarded<'a> {
    let parts = request.context.extensions.get::<Parts>();
    let fate = parts.and_then(|parts| parts.extensions.get::<Fate>()).cloned();
    let caller = match caller::caller(parts, request.stdio_origin, Delivery::default()) {
        Ok(caller) => caller,
        Err(error) => return Forwarded::Done(errors::failed(&error)),
    };
    if let (Some(fate), Effect::Changes) = (&fate, route.effect) {
        // The owner is told what became of the answer, so it has to be known.
        fate.delivery().ask_to_be_sure();
    }
    let driver = Driver {
        route,
        request: &request,
        caller: &caller,
        fate: fate.as_ref(),
        begun: Instant::now(),
        beats: AtomicU64::new(0),
    };
    let gateway = match driver.drive(&mut place).await {
        Driven::Done(result) => return Forwarded::Done(result),
        Driven::Here(gateway) => gateway,
    };
    let under_way = driver.begun.elapsed();
    Forwarded::Here(gateway, Request { under_way, ..request })
}

/// One call on its way.
struct Driver<'a> {
    route: &'a Route,
    request: &'a Request<'a>,
    caller: &'a Caller,
    fate: Option<&'a Fate>,
    begun: Instant,
    /// Heartbeats so far: a later owner counts from the beginning again.
    beats: AtomicU64,
}

enum Driven {
    Done(CallToolResult),
    Here(Arc<Gateway>),
}

impl Driver<'_> {
    async fn drive(&self, place: &mut watch::Receiver<Place>) -> Driven {
        let mut alone_since = None;
        let mut in_haste = false;
        loop {
            let owner = match &*place.borrow_and_update() {
                Place::Here(gateway) => return Driven::Here(Arc::clone(gateway)),
                Place::There(owner) => Arc::clone(owner),
            };
            in_haste |= owner.stop().is_cancelled();
            let answered = tokio::select! {
                biased;
                answered = self.ask(&owner, in_haste) => answered,
                // Whoever reads is not heard; what changes something goes on at the owner's.
                () = self.gone() => return failed(&errors::unheard(self.name())),
                // Told to stop, this process answers its waits first: it asks once more how things stand.
                () = owner.stop().cancelled(), if !in_haste && self.route.effect == Effect::Reads => continue,
            };
            let error = match answered {
                Ok((result, unheard)) => {
                    self.tell(&owner, unheard);
                    return Driven::Done(result);
                }
                Err(error) => error,
            };
            tracing::debug!(tool = self.name(), %error, "the owner of the state directory did not answer");
            let may_be_done = match &error {
                Unanswered::Nobody(_) => false,
                Unanswered::Refused(_) => return failed(&not_answered(self.name(), &error)),
                Unanswered::Broken(_) | Unanswered::Silent => self.route.again == Again::Never,
            };
            if may_be_done {
                return failed(&unknown(self.name(), &error));
            }
            let alone = *alone_since.get_or_insert_with(Instant::now);
            if matches!(error, Unanswered::Silent) || in_haste || alone.elapsed() > PATIENCE {
                return failed(&not_answered(self.name(), &error));
            }
            if !matches!(error, Unanswered::Nobody(_)) {
                // It was there a moment ago: the patience is for the next one.
                alone_since = None;
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
        let progress = token.map(|token| Progress::new(self.request.context.peer.clone(), token));
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
                progress.tell(self.beats.fetch_add(1, Ordering::Relaxed), message).await;
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

fn failed(error: &ToolError) -> Driven {
    Driven::Done(errors::failed(error))
}

/// It was sent, and whether it was done nobody knows.
fn unknown(tool: &str, error: &Unanswered) -> ToolError {
    ToolError::new(
        ErrorCode::OutcomeUnknown,
        format!("The process that keeps the gateway's ledger ended while {tool} was under way ({error}); whether it was done is not known."),
    )
    .hint("Look with t3_thread before you try again.")
}

/// It was not done.
fn not_answered(tool: &str, error: &Unanswered) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("{tool} was not answered by the process that keeps the gateway's ledger ({error})."),
    )
    .hint("Tell the operator: that process, or its socket in the state directory, does not work. Then call again.")
}
