//! The wake-up: with a thousand waits open, one run ends; how long until the first byte of its wait's answer?

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use tokio::task::JoinSet;

use crate::client::{Call, Client};
use crate::durations::Durations;
use crate::gateway::TOKEN;
use crate::measure::dispatch;
use crate::start;
use crate::tap::{Tap, Way};

const OPEN_WAITS: usize = 1_000;
/// How many connections start the threads.
const STARTERS: usize = 8;

/// Prints the rows with a thousand waits open; `ends` runs end one after the other.
pub(crate) async fn many_waits(ends: usize) -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    let tap = Tap::start(simulator.addr()).await?;
    let gateway = start(&format!("http://{}", tap.address)).await?;
    let before = gateway.resident_mib()?;

    let mut waits = JoinSet::new();
    for thread in started(gateway.address).await? {
        let address = gateway.address;
        waits.spawn(async move {
            let mut client = Client::connect(address, TOKEN).await?;
            client
                .call(&Call::tool("t3_wait", &json!({"thread_id": thread, "timeout": 3_600})))
                .await
        });
    }
    settled(&gateway).await?;
    let after = gateway.resident_mib()?;
    println!("| memory with {OPEN_WAITS} waits open ({before:.1} MiB before their threads) | {after:.1} MiB |");

    let mut whole = Durations::default();
    let mut own = Durations::default();
    let mut client = Client::connect(gateway.address, TOKEN).await?;
    for _ in 0..ends {
        let thread = dispatch(&mut client, "sleep 1").await?;
        tap.watch(&thread);
        let answer = client
            .call(&Call::tool("t3_wait", &json!({"thread_id": thread, "timeout": 30})))
            .await?;
        let view = answer.content()?;
        anyhow::ensure!(view["state"] == "completed", "the run did not complete: {view}");
        let way = tap.seen(&thread).way(answer.first_byte);
        let Way { shell, read, answered } = way.with_context(|| format!("the tap missed a step of {thread}"))?;
        whole.add(answer.first_byte.saturating_duration_since(shell));
        own.add((read - shell) + answer.first_byte.saturating_duration_since(answered));
    }
    anyhow::ensure!(
        waits.len() == OPEN_WAITS && waits.try_join_next().is_none(),
        "a wait ended on its own"
    );
    whole.print(&format!(
        "from the shell frame to the first byte of the wait's answer, {OPEN_WAITS} waits open, {ends} ends"
    ));
    own.print("of which the gateway itself");
    Ok(())
}

/// A thousand threads at work.
async fn started(address: std::net::SocketAddr) -> anyhow::Result<Vec<String>> {
    let mut starters = JoinSet::new();
    for _ in 0..STARTERS {
        starters.spawn(async move {
            let mut client = Client::connect(address, TOKEN).await?;
            let mut threads = Vec::new();
            for _ in 0..OPEN_WAITS / STARTERS {
                threads.push(dispatch(&mut client, "sleep 3600").await?);
            }
            anyhow::Ok(threads)
        });
    }
    let mut all = Vec::new();
    while let Some(threads) = starters.join_next().await {
        all.extend(threads??);
    }
    Ok(all)
}

/// Waits until the gateway answers other calls without delay: every wait has been taken up by then, since calls are served in turn.
async fn settled(gateway: &crate::gateway::Gateway) -> anyhow::Result<()> {
    let mut client = Client::connect(gateway.address, TOKEN).await?;
    let call = Call::tool("t3_machines", &json!({}));
    for _ in 0..10 {
        client.call(&call).await?.content()?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
