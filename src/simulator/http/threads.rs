//! Reads of one thread: the whole, its newest part, and the pages of its history.

use std::sync::atomic::Ordering;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::refused::Refused;
use super::{Answer, Shared, admitted, gated, ok};
use crate::simulator::auth::READ;
use crate::simulator::host::Host;

/// What a history cursor begins with; the ordinal that it continues below follows.
const CURSOR: &str = "before-run-";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadRead<'a> {
    snapshot_sequence: u64,
    projection: &'a RawValue,
    #[serde(flatten)]
    bounds: Option<Bounds>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    history_cursor: Option<String>,
    has_more_history: bool,
    latest_local_turn_ordinal: Option<u64>,
}

fn read_thread(host: &Host, headers: &HeaderMap, id: &str, bounded: bool) -> Answer {
    let mut state = host.read();
    let reads = state.reads.entry(id.to_owned()).or_default();
    *(if bounded { &mut reads.bounded } else { &mut reads.whole }) += 1;
    if let Some(older) = &state.older {
        if bounded || older.routeless {
            return Err(Refused::NoRoute);
        }
        let thread = older.thread(id);
        drop(state);
        admitted(host, headers, Some(READ))?;
        return thread.map(|thread| ok(&thread)).ok_or(Refused::NoThread);
    }
    drop(state);
    if bounded && host.switches.no_bounded_reads.load(Ordering::Relaxed) {
        return Err(Refused::NoPage);
    }
    if bounded && !host.gate {
        return Err(Refused::NoRoute);
    }
    admitted(host, headers, Some(READ))?;
    gated(host, headers)?;
    let state = host.read();
    let ix = state.model.find(id).ok_or(Refused::NoThread)?;
    let shown = host.bounded_runs.filter(|_| bounded);
    let first = shown
        .and_then(|count| state.model.first_of(ix, u64::MAX, count))
        .unwrap_or(0);
    let (snapshot_sequence, projection) = state.model.projection_from(ix, first).ok_or(Refused::NoThread)?;
    let bounds = bounded.then(|| Bounds {
        history_cursor: cursor(first),
        has_more_history: first > 1,
        latest_local_turn_ordinal: state.model.latest_ordinal(ix),
    });
    drop(state);
    Ok(ok(&ThreadRead {
        snapshot_sequence,
        projection: &projection,
        bounds,
    }))
}

pub(super) async fn thread(State(host): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    read_thread(&host, &headers, &id, false)
}

pub(super) async fn bounded(State(host): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    read_thread(&host, &headers, &id, true)
}

/// Where the history before a run is to be asked for; none where there is none. Its form is the simulator's own.
fn cursor(first: u64) -> Option<String> {
    (first > 1).then(|| format!("{CURSOR}{first}"))
}

#[derive(Debug, Deserialize)]
pub(super) struct HistoryQuery {
    cursor: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryPage<'a> {
    snapshot_sequence: u64,
    items: &'a RawValue,
    next_cursor: Option<String>,
    has_more_history: bool,
}

pub(super) async fn history(
    State(host): Shared,
    headers: HeaderMap,
    Path(id): Path<String>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Answer {
    if !host.gate {
        return Err(Refused::NoRoute);
    }
    admitted(&host, &headers, Some(READ))?;
    gated(&host, &headers)?;
    let asked = query.map_err(|_| Refused::Schema)?.0.cursor;
    let below = asked.strip_prefix(CURSOR).and_then(|below| below.parse().ok());
    let below: u64 = below.ok_or(Refused::Schema)?;
    let state = host.read();
    let ix = state.model.find(&id).ok_or(Refused::NoThread)?;
    let count = host.bounded_runs.unwrap_or(usize::MAX);
    let first = state.model.first_of(ix, below, count).unwrap_or(below);
    let items = state.model.history(ix, first, below).ok_or(Refused::NoThread)?;
    Ok(ok(&HistoryPage {
        snapshot_sequence: state.model.head(),
        items: &items,
        next_cursor: cursor(first),
        has_more_history: first > 1,
    }))
}
