//! The streams of protocol 1: the shell in windows, the first item of a thread's, the configuration's, and the word of the server's start.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::simulator::host::Host;

/// Events are grouped so long.
const WINDOW: Duration = Duration::from_millis(50);

/// A stream that makes its next chunk on demand.
#[derive(Debug)]
pub(crate) struct OlderStream {
    host: Arc<Host>,
    ready: VecDeque<Value>,
    /// For the shell's: everything up to here was told.
    told: Option<u64>,
    head: watch::Receiver<u64>,
}

impl OlderStream {
    fn new(host: &Arc<Host>, ready: impl IntoIterator<Item = Value>, told: Option<u64>) -> Self {
        Self {
            host: host.clone(),
            ready: ready.into_iter().collect(),
            told,
            head: host.watch_head(),
        }
    }

    pub(super) fn shell(host: &Arc<Host>, shell: &Value, head: u64, marker: bool) -> Self {
        let marker = marker.then(|| json!({"kind": "synchronized"}));
        let snapshot = json!({"kind": "snapshot", "snapshot": shell});
        Self::new(host, std::iter::once(snapshot).chain(marker), Some(head))
    }

    pub(super) fn thread(host: &Arc<Host>, thread: &Value) -> Self {
        Self::new(host, [json!({"kind": "snapshot", "snapshot": thread})], None)
    }

    pub(super) fn start(host: &Arc<Host>, at: &Value) -> Self {
        let welcome = json!({"version": 1, "sequence": 1, "type": "welcome", "payload": {}});
        let ready = json!({"version": 1, "sequence": 2, "type": "ready", "payload": {"at": at}});
        Self::new(host, [welcome, ready], None)
    }

    pub(crate) async fn next(&mut self) -> Vec<Box<RawValue>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return to_raw_value(&item).into_iter().collect();
            }
            let Some(told) = self.told else {
                std::future::pending::<()>().await;
                continue;
            };
            if self.head.wait_for(|head| *head > told).await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(WINDOW).await;
            let state = self.host.read();
            if let Some(older) = &state.older {
                self.told = Some(older.head());
                let items = older.items_between(told, older.head());
                if !items.is_empty() {
                    return items.iter().filter_map(|item| to_raw_value(item).ok()).collect();
                }
            } else {
                // The server became its newer self: this socket is being cut.
                self.told = None;
            }
        }
    }
}
