//! `t3_wait`: waits for what the caller has to act on (an end, a question, an approval, a held queue), woken by T3's stream.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior};

use crate::gateway::progress::{ProgressSink, Tick};
use crate::gateway::view::{FailureView, ThreadView};
use crate::gateway::waiting::Watched;
use crate::gateway::words::Until;
use crate::gateway::{Caller, ErrorCode, Gateway, ToolError, budget};
use crate::protocol::RunId;

/// What to wait for, and how long.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WaitAnswer {
    /// The view of `thread_id`.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadView>,
    /// The views of `thread_ids`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ThreadView>>,
    /// Which of `thread_ids` are done, those that cannot be waited for (`error`) included.
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

/// How long the first looks at the other threads may take once one has something to tell.
const FIRST_LOOKS: Duration = Duration::from_secs(1);

/// How often a thread is looked for whose machine does not answer.
const SOUGHT_EVERY: Duration = Duration::from_secs(2);

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
        let timeout = timeout.saturating_sub(caller.under_way);
        let begun = Instant::now();
        let unlooked = AtomicUsize::new(0);
        let seek = Seek {
            gateway: self,
            caller,
            run: plan.run.as_ref(),
            quiet: args.quiet.unwrap_or(false),
            unlooked: &unlooked,
            patient: plan.several,
        };
        let searches = plan.threads.iter().map(|id| Entry::of(id, &seek));
        let mut entries: Vec<Entry<'_>> = join_all(searches).await;

        let ended = self
            .until(&mut entries, &unlooked, plan.until, begun + timeout, progress)
            .await;
        for thread in entries.iter_mut().filter_map(|entry| entry.watched.as_mut().ok()) {
            thread.judge_again();
            thread.tell();
        }
        answer(&entries, &plan, ended, begun.elapsed())
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
        entries: &mut [Entry<'_>],
        unlooked: &AtomicUsize,
        until: Until,
        deadline: Instant,
        progress: Option<&dyn ProgressSink>,
    ) -> Ended {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let begun = Instant::now();
        let mut number = 0;
        // A heartbeat on its way to a client that is slow to take it: nothing else waits for that.
        let mut beat: Option<BoxFuture<'_, ()>> = None;
        loop {
            let idle = beat.is_none();
            tokio::select! {
                biased;
                () = done(entries, unlooked, until) => return Ended::Done,
                () = self.stop.cancelled() => return Ended::Stopped,
                () = tokio::time::sleep_until(deadline) => return Ended::TimedOut,
                Some(()) = OptionFuture::from(beat.as_mut()) => beat = None,
                _ = heartbeat.tick(), if idle && progress.is_some() => {
                    let elapsed = begun.elapsed();
                    let message = heartbeat_message(entries, elapsed);
                    beat = progress.map(|sink| sink.tick(Tick { number, elapsed, message }));
                    number += 1;
                }
            }
        }
    }
}

/// How threads are looked for.
struct Seek<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    run: Option<&'a RunId>,
    quiet: bool,
    unlooked: &'a AtomicUsize,
    /// A machine that does not answer is waited for: others have something to tell meanwhile.
    patient: bool,
}

impl<'a> Seek<'a> {
    async fn thread(&self, id: &str) -> Result<Watched<'a>, ToolError> {
        let found = self.gateway.find_thread(self.caller, id).await?;
        Ok(Watched::new(
            self.gateway,
            self.caller,
            found,
            self.run.cloned(),
            self.quiet,
            self.unlooked,
        ))
    }

    /// Nothing is known of the thread for now: the machines that may have it are slow, or away.
    fn not_found_yet(&self) -> ToolError {
        let visible = self.gateway.fleet.visible(&self.caller.limits);
        let asked: Vec<_> = visible.iter().filter(|member| !member.machine.is_unpaired()).collect();
        let mut silent: Vec<&str> = asked
            .iter()
            .filter(|member| member.away().is_some())
            .map(|member| member.name())
            .collect();
        if silent.is_empty() {
            // Connected, and slow to say whether it has the thread.
            silent = asked.iter().map(|member| member.name()).collect();
        }
        let error = ToolError::new(
            ErrorCode::MachineUnreachable,
            format!(
                "No machine has shown this thread yet. It may be on one that has not answered so far: {}.",
                silent.join(", ")
            ),
        )
        .hint("Wait for it again; t3_machines shows how the machines are.");
        match silent.as_slice() {
            [only] => error.with("machine", *only),
            _ => error,
        }
    }
}

/// One of the threads that were named.
struct Entry<'a> {
    id: &'a str,
    seek: &'a Seek<'a>,
    /// What watches it, or why it was not found.
    watched: Result<Watched<'a>, ToolError>,
}

