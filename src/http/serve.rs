//! Serves the endpoint on a listener, and stops in order: open waits are answered, not cut.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{Endpoint, HttpSettings, endpoint};
use crate::mcp::Server;

/// When what is still open is cut. Waits answer at once; this is for a tool that does not listen.
const CUT_AFTER: Duration = Duration::from_secs(5);

/// How long cut connections may take to end.
const LINGER: Duration = Duration::from_secs(1);

/// How long mutations may take after the last connection ended.
const SETTLE_WITHIN: Duration = Duration::from_secs(3);

/// How often streams that clients hold open are closed while stopping: new ones may come by open connections.
const CLOSE_EVERY: Duration = Duration::from_millis(100);

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    /// The address that the client connected to.
    pub(super) local: Option<SocketAddr>,
}

/// A listener whose sockets are set up as they come in. (axum's own tap cannot tell a connection's local address.)
struct Tcp(TcpListener);

impl Listener for Tcp {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        // axum's own, which waits out errors such as too many open files.
        let (stream, peer) = Listener::accept(&mut self.0).await;
        // Without it an answer waits 40 ms for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        (stream, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Tcp>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Tcp>) -> Self {
        Self {
            peer: *stream.remote_addr(),
            local: stream.io().local_addr().ok(),
        }
    }
}

/// Why serving ended badly.
#[derive(Debug, thiserror::Error)]
#[error("the endpoint could not be served: {0}")]
pub struct ServeError(#[from] io::Error);

/// Serves until `stop` is cancelled, then answers what is open and returns within ten seconds. `stop` is also the gateway's: by it the open waits
/// learn that they have to answer. It must not be the machines': what is being sent when it is cancelled is still seen through.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    settings: HttpSettings,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let endpoint = endpoint(server, settings, &stop);
    serve_endpoint(listener, endpoint, stop).await
}

/// The same for an endpoint that was made before.
pub async fn serve_endpoint(
    listener: TcpListener,
    endpoint: Endpoint,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let Endpoint {
        router,
        sessions,
        gateway,
        cut,
    } = endpoint;
    let service = router.into_make_service_with_connect_info::<Connection>();
    let serving = axum::serve(Tcp(listener), service).with_graceful_shutdown(stop.clone().cancelled_owned());
    let stopping = async {
        stop.cancelled().await;
        let stopped = Instant::now();
        let closing = async {
            loop {
                sessions.close_streams().await;
                tokio::time::sleep(CLOSE_EVERY).await;
            }
        };
        tokio::select! {
            () = closing => {}
            () = sleep_until(stopped + CUT_AFTER) => cut.cancel(),
        }
        sleep_until(stopped + CUT_AFTER + LINGER).await;
    };
    tokio::select! {
        ended = serving.into_future() => ended?,
        () = stopping => tracing::warn!("some connections did not end in time and are cut"),
    }
    // Mutations outlive their requests, but not the process.
    if timeout(SETTLE_WITHIN, gateway.settled()).await.is_err() {
        tracing::warn!("some calls did not end in time");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn accepted_sockets_send_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut listener = Tcp(listener);
        let client = tokio::spawn(TcpStream::connect(address));
        let (accepted, _) = listener.accept().await;
        assert!(accepted.nodelay().unwrap());
        client.await.unwrap().unwrap();
    }
}
