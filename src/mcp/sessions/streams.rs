//! Streams that are not a call's: those that a client holds open, and the one that refuses a call.

use std::sync::Arc;
use std::time::Instant;

use futures_util::stream;
use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::{EventStream, ServerSseMessage};
use uuid::Uuid;

use super::{LedgerFailed, Shared};

/// Two requests in flight under one id would get each other's results.
pub(super) fn refused(request: RequestId) -> EventStream {
    let error = ErrorData::invalid_request(
        "A request with this id is still open in this session; its result would be mixed up with yours. Use another id.",
        None,
    );
    let message = ServerJsonRpcMessage::error(error, Some(request));
    Box::pin(stream::iter([ServerSseMessage::from_message(message)]))
}

/// The answer to `initialize` where the session could not be written down.
pub(super) fn not_opened(request: RequestId, error: &LedgerFailed) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(error.to_string(), None), Some(request))
}

/// A stream that a client holds open besides its calls.
pub(super) struct OpenStream {
    shared: Arc<Shared>,
    session: Uuid,
}

impl OpenStream {
    pub(super) fn new(shared: &Arc<Shared>, session: Uuid) -> Self {
        shared.registry().handle_stream(session);
        Self {
            shared: Arc::clone(shared),
            session,
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.shared.registry().handle_stream_end(self.session, Instant::now());
    }
}
