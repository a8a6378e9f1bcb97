//! Reading tracked threads, with their runs, requests and messages.

use std::iter::Peekable;
use std::vec::IntoIter;

use serde::de::DeserializeOwned;
use sqlx::{Sqlite, Transaction};
use tokio::sync::mpsc;

use crate::lifecycle::{
    Baseline, Dispatched, RequestState, RunState, TrackedRequest, TrackedRun, TrackedThread, Watch,
};
use crate::store::columns::time;
use crate::store::error::Fault;
use crate::store::tracked::Tracked;

/// Threads that are read at a time.
const THREADS_AT_ONCE: u32 = 1_000;
/// How many such parts are read ahead of who takes them.
const AHEAD: usize = 1;

/// A thread's row: key, machine, thread, environment, project id and title, title, protocol, latest watch, every, baseline,
/// unreachable.
type ThreadRow = (
    i64,
    String,
    String,
    Text,
    Text,
    Text,
    Text,
    u32,
    u8,
    Text,
    Text,
    u8,
    Option<u64>,
    Option<i64>,
    u8,
);

/// A run's row: key, id, requested at, ordinal, state, watch, message, finishing since, changed at, stalled.
type RunRow = (
    i64,
    String,
    i64,
    u64,
    String,
    u8,
    Text,
    Text,
    Text,
    Option<i64>,
    i64,
    u8,
);

/// A request's row: key, id, created at, run, state.
type RequestRow = (i64, String, i64, Text, String);

/// A message's row: key, id, watch, sent at, settled.
type MessageRow = (i64, String, u8, Text, Text, i64, u8);

type Text = Option<String>;

/// Some threads with their parts, each table's rows as one value: handed over one by one, a hundred thousand of them take a start several
/// seconds. Threads, runs, requests, messages.
type Part = (String, String, String, String);

/// Reads all threads; the next ones while the last ones are taken.
pub(super) async fn read(reader: Transaction<'static, Sqlite>, mut take: impl FnMut(Tracked)) -> Result<(), Fault> {
    let (to, mut parts) = mpsc::channel(AHEAD);
    // It ends when nobody takes what it reads any more.
    let reading = tokio::spawn(read_parts(reader, to));
    while let Some(part) = parts.recv().await {
        hand_over(part?, &mut take)?;
    }
    // One that broke off looks like the end, and the rest would count as not tracked.
    reading
        .await
        .map_err(|_| Fault::Value("tracked threads whose reading broke off"))
}

async fn read_parts(mut reader: Transaction<'static, Sqlite>, to: mpsc::Sender<Result<Part, Fault>>) {
    let mut last = i64::MIN;
    loop {
        let part = match read_part(&mut reader, last).await {
            Ok(None) => return,
            Ok(Some((part, newest))) => {
                last = newest;
                Ok(part)
            }
            Err(fault) => Err(fault),
        };
        let was_last = part.is_err();
        if to.send(part).await.is_err() || was_last {
            return;
        }
    }
}

/// The threads after the key `last`, and the key of the last one.
async fn read_part(reader: &mut Transaction<'static, Sqlite>, last: i64) -> Result<Option<(Part, i64)>, Fault> {
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT max(key) FROM (SELECT key FROM tracked_threads WHERE key > ? ORDER BY key LIMIT ?)")
            .bind(last)
            .bind(THREADS_AT_ONCE)
            .fetch_one(&mut **reader)
            .await?;
    let Some(newest) = newest else { return Ok(None) };
    let part = sqlx::query_as(
        "SELECT \
         (SELECT json_group_array(json_array(key, machine, thread, environment, project_id, project_title, title, protocol, \
         latest_on, latest_origin, latest_client, every_run, baseline_ordinal, baseline_requested_at, unreachable)) \
         FROM (SELECT * FROM tracked_threads WHERE key > ?1 AND key <= ?2 ORDER BY key)), \
         (SELECT json_group_array(json_array(thread_key, run, requested_at, ordinal, state, watch_on, watch_origin, \
         watch_client, message, finishing_since, changed_at, stalled)) \
         FROM (SELECT * FROM tracked_runs WHERE thread_key > ?1 AND thread_key <= ?2 ORDER BY thread_key, position)), \
         (SELECT json_group_array(json_array(thread_key, request, created_at, run, state)) \
         FROM (SELECT * FROM tracked_requests WHERE thread_key > ?1 AND thread_key <= ?2 ORDER BY thread_key, position)), \
         (SELECT json_group_array(json_array(thread_key, message, watch_on, watch_origin, watch_client, sent_at, settled)) \
         FROM (SELECT * FROM tracked_messages WHERE thread_key > ?1 AND thread_key <= ?2 ORDER BY thread_key, position))",
    )
    .bind(last)
    .bind(newest)
    .fetch_one(&mut **reader)
    .await?;
    Ok(Some((part, newest)))
}

