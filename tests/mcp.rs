//! The MCP face and its endpoint, over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub
)]

#[path = "mcp/archive.rs"]
mod archive;
#[path = "mcp/codes.rs"]
mod codes;
#[path = "mcp/connections.rs"]
mod connections;
#[path = "mcp/diff.rs"]
mod diff;
#[path = "mcp/endpoint.rs"]
mod endpoint;
#[path = "mcp/errors.rs"]
mod errors;
#[path = "mcp/hang_up.rs"]
mod hang_up;
#[path = "mcp/kept_sessions.rs"]
mod kept_sessions;
#[path = "mcp/limits.rs"]
mod limits;
#[path = "mcp/long.rs"]
mod long;
#[path = "mcp/metrics.rs"]
mod metrics;
#[path = "mcp/projects.rs"]
mod projects;
#[path = "mcp/retries.rs"]
mod retries;
#[path = "mcp/schemas.rs"]
mod schemas;
#[path = "mcp/scratch.rs"]
mod scratch;
#[path = "mcp/sessions.rs"]
mod sessions;
#[path = "mcp/stopping.rs"]
mod stopping;
#[path = "mcp/support.rs"]
mod support;
#[path = "mcp/threads.rs"]
mod threads;
#[path = "mcp/tools.rs"]
mod tools;
