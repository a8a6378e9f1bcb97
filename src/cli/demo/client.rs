//! The demo's MCP client: a small one, over HTTP, that shows the progress it is told of.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::cli::{Failure, output};
use crate::protocol::Untrusted;

/// A connected client.
pub(super) struct DemoClient(RunningService<RoleClient, Shower>);

/// Shows progress.
#[derive(Clone)]
struct Shower;

impl ClientHandler for Shower {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("t3code-mcp-demo", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(message) = progress.message {
            output::say(format_args!("    … {}", Untrusted(&message)));
        }
    }
}

impl DemoClient {
    /// Connects with a bearer.
    pub(super) async fn connect(url: &str, bearer: &SecretString) -> Result<Self, Failure> {
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(bearer.expose_secret());
        let transport = StreamableHttpClientTransport::with_client(http_client()?, config);
        let service = Shower.serve(transport).await.map_err(Failure::said)?;
        Ok(Self(service))
    }

    /// What the server calls itself.
    pub(super) fn server(&self) -> String {
        let info = self.0.peer_info().and_then(|info| info.server_info.clone());
        info.map_or_else(
            || "the server".to_owned(),
            |server| format!("{} {}", server.name, server.version),
        )
    }

    /// How many tools there are.
    pub(super) async fn tools(&self) -> Result<usize, Failure> {
        Ok(self.0.list_all_tools().await.map_err(Failure::said)?.len())
    }

    /// Calls a tool and takes its structured answer; a failed call is a failure with its words.
    pub(super) async fn call(&self, tool: &'static str, arguments: &Value) -> Result<Value, Failure> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.0.call_tool(request).await.map_err(Failure::said)?;
        match result.structured_content {
            Some(answer) if result.is_error != Some(true) => Ok(answer),
            _ => {
                let said: Vec<&str> = result
                    .content
                    .iter()
                    .filter_map(|block| Some(block.as_text()?.text.as_str()))
                    .collect();
                Err(Failure::said(format!("{tool} failed: {}", said.join(" "))))
            }
        }
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        let _ = self.0.cancel().await;
    }
}

/// It talks to this computer alone: no proxy, and no need of any certificate.
fn http_client() -> Result<reqwest::Client, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Failure::said)?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(Failure::said)
}
