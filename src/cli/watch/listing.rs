//! The threads that the table shows: what `t3_threads` lists, and since when those at work do.

use std::collections::HashMap;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde::Serialize;

use super::table::urgency;
use crate::cli::Failure;
use crate::cli::asking::Asking;
use crate::gateway::{ListedThread, ThreadArgs, ThreadsArgs, Unreachable};
use crate::mcp::tools::{Thread, Threads};

/// What one call lists.
const PAGE: usize = 50;

/// So many pages are listed at most: the newest threads.
const MOST_PAGES: usize = 4;

/// So many threads are read for their beginning, each time.
const MOST_READ: usize = 8;

/// What there is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Listed {
    pub(super) threads: Vec<Row>,
    /// There are older ones too.
    pub(super) more: bool,
    /// Machines that did not answer.
    pub(super) unreachable: Vec<Unreachable>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) thread_id: String,
    pub(super) machine: String,
    pub(super) project: String,
    pub(super) title: String,
    pub(super) state: String,
    /// T3 holds its queue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) held: bool,
    /// What it asks: `question` or `approval`, each as often as it does.
    pub(super) pending: Vec<String>,
    /// Since when its run works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// When T3 last changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<Timestamp>,
}

/// Lists again and again.
#[derive(Debug, Default)]
pub(super) struct Lister {
    /// Since when the threads at work do.
    since: HashMap<String, Timestamp>,
}

impl Lister {
    /// Asks for the threads.
    pub(super) async fn list(&mut self, asking: &Asking) -> Result<Listed, Failure> {
        let mut listed = Listed::default();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let asked = ThreadsArgs {
                limit: Some(PAGE),
                cursor,
                ..ThreadsArgs::default()
            };
            let page = asking.ask::<Threads>(&asked).await?;
            listed.threads.extend(page.threads.iter().map(row));
            listed.unreachable = page.unreachable;
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        listed.more = cursor.is_some();
        self.date(asking, &mut listed.threads).await;
        Ok(listed)
    }

    /// Says since when the threads at work do: a list does not, and it stays so while they work.
    async fn date(&mut self, asking: &Asking, rows: &mut [Row]) {
        let works = |row: &Row| urgency(row) > 0 && !matches!(row.state.as_str(), "queued" | "starting");
        self.since
            .retain(|thread, _| rows.iter().any(|row| row.thread_id == *thread && works(row)));
        let undated: Vec<ThreadArgs> = rows
            .iter()
            .filter(|row| works(row) && !self.since.contains_key(&row.thread_id))
            .take(MOST_READ)
            .map(|row| ThreadArgs {
                thread_id: row.thread_id.clone(),
                turns: Some(1),
            })
            .collect();
        // One that cannot be read shows how old its last change is.
        let seen = join_all(undated.iter().map(|thread| asking.ask::<Thread>(thread))).await;
        for view in seen.into_iter().flatten() {
            let began = view.run.and_then(|run| run.started_at?.parse().ok());
            self.since.extend(began.map(|began| (view.thread_id, began)));
        }
        for row in rows {
            row.since = self.since.get(&row.thread_id).copied();
        }
    }
}

fn row(thread: &ListedThread) -> Row {
    Row {
        thread_id: thread.thread_id.clone(),
        machine: thread.machine.clone(),
        project: thread.project.clone(),
        title: thread.title.clone(),
        state: thread.state.clone(),
        held: thread.held == Some(true),
        pending: thread.pending.iter().map(|request| request.kind.clone()).collect(),
        since: None,
        changed: thread.updated_at.parse().ok(),
    }
}
