//! The runtime of a command, no larger than it needs to be: a gateway that waits should cost little.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;

/// Blocking work is rare here: name lookups and reading small files.
const BLOCKING_THREADS: usize = 8;
/// An idle blocking thread is let go.
const BLOCKING_LINGER: Duration = Duration::from_secs(5);
/// Beyond the bound of connections with room for the ledger and the machines.
const MOST_FILES: u64 = 16_384;
/// How long what still runs at the end may take before the process leaves it.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// Runs a command's future, on as many threads as there are processors.
pub(super) fn run<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    on(&mut Builder::new_multi_thread(), future)
}

/// Runs the future of a command that asks and prints, on this thread.
pub(super) fn run_alone<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    on(&mut Builder::new_current_thread(), future)
}

fn on<T>(builder: &mut Builder, future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = builder
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_LINGER)
        .build()
        .map_err(|error| Failure::said(format!("the runtime could not be started ({error})")))?;
    let result = runtime.block_on(future);
    leave(runtime);
    Ok(result)
}

/// Lets the process have as many files open as the system allows it: shells begin with 1,024, fewer than the connections that are served.
pub(super) fn allow_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = match (limit.current, limit.maximum) {
        (Some(current), Some(most)) => Some(current.max(most.min(MOST_FILES))),
        (Some(current), None) => Some(current.max(MOST_FILES)),
        (None, _) => return,
    };
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files could not be raised: connections beyond it have to wait");
    }
}

/// Waits for the first SIGTERM or SIGINT.
pub(super) async fn until_told_to_stop() -> Result<(), Failure> {
    let unavailable = |error: std::io::Error| Failure::said(format!("signals cannot be received ({error})"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unavailable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unavailable)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// A read of stdin may block for ever, so the end does not wait for everything.
fn leave(runtime: Runtime) {
    runtime.shutdown_timeout(LEAVE_AFTER);
}
