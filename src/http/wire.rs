//! What connections come over: TCP, or the socket in the state directory.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::{ConnectInfo, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Both ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Connection {
    /// Whoever reaches the port.
    Tcp {
        peer: SocketAddr,
        /// The address that the client connected to.
        local: Option<SocketAddr>,
    },
    /// A process of the user who runs the gateway: nobody else can open the file.
    Socket,
}

/// Whether a request came over the socket.
pub(super) fn is_socket(request: &Request) -> bool {
    matches!(
        request.extensions().get::<ConnectInfo<Connection>>(),
        Some(ConnectInfo(Connection::Socket))
    )
}

/// One accepted connection.
#[derive(Debug)]
pub(super) enum Wire {
    Tcp(TcpStream),
    Socket(UnixStream),
}

/// Where connections come from.
pub(super) trait Accept {
    async fn accept(&mut self) -> io::Result<(Wire, Connection)>;
}

impl Accept for TcpListener {
    async fn accept(&mut self) -> io::Result<(Wire, Connection)> {
        let (stream, peer) = Self::accept(self).await?;
        // Without it an answer waits 40 ms for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let local = stream.local_addr().ok();
        Ok((Wire::Tcp(stream), Connection::Tcp { peer, local }))
    }
}

/// What the endpoint is served on.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// The socket in the state directory.
    Socket(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Socket(listener)
    }
}

impl Accept for Listener {
    async fn accept(&mut self) -> io::Result<(Wire, Connection)> {
        match self {
            Self::Tcp(listener) => Accept::accept(listener).await,
            Self::Socket(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Wire::Socket(stream), Connection::Socket))
            }
        }
    }
}

impl Wire {
    /// The kernel holds an error for it: the client reset it. Asking takes the error away.
    pub(super) fn has_failed(&self) -> bool {
        let error = match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Socket(stream) => stream.take_error(),
        };
        !matches!(error, Ok(None))
    }
}

/// Does the same to either.
macro_rules! either {
    ($self:expr, $stream:ident => $done:expr) => {
        match $self.get_mut() {
            Wire::Tcp(stream) => {
                let $stream = Pin::new(stream);
                $done
            }
            Wire::Socket(stream) => {
                let $stream = Pin::new(stream);
                $done
            }
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        // Both are.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
