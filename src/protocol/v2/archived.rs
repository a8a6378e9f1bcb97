//! Items of `orchestration.subscribeArchivedShell`: the one stream whose items the exported contract does not have.
//!
//! Written by hand after what a server sends: as the shell's items, without a location and with a snapshot of its own.

use serde::{Deserialize, Deserializer, Serialize};

use super::{ArchivedShellSnapshot, ThreadId, ThreadShell};
use crate::protocol::tagged::{self, Tagged};

/// An item of the archive's stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind")]
pub enum ArchivedShellStreamItem {
    /// The whole archive.
    #[serde(rename = "snapshot")]
    Snapshot(ArchivedShellStreamItemSnapshot),
    /// A thread came into the archive, or changed there.
    #[serde(rename = "thread.updated")]
    ThreadUpdated(ArchivedShellStreamItemThreadUpdated),
    /// A thread left the archive.
    #[serde(rename = "thread.removed")]
    ThreadRemoved(ArchivedShellStreamItemThreadRemoved),
    /// A member that we do not know: only its tag is kept.
    #[serde(untagged)]
    Unknown {
        /// Its `kind`.
        #[serde(rename = "kind")]
        tag: String,
    },
}

/// The whole archive.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ArchivedShellStreamItemSnapshot {
    /// The archived threads and the projects.
    pub snapshot: ArchivedShellSnapshot,
}

/// A thread of the archive.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ArchivedShellStreamItemThreadUpdated {
    /// Of the last event that it shows.
    pub sequence: u64,
    /// The whole thread.
    pub thread: ThreadShell,
}

/// A thread that left the archive.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ArchivedShellStreamItemThreadRemoved {
    /// Of the event that took it out.
    pub sequence: u64,
    /// Which thread.
    #[serde(rename = "threadId")]
    pub thread_id: ThreadId,
}

impl<'de> Tagged<'de> for ArchivedShellStreamItem {
    const NAME: &'static str = "ArchivedShellStreamItem";
    const TAG: &'static str = "kind";

    fn member<D: Deserializer<'de>>(tag: &str, fields: D) -> Result<Self, D::Error> {
        match tag {
            "snapshot" => Deserialize::deserialize(fields).map(Self::Snapshot),
            "thread.updated" => Deserialize::deserialize(fields).map(Self::ThreadUpdated),
            "thread.removed" => Deserialize::deserialize(fields).map(Self::ThreadRemoved),
            _ => tagged::skip(fields).map(|()| Self::Unknown { tag: tag.to_owned() }),
        }
    }
}

impl<'de> Deserialize<'de> for ArchivedShellStreamItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}
