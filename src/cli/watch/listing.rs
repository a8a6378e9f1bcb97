//! The threads that the table shows, and where they come from.

use futures_util::future::join_all;
use jiff::Timestamp;
use serde::Serialize;

use crate::cli::Failure;
use crate::cli::asking::Asking;
use crate::gateway::{ThreadArgs, ThreadView, WatchArgs};
use crate::mcp::tools::{Thread, Watch};

/// So many threads are read at most.
const MOST: usize = 30;

/// What there is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Listed {
    pub(super) threads: Vec<Row>,
    /// Machines that did not answer, and why.
    pub(super) unreachable: Vec<(String, String)>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) thread_id: String,
    pub(super) machine: String,
    pub(super) project: String,
    pub(super) title: String,
    pub(super) state: String,
    /// What it asks: `question` or `approval`, each as often as it does.
    pub(super) pending: Vec<String>,
    /// Since when its run works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// When T3 last changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<Timestamp>,
}

/// Asks for the threads: those that are watched, and those at work.
pub(super) async fn list(asking: &Asking) -> Result<Listed, Failure> {
    let known = asking.ask::<Watch>(&WatchArgs::default()).await?;
    let threads = known.watched.iter().chain(&known.unwatched).take(MOST);
    let asked: Vec<ThreadArgs> = threads
        .map(|thread| ThreadArgs {
            thread_id: thread.thread_id.clone(),
            turns: Some(1),
        })
        .collect();
    let seen = join_all(asked.iter().map(|thread| asking.ask::<Thread>(thread))).await;
    Ok(Listed {
        threads: seen.into_iter().filter_map(|seen| Some(row(&seen.ok()?))).collect(),
        unreachable: Vec::new(),
    })
}

fn row(view: &ThreadView) -> Row {
    let since = view.run.as_ref().and_then(|run| run.started_at.as_deref());
    Row {
        thread_id: view.thread_id.clone(),
        machine: view.machine.clone(),
        project: view.project.clone(),
        title: view.title.clone(),
        state: view.state.clone(),
        pending: view.pending.iter().map(|request| request.kind.clone()).collect(),
        since: since.and_then(|at| at.parse().ok()),
        changed: view.last_activity_at.parse().ok(),
    }
}
