//! From a ticket to an open WebSocket. The one place where the ticket stands in a URL: nothing here prints a request, a URI or an
//! error that could hold one.

use std::net::Ipv6Addr;
use std::time::Duration;

use http::HeaderValue;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, http::Request};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, client_async_tls_with_config};
use url::{Host, Url};

use super::SocketOptions;
use super::heard::{Heard, Listening};
use crate::machine::http::{HttpClient, PROTOCOL_HEADER, Ticket};
use crate::machine::{MachineError, TokenFrom, descriptor, refusal};
use crate::outbound::bare;

/// Bytes that one read takes from the socket: chunks of a shell are some kilobytes, and every machine keeps one such buffer.
const READ_BUFFER: usize = 32 * 1024;

/// An open socket, and whether bytes come in over it.
pub(super) struct Opened {
    pub(super) socket: WebSocketStream<MaybeTlsStream<Listening<TcpStream>>>,
    pub(super) heard: Heard,
}

pub(super) async fn connect(
    http: &HttpClient,
    ticket: &Ticket,
    options: &SocketOptions,
) -> Result<Opened, MachineError> {
    let machine = http.machine();
    let url = http.socket_url();
    let place = bare(&url);
    let limits = http.limits();
    let stream = open(machine, &url, &place, limits.connect).await?;
    let (stream, heard) = Listening::new(stream);

    let request = upgrade(&url, ticket).ok_or_else(|| MachineError::NotT3 {
        reason: format!("{machine} cannot be asked for a WebSocket: its url or its ticket makes no request"),
    })?;
    let mut config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(options.frame_limit))
        .max_frame_size(Some(options.frame_limit));
    // Every message is flushed at once; buffering them would only hold them back.
    config.write_buffer_size = 0;
    let connector = Connector::Rustls(http.tls());
    let opened = client_async_tls_with_config(request, stream, Some(config), Some(connector));
    match timeout(limits.read, opened).await {
        Ok(Ok((socket, _response))) => Ok(Opened { socket, heard }),
        Ok(Err(error)) => Err(refused((machine, http.source()), &url, &place, error)),
        Err(_elapsed) => Err(MachineError::Timeout(limits.read)),
    }
}

async fn open(machine: &str, url: &Url, place: &str, within: Duration) -> Result<TcpStream, MachineError> {
    let unreachable = |reason| MachineError::Unreachable { reason };
    let port = url.port_or_known_default().unwrap_or(80);
    let connecting = async {
        match url.host() {
            Some(Host::Ipv4(address)) => TcpStream::connect((address, port)).await,
            Some(Host::Ipv6(address)) => TcpStream::connect((address, port)).await,
            Some(Host::Domain(name)) => TcpStream::connect((name, port)).await,
            // The HTTP client took no URL without a host.
            None => TcpStream::connect((Ipv6Addr::UNSPECIFIED, port)).await,
        }
    };
    let stream = timeout(within, connecting)
        .await
        .map_err(|_elapsed| unreachable(refusal::no_connection(machine, place, within)))?
        .map_err(|error| unreachable(refusal::connection_failed(machine, place, &error)))?;
    // Acks and pings are small and waited for. A socket that refuses the option only is slower.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was refused");
    }
    Ok(stream)
}

/// The upgrade request; none where it cannot be written, whose reason could repeat the ticket.
fn upgrade(url: &Url, ticket: &Ticket) -> Option<Request<()>> {
    let mut url = url.clone();
    url.query_pairs_mut().append_pair("wsTicket", ticket.expose());
    let mut request = url.as_str().into_client_request().ok()?;
    let spoken = HeaderValue::from(descriptor::SPOKEN);
    request.headers_mut().insert(PROTOCOL_HEADER, spoken);
    Some(request)
}

/// What a refused upgrade means. Only the kinds that cannot hold our URL are told in their own words.
fn refused((machine, source): (&str, TokenFrom), url: &Url, place: &str, error: tungstenite::Error) -> MachineError {
    use tungstenite::Error;
    match error {
        Error::Http(response) => {
            let (parts, body) = response.into_parts();
            let body = body.unwrap_or_default();
            refusal::read((machine, source), url, parts.status, &parts.headers, &body).into_error(machine, url.path())
        }
        Error::Io(error) => MachineError::Unreachable {
            reason: refusal::connection_failed(machine, place, &error),
        },
        Error::Tls(error) => MachineError::Unreachable {
            reason: refusal::connection_failed(machine, place, &error),
        },
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Protocol(tungstenite::error::ProtocolError::HandshakeIncomplete) => MachineError::Unreachable {
            reason: format!("{machine} broke the connection at {place} off: is T3 Code still running there?"),
        },
        Error::Capacity(_)
        | Error::Protocol(_)
        | Error::WriteBufferFull(_)
        | Error::Utf8(_)
        | Error::AttackAttempt
        | Error::Url(_)
        | Error::HttpFormat(_) => MachineError::NotT3 {
            reason: format!("{machine} does not speak WebSocket at {place}: is its url that of a T3 server?"),
        },
    }
}
