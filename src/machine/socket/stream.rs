//! The reader's end of a subscription: chunks come out, and taking one is what asks T3 for the next.

use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::Orders;
use super::driver::{Delivery, Order};
use crate::machine::session::CallError;

/// The values of a subscription. Dropping it interrupts the stream.
#[derive(Debug)]
pub struct ValueStream {
    orders: Orders,
    key: u64,
    deliveries: mpsc::Receiver<Delivery>,
    ended: Option<Ended>,
}

/// That the stream ended, and the error unless it is simply complete.
#[derive(Debug)]
struct Ended(Option<CallError>);

/// The end of a stream.
#[derive(Clone, Debug)]
pub struct StreamEnd {
    /// Why; none where the server ended it as one that is complete.
    pub error: Option<CallError>,
}

impl ValueStream {
    pub(super) fn new(orders: Orders, key: u64, deliveries: mpsc::Receiver<Delivery>) -> Self {
        Self {
            orders,
            key,
            deliveries,
            ended: None,
        }
    }

    /// The values of the next chunk, one at least; an error is the end, and every later call repeats it. Cancel-safe.
    pub async fn next_chunk(&mut self) -> Result<Vec<Box<RawValue>>, StreamEnd> {
        if self.ended.is_none() {
            match self.deliveries.recv().await {
                Some(Delivery::Chunk(values)) => {
                    self.orders.send(Order::Taken { key: self.key });
                    return Ok(values);
                }
                Some(Delivery::End(error)) => self.ended = Some(Ended(error)),
                None => {
                    self.ended = Some(Ended(Some(CallError::Lost {
                        sent: true,
                        reason: "the session's task is gone".into(),
                    })));
                }
            }
        }
        Err(StreamEnd {
            error: self.ended.as_ref().and_then(|Ended(error)| error.clone()),
        })
    }
}

impl Drop for ValueStream {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.orders.send(Order::Cancel { key: self.key });
        }
    }
}
