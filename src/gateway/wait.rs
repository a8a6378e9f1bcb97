//! `t3_wait`: waits for what the caller has to act on (an end, a question, an approval, a held queue), woken by T3's stream.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::{FutureExt, try_join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior};

use crate::gateway::progress::{ProgressSink, Tick};
use crate::gateway::view::ThreadView;
use crate::gateway::waiting::Watched;
use crate::gateway::words::Until;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, budget};
use crate::protocol::RunId;

/// What to wait for, and how long.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitArgs {
    /// The thread. Either this or `thread_ids`.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// A run of `thread_id`: wait for that one's end.
    #[serde(default)]
    pub run_id: Option<String>,
    /// Up to 50 threads to wait for together.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub thread_ids: Option<Vec<String>>,
    /// Seconds, 5-3600. Default 50, or 900 for a client that shows progress. When it runs out the work goes on: call again.
    #[serde(default)]
    #[schemars(range(min = 5, max = 3600))]
    pub timeout: Option<u64>,
    /// Of several threads: any (default) returns with the first that is done, all with the last.
    #[serde(default)]
    pub until: Option<Until>,
    /// Also wait for background work that a finished run left behind.
    #[serde(default)]
    pub quiet: Option<bool>,
}

/// The view of the thread, or of each of several, and how the wait ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WaitAnswer {
    /// The view of `thread_id`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadView>,
    /// The views of `thread_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadView>>,
    /// Which of `thread_ids` are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<String>>,
    /// Seconds that this call waited.
    pub waited: f64,
    /// The time ran out. Not an error.
    pub timed_out: bool,
    /// The work goes on: do not start it again, call `t3_wait` again or end your turn.
    pub still_running: bool,
    /// What this means and what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What `timeout` may be.
const TIMEOUTS: std::ops::RangeInclusive<u64> = 5..=3_600;

/// How long a wait with heartbeats lasts where the caller names no timeout.
const WITH_PROGRESS: Duration = Duration::from_mins(15);

/// How many threads one wait takes.
const MOST_THREADS: usize = 50;

/// How far heartbeats are apart. Clients give up on a call that is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What nobody should do after a wait that ran out.
const GOES_ON: &str = "The work goes on: do not start it again. Call t3_wait again to go on waiting, or end your turn.";

impl Gateway {
    /// Waits. With `progress` heartbeats go there and the default timeout is the long one. Dropping the future leaves nothing behind.
    pub async fn wait(
        &self,
        caller: &Caller,
        args: WaitArgs,
        progress: Option<&dyn ProgressSink>,
    ) -> Result<WaitAnswer, ToolError> {
        let plan = Plan::of(&args)?;
        let timeout = self.timeout(args.timeout, progress.is_some())?;
        let begun = Instant::now();
        let searches = plan.threads.iter().map(|id| self.find_thread(caller, id));
        let found = try_join_all(searches).await?;
        let quiet = args.quiet.unwrap_or(false);
        let mut watched: Vec<Watched<'_>> = found
            .into_iter()
            .map(|found| Watched::new(self, caller, found, plan.run.clone(), quiet))
            .collect();

        let ended = self.until(&mut watched, plan.until, begun + timeout, progress).await?;
        for thread in &watched {
            thread.tell();
        }
        Ok(answer(&watched, &plan, ended, begun.elapsed()))
    }

    fn timeout(&self, asked: Option<u64>, with_progress: bool) -> Result<Duration, ToolError> {
        match asked {
            Some(seconds) if TIMEOUTS.contains(&seconds) => Ok(Duration::from_secs(seconds)),
            Some(seconds) => Err(ToolError::new(
                ErrorCode::InvalidRequest,
                format!(
                    "timeout is {seconds}; it must be {} to {} seconds.",
                    TIMEOUTS.start(),
                    TIMEOUTS.end()
                ),
            )),
            None if with_progress => Ok(WITH_PROGRESS),
            None => Ok(self.settings.wait_without_progress),
        }
    }

    /// Drives the threads, the clock and the heartbeats from one task: no heartbeat can follow the answer.
    async fn until(
        &self,
        watched: &mut [Watched<'_>],
        until: Until,
        deadline: Instant,
        progress: Option<&dyn ProgressSink>,
    ) -> Result<Ended, ToolError> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let begun = Instant::now();
        let mut number = 0;
        loop {
            let round = tokio::select! {
                biased;
                done = done(watched, until) => { done?; Round::Done }
                () = self.stop.cancelled() => return Ok(Ended::Stopped),
                () = tokio::time::sleep_until(deadline) => return Ok(Ended::TimedOut),
                _ = heartbeat.tick(), if progress.is_some() => Round::Beat,
            };
            match (round, progress) {
                (Round::Done, _) => return Ok(Ended::Done),
                (Round::Beat, Some(sink)) => {
                    let message = heartbeat_message(watched, begun.elapsed());
                    let elapsed = begun.elapsed();
                    sink.tick(Tick {
                        number,
                        elapsed,
                        message,
                    })
                    .await;
                    number += 1;
                }
                (Round::Beat, None) => {}
            }
        }
    }
}

