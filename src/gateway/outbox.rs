//! Events and their deliveries as the operator sees them: listed, one in full, sent again. For the command line, which reads them from the
//! ledger itself or from the process that keeps it: the shapes are the same.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gateway::events::not_read;
use crate::gateway::text::quoted;
use crate::gateway::{ErrorCode, Gateway, ToolError};
use crate::store::{DeliveryState, ListFilter, Listed, Resend, Store, StoreError};

/// The newest events.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EventList {
    /// The newest first.
    pub events: Vec<EventEntry>,
}

/// One event and what became of its delivery.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EventEntry {
    /// What is sent.
    pub event: Value,
    /// Its delivery; none where it is not meant to be delivered.
    pub delivery: Option<DeliveryEntry>,
}

/// What became of a delivery.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DeliveryEntry {
    /// `waiting`, `delivered` or `dead`.
    pub state: String,
    /// Attempts so far.
    pub attempts: u32,
    /// Earlier events of its thread were passed.
    pub out_of_order: bool,
    /// When the next attempt is due, while it waits.
    pub due_at: Option<Timestamp>,
    /// When the last attempt ended.
    pub last_attempt_at: Option<Timestamp>,
    /// What status it was answered with.
    pub last_status: Option<u16>,
    /// What went wrong with it.
    pub last_error: Option<String>,
}

/// The newest events, of those whose delivery stands so.
pub async fn list_events(store: &Store, state: Option<DeliveryState>, limit: u32) -> Result<EventList, StoreError> {
    let listed = store.deliveries(ListFilter { state, before: None }, limit).await?;
    Ok(EventList {
        events: listed.into_iter().map(entry).collect(),
    })
}

/// One event.
pub async fn event_entry(store: &Store, id: &str) -> Result<Option<EventEntry>, StoreError> {
    Ok(store.delivery(id).await?.map(entry))
}

/// The same for another process of the gateway, which asks the one that keeps the ledger.
impl Gateway {
    /// The newest events, of those whose delivery has the state of that word.
    pub async fn outbox(&self, state: Option<&str>, limit: u32) -> Result<EventList, ToolError> {
        let state = match state.map(|word| (word, DeliveryState::parse(word))) {
            None => None,
            Some((_, Some(state))) => Some(state),
            Some((word, None)) => {
                let message = format!("No delivery has the state {}.", quoted(word));
                return Err(ToolError::new(ErrorCode::InvalidRequest, message));
            }
        };
        list_events(&self.ledger()?.store, state, limit)
            .await
            .map_err(|error| not_read(&error))
    }

    /// One event and its delivery.
    pub async fn outbox_entry(&self, id: &str) -> Result<Option<EventEntry>, ToolError> {
        event_entry(&self.ledger()?.store, id)
            .await
            .map_err(|error| not_read(&error))
    }

    /// Makes an event due again.
    pub async fn outbox_retry(&self, id: &str) -> Result<Resend, ToolError> {
        let resend = self.ledger()?.store.retry_event(id, Timestamp::now()).await;
        resend.map_err(|error| ToolError::new(ErrorCode::Internal, error.to_string()))
    }
}

fn entry(listed: Listed) -> EventEntry {
    EventEntry {
        // What is in the ledger was written as JSON.
        event: serde_json::from_str(&listed.event.body).unwrap_or(Value::Null),
        delivery: listed.delivery.map(|delivery| DeliveryEntry {
            state: delivery.state.as_str().to_owned(),
            attempts: delivery.attempts,
            out_of_order: delivery.out_of_order,
            due_at: (delivery.state == DeliveryState::Waiting).then_some(delivery.due_at),
            last_attempt_at: delivery.last_attempt_at,
            last_status: delivery.last_status,
            last_error: delivery.last_error,
        }),
    }
}
