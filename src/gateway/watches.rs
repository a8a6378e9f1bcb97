//! `t3_watch`: which threads' events somebody is told, and switching a thread's on or off.

use std::collections::HashSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::fleet::{Found, Limits};
use crate::gateway::error::{ErrorCode, ToolError};
use crate::gateway::keeping::Ledger;
use crate::gateway::reading::may_change;
use crate::gateway::tracking::{WatchedThread, Wish};
use crate::gateway::{Caller, Gateway};
use crate::lifecycle::Watch;
use crate::machine::ThreadRow;
use crate::protocol::ThreadId;

/// How long a switch may take until it is on disk: a thread that was not followed before is read first.
const SWITCHED_WITHIN: Duration = Duration::from_secs(10);

/// How many threads each list holds.
const MOST_LISTED: usize = 50;

/// Which thread, and what to do with its events.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchArgs {
    /// The thread. Left out: all that are watched, and those at work that are not.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// true: every run of `thread_id` is reported from now on, whoever starts it, to this conversation. false: none any more.
    #[serde(default)]
    pub enabled: Option<bool>,
}

/// Which threads are watched.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WatchAnswer {
    /// Threads of which events will tell.
    pub watched: Vec<WatchView>,
    /// Threads of which no event will tell: the one that was asked for, else those at work.
    pub unwatched: Vec<WatchView>,
    /// How many more there are of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<usize>,
}

/// A thread and what is told of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct WatchView {
    /// The thread.
    pub thread_id: String,
    /// Where it is.
    pub machine: String,
    /// The project's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The thread's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Every run is watched, whoever starts it; otherwise those that were dispatched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_run: Option<bool>,
    /// How many watched runs are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_runs: Option<usize>,
}

impl Gateway {
    /// Lists what is watched, or switches a thread's events.
    pub async fn watch(&self, caller: &Caller, args: WatchArgs) -> Result<WatchAnswer, ToolError> {
        match (args.thread_id.as_deref(), args.enabled) {
            (None, None) => self.list_watched(caller).await,
            (None, Some(_)) => Err(ToolError::new(
                ErrorCode::InvalidRequest,
                "enabled without thread_id: name the thread that is meant.",
            )),
            (Some(id), None) => {
                let found = self.find_thread(caller, id).await?;
                let ledger = self.ledger()?;
                Ok(one(&found, ledger.watched_thread(&found).await?.as_ref()))
            }
            (Some(id), Some(enabled)) => {
                may_change(caller, "the switch")?;
                let found = self.find_thread(caller, id).await?;
                self.switch(caller, &found, enabled).await
            }
        }
    }

    async fn switch(&self, caller: &Caller, found: &Found, enabled: bool) -> Result<WatchAnswer, ToolError> {
        let ledger = self.ledger()?;
        if !enabled {
            let watched = ledger.watched_thread(found).await?;
            may_turn_off(caller, found, watched.as_ref())?;
        }
        let (done, on_disk) = oneshot::channel();
        let wish = Wish::Switch {
            machine: found.member.name().to_owned(),
            thread: found.id.clone(),
            enabled,
            watch: Watch {
                on: enabled,
                origin: caller.origin.clone(),
                client: Some(caller.client.clone()),
            },
            done,
        };
        let switched = async {
            ledger.tracking.wish(wish).await;
            on_disk.await
        };
        match tokio::time::timeout(SWITCHED_WITHIN, switched).await {
            Ok(Ok(Ok(()))) => Ok(one(found, ledger.watched_thread(found).await?.as_ref())),
            Ok(Ok(Err(error))) => Err(ToolError::new(
                ErrorCode::Internal,
                format!("The switch could not be written down. {error}"),
            )
            .hint("Tell the operator; then look with t3_watch, and call it again.")),
            Ok(Err(_)) => Err(nobody_watches()),
            Err(_) => Err(match found.member.away() {
                Some(error) => ToolError::from_machine(found.member.name(), &error),
                None => ToolError::new(
                    ErrorCode::Internal,
                    format!(
                        "The switch was not on disk after {} s; it may still come to be.",
                        SWITCHED_WITHIN.as_secs()
                    ),
                )
                .hint("Look with t3_watch, and call it again."),
            }),
        }
    }