enum Round {
    Done,
    Beat,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ended {
    Done,
    TimedOut,
    Stopped,
}

/// Which threads, and when the wait ends.
#[derive(Debug)]
struct Plan {
    threads: Vec<String>,
    run: Option<RunId>,
    until: Until,
    several: bool,
}

impl Plan {
    fn of(args: &WaitArgs) -> Result<Self, ToolError> {
        let invalid = |message: &str| ToolError::new(ErrorCode::InvalidRequest, message);
        let until = args.until.unwrap_or_default();
        match (&args.thread_id, &args.thread_ids) {
            (Some(id), None) => Ok(Self {
                threads: vec![id.clone()],
                run: args.run_id.clone().map(RunId),
                until,
                several: false,
            }),
            (None, Some(ids)) if args.run_id.is_some() => Err(invalid(&format!(
                "run_id goes with thread_id, not with {} thread_ids.",
                ids.len()
            ))),
            (None, Some(ids)) if ids.is_empty() => Err(invalid("thread_ids is empty.")),
            (None, Some(ids)) if ids.len() > MOST_THREADS => Err(invalid(&format!(
                "thread_ids has {} entries; at most {MOST_THREADS} can be waited for together.",
                ids.len()
            ))),
            (None, Some(ids)) => {
                let mut threads = ids.clone();
                let mut seen = HashSet::new();
                threads.retain(|id| seen.insert(id.clone()));
                Ok(Self {
                    threads,
                    run: None,
                    until,
                    several: true,
                })
            }
            (Some(_), Some(_)) => Err(invalid("Pass either thread_id or thread_ids, not both.")),
            (None, None) => Err(invalid("Pass thread_id, or thread_ids for several.")),
        }
    }
}

/// Returns when enough threads have something to tell. Each is polled at least once, so that all that are done are known.
async fn done(watched: &mut [Watched<'_>], until: Until) -> Result<(), ToolError> {
    let mut open: FuturesUnordered<_> = watched
        .iter_mut()
        .filter(|thread| !thread.is_done())
        .map(Watched::until_done)
        .collect();
    while let Some(ended) = open.next().await {
        ended?;
        if until == Until::Any {
            // Others may have come to their end in the same moment.
            while let Some(Some(ended)) = open.next().now_or_never() {
                ended?;
            }
            return Ok(());
        }
    }
    Ok(())
}

fn heartbeat_message(watched: &[Watched<'_>], elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match watched {
        [only] => format!("{} ({seconds} s)", only.activity()),
        several => {
            let done = several.iter().filter(|thread| thread.is_done()).count();
            format!("{done} of {} threads done ({seconds} s)", several.len())
        }
    }
}

fn answer(watched: &[Watched<'_>], plan: &Plan, ended: Ended, waited: Duration) -> WaitAnswer {
    let still_running = watched.iter().any(|thread| !thread.is_done());
    let note = match ended {
        Ended::Done => None,
        Ended::TimedOut => Some(GOES_ON.to_owned()),
        Ended::Stopped => Some(format!("The gateway is restarting. {GOES_ON}")),
    };
    let mut answer = WaitAnswer {
        waited: (waited.as_secs_f64() * 10.0).round() / 10.0,
        timed_out: ended == Ended::TimedOut,
        still_running,
        note,
        ..WaitAnswer::default()
    };
    let mut views: Vec<ThreadView> = watched.iter().map(Watched::view).collect();
    let room = budget::ANSWER_CHARS.saturating_sub(ENVELOPE_CHARS);
    if plan.several {
        let ids = plan.threads.iter().map(|id| id.len() + 3).sum::<usize>();
        budget::share(&mut views, room.saturating_sub(ids));
        answer.done = Some(
            watched
                .iter()
                .filter(|thread| thread.is_done())
                .map(|thread| thread.found.id.to_string())
                .collect(),
        );
        answer.threads = Some(views);
    } else if let Some(mut view) = views.pop() {
        budget::fit(&mut view, room);
        answer.thread = Some(view);
    }
    answer
}

/// What a wait's own facts take.
const ENVELOPE_CHARS: usize = 400;
