//! Going through threads page by page while they move. Pure.
//!
//! Threads are told newest first: by the time when T3 last changed them, then by machine and id. A cursor names the place of the last
//! thread that was looked at, and the next page is what stands behind that place now. A thread only ever moves to the front, and a place is
//! not a count, so: no thread is told twice; and one that does not change while somebody pages is told exactly once, wherever the others
//! move. One that changes before its page came stands before the cursor then: it is not told any more, but counted (`newer`), so that the
//! caller knows to begin anew. What is new is told by its machine's own clock: the cursor keeps, of each, how new its newest was at the
//! beginning.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use url::form_urlencoded::{Serializer, parse};

use crate::protocol::ThreadId;

/// Where a thread stands. What is greater comes later.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    at: Reverse<Timestamp>,
    machine: String,
    thread: ThreadId,
}

impl Place {
    pub(super) fn new(at: Timestamp, machine: &str, thread: &ThreadId) -> Self {
        Self {
            at: Reverse(at),
            machine: machine.to_owned(),
            thread: thread.clone(),
        }
    }
}

/// Where to go on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Cursor {
    /// The place of the last thread that was looked at.
    last: Place,
    /// Of each machine, when its newest thread had changed at the beginning.
    began: BTreeMap<String, Timestamp>,
    /// What was asked for: another question needs another beginning.
    question: String,
}

/// What stands behind a cursor, in order, and how much came before it since the beginning.
#[derive(Debug)]
pub(super) struct Behind<T> {
    pub(super) threads: Vec<(Place, T)>,
    pub(super) newer: usize,
    began: BTreeMap<String, Timestamp>,
}

/// Puts threads in order and leaves out what the pages before this one were about.
pub(super) fn behind<T>(mut threads: Vec<(Place, T)>, cursor: Option<&Cursor>) -> Behind<T> {
    threads.sort_by(|(one, _), (other, _)| one.cmp(other));
    let Some(cursor) = cursor else {
        let mut began = BTreeMap::new();
        for (place, _) in &threads {
            // The first of a machine is its newest.
            began.entry(place.machine.clone()).or_insert(place.at.0);
        }
        return Behind {
            threads,
            newer: 0,
            began,
        };
    };
    let from = threads.partition_point(|(place, _)| *place <= cursor.last);
    let rest = threads.split_off(from);
    let is_new = |place: &Place| cursor.began.get(&place.machine).is_none_or(|began| place.at.0 > *began);
    Behind {
        threads: rest,
        newer: threads.iter().filter(|(place, _)| is_new(place)).count(),
        began: cursor.began.clone(),
    }
}

impl<T> Behind<T> {
    /// The cursor behind the first so many of them; none where nothing is left.
    pub(super) fn after(&self, looked_at: usize, question: &str) -> Option<Cursor> {
        if looked_at >= self.threads.len() {
            return None;
        }
        let (last, _) = self.threads.get(looked_at.checked_sub(1)?)?;
        Some(Cursor {
            last: last.clone(),
            began: self.began.clone(),
            question: question.to_owned(),
        })
    }
}

/// Why a cursor is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BadCursor {
    /// It was not made here.
    Unreadable,
    /// It goes on with another question.
    OtherQuestion,
}

/// A short name for a question, to tell it from others.
pub(super) fn question(parts: &[Option<&str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length before each part, no two questions read alike.
        hash.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
        hash.update(part.unwrap_or_default());
    }
    let hash = hash.finalize();
    let mut name = String::new();
    for byte in hash.iter().take(6) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

impl Cursor {
    /// As the caller gets it: one word, whatever characters the ids in it have.
    pub(super) fn write(&self) -> String {
        let mut words = Serializer::new(String::new());
        words.append_pair("q", &self.question);
        words.append_pair("t", &self.last.at.0.to_string());
        words.append_pair("m", &self.last.machine);
        words.append_pair("id", &self.last.thread.0);
        for (machine, began) in &self.began {
            words.append_pair(&format!("{BEGAN}{machine}"), &began.to_string());
        }
        words.finish()
    }

    /// Reads what [`Cursor::write`] made, for the same question.
    pub(super) fn read(text: &str, asked: &str) -> Result<Self, BadCursor> {
        let (mut question, mut at, mut machine, mut thread) = (None, None, None, None);
        let mut began = BTreeMap::new();
        for (key, value) in parse(text.trim().as_bytes()) {
            match key.as_ref() {
                "q" => question = Some(value.into_owned()),
                "t" => at = Some(value.parse::<Timestamp>().map_err(|_| BadCursor::Unreadable)?),
                "m" => machine = Some(value.into_owned()),
                "id" => thread = Some(ThreadId(value.into_owned())),
                other => {
                    let machine = other.strip_prefix(BEGAN).ok_or(BadCursor::Unreadable)?;
                    let at = value.parse::<Timestamp>().map_err(|_| BadCursor::Unreadable)?;
                    began.insert(machine.to_owned(), at);
                }
            }
        }
        let (Some(question), Some(at), Some(machine), Some(thread)) = (question, at, machine, thread) else {
            return Err(BadCursor::Unreadable);
        };
        if question != asked {
            return Err(BadCursor::OtherQuestion);
        }
        Ok(Self {
            last: Place::new(at, &machine, &thread),
            began,
            question,
        })
    }
}

/// What stands before a machine's name in a cursor.
const BEGAN: &str = "n.";

#[cfg(test)]
#[path = "paging_tests.rs"]
mod tests;
