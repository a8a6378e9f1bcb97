//! Rows of a shell, in whichever protocol: each is read by itself, and one that cannot be read takes no other away.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::machine::error::MachineError;
use crate::machine::mirror::UnreadRow;
use crate::protocol::ThreadId;

/// Those that can be read; the others are noted, each with the thread that `name` finds in it.
pub(super) fn readable<T>(
    values: &[&RawValue],
    unread: &mut Vec<UnreadRow>,
    name: impl Fn(&RawValue) -> Option<ThreadId>,
    read: impl Fn(&RawValue) -> Result<T, MachineError>,
) -> Vec<T> {
    let mut rows = Vec::with_capacity(values.len());
    for value in values {
        match read(value) {
            Ok(row) => rows.push(row),
            Err(error) => unread.push(UnreadRow {
                thread: name(value),
                problem: error.to_string(),
            }),
        }
    }
    rows
}

/// The id of a thread of which nothing else may be readable.
pub(super) fn id_of(thread: &RawValue) -> Option<ThreadId> {
    #[derive(Deserialize)]
    struct Named {
        id: ThreadId,
    }
    serde_json::from_str::<Named>(thread.get()).ok().map(|named| named.id)
}
