//! `t3_diff`.

use std::sync::Arc;

use crate::gateway::{DiffAnswer, DiffArgs, Gateway, ToolError};
use crate::mcp::tool::{Call, Effect, Tool};

/// Shows what was changed.
#[derive(Debug)]
pub struct Diff;

impl Tool for Diff {
    const NAME: &'static str = "t3_diff";
    const TITLE: &'static str = "Show what a T3 thread changed";
    const DESCRIPTION: &'static str = "The unified diff of what a run of a thread, or all its runs together, changed in the workspace, with the \
        changed files. A large diff is cut: files that fit are whole, and `lines_left_out` says of which file how much is missing. Where T3 has no \
        diff, `source: numbers` gives the lines added and deleted by file. T3 captures changes when a run completes; `notes` say what that \
        means here.";
    const EFFECT: Effect = Effect::Reads;
    type Args = DiffArgs;
    type Answer = DiffAnswer;

    async fn call(gateway: &Arc<Gateway>, call: &Call, args: DiffArgs) -> Result<DiffAnswer, ToolError> {
        gateway.diff(&call.caller, args).await
    }

    fn summary(answer: &DiffAnswer) -> String {
        let files = super::count(answer.files.len() + answer.files_left_out.unwrap_or(0), "file");
        let cut = answer.files_left_out.is_some() || answer.files.iter().any(|file| file.lines_left_out.is_some());
        match (answer.diff.is_some(), cut) {
            (true, false) => format!("{files} changed."),
            (true, true) => format!("{files} changed; a part of the diff is left out."),
            (false, _) => format!("{files} changed, as far as T3 tells; there is no diff."),
        }
    }
}
