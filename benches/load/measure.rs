//! What is measured, one function a row of the table.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Call, Client};
use crate::durations::Durations;
use crate::gateway::{Gateway, TOKEN};

/// Calls of a row that are made before it counts.
const WARM_UP: usize = 50;

/// Calls per second, p50 and p99 in milliseconds.
pub(crate) struct Throughput {
    pub(crate) per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The same call over `connections` connections, one at a time on each, for `seconds`.
pub(crate) async fn throughput(
    address: SocketAddr,
    call: &Call,
    connections: usize,
    seconds: Duration,
) -> anyhow::Result<Throughput> {
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..connections {
        let call = call.clone();
        clients.spawn(async move {
            let mut client = Client::connect(address, TOKEN).await?;
            for _ in 0..WARM_UP {
                client.call(&call).await?.content()?;
            }
            let mut durations = Durations::default();
            let counted_from = Instant::now();
            while counted_from.elapsed() < seconds {
                let sent = Instant::now();
                client.call(&call).await?;
                durations.add(sent.elapsed());
            }
            anyhow::Ok(durations)
        });
    }
    let mut all = Durations::default();
    while let Some(durations) = clients.join_next().await {
        all.extend(durations??);
    }
    anyhow::ensure!(begun.elapsed() >= seconds, "nothing was measured");
    Ok(Throughput {
        per_second: all.per_second(seconds),
        p50: all.percentile(50),
        p99: all.percentile(99),
    })
}

/// The smallest and the middle time from `exec` to `/healthz`, in milliseconds.
pub(crate) fn cold_start(machine_url: &str, times: usize) -> anyhow::Result<(f64, f64)> {
    let mut durations = Durations::default();
    for _ in 0..times {
        durations.add(Gateway::start(machine_url)?.started_in);
    }
    Ok((durations.percentile(0), durations.percentile(50)))
}

/// A thread that ended, for reads.
pub(crate) async fn finished_thread(address: SocketAddr) -> anyhow::Result<String> {
    let mut client = Client::connect(address, TOKEN).await?;
    let thread = dispatch(&mut client, "say hello").await?;
    let wait = Call::tool("t3_wait", &json!({"thread_id": thread, "timeout": 20}));
    let view = client.call(&wait).await?.content()?;
    anyhow::ensure!(view["state"] == "completed", "the thread did not complete: {view}");
    Ok(thread)
}

/// Dispatches a prompt and gives the thread's id.
pub(crate) async fn dispatch(client: &mut Client, prompt: &str) -> anyhow::Result<String> {
    let call = Call::tool(
        "t3_dispatch",
        &json!({"prompt": prompt, "machine": "sim", "project": "t3-smoke"}),
    );
    let answer: Value = client.call(&call).await?.content()?;
    let id = answer["thread_id"]
        .as_str()
        .ok_or_else(|| anyhow::anyhow!("no thread_id in {answer}"))?;
    Ok(id.to_owned())
}

/// Waits until the gateway shows `count` threads in its project.
pub(crate) async fn mirrored(address: SocketAddr, count: usize) -> anyhow::Result<()> {
    let mut client = Client::connect(address, TOKEN).await?;
    let call = Call::tool("t3_projects", &json!({}));
    let begun = Instant::now();
    loop {
        let projects = client.call(&call).await?.content()?;
        let threads: u64 = projects["projects"].as_array().map_or(0, |all| {
            all.iter().filter_map(|project| project["threads"].as_u64()).sum()
        });
        if threads >= count as u64 {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < Duration::from_secs(30),
            "only {threads} of {count} threads came"
        );
        tokio::task::yield_now().await;
    }
}
