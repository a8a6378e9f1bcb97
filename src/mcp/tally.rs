//! How calls of a tool came out, and how many are open, for whoever keeps an eye on the program. Counted where the call was made, wherever it
//! was done.

use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::CallToolResult;
use serde::Deserialize;

use crate::gateway::ErrorCode;

/// The numbers of one tool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallCounts {
    /// Its name; empty for all names that are no tool's.
    pub tool: String,
    /// Calls that are open now.
    pub open: u64,
    /// Calls that were answered.
    pub succeeded: u64,
    /// Calls that failed, by code.
    pub failed: Vec<(ErrorCode, u64)>,
}

/// Where they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    open: AtomicU64,
    succeeded: AtomicU64,
    failed: [AtomicU64; ErrorCode::ALL.len()],
}

/// A call that is counted as open until this is dropped.
pub(super) struct Open<'a>(&'a Tally);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tally {
    pub(super) fn handle_call(&self) -> Open<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self)
    }

    pub(super) fn read(&self, tool: &str) -> CallCounts {
        let failed = ErrorCode::ALL.into_iter().zip(&self.failed);
        CallCounts {
            tool: tool.to_owned(),
            open: self.open.load(Ordering::Relaxed),
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: failed
                .map(|(code, count)| (code, count.load(Ordering::Relaxed)))
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }
}

impl Open<'_> {
    pub(super) fn handle_result(self, result: &CallToolResult) {
        let counter = match code(result) {
            None => &self.0.succeeded,
            Some(code) => {
                let at = ErrorCode::ALL.iter().position(|known| *known == code);
                match at.and_then(|at| self.0.failed.get(at)) {
                    Some(counter) => counter,
                    None => return,
                }
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The code of a failed call, read as its client reads it: it may have been done by another process.
fn code(result: &CallToolResult) -> Option<ErrorCode> {
    #[derive(Deserialize)]
    struct Written<'a> {
        #[serde(borrow)]
        code: std::borrow::Cow<'a, str>,
    }
    if result.is_error != Some(true) {
        return None;
    }
    let text = result.content.first().and_then(|content| content.as_text());
    let written = text.and_then(|text| serde_json::from_str::<Written<'_>>(&text.text).ok());
    let known = written.and_then(|written| ErrorCode::ALL.into_iter().find(|code| code.as_str() == written.code));
    Some(known.unwrap_or(ErrorCode::Internal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::ToolError;
    use crate::mcp::errors;

    #[test]
    fn a_call_is_open_until_it_ends_and_counted_by_how_it_ends() {
        let tally = Tally::default();
        let left = tally.handle_call();
        let failed = tally.handle_call();
        assert_eq!(tally.read("t").open, 2);
        failed.handle_result(&errors::failed(&ToolError::new(ErrorCode::ThreadBusy, "It works.")));
        drop(left);
        tally.handle_call().handle_result(&CallToolResult::success(Vec::new()));
        let strange = CallToolResult::error(Vec::new());
        tally.handle_call().handle_result(&strange);
        let counts = tally.read("t");
        assert_eq!((counts.open, counts.succeeded), (0, 1));
        assert_eq!(counts.failed, [(ErrorCode::ThreadBusy, 1), (ErrorCode::Internal, 1)]);
    }
}
