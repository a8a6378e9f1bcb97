//! The way between a session's worker and its service, watched for results.
//!
//! It exists to learn when a request of a session has its result although its client hung up; it changes no message.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionWorker;
use rmcp::transport::{Transport, WorkerTransport};
use uuid::Uuid;

use super::Shared;

/// A session's transport that tells which requests are done.
pub struct Watched {
    pub(super) inner: WorkerTransport<LocalSessionWorker>,
    pub(super) session: Uuid,
    pub(super) shared: Arc<Shared>,
}

impl Transport<RoleServer> for Watched {
    type Error = <WorkerTransport<LocalSessionWorker> as Transport<RoleServer>>::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let done = answered(&item);
        let session = self.session;
        let shared = Arc::clone(&self.shared);
        let sent = self.inner.send(item);
        async move {
            let sent = sent.await;
            if let Some(request) = done {
                shared.done(session, &request);
            }
            sent
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The request that a message answers.
pub(super) fn answered(message: &TxJsonRpcMessage<RoleServer>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}
