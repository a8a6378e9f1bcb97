//! Events of credentials: what is said of their end, once each, for operators who want it at their hook.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ids;
use crate::fleet::Member;
use crate::gateway::{days_left, renewal};
use crate::machine::expiry::{Notice, Said};
use crate::protocol::ThreadId;
use crate::store::{Batch, NewEvent, Store, StoreError};

/// The kind of these events.
const KIND: &str = "credential";
/// How long after a failed commit the next is tried.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Tells what is said of the end of the machine's credential, until the machine is gone or `stop` is cancelled. An event that was told before
/// is not told again.
pub async fn tell_credential(member: Arc<Member>, store: Store, stop: CancellationToken) {
    let mut notices = member.machine.watch_credential();
    notices.mark_changed();
    loop {
        let changed = tokio::select! {
            () = stop.cancelled() => return,
            () = member.gone() => return,
            changed = notices.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
        let Some(notice) = *notices.borrow_and_update() else {
            continue;
        };
        let event = event(&member, notice, Timestamp::now());
        while let Err(error) = keep(&store, event.clone()).await {
            if matches!(error, StoreError::Closed) {
                return;
            }
            tracing::error!(%error, "what is to be said of a credential could not be kept; it is tried again");
            tokio::select! {
                () = stop.cancelled() => return,
                () = member.gone() => return,
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }
}

async fn keep(store: &Store, event: NewEvent) -> Result<(), StoreError> {
    let batch = Batch {
        at: Timestamp::now(),
        events: vec![event],
        ..Batch::default()
    };
    store.commit(batch).await.map(drop)
}

fn event(member: &Member, notice: Notice, now: Timestamp) -> NewEvent {
    let machine = member.name();
    let status = member.machine.status();
    let ends = notice.expires_at.map(|ends| ends.to_string());
    // The end of one token is one event, whatever is known of it: who starts after the end cannot tell an expired one from a refused one.
    let (state, about) = match notice.what {
        Said::Ends { days } => (
            "expiring_soon",
            format!("{days} {}", ends.as_deref().unwrap_or_default()),
        ),
        Said::Expired => ("expired", "over".to_owned()),
        Said::Refused => ("needs_pairing", "over".to_owned()),
    };
    let id = ids::credential_id(status.environment.as_ref(), machine, notice.of, &about);
    let body = json!({
        "id": id,
        "event": KIND,
        "occurred_at": now.to_string(),
        "machine": machine,
        "state": state,
        "credential": {
            "expires_at": ends,
            "days_left": notice.expires_at.map(|ends| days_left(ends, now)),
            "renew": renewal(member),
        },
    });
    NewEvent {
        id,
        occurred_at: now,
        machine: machine.to_owned(),
        // Of no thread; in an order of its own.
        thread: ThreadId(format!("{KIND}:{machine}")),
        project_id: None,
        client: None,
        kind: KIND.to_owned(),
        body: body.to_string(),
        deliver: true,
    }
}
