//! How a failed call reaches the client: `isError` and one JSON object in its text, nothing structured.
//!
//! Clients drop the structured part of an error, and some check it against the output schema; so all that there is to know stands in the
//! text. Wrong arguments and unknown tools are told in the same way: a model can mend what it can read.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde_json::Value;

use crate::fleet::PatternError;
use crate::gateway::{ErrorCode, ToolError};
use crate::protocol::Untrusted;

/// How much an error repeats of what a caller gave.
const REPEATED_CHARS: usize = 200;

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
    let error = ToolError::new(
        ErrorCode::InvalidRequest,
        format!("There is no tool {}.", repeated(name)),
    )
    .with("tools", tools.to_vec());
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
    if let Some(words) = words(&said) {
        return wrong_word(tool, &error.path().to_string(), &said, words);
    }
    let path = repeated(&error.path().to_string());
    // serde names a missing or unknown field in its sentence, between the first backticks; a wrong value only by its path.
    let field = match path.as_str() {
        "." => repeated(said.split('`').nth(1).unwrap_or_default()),
        path => path.to_owned(),
    };
    let said = shortened(&said);
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

/// A word is none of the few that are taken there: those are what is valid, not the arguments' names.
fn wrong_word(tool: &str, path: &str, said: &str, words: Vec<&str>) -> ToolError {
    let field = repeated(path);
    let given = repeated(said.split('`').nth(1).unwrap_or_default());
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!("The arguments of {tool} cannot be read: `{field}` is `{given}`."),
    )
    .hint(format!("`{field}` takes: {}.", words.join(", ")))
    .with("field", field)
    .with("valid", words)
}

/// The words that serde would have taken, where it says that one is none of them.
fn words(said: &str) -> Option<Vec<&str>> {
    let (unknown, expected) = said.rsplit_once(EXPECTED)?;
    if !unknown.starts_with("unknown variant ") {
        return None;
    }
    let words: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    (!words.is_empty()).then_some(words)
}

/// What stands in serde's sentences before what it would have taken; what was given stands before it.
const EXPECTED: &str = ", expected ";

/// serde's sentence without most of a long value that it repeats.
fn shortened(said: &str) -> String {
    match said.rsplit_once(EXPECTED) {
        Some((given, expected)) => format!("{}{EXPECTED}{}", repeated(given), repeated(expected)),
        None => repeated(said),
    }
}

/// What a caller gave, for an error: it may be as long as a body, and hold anything.
fn repeated(text: &str) -> String {
    let mut told = Untrusted(text).at_most(REPEATED_CHARS).to_string();
    // What stands for a character may be longer than it.
    if let Some((end, _)) = told.char_indices().nth(REPEATED_CHARS + 1) {
        told.truncate(end);
        told.push('…');
    }
    told
}

/// An argument is longer than is taken.
pub(super) fn too_long(tool: &str, field: &str, chars: usize, most: usize) -> ToolError {
    let field = repeated(field);
    ToolError::new(
        ErrorCode::InvalidRequest,
        format!("`{field}` of {tool} has {chars} characters; at most {most} are taken. Nothing was done."),
    )
    .hint("Shorten it; long material belongs into a file of the project, which the prompt names.")
    .with("field", field)
    .with("most", most)
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
