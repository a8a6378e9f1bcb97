//! Measures the gateway as a client sees it: `cargo bench --bench load`. Prints the table that stands in the README.
//!
//! The gateway is the real binary in a process of its own; machine and clients share this process, and the processors with it.

mod client;
mod durations;
mod gateway;
mod hook;
mod ledger;
mod measure;
mod tap;
mod wake;

use std::time::Duration;

use serde_json::json;
use t3code_mcp::simulator::{Simulator, SimulatorOptions};

use client::{Call, Client};
use gateway::{Gateway, TOKEN};

const CONNECTIONS: [usize; 3] = [1, 16, 64];
const MANY_THREADS: usize = 10_000;
const STARTS: usize = 20;
/// A process that nobody asked anything for so long is idle: it has given back what its start needed.
const IDLE: Duration = Duration::from_secs(5);

fn main() -> anyhow::Result<()> {
    // Cargo hands its own flags to every bench; `--quick` is ours.
    let quick = std::env::args().any(|argument| argument == "--quick");
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run(quick))
}

async fn run(quick: bool) -> anyhow::Result<()> {
    let seconds = Duration::from_secs(if quick { 1 } else { 5 });
    println!("| measured | result |\n|---|---|");
    small(seconds).await?;
    many_threads().await?;
    wake::many_waits(if quick { 5 } else { 60 }).await?;
    hook::one_by_one(if quick { 10 } else { 60 }).await?;
    hook::all_at_once().await?;
    ledger::fsync()?;
    ledger::many_tracked().await?;
    // Minutes of writing.
    if quick { Ok(()) } else { ledger::many_events().await }
}

/// One machine with next to nothing in it: start, idle memory, calls.
async fn small(seconds: Duration) -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    let url = simulator.url();
    let (least, middle) = tokio::task::spawn_blocking(move || measure::cold_start(&url, STARTS)).await??;
    println!("| cold start to `/healthz`, least / p50 of {STARTS} | {least:.0} / {middle:.0} ms |");

    let gateway = start(&simulator.url()).await?;
    measure::mirrored(gateway.address, 0).await?;
    tokio::time::sleep(IDLE).await;
    println!("| memory, idle, one machine | {:.1} MiB |", gateway.resident_mib()?);

    let thread = measure::finished_thread(gateway.address).await?;
    let calls = [
        ("t3_machines", Call::tool("t3_machines", &json!({}))),
        ("t3_thread", Call::tool("t3_thread", &json!({"thread_id": thread}))),
    ];
    for (name, call) in &calls {
        for connections in CONNECTIONS {
            let row = measure::throughput(gateway.address, call, connections, seconds).await?;
            let plural = if connections == 1 { "" } else { "s" };
            println!(
                "| `{name}`, {connections} connection{plural} | {:.0} calls/s, p50 {:.2} ms, p99 {:.2} ms |",
                row.per_second, row.p50, row.p99
            );
        }
    }
    println!("| memory after these calls | {:.1} MiB |", gateway.resident_mib()?);
    Ok(())
}

/// Ten thousand threads in the mirror.
async fn many_threads() -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    simulator.seed_threads(MANY_THREADS);
    let gateway = start(&simulator.url()).await?;
    measure::mirrored(gateway.address, MANY_THREADS).await?;
    let at_once = gateway.resident_mib()?;
    tokio::time::sleep(IDLE).await;
    println!(
        "| memory with {MANY_THREADS} threads in the mirror, at once / idle | {at_once:.1} / {:.1} MiB |",
        gateway.resident_mib()?
    );
    let mut client = Client::connect(gateway.address, TOKEN).await?;
    client.call(&Call::tool("t3_machines", &json!({}))).await?.content()?;
    Ok(())
}

/// Starts a gateway without holding up the runtime that its machine runs on.
pub(crate) async fn start(machine_url: &str) -> anyhow::Result<Gateway> {
    let url = machine_url.to_owned();
    tokio::task::spawn_blocking(move || Gateway::start(&url)).await?
}
