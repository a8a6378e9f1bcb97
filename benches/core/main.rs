//! What the deciding core costs, on recorded frames: reading a frame, decoding what it carries, folding a thread's state.

#[path = "../../tests/recordings/mod.rs"]
mod recordings;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use serde_json::Value;
use t3code_mcp::lifecycle::{RunFacts, ThreadFacts, fold};
use t3code_mcp::protocol::rpc::ServerFrame;
use t3code_mcp::protocol::v2::ShellStreamItem;
use t3code_mcp::protocol::{MessageId, RunId, decode};

const RECORDING: &str = "04-queue-steer-interrupt";
/// Runs of a thread that has been worked in for weeks.
const RUNS: u64 = 200;

/// The recorded chunks of the shell stream, as T3 sent them.
fn shell_frames() -> Vec<String> {
    recordings::lines(RECORDING)
        .into_iter()
        .filter(|entry| entry["conn"] == "shell" && entry["body"]["_tag"] == "Chunk")
        .map(|entry| entry["body"].to_string())
        .collect()
}

fn frames(criterion: &mut Criterion) {
    let frames = shell_frames();
    assert!(!frames.is_empty(), "the recording has no shell frames");
    criterion.bench_function("read the recorded shell frames", |bencher| {
        bencher.iter(|| {
            frames
                .iter()
                .map(|frame| ServerFrame::read(black_box(frame)).len())
                .sum::<usize>()
        });
    });
    let items: Vec<Vec<u8>> = frames
        .iter()
        .filter_map(|frame| serde_json::from_str::<Value>(frame).ok())
        .flat_map(|frame| frame["values"].as_array().cloned().unwrap_or_default())
        .map(|item| item.to_string().into_bytes())
        .collect();
    criterion.bench_function("decode the recorded shell items", |bencher| {
        bencher.iter(|| {
            for item in &items {
                assert!(decode::<ShellStreamItem>(black_box(item)).is_ok());
            }
        });
    });
}

fn folding(criterion: &mut Criterion) {
    let facts = ThreadFacts {
        runs: (1..=RUNS).map(run).collect(),
        ..ThreadFacts::default()
    };
    criterion.bench_function("fold a thread of 200 runs", |bencher| {
        bencher.iter_batched_ref(|| facts.clone(), |facts| fold(black_box(facts)), BatchSize::SmallInput);
    });
}

fn run(ordinal: u64) -> RunFacts {
    RunFacts {
        id: RunId(format!("run:thread:bench:ordinal:{ordinal}")),
        ordinal,
        status: if ordinal == RUNS { "running" } else { "completed" }.to_owned(),
        requested_at: Timestamp::UNIX_EPOCH,
        started_at: Some(Timestamp::UNIX_EPOCH),
        completed_at: (ordinal < RUNS).then_some(Timestamp::UNIX_EPOCH),
        queue_held: false,
        queue_position: None,
        promoted_into: None,
        continuation_of: None,
        user_message: MessageId(format!("message-{ordinal}")),
    }
}

criterion_group! {
    name = core;
    config = Criterion::default().measurement_time(Duration::from_secs(3));
    targets = frames, folding
}
criterion_main!(core);
