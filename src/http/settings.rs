//! What the endpoint is told: whom it lets in, from where, and its clocks.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::config::{Auth, ServerConfig};
use crate::fleet::{Limits, PatternError};
use crate::mcp::Client;
use crate::mcp::sessions::SessionSettings;

/// Who gets in.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whoever reaches the port, as the default client.
    Open,
    /// Who shows one of these bearers; without any, nobody.
    Bearers(Vec<(SecretString, Arc<Client>)>),
}

/// What the endpoint is told.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Values of `Host` that pass besides the address that is bound: `host` (any port) or `host:port`.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that pass: `scheme://host[:port]`, with `*` for any port, or `null`.
    pub allowed_origins: Vec<String>,
    /// Who gets in.
    pub access: Access,
    /// The clocks of long calls.
    pub patience: Patience,
    /// The clocks of sessions.
    pub sessions: SessionSettings,
    /// How many connections there may be, and for how long they may say nothing.
    pub connections: Connections,
}

/// What connections may take of the process.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How many may be open at once. One beyond it is told so (503) and closed.
    pub most: usize,
    /// How long a request's head may take, from its first byte to its last; how long a new connection may say nothing at all.
    pub head_within: Duration,
    /// How long a connection that had a request may wait for its next one. Clients that keep connections drop an idle one sooner by
    /// themselves (Go and reqwest after 90 s, others after seconds), so that none sends a call into one that closes at that moment.
    pub idle_within: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 4_096,
            head_within: Duration::from_secs(30),
            idle_within: Duration::from_mins(2),
        }
    }
}

/// The clocks of long calls.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After this long without an answer the client gets a first sign of life.
    pub early_after: Duration,
    /// How often it gets another. Clients give up after 300 s of silence, proxies after 60 s or less.
    pub comment_every: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            early_after: Duration::from_secs(5),
            comment_every: Duration::from_secs(15),
        }
    }
}

impl HttpSettings {
    /// For clients on this computer, without a browser's `Origin`.
    pub fn new(access: Access) -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            access,
            patience: Patience::default(),
            sessions: SessionSettings::default(),
            connections: Connections::default(),
        }
    }

    /// From what the operator decided. `default_bearer` is the token of the default client, given or generated.
    pub fn from_config(server: &ServerConfig, default_bearer: Option<&SecretString>) -> Result<Self, PatternError> {
        let access = match server.auth {
            Auth::None => Access::Open,
            Auth::Bearer => {
                let mut bearers = Vec::new();
                if server.default_bearer
                    && let Some(token) = default_bearer
                {
                    bearers.push((token.clone(), Arc::new(Client::default())));
                }
                for client in &server.clients {
                    let limits = Limits::from_config(client)?;
                    let name = client.name.clone();
                    bearers.push((client.token.clone(), Arc::new(Client { name, limits })));
                }
                Access::Bearers(bearers)
            }
        };
        Ok(Self {
            allowed_hosts: server.allowed_hosts.clone(),
            allowed_origins: server.allowed_origins.clone(),
            ..Self::new(access)
        })
    }
}
