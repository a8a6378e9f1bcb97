//! MCP over pipes: the process's own, for a client that starts the gateway itself, or those of a client in this process.
//!
//! The end of stdin and a signal to stop are one: reading ends, open waits are answered, and rmcp gives the other calls five seconds to get
//! their answers out.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt as _;
use rmcp::ServiceExt as _;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::mcp::Server;
use crate::mcp::one_id::OneId;

/// What ended a stdio server badly.
#[derive(Debug, thiserror::Error)]
#[error("the MCP client on stdin could not be served: {0}")]
pub struct StdioError(String);

/// Serves one client on stdin and stdout until it closes them or `stop` is cancelled, which it is when stdin ends: `stop` is also the gateway's.
/// The caller should leave the process afterwards, since a read of stdin may still block where it is no pipe.
pub async fn serve_stdio(server: Server, stop: CancellationToken) -> Result<(), StdioError> {
    let (reader, writer) = rmcp::transport::stdio_pipes();
    serve_pipes(server, reader, writer, stop).await
}

/// The same on other pipes.
pub async fn serve_pipes(
    server: Server,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let pipes = AsyncRwTransport::new_server(Input::new(reader, stop), writer);
    let running = match server.serve(OneId::new(pipes)).await {
        Ok(running) => running,
        // The client left before it said anything.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError(error.to_string())),
    };
    running.waiting().await.map_err(|error| StdioError(error.to_string()))?;
    Ok(())
}

/// What is read, up to its end or the signal to stop; the end is such a signal.
struct Input<R> {
    reader: R,
    stop: CancellationToken,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl<R> Input<R> {
    fn new(reader: R, stop: CancellationToken) -> Self {
        Self {
            reader,
            stopped: Box::pin(stop.clone().cancelled_owned()),
            stop,
            ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A future that has ended must not be asked again.
        if self.ended || self.stopped.poll_unpin(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.reader).poll_read(cx, buf));
        if read.is_err() || buf.filled().len() == before {
            self.ended = true;
            self.stop.cancel();
        }
        Poll::Ready(read)
    }
}