    async fn list_watched(&self, caller: &Caller) -> Result<WatchAnswer, ToolError> {
        let mut all = self.ledger()?.watched().await?;
        all.sort_by(|a, b| (&a.machine, &a.thread).cmp(&(&b.machine, &b.thread)));
        let mut followed: HashSet<(&str, &ThreadId)> = HashSet::new();
        let mut answer = WatchAnswer::default();
        for watched in &all {
            followed.insert((&watched.machine, &watched.thread));
            answer.watched.extend(self.view_of(caller, watched));
        }
        for member in self.fleet.visible(&caller.limits) {
            let mut rows = member.machine.threads();
            rows.retain(|row| is_at_work(row) && !followed.contains(&(member.name(), &row.id)));
            rows.sort_by_key(|row| std::cmp::Reverse(row.updated_at));
            for row in rows {
                let project = member.project(&caller.limits, &row.project);
                answer.unwatched.extend(project.map(|project| WatchView {
                    thread_id: row.id.to_string(),
                    machine: member.name().to_owned(),
                    project: Some(project.title.clone()),
                    title: Some(row.title.clone()),
                    ..WatchView::default()
                }));
            }
        }
        let more = [&mut answer.watched, &mut answer.unwatched].map(|list| {
            let more = list.len().saturating_sub(MOST_LISTED);
            list.truncate(MOST_LISTED);
            more
        });
        answer.more = Some(more.iter().sum()).filter(|more| *more > 0);
        Ok(answer)
    }

    /// A watched thread, if it exists for the caller. One whose project nobody knows yet exists for who dispatched it.
    fn view_of(&self, caller: &Caller, watched: &WatchedThread) -> Option<WatchView> {
        let member = self.fleet.member(&caller.limits, &watched.machine).ok()?;
        let row = member.machine.thread(&watched.thread);
        let id = row.as_ref().map(|row| &row.project).or(watched.project.as_ref());
        let project = match id {
            Some(id) => Some(member.project(&caller.limits, id)?),
            None if watched.clients.contains(&caller.client) => None,
            None => return None,
        };
        let title = row.as_ref().map(|row| row.title.clone());
        Some(WatchView {
            thread_id: watched.thread.to_string(),
            machine: watched.machine.clone(),
            project: project.map(|project| project.title.clone()),
            title: title.or_else(|| watched.title.clone()),
            every_run: Some(watched.every),
            open_runs: Some(watched.open),
        })
    }

    /// The ledger, for tools that are nothing without one.
    pub(super) fn ledger(&self) -> Result<&Ledger, ToolError> {
        self.ledger.as_ref().ok_or_else(|| {
            ToolError::new(
                ErrorCode::Internal,
                "This gateway keeps no ledger: there are no events.",
            )
            .hint("Wait with t3_wait.")
        })
    }
}

impl Ledger {
    /// Every thread that is watched.
    pub(super) async fn watched(&self) -> Result<Vec<WatchedThread>, ToolError> {
        let (to, answer) = oneshot::channel();
        let asked = async {
            self.tracking.wish(Wish::List { to }).await;
            answer.await
        };
        let listed = tokio::time::timeout(SWITCHED_WITHIN, asked).await;
        let listed = listed.map_err(|_| not_told_yet())?;
        listed.map_err(|_| nobody_watches())
    }

    async fn watched_thread(&self, found: &Found) -> Result<Option<WatchedThread>, ToolError> {
        let mut all = self.watched().await?.into_iter();
        Ok(all.find(|watched| watched.machine == found.member.name() && watched.thread == found.id))
    }
}

/// Only who dispatched what is watched, or who has no limits, turns it off.
fn may_turn_off(caller: &Caller, found: &Found, watched: Option<&WatchedThread>) -> Result<(), ToolError> {
    let others = watched.is_some_and(|watched| watched.clients.iter().any(|client| *client != caller.client));
    if !others || is_unlimited(&caller.limits) {
        return Ok(());
    }
    Err(ToolError::new(
        ErrorCode::InsufficientScope,
        format!(
            "The events of the thread {} are another client's; they stay on.",
            found.id
        ),
    )
    .hint("The client that dispatched the run, or one without limits, can turn them off."))
}

/// The operator sets the client no limits.
pub(super) fn is_unlimited(limits: &Limits) -> bool {
    limits.machines.is_none()
        && limits.projects.is_none()
        && limits.max_runtime_mode.is_none()
        && limits.within.is_none()
        && !limits.read_only
}

fn one(found: &Found, watched: Option<&WatchedThread>) -> WatchAnswer {
    let row = found.member.machine.thread(&found.id);
    let view = WatchView {
        thread_id: found.id.to_string(),
        machine: found.member.name().to_owned(),
        project: Some(found.project.title.clone()),
        title: row.map(|row| row.title.clone()),
        every_run: watched.map(|watched| watched.every),
        open_runs: watched.map(|watched| watched.open),
    };
    let mut answer = WatchAnswer::default();
    match watched {
        Some(_) => answer.watched.push(view),
        None => answer.unwatched.push(view),
    }
    answer
}

fn is_at_work(row: &ThreadRow) -> bool {
    !row.deleted && (row.active_run.is_some() || row.pending.is_some())
}

fn not_told_yet() -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        "What is watched could not be told: something holds up the gateway's ledger, such as a full disk.",
    )
    .hint("Tell the operator; the gateway's log says what. Then call again.")
}

fn nobody_watches() -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        "The gateway is stopping: nobody takes the wish any more.",
    )
    .hint("Call again once it has started.")
}
