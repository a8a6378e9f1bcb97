//! What the ledger takes: of the disk, of a start, of memory.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use t3code_mcp::lifecycle::{RunState, TrackedRun, TrackedThread, Watch};
use t3code_mcp::simulator::{Simulator, SimulatorOptions};
use t3code_mcp::store::{Batch, EventFilter, LEDGER_FILE, NewEvent, Store, Tracked};

use crate::durations::Durations;
use crate::gateway::{Gateway, STATE};
use crate::measure::mirrored;

const TRACKED: usize = 100_000;
const EVENTS: i64 = 1_000_000;
/// How many of either are written at once.
const BATCH: usize = 1_000;
const SYNCS: usize = 100;

/// What the disk takes to keep 4 KiB for good: no event is told sooner.
pub(crate) fn fsync() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut file = File::create(folder.path().join("probe"))?;
    let mut durations = Durations::default();
    for _ in 0..SYNCS {
        file.write_all(&[0; 4_096])?;
        let begun = Instant::now();
        file.sync_data()?;
        durations.add(begun.elapsed());
    }
    durations.print("an fsync on this disk");
    Ok(())
}

/// A start over a hundred thousand tracked threads.
pub(crate) async fn many_tracked() -> anyhow::Result<()> {
    let simulator = Simulator::start(SimulatorOptions::default()).await?;
    let folder = tempfile::tempdir()?;
    let store = open(folder.path()).await?;
    let threads: Vec<Tracked> = (0..TRACKED).map(tracked).collect();
    for part in threads.chunks(BATCH) {
        let batch = Batch {
            upsert: part.to_vec(),
            ..Batch::default()
        };
        store.commit(batch).await?;
    }
    store.close().await;
    drop(threads);
    let url = simulator.url();
    let gateway = tokio::task::spawn_blocking(move || Gateway::start_in(folder, &url, None)).await??;
    mirrored(gateway.address, 0).await?;
    println!(
        "| {TRACKED} tracked threads: start to `/healthz`, memory | {:.0} ms, {:.1} MiB |",
        gateway.started_in.as_secs_f64() * 1_000.0,
        gateway.resident_mib()?
    );
    Ok(())
}

/// A million events, and half of them pruned.
pub(crate) async fn many_events() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = open(folder.path()).await?;
    let begun = Instant::now();
    let numbers: Vec<i64> = (0..EVENTS).collect();
    for part in numbers.chunks(BATCH) {
        let batch = Batch {
            events: part.iter().map(|&n| event(n)).collect(),
            ..Batch::default()
        };
        store.commit(batch).await?;
    }
    let written = begun.elapsed();
    let size = folder.path().join(STATE).join(LEDGER_FILE).metadata()?.len() >> 20;
    let begun = Instant::now();
    let newest = store.newest();
    let page = store
        .events_after(newest - 1_000, 1_000, &EventFilter::default())
        .await?;
    anyhow::ensure!(page.events.len() == 1_000, "the page is not whole");
    let read = begun.elapsed();
    let begun = Instant::now();
    let pruned = store.prune(at(EVENTS / 2), Duration::ZERO).await?;
    println!(
        "| {EVENTS} events of 1 KB: written in, size, the newest 1,000 read, {} pruned in | {:.0} s, {size} MiB, {:.0} ms, {:.1} s |",
        pruned.events,
        written.as_secs_f64(),
        read.as_secs_f64() * 1_000.0,
        begun.elapsed().as_secs_f64()
    );
    store.close().await;
    Ok(())
}

async fn open(folder: &Path) -> anyhow::Result<Store> {
    let state = folder.join(STATE);
    // As the gateway wants it: closed to others.
    let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&state);
    made?;
    Ok(Store::open(&state.join(LEDGER_FILE)).await?)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + seconds)
}

/// A thread that did its work and is watched on.
fn tracked(number: usize) -> Tracked {
    let thread = format!("0190a7c2-5b1e-7c3a-9d2f-{number:012}");
    let watch = Watch {
        on: true,
        origin: Some("chat:42".to_owned()),
        client: Some("dispatcher".to_owned()),
    };
    let run = TrackedRun {
        id: format!("run:thread:{thread}:ordinal:1").into(),
        requested_at: at(0),
        ordinal: 1,
        state: RunState::Completed,
        watch: watch.clone(),
        message: Some(format!("message-{number}").into()),
        finishing_since: None,
        changed_at: at(60),
        stalled: false,
    };
    Tracked {
        machine: "sim".to_owned(),
        environment: None,
        project_id: Some("project-of-the-load-tool".to_owned().into()),
        project_title: Some("A project".to_owned()),
        title: Some(format!("The work of thread {number}")),
        protocol: 2,
        thread: TrackedThread {
            thread: thread.into(),
            latest: watch,
            every: true,
            baseline: None,
            runs: vec![run],
            requests: Vec::new(),
            dispatched: Vec::new(),
            unreachable: false,
        },
    }
}

fn event(number: i64) -> NewEvent {
    NewEvent {
        id: format!("evt_{number:032}"),
        occurred_at: at(number),
        machine: "sim".to_owned(),
        thread: format!("thread {}", number % 1_000).into(),
        project_id: None,
        client: None,
        kind: "completed".to_owned(),
        body: format!("{{\"text\":\"{}\"}}", "x".repeat(1_000)),
        deliver: false,
    }
}
