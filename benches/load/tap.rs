//! A wire tap between the gateway and its machine: a plain TCP relay that notes when what passed.
//!
//! It tells the gateway's own share of a wake-up from the machine's: the time from a shell frame to the read that it causes, and from
//! that read's answer to the answer that the client gets, lie in the gateway; what is between lies in the machine.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

const READ_PATH: &str = "GET /api/orchestration/threads/";

/// What passed for one thread, newest wins.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// A frame of the shell stream that shows the thread as completed.
    pub(crate) shell: Option<Instant>,
    /// The request that reads the thread, after that frame.
    pub(crate) read: Option<Instant>,
    /// The last bytes of its answer.
    pub(crate) answered: Option<Instant>,
}

/// The thread that a connection is reading, since an answer names it late.
type Reading = Arc<Mutex<Option<String>>>;

/// The relay.
#[derive(Clone)]
pub(crate) struct Tap {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

impl Tap {
    /// Relays to `machine`.
    pub(crate) async fn start(machine: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let tap = Self {
            address: listener.local_addr()?,
            seen: Arc::default(),
        };
        let relay = tap.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let relay = relay.clone();
                tokio::spawn(async move { relay.connection(near, machine).await });
            }
        });
        Ok(tap)
    }

    /// From now on, what passes for this thread is noted.
    pub(crate) fn watch(&self, thread: &str) {
        self.locked(|seen| seen.insert(thread.to_owned(), Seen::default()));
    }

    /// What passed for a thread.
    pub(crate) fn seen(&self, thread: &str) -> Seen {
        self.locked(|seen| seen.remove(thread)).unwrap_or_default()
    }

    fn locked<R>(&self, change: impl FnOnce(&mut HashMap<String, Seen>) -> R) -> R {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn connection(self, near: TcpStream, machine: SocketAddr) -> std::io::Result<()> {
        let far = TcpStream::connect(machine).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        let reading = Reading::default();
        let up = self.clone().requests(near_read, far_write, Arc::clone(&reading));
        let down = self.answers(far_read, near_write, reading);
        tokio::try_join!(up, down).map(drop)
    }

    async fn requests(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, reading: Reading) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return to.shutdown().await;
            }
            let passed = Instant::now();
            let text = String::from_utf8_lossy(&buffer[..count]);
            if let Some(rest) = text.strip_prefix(READ_PATH) {
                let thread = rest.split([' ', '/', '?']).next().unwrap_or_default().to_owned();
                self.locked(|all| {
                    if let Some(seen) = all.get_mut(&thread) {
                        seen.read = seen.shell.map(|_| passed);
                    }
                });
                *reading.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
            }
            to.write_all(&buffer[..count]).await?;
        }
    }

    async fn answers(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, reading: Reading) -> std::io::Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return to.shutdown().await;
            }
            to.write_all(&buffer[..count]).await?;
            let passed = Instant::now();
            let read = reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let text = String::from_utf8_lossy(&buffer[..count]);
            self.locked(|all| note(all, read, &text, passed));
        }
    }
}

/// Notes what came from the machine: the answer of a read, or a frame of the shell stream.
fn note(all: &mut HashMap<String, Seen>, read: Option<String>, text: &str, passed: Instant) {
    if let Some(thread) = read {
        if let Some(seen) = all.get_mut(&thread) {
            seen.answered = seen.read.map(|_| passed);
        }
    } else if text.contains("\"status\":\"completed\"") {
        for (_, seen) in all.iter_mut().filter(|(thread, _)| text.contains(thread.as_str())) {
            *seen = Seen {
                shell: Some(passed),
                ..Seen::default()
            };
        }
    }
}
