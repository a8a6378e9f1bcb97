//! The way of an event: from the shell frame that shows a run's end to the POST at the receiver, one by one, and a thousand at once.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::routing::post;
use serde_json::Value;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::durations::Durations;
use crate::gateway::{Gateway, TOKEN};
use crate::measure::dispatch;
use crate::tap::{Tap, Way};

const AT_ONCE: usize = 1_000;
/// How many connections start the threads.
const STARTERS: usize = 8;
/// When they all end, counted from the first dispatch: by then all of them are at work.
const END_AFTER: Duration = Duration::from_secs(20);
/// Give up on events that do not come.
const LIMIT: Duration = Duration::from_mins(1);

/// A receiver that notes when the end of each thread came.
#[derive(Clone, Default)]
struct Receiver {
    ended: Arc<Mutex<HashMap<String, Instant>>>,
    came: Arc<Notify>,
}

impl Receiver {
    async fn start() -> anyhow::Result<(Self, SocketAddr)> {
        let receiver = Self::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let keep = receiver.clone();
        let take = move |body: axum::Json<Value>| {
            let keep = keep.clone();
            async move {
                let came = Instant::now();
                if let Some(thread) = body["thread_id"].as_str() {
                    keep.ended().entry(thread.to_owned()).or_insert(came);
                }
                keep.came.notify_waiters();
            }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/hook", post(take))).await });
        Ok((receiver, address))
    }

    fn ended(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the end of a thread came.
    async fn end_of(&self, thread: &str) -> Instant {
        loop {
            let came = self.came.notified();
            if let Some(&at) = self.ended().get(thread) {
                return at;
            }
            came.await;
        }
    }
}

async fn started(machine: SocketAddr, hook: SocketAddr) -> anyhow::Result<Gateway> {
    let start = move || {
        Gateway::start_in(
            tempfile::tempdir()?,
            &format!("http://{machine}"),
            Some(&format!("http://{hook}/hook")),
        )
    };
    tokio::task::spawn_blocking(start).await?
}

/// Runs that end one after the other.
pub(crate) async fn one_by_one(ends: usize) -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    let tap = Tap::start(simulator.addr()).await?;
    let (receiver, hook) = Receiver::start().await?;
    let gateway = started(tap.address, hook).await?;
    let mut client = Client::connect(gateway.address, TOKEN).await?;
    let (mut whole, mut own) = (Durations::default(), Durations::default());
    for _ in 0..ends {
        let thread = dispatch(&mut client, "sleep 0.5").await?;
        tap.watch(&thread);
        let came = tokio::time::timeout(LIMIT, receiver.end_of(&thread)).await?;
        let way = tap.seen(&thread).way(came);
        let Way { shell, read, answered } = way.with_context(|| format!("the tap missed a step of {thread}"))?;
        whole.add(came.saturating_duration_since(shell));
        own.add((read - shell) + came.saturating_duration_since(answered));
    }
    whole.print(&format!(
        "from the shell frame of a run's end to its POST at the receiver, on disk before, {ends} ends"
    ));
    own.print("of which the gateway itself");
    Ok(())
}

/// A thousand runs that end within a second.
pub(crate) async fn all_at_once() -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    let (receiver, hook) = Receiver::start().await?;
    let gateway = started(simulator.addr(), hook).await?;
    let end = Instant::now() + END_AFTER;
    let mut starters = JoinSet::new();
    for _ in 0..STARTERS {
        let address = gateway.address;
        starters.spawn(async move {
            let mut client = Client::connect(address, TOKEN).await?;
            for _ in 0..AT_ONCE / STARTERS {
                let left = end.saturating_duration_since(Instant::now());
                dispatch(&mut client, &format!("sleep {:.3}", left.as_secs_f64())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = starters.join_next().await {
        done??;
    }
    anyhow::ensure!(Instant::now() < end, "the threads were not started in time");
    let all = async {
        loop {
            let came = receiver.came.notified();
            if receiver.ended().len() == AT_ONCE {
                return;
            }
            came.await;
        }
    };
    tokio::time::timeout(END_AFTER + LIMIT, all).await?;
    let ended = receiver.ended();
    let (first, last) = (ended.values().min(), ended.values().max());
    if let (Some(first), Some(last)) = (first, last) {
        println!(
            "| {AT_ONCE} runs that end together: the first and the last POST after that | {:.1} s, {:.1} s |",
            first.saturating_duration_since(end).as_secs_f64(),
            last.saturating_duration_since(end).as_secs_f64()
        );
    }
    Ok(())
}
