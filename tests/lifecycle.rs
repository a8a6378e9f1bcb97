//! The lifecycle: the table's compiler as a library, the generated machines, the fold, and both on recordings of a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "lifecycle/support.rs"]
mod support;
#[path = "lifecycle/watcher.rs"]
mod watcher;

#[path = "lifecycle/compiler.rs"]
mod compiler;
#[path = "lifecycle/fold.rs"]
mod fold;
#[path = "lifecycle/history.rs"]
mod history;
#[path = "lifecycle/machines.rs"]
mod machines;
#[path = "recordings/mod.rs"]
mod recorded;
#[path = "lifecycle/recordings.rs"]
mod recordings;
#[path = "lifecycle/tracker.rs"]
mod tracker;
#[path = "lifecycle/tracker_clocks.rs"]
mod tracker_clocks;
#[path = "lifecycle/tracker_ends.rs"]
mod tracker_ends;
#[path = "lifecycle/tracker_history.rs"]
mod tracker_history;
#[path = "lifecycle/tracker_parts.rs"]
mod tracker_parts;
#[path = "lifecycle/tracker_reading.rs"]
mod tracker_reading;
#[path = "lifecycle/tracker_recordings.rs"]
mod tracker_recordings;
#[path = "lifecycle/tracker_taken_over.rs"]
mod tracker_taken_over;
#[path = "lifecycle/tracker_watches.rs"]
mod tracker_watches;
