//! Serves the endpoint on a listener, and stops in order: open waits are answered, not cut.
//!
//! The number of connections and the time of a request's head are bounded, and a failing `accept` is waited out: nobody can wear the
//! process out by opening connections, with or without a bearer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Endpoint;
use super::head_clock::HeadClock;
use super::line::{Line, Socket};
use super::settings::Connections;
use super::wire::{Accept, Connection, Listener, Wire};

/// When what is still open is cut. Waits answer at once; this is for a tool that does not listen.
const CUT_AFTER: Duration = Duration::from_secs(4);

/// How long cut connections may take to end.
const LINGER: Duration = Duration::from_millis(500);

/// How long mutations may take after the last connection ended.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// How often streams that clients hold open are closed while stopping: new ones may come by open connections.
const CLOSE_EVERY: Duration = Duration::from_millis(100);

/// How long no connection is accepted after the system could not give one, as when too many files are open.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Connections beyond the bound that are told so at the same time; more are closed without a word.
const MAX_TURNED_AWAY: usize = 64;

/// How long one of them may take to read it.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(1);

/// The largest head of a request. Clients send some hundred bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 117\r\n\r\n{\"error\":\"too_many_connections\",\"message\":\"Too many connections are open. Close those that are not needed, or wait.\"}";

/// The next connection; errors are waited out.
async fn next_connection(listener: &mut impl Accept) -> (Wire, Connection) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The client's own: it left before its turn.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted; trying again in a second");
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

/// The connections of one listener.
struct Accepting {
    router: Router,
    limits: Connections,
    room: Arc<Semaphore>,
    turned_away: Arc<Semaphore>,
    open: TaskTracker,
    /// No new requests.
    stop: CancellationToken,
    /// No connections.
    end: CancellationToken,
}

impl Accepting {
    /// Accepts until `stop` is cancelled.
    async fn run(&self, mut listener: impl Accept) {
        loop {
            let (stream, ends) = tokio::select! {
                next = next_connection(&mut listener) => next,
                () = self.stop.cancelled() => return,
            };
            match Arc::clone(&self.room).try_acquire_owned() {
                Ok(place) => self.open(stream, ends, place),
                Err(_) => self.turn_away(stream),
            }
        }
    }

    fn open(&self, stream: Wire, ends: Connection, place: OwnedSemaphorePermit) {
        let line = Line::new();
        let told_by = Arc::clone(&line);
        let mut builder = http1::Builder::new();
        builder
            .timer(HeadClock {
                line: Arc::clone(&line),
                limits: self.limits,
            })
            .header_read_timeout(self.limits.head_within)
            .max_header_size(MAX_HEAD_BYTES);
        let io = TokioIo::new(Socket::new(stream, Arc::clone(&line)));
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            line.handle_request();
            request.extensions_mut().insert(ConnectInfo(ends));
            request.extensions_mut().insert(Arc::clone(&line));
            router.call(request)
        });
        let (stop, end, heard) = (self.stop.clone(), self.end.clone(), Arc::clone(&told_by));
        self.open.spawn(async move {
            let mut serving = std::pin::pin!(builder.serve_connection(io, service));
            let ended = tokio::select! {
                ended = serving.as_mut() => ended,
                () = end.cancelled() => return,
                () = stop.cancelled() => {
                    // A client that tells whether it read its answer does so over this connection.
                    tokio::select! {
                        _ = serving.as_mut() => return,
                        () = heard.heard_out() => {}
                        () = end.cancelled() => return,
                    }
                    serving.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = serving => ended,
                        () = end.cancelled() => return,
                    }
                }
            };
            if let Err(error) = ended {
                tracing::trace!(?ends, %error, "a connection broke");
            }
            drop(place);
        });
    }

    fn turn_away(&self, mut stream: Wire) {
        tracing::warn!(
            most = self.limits.most,
            "too many connections are open: another one is refused"
        );
        let Ok(place) = Arc::clone(&self.turned_away).try_acquire_owned() else {
            return;
        };
        self.open.spawn(async move {
            let told = async {
                stream.write_all(TOO_MANY).await?;
                stream.shutdown().await?;
                // Closing over what it has sent would reset the connection, and the answer with it.
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await? > 0 {}
                io::Result::Ok(())
            };
            let _ = timeout(TURNED_AWAY_WITHIN, told).await;
            drop(place);
        });
    }
}

/// Serves until `stop` is cancelled, then answers what is open and returns within ten seconds. `stop` is also the gateway's: by it the open waits
/// learn that they have to answer. It must not be the machines': what is being sent when it is cancelled is still seen through.
pub async fn serve(listener: impl Into<Listener>, endpoint: Endpoint, stop: CancellationToken) {
    let listener = listener.into();
    let Endpoint {
        router,
        sessions,
        server,
        cut,
        connections,
    } = endpoint;
    let end = CancellationToken::new();
    let _ended = end.clone().drop_guard();
    let accepting = Accepting {
        // Made into a service once, not for every request.
        router: router.with_state(()),
        limits: connections,
        room: Arc::new(Semaphore::new(connections.most)),
        turned_away: Arc::new(Semaphore::new(MAX_TURNED_AWAY)),
        open: TaskTracker::new(),
        stop: stop.clone(),
        end,
    };
    let serving = async {
        accepting.run(listener).await;
        accepting.open.close();
        accepting.open.wait().await;
    };
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
        () = serving => {}
        () = stopping => tracing::warn!("some connections did not end in time and are cut"),
    }
    // Mutations outlive their requests, but not the process.
    if timeout(SETTLE_WITHIN, server.settled()).await.is_err() {
        tracing::warn!("some calls did not end in time");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Fails some times, as a system without file descriptors does.
    struct Failing(TcpListener, Vec<io::Error>);

    impl Accept for Failing {
        async fn accept(&mut self) -> io::Result<(Wire, Connection)> {
            match self.1.pop() {
                Some(error) => Err(error),
                None => Accept::accept(&mut self.0).await,
            }
        }
    }

    #[tokio::test]
    async fn accepted_sockets_send_without_delay() {
        let mut listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = tokio::spawn(TcpStream::connect(listener.local_addr().unwrap()));
        let (accepted, _) = next_connection(&mut listener).await;
        let Wire::Tcp(accepted) = accepted else {
            panic!("it came by TCP")
        };
        assert!(accepted.nodelay().unwrap());
        client.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_that_fails_is_tried_again_after_a_pause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = tokio::spawn(TcpStream::connect(listener.local_addr().unwrap()));
        // EMFILE and ENFILE, and a client that left.
        let errors = vec![
            io::Error::from_raw_os_error(24),
            io::ErrorKind::ConnectionAborted.into(),
            io::Error::from_raw_os_error(23),
        ];
        let began = Instant::now();
        next_connection(&mut Failing(listener, errors)).await;
        assert_eq!(began.elapsed().as_secs(), 2 * ACCEPT_AGAIN_AFTER.as_secs());
        client.await.unwrap().unwrap();
    }

    #[test]
    fn the_refusal_of_a_connection_announces_its_length() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("\r\ncontent-length: {}", body.len())), "{head}");
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