impl<'a> Entry<'a> {
    async fn of(id: &'a str, seek: &'a Seek<'a>) -> Self {
        let watched = if seek.patient {
            // A machine that is slow to show what it has keeps nobody from waiting for what others have.
            let searched = tokio::time::timeout(FIRST_LOOKS, seek.thread(id)).await;
            searched.unwrap_or_else(|_| Err(seek.not_found_yet()))
        } else {
            seek.thread(id).await
        };
        Self { id, seek, watched }
    }

    /// There is something to tell of it, be it that it cannot be waited for.
    fn is_done(&self) -> bool {
        match &self.watched {
            Ok(watched) => watched.is_done(),
            Err(_) => !self.is_sought(),
        }
    }

    /// Its machine does not answer, which a wait for several outlasts.
    fn is_sought(&self) -> bool {
        let away = |error: &ToolError| error.code == ErrorCode::MachineUnreachable;
        self.seek.patient && self.watched.as_ref().err().is_some_and(away)
    }

    /// Returns when there is something to tell. May be dropped and called again at any time.
    async fn until_done(&mut self) {
        loop {
            if let Ok(watched) = &mut self.watched {
                return watched.until_done().await;
            }
            if !self.is_sought() {
                return;
            }
            tokio::time::sleep(SOUGHT_EVERY).await;
            self.watched = self.seek.thread(self.id).await;
        }
    }

    fn failure(&self) -> Option<&ToolError> {
        match &self.watched {
            Ok(watched) => watched.failure(),
            Err(error) => Some(error),
        }
    }

    fn activity(&self) -> String {
        self.watched.as_ref().map(Watched::activity).unwrap_or_default()
    }

    fn view(&self) -> ThreadView {
        match (self.failure(), &self.watched) {
            (None, Ok(watched)) => watched.view(),
            (Some(error), _) | (None, Err(error)) => ThreadView {
                thread_id: self.id.to_owned(),
                machine: error
                    .extra
                    .get("machine")
                    .and_then(|name| name.as_str())
                    .unwrap_or_default()
                    .to_owned(),
                state: UNKNOWN.to_owned(),
                error: Some(FailureView {
                    class: error.code.as_str().to_owned(),
                    message: error.message.clone(),
                    ..FailureView::default()
                }),
                ..ThreadView::default()
            },
        }
    }
}

/// The state of a thread that cannot be waited for.
const UNKNOWN: &str = "unknown";

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

/// Returns when enough threads have something to tell, and all of them have been looked at: those that ended before are told too.
async fn done(entries: &mut [Entry<'_>], unlooked: &AtomicUsize, until: Until) {
    let ended_before = entries.iter().any(Entry::is_done);
    let mut open: FuturesUnordered<_> = entries
        .iter_mut()
        .filter(|entry| !entry.is_done())
        .map(Entry::until_done)
        .collect();
    match until {
        Until::All => while open.next().await.is_some() {},
        Until::Any => {
            if !ended_before && open.next().await.is_none() {
                return;
            }
            // Polled after the looks that it counts, in one task with them: nothing has to wake it.
            let all_looked_at = poll_fn(|_| match unlooked.load(Ordering::Relaxed) {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            });
            let looks = async {
                tokio::select! {
                    biased;
                    () = async { while open.next().await.is_some() {} } => {}
                    () = all_looked_at => {}
                }
            };
            // A machine that is slow to answer does not keep back what others have to tell.
            let _ = tokio::time::timeout(FIRST_LOOKS, looks).await;
        }
    }
}

fn heartbeat_message(entries: &[Entry<'_>], elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match entries {
        [only] => format!("{} ({seconds} s)", only.activity()),
        several => {
            let done = several.iter().filter(|entry| entry.is_done()).count();
            format!("{done} of {} threads done ({seconds} s)", several.len())
        }
    }
}

/// What is told at the end. Of one thread a failure is the answer; of several each has its own entry.
fn answer(entries: &[Entry<'_>], plan: &Plan, ended: Ended, waited: Duration) -> Result<WaitAnswer, ToolError> {
    if let ([only], false) = (entries, plan.several)
        && let Some(error) = only.failure()
    {
        return Err(error.clone());
    }
    let still_running = entries.iter().any(|entry| !entry.is_done());
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
    let mut views: Vec<ThreadView> = entries.iter().map(Entry::view).collect();
    let room = budget::VIEWS_CHARS.saturating_sub(ENVELOPE_CHARS);
    if plan.several {
        let ids = plan.threads.iter().map(|id| id.len() + 3).sum::<usize>();
        budget::share(&mut views, room.saturating_sub(ids));
        answer.done = Some(
            entries
                .iter()
                .filter(|entry| entry.is_done())
                .map(|entry| entry.id.to_owned())
                .collect(),
        );
        answer.threads = Some(views);
    } else if let Some(mut view) = views.pop() {
        budget::fit(&mut view, room);
        answer.thread = Some(view);
    }
    Ok(answer)
}

/// What a wait's own facts take.
const ENVELOPE_CHARS: usize = 400;
