//! Over a pipe, as in a session, no two open calls have one id: whose answer is whose could not be told, and rmcp would answer only one of
//! them. The second is refused at once; the first goes on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport whose open calls are known by their ids.
pub(super) struct OneId<T> {
    inner: T,
    open: Arc<Mutex<HashSet<RequestId>>>,
}

impl<T> OneId<T> {
    pub(super) fn new(inner: T) -> Self {
        Self {
            inner,
            open: Arc::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        // Nothing is half done under this lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for OneId<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            self.open().remove(id);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Request(request) => {
                    let id = request.id.clone();
                    if !self.open().insert(id.clone()) {
                        let error = ErrorData::invalid_request(
                            format!("A call with the id {id} is still open: give each call an id of its own."),
                            None,
                        );
                        // In a task of its own: this receiving may be broken off at any time.
                        tokio::spawn(self.inner.send(ServerJsonRpcMessage::error(error, Some(id))));
                        continue;
                    }
                }
                JsonRpcMessage::Notification(notification) => {
                    // A cancelled call gets no answer that would free its id.
                    if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        self.open().remove(id);
                    }
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