fn hand_over((threads, runs, requests, messages): Part, take: &mut impl FnMut(Tracked)) -> Result<(), Fault> {
    let mut runs = rows::<RunRow>(runs)?.into_iter().peekable();
    let mut requests = rows::<RequestRow>(requests)?.into_iter().peekable();
    let mut messages = rows::<MessageRow>(messages)?.into_iter().peekable();
    for row in rows::<ThreadRow>(threads)? {
        let key = row.0;
        let mut tracked = thread(row)?;
        tracked.thread.runs = of_thread(&mut runs, |row| row.0 == key, run)?;
        tracked.thread.requests = of_thread(&mut requests, |row| row.0 == key, request)?;
        tracked.thread.dispatched = of_thread(&mut messages, |row| row.0 == key, message)?;
        take(tracked);
    }
    Ok(())
}

/// The next rows, as far as they are a thread's; with no room for more, since most stay as they are.
fn of_thread<R, T>(
    rows: &mut Peekable<IntoIter<R>>,
    is_its: impl Fn(&R) -> bool,
    value: impl Fn(R) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut values = Vec::new();
    while let Some(row) = rows.next_if(&is_its) {
        values.reserve_exact(1);
        values.push(value(row)?);
    }
    Ok(values)
}

/// The rows of one value.
#[allow(clippy::needless_pass_by_value)]
fn rows<T: DeserializeOwned>(value: String) -> Result<Vec<T>, Fault> {
    serde_json::from_str(&value).map_err(|_| Fault::Value("a row of a tracked thread with what no version writes"))
}

fn thread(row: ThreadRow) -> Result<Tracked, Fault> {
    let (
        _,
        machine,
        thread,
        environment,
        project_id,
        project_title,
        title,
        protocol,
        on,
        origin,
        client,
        every,
        ordinal,
        at,
        unreachable,
    ) = row;
    let baseline = match (ordinal, at) {
        (Some(ordinal), Some(at)) => Some(Baseline {
            ordinal,
            requested_at: time(at)?,
        }),
        (None, _) | (_, None) => None,
    };
    Ok(Tracked {
        machine,
        environment: environment.map(Into::into),
        project_id: project_id.map(Into::into),
        project_title,
        title,
        protocol,
        thread: TrackedThread {
            thread: thread.into(),
            latest: watch(on, origin, client),
            every: every != 0,
            baseline,
            runs: Vec::new(),
            requests: Vec::new(),
            dispatched: Vec::new(),
            unreachable: unreachable != 0,
        },
    })
}

fn watch(on: u8, origin: Text, client: Text) -> Watch {
    Watch {
        on: on != 0,
        origin,
        client,
    }
}

fn run(row: RunRow) -> Result<TrackedRun, Fault> {
    let (_, id, requested_at, ordinal, word, on, origin, client, message, finishing_since, changed_at, stalled) = row;
    let Some(state) = RunState::parse(&word) else {
        return Err(Fault::Word {
            table: "tracked_runs",
            row: format!("`{id}`"),
            word,
        });
    };
    Ok(TrackedRun {
        id: id.into(),
        requested_at: time(requested_at)?,
        ordinal,
        state,
        watch: watch(on, origin, client),
        message: message.map(Into::into),
        finishing_since: finishing_since.map(time).transpose()?,
        changed_at: time(changed_at)?,
        stalled: stalled != 0,
    })
}

fn request((_, id, created_at, run, word): RequestRow) -> Result<TrackedRequest, Fault> {
    let Some(state) = RequestState::parse(&word) else {
        return Err(Fault::Word {
            table: "tracked_requests",
            row: format!("`{id}`"),
            word,
        });
    };
    Ok(TrackedRequest {
        id: id.into(),
        created_at: time(created_at)?,
        run: run.map(Into::into),
        state,
    })
}

fn message((_, id, on, origin, client, sent_at, settled): MessageRow) -> Result<Dispatched, Fault> {
    Ok(Dispatched {
        message: id.into(),
        watch: watch(on, origin, client),
        at: time(sent_at)?,
        settled: settled != 0,
    })
}
