//! How a failed call reaches the client: `isError` and one JSON object in its text, nothing structured.
//!
//! Clients drop the structured part of an error, and some check it against the output schema; so all that there is to know stands in the
//! text. Wrong arguments and unknown tools are told in the same way: a model can mend what it can read.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use crate::fleet::PatternError;
use crate::gateway::{ErrorCode, ToolError};

/// The result of a failed call.
pub(super) fn failed(error: &ToolError) -> CallToolResult {
    // Strings and numbers only: it always serialises.
    let text = serde_json::to_string(error).unwrap_or_else(|_| format!("{{\"code\":\"{}\"}}", error.code));
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// The tool does not exist.
pub(super) fn unknown_tool(name: &str, tools: &[&str]) -> ToolError {
    let nearest = tools
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let error =
        ToolError::new(ErrorCode::InvalidRequest, format!("There is no tool {name}.")).with("tools", tools.to_vec());
    match nearest {
        Some(nearest) => error.hint(format!("Did you mean {nearest}?")),
        None => error,
    }
}

/// The arguments cannot be read.
pub(super) fn wrong_arguments(
    tool: &str,
    schema: &JsonObject,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> ToolError {
    let valid: Vec<&str> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let said = error.inner().to_string();
    let path = error.path().to_string();
    // serde names a missing or unknown field in its sentence, between the first backticks; a wrong value only by its path.
    let field = match path.as_str() {
        "." => said.split('`').nth(1).unwrap_or_default().to_owned(),
        path => path.to_owned(),
    };
    let message = match path.as_str() {
        "." => format!("The arguments of {tool} cannot be read: {said}."),
        path => format!("The arguments of {tool} cannot be read: `{path}`: {said}."),
    };
    let takes = if valid.is_empty() {
        format!("{tool} takes no arguments.")
    } else {
        format!("{tool} takes: {}. Leave out what you do not need.", valid.join(", "))
    };
    ToolError::new(ErrorCode::InvalidRequest, message)
        .hint(takes)
        .with("field", field)
        .with("valid", valid)
}

/// A fault of ours: the details are in the log, not in the answer.
pub(super) fn internal(tool: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("{tool} failed by a fault of the gateway; its log has the details."),
    )
    .hint("What it was to do may have happened: look with t3_thread before you try again.")
}

/// A pattern that another process of the gateway sent.
pub(super) fn pattern(error: &PatternError) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("A limit of this call cannot be read: {error}. Nothing was done."),
    )
    .hint("Tell the operator: it stands in the config of the process that passed the call on.")
}

/// A wait ended because nobody was there to hear its end.
pub(super) fn unheard(tool: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Internal,
        format!("{tool} ended early since its client was away. The work goes on."),
    )
    .hint("Call it again; do not start the work again.")
}
