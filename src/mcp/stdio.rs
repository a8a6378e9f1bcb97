//! MCP over the process's own pipes, for a client that starts the gateway itself.

use rmcp::ServiceExt as _;
use tokio_util::sync::CancellationToken;

use crate::mcp::Server;

/// What ended a stdio server badly.
#[derive(Debug, thiserror::Error)]
#[error("the MCP client on stdin could not be served: {0}")]
pub struct StdioError(String);

/// Serves one client on stdin and stdout until it closes them or `stop` is cancelled. Calls that run then still get their answer out: rmcp gives
/// them five seconds. The caller should leave the process afterwards, since a read of stdin may still block where it is no pipe.
pub async fn serve_stdio(server: Server, stop: CancellationToken) -> Result<(), StdioError> {
    let transport = rmcp::transport::stdio_pipes();
    let starting = server.serve_with_ct(transport, stop.clone());
    let running = tokio::select! {
        running = starting => match running {
            Ok(running) => running,
            // The client left before it said anything.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(StdioError(error.to_string())),
        },
        () = stop.cancelled() => return Ok(()),
    };
    running.waiting().await.map_err(|error| StdioError(error.to_string()))?;
    Ok(())
}
