//! What `t3_threads` takes and answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gateway::Unreachable;
use crate::gateway::words::ThreadFilter;

/// Which threads.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadsArgs {
    /// Only this machine's threads (a name from `t3_machines`). Left out: all machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Only threads of this project: its id, path or title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only threads in this state. busy: at work or waiting for something; attention: a request waits for somebody, or T3 holds the queue;
    /// archived: the archive, which is left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ThreadFilter>,
    /// Only threads with this text in their title or messages, 2-200 characters, whatever its case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// How many threads at most, 1-50. Default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<usize>,
    /// The `next_cursor` of the last answer, with the same other arguments: what comes behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Also threads that another thread's agent started. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents: Option<bool>,
}

/// The threads, newest first.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ThreadsAnswer {
    /// The threads.
    pub threads: Vec<ListedThread>,
    /// There may be more: pass it as `cursor` for what comes next. A page may be short, or empty, and have one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
    /// So many threads changed or came since the first page and stand before this one now. Begin without `cursor` to see them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub newer: Option<usize>,
    /// So many threads could not be read, so that nobody knows whether they are in the state that was asked for. They are not listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unread: Option<usize>,
    /// With a query: who searched each machine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub searched: Vec<FoundBy>,
    /// Machines that did not answer: their threads are missing here, or as they were last seen.
    pub unreachable: Vec<Unreachable>,
}

/// One thread.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ListedThread {
    /// The thread; `t3_thread`, `t3_wait` and `t3_dispatch` take it.
    pub thread_id: String,
    /// Its machine.
    pub machine: String,
    /// Its project's title.
    pub project: String,
    /// Its title.
    pub title: String,
    /// What it does now. unknown: it could not be read; `t3_thread` tells.
    pub state: String,
    /// T3 holds its queue: nothing moves by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<bool>,
    /// instance/model of its next run.
    pub model: String,
    /// When T3 last changed it.
    pub updated_at: String,
    /// The beginning of its newest message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_message: Option<LastMessageView>,
    /// What it asks, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pending: Vec<AskedRow>,
    /// It lies in the archive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub archived: Option<bool>,
    /// Another thread's agent started it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subagent: Option<bool>,
    /// Why the query found it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<MatchView>,
}

/// The newest message of a thread.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct LastMessageView {
    /// user, assistant or system.
    pub role: String,
    /// Its beginning.
    pub text: String,
    /// When it was written.
    pub at: String,
}

/// A request that waits for an answer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct AskedRow {
    /// question or approval.
    pub kind: String,
    /// Its id.
    pub request_id: String,
    /// `t3_answer` can answer it. Absent where the thread could not be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answerable: Option<bool>,
}

/// Why a query found a thread.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct MatchView {
    /// Where: title, message, or T3's own word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// The text around it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snippet: Option<String>,
}

/// Who searched a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct FoundBy {
    /// The machine.
    pub machine: String,
    /// t3: its own search over titles and messages; gateway: titles and newest messages only, since that T3 could not search.
    pub by: String,
    /// T3 told as many as it tells at once: narrow the query to find the rest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more: Option<bool>,
}
