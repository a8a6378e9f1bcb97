//! The streams: the shell in windows of 50 ms, the archive's shell, and one thread's events. Each makes chunks on demand; the
//! socket asks for the next when the last was acknowledged.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::protocol::v2::sent;

use super::host::Host;
use super::model::Model;
use super::older::OlderStream;

/// Events are grouped so long.
const WINDOW: Duration = Duration::from_millis(50);
/// A replay over a longer gap is none: only the snapshot tells.
const REPLAY_LIMIT: u64 = 1000;
/// Replayed events are grouped by so many.
const REPLAY_PAGE: u64 = 500;
/// A snapshot longer than this travels in a chunk of its own.
const LARGE_SNAPSHOT: usize = 1 << 20;
/// Newer servers replay a thread only so far; beyond it they send a fresh snapshot.
const THREAD_REPLAY_EVENTS: usize = 128;
/// And only so much.
const THREAD_REPLAY_BYTES: usize = 1 << 20;

type Chunk = Vec<Box<RawValue>>;

fn raw(value: &impl serde::Serialize) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotItem<'a> {
    kind: &'static str,
    snapshot: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_repository_identity_roots: Option<&'a [String]>,
}

fn snapshot_item(snapshot: &RawValue, roots: Option<&[String]>) -> Option<Box<RawValue>> {
    raw(&SnapshotItem {
        kind: "snapshot",
        snapshot,
        resolved_repository_identity_roots: roots,
    })
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ThreadSnapshotItem<'a> {
    kind: &'static str,
    snapshot_sequence: u64,
    projection: &'a RawValue,
}

fn synchronized() -> Chunk {
    raw(&json!({"kind": "synchronized"})).into_iter().collect()
}

/// What a client asks of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ask {
    pub after: Option<u64>,
    pub marker: bool,
}

impl From<&sent::SubscribeShellInput> for Ask {
    fn from(input: &sent::SubscribeShellInput) -> Self {
        Self {
            after: input.after_sequence,
            marker: input.request_completion_marker == Some(true),
        }
    }
}

impl From<&sent::SubscribeThreadInput> for Ask {
    fn from(input: &sent::SubscribeThreadInput) -> Self {
        Self {
            after: input.after_sequence,
            marker: input.request_completion_marker == Some(true),
        }
    }
}

/// A stream that makes its next chunk on demand.
#[derive(Debug)]
pub(crate) enum Stream {
    Shell(ShellStream),
    Thread(ThreadStream),
    Config(ConfigStream),
    /// Any of a server of protocol 1.
    Older(OlderStream),
}

impl Stream {
    /// The next chunk, never empty; waits for ever where nothing happens.
    pub(crate) async fn next(&mut self) -> Chunk {
        match self {
            Self::Shell(shell) => shell.next().await,
            Self::Thread(thread) => thread.next().await,
            Self::Config(config) => config.next().await,
            Self::Older(older) => older.next().await,
        }
    }
}

/// The shell, or the archive's.
#[derive(Debug)]
pub(crate) struct ShellStream {
    host: Arc<Host>,
    /// For the archive's: the threads that it shows.
    archived: Option<HashSet<usize>>,
    /// Everything up to here was told.
    told: u64,
    ready: VecDeque<Chunk>,
    head: watch::Receiver<u64>,
    pushed: broadcast::Receiver<Value>,
}

impl ShellStream {
    pub(crate) fn open(host: &Arc<Host>, archive: bool, ask: Ask) -> Self {
        let head = host.watch_head();
        let pushed = host.raw.subscribe();
        let state = host.read();
        let model = &state.model;
        let mut ready = VecDeque::new();
        let resumes = ask
            .after
            .filter(|after| *after <= model.head() && model.head() - *after <= REPLAY_LIMIT);
        for chunk in snapshots(model, archive, host.gate, resumes.is_some()) {
            ready.push_back(chunk);
        }
        if let Some(after) = resumes.filter(|_| !archive) {
            replay(model, after, &mut ready);
        }
        // The archive's stream has no marker to ask for: none was recorded, and its payload has no field for it.
        if ask.marker && !archive {
            ready.push_back(synchronized());
        }
        let told = model.head();
        let archived = archive.then(|| model.archived());
        drop(state);
        Self {
            host: host.clone(),
            archived,
            told,
            ready,
            head,
            pushed,
        }
    }

    async fn next(&mut self) -> Chunk {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return chunk;
            }
            tokio::select! {
                item = self.pushed.recv() => {
                    // The archive's own items name no location.
                    if let Ok(item) = item
                        && (self.archived.is_none() || item.get("location").is_none())
                    {
                        self.ready.extend(raw(&item).map(|item| vec![item]));
                    }
                }
                gone = async {
                    let gone = self.head.wait_for(|head| *head > self.told).await.is_err();
                    self.host.shell_shows().await;
                    gone
                } => {
                    // The server is gone: nothing comes any more.
                    if gone {
                        std::future::pending::<()>().await;
                    }
                    tokio::time::sleep(WINDOW).await;
                    self.host.shell_shows().await;
                    self.take_window();
                }
            }
        }
    }

    fn take_window(&mut self) {
        let state = self.host.read();
        let model = &state.model;
        let items = match self.archived.as_mut() {
            Some(shown) => model.archive_items_between(self.told, model.head(), shown),
            None => model.items_between(self.told, model.head()),
        };
        let changed = model.project_changed_between(self.told, model.head());
        self.told = model.head();
        if !items.is_empty() {
            self.ready.push_back(items);
        }
        // The repository of each changed project is looked up, and told with a snapshot of its own.
        if self.archived.is_none() {
            for root in changed {
                self.ready
                    .extend(identities(model, self.host.gate, &[root]).map(|item| vec![item]));
            }
        }
    }
}

