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

/// What passed for one thread, in its order.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// When a frame of the shell stream that shows the thread as completed was about to be handed on.
    frames: Vec<Instant>,
    /// When a request that reads the thread passed, and the last bytes of its answer.
    reads: Vec<(Instant, Option<Instant>)>,
}

/// The way from the end of a run to those who are told of it.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// The frame that showed it.
    pub(crate) shell: Instant,
    /// The read that it caused.
    pub(crate) read: Instant,
    /// The last bytes of that read's answer.
    pub(crate) answered: Instant,
}

impl Seen {
    /// The way of what was told at `told`: by the last read that was answered before, and the last frame before that read.
    pub(crate) fn way(&self, told: Instant) -> Option<Way> {
        let answered =
            |&(read, answered): &(Instant, Option<Instant>)| Some((read, answered.filter(|at| *at <= told)?));
        let (read, answered) = self.reads.iter().rev().find_map(answered)?;
        let shell = self.frames.iter().rev().copied().find(|frame| *frame <= read)?;
        Some(Way { shell, read, answered })
    }
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
                        seen.reads.push((passed, None));
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
            let read = reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let text = String::from_utf8_lossy(&buffer[..count]);
            // Before it is handed on: the gateway's read may come back faster than this task goes on.
            if read.is_none() && text.contains("\"status\":\"completed\"") {
                let passed = Instant::now();
                self.locked(|all| note_frame(all, &text, passed));
            }
            to.write_all(&buffer[..count]).await?;
            if let Some(thread) = read {
                let passed = Instant::now();
                self.locked(|all| note_answer(all, &thread, passed));
            }
        }
    }
}

/// A frame of the shell stream that shows threads as completed.
fn note_frame(all: &mut HashMap<String, Seen>, text: &str, passed: Instant) {
    for (_, seen) in all.iter_mut().filter(|(thread, _)| text.contains(thread.as_str())) {
        seen.frames.push(passed);
    }
}

/// Bytes of the answer to the thread's last read.
fn note_answer(all: &mut HashMap<String, Seen>, thread: &str, passed: Instant) {
    if let Some((_, answered)) = all.get_mut(thread).and_then(|seen| seen.reads.last_mut()) {
        *answered = Some(passed);
    }
}
