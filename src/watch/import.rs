//! Takes over what the Python connector had tracked, from its JSON file, which is left as it is.
//!
//! Each thread is taken over once for ever: whatever the file could not give at one start (its machine was not configured, say), it may
//! give at a later one. What it gives waits in the ledger until `keeper` has read it. A file that cannot be read is no reason not to start.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::OFlags;

use super::connector_file::{self, Found, Remark};
use crate::config::DEFAULT_CLIENT;
use crate::lifecycle::Watch;
use crate::protocol::Untrusted;
use crate::store::{Store, TakenOver};

/// A larger file is none of the connector's.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

/// How many threads of a file are spoken of one by one.
const MOST_REMARKS: usize = 50;

/// How much of a key and of a reason is shown.
const MOST_SHOWN: usize = 200;

/// Takes over the threads of the file; `machines` are those that are configured. Everything that is to be said of it goes to the log.
pub async fn import(store: &Store, file: &Path, machines: &[&str]) {
    let path = file.display().to_string();
    let path = Untrusted(&path);
    let found = match read(file) {
        Ok(None) => return,
        Ok(Some(text)) => connector_file::threads(&text, machines).map_err(|error| error.to_string()),
        Err(problem) => Err(problem),
    };
    let found = match found {
        Ok(found) => found,
        Err(problem) => {
            let problem = Untrusted(&problem);
            tracing::warn!(file = %path, %problem, "nothing is taken over from the file");
            return;
        }
    };
    let Found { taken, left, in_part } = found;
    let at = Timestamp::now();
    let threads: Vec<TakenOver> = taken
        .into_iter()
        .map(|entry| TakenOver {
            machine: entry.machine,
            thread: entry.thread,
            watch: Watch {
                on: entry.watch,
                origin: entry.origin,
                // Whoever shows the connector's bearer, which the default client takes over.
                client: Some(DEFAULT_CLIENT.to_owned()),
            },
            at,
        })
        .collect();
    let all = threads.len();
    let new = match store.take_over(threads).await {
        Ok(new) => new,
        Err(error) => {
            tracing::error!(file = %path, %error, "nothing is taken over from the file; the next start tries again");
            return;
        }
    };
    let watched = new.iter().filter(|thread| thread.watch.on).count();
    tracing::info!(
        file = %path, taken = new.len(), watched, taken_before = all - new.len(), not_taken = left.len(),
        "threads were taken over from the file, which is left as it is"
    );
    say(&left, "a thread is not taken over");
    // Once is enough for what was taken.
    let in_part: Vec<Remark> = in_part
        .into_iter()
        .filter(|remark| new.iter().any(|thread| thread.thread.0 == remark.thread))
        .collect();
    say(&in_part, "a thread is taken over in part");
}

fn say(remarks: &[Remark], what: &str) {
    for Remark { thread, why } in remarks.iter().take(MOST_REMARKS) {
        let thread = Untrusted(thread).at_most(MOST_SHOWN);
        tracing::warn!(%thread, why = %Untrusted(why).at_most(MOST_SHOWN), "{what}");
    }
    if let Some(more) = remarks.len().checked_sub(MOST_REMARKS).filter(|more| *more > 0) {
        tracing::warn!(more, "{what}: so many more");
    }
}

/// The file's text; none where there is no file.
fn read(file: &Path) -> Result<Option<Vec<u8>>, String> {
    let opened = OpenOptions::new()
        .read(true)
        // Opening a pipe would wait for who writes into it.
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if file.is_symlink() => return Err("it is a symbolic link, which is not followed".to_owned()),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    if !opened.metadata().map_err(unreadable)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut text = Vec::new();
    opened
        .take(LARGEST_FILE + 1)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > LARGEST_FILE {
        return Err(format!("it is larger than {} MiB", LARGEST_FILE / 1024 / 1024));
    }
    Ok(Some(text))
}