/// The snapshots that a stream begins with.
fn snapshots(model: &Model, archive: bool, gate: bool, resumes: bool) -> Vec<Chunk> {
    if archive {
        let item = model.archived_shell().and_then(|shell| snapshot_item(&shell, None));
        return vec![item.into_iter().collect()];
    }
    let roots = model.roots();
    let told = (!roots.is_empty()).then(|| identities(model, gate, &roots)).flatten();
    if gate && resumes {
        // Newer servers send nothing else on resume within the limit.
        return vec![told.into_iter().collect::<Chunk>()]
            .into_iter()
            .filter(|chunk| !chunk.is_empty())
            .collect();
    }
    let full = model.shell().and_then(|shell| snapshot_item(&shell, None));
    let large = full.as_ref().is_some_and(|item| item.get().len() > LARGE_SNAPSHOT);
    let first: Chunk = full.into_iter().collect();
    match told {
        None => vec![first],
        Some(second) if large => vec![first, vec![second]],
        Some(second) => vec![first.into_iter().chain([second]).collect()],
    }
}

/// A snapshot that tells repositories: with the gate it is that alone, before it is a whole one.
fn identities(model: &Model, gate: bool, roots: &[String]) -> Option<Box<RawValue>> {
    if gate {
        return snapshot_item(&raw(&model.metadata_shell())?, Some(roots));
    }
    snapshot_item(&model.shell()?, Some(roots))
}

fn replay(model: &Model, after: u64, ready: &mut VecDeque<Chunk>) {
    let mut from = after;
    while from < model.head() {
        let to = (from + REPLAY_PAGE).min(model.head());
        let items = model.items_between(from, to);
        if !items.is_empty() {
            ready.push_back(items);
        }
        from = to;
    }
}

/// The server's configuration: the whole at first, then the providers whenever they change.
#[derive(Debug)]
pub(crate) struct ConfigStream {
    host: Arc<Host>,
    changes: watch::Receiver<u64>,
    begun: bool,
}

impl ConfigStream {
    pub(crate) fn open(host: &Arc<Host>) -> Self {
        Self {
            host: host.clone(),
            changes: host.config.subscribe(),
            begun: false,
        }
    }

    async fn next(&mut self) -> Chunk {
        let item = if std::mem::replace(&mut self.begun, true) {
            // It cannot fail: the sender lives in the host.
            let _ = self.changes.changed().await;
            json!({"version": 1, "type": "providerStatuses", "payload": {"providers": self.host.providers()}})
        } else {
            self.changes.mark_unchanged();
            json!({"version": 1, "type": "snapshot", "config": self.host.config()})
        };
        raw(&item).into_iter().collect()
    }
}

/// One thread's events, each of them.
#[derive(Debug)]
pub(crate) struct ThreadStream {
    host: Arc<Host>,
    /// None for a thread that was never there: nothing ever comes.
    ix: Option<usize>,
    told: u64,
    ready: VecDeque<Chunk>,
    head: watch::Receiver<u64>,
}

impl ThreadStream {
    /// None where the thread is unknown and no sequence was named: that is an error. With one, T3 says nothing at all.
    pub(crate) fn open(host: &Arc<Host>, thread: &str, ask: Ask) -> Option<Self> {
        let head = host.watch_head();
        let state = host.read();
        let model = &state.model;
        let ix = model.find(thread);
        let mut ready = VecDeque::new();
        let replayed = match (ix, ask.after) {
            (None, None) => return None,
            (None, Some(_)) => Some(Vec::new()),
            (Some(ix), Some(after)) => {
                let events = model.events_after(ix, after);
                let bytes: usize = events.iter().map(|(_, item)| item.len()).sum();
                let too_much =
                    events.len() > THREAD_REPLAY_EVENTS || bytes > THREAD_REPLAY_BYTES || after > model.head();
                (!(host.gate && too_much)).then_some(events)
            }
            (Some(_), None) => None,
        };
        let mut told = model.head();
        match replayed {
            Some(events) => {
                for (sequence, item) in events {
                    told = told.max(sequence);
                    ready.extend(as_raw(&item).map(|item| vec![item]));
                }
            }
            None => {
                if let Some((sequence, projection)) = ix.and_then(|ix| model.projection(ix)) {
                    let item = ThreadSnapshotItem {
                        kind: "snapshot",
                        snapshot_sequence: sequence,
                        projection: &projection,
                    };
                    ready.extend(raw(&item).map(|item| vec![item]));
                }
            }
        }
        if ask.marker {
            ready.push_back(synchronized());
        }
        drop(state);
        Some(Self {
            host: host.clone(),
            ix,
            told,
            ready,
            head,
        })
    }

    async fn next(&mut self) -> Chunk {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return chunk;
            }
            let changed = self.head.wait_for(|head| *head > self.told).await.is_ok();
            let (Some(ix), true) = (self.ix, changed) else {
                std::future::pending::<()>().await;
                continue;
            };
            let state = self.host.read();
            let events = state.model.events_after(ix, self.told);
            self.told = state.model.head();
            drop(state);
            let chunk: Chunk = events.iter().filter_map(|(_, item)| as_raw(item)).collect();
            if !chunk.is_empty() {
                self.ready.push_back(chunk);
            }
        }
    }
}

fn as_raw(item: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(item.to_owned()).ok()
}
